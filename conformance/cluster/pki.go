package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pki is what a control plane of one run needs to be trusted and to issue tokens.
type pki struct {
	ca, serverCert, serverKey        string // TLS on loopback
	serviceAccountKey, serviceAccPub string // signing and checking of ServiceAccount tokens
	tokens                           string // the administrator's token
	adminToken                       string
}

func newPKI(folder string) (*pki, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	p := &pki{
		ca:                filepath.Join(folder, "ca.crt"),
		serverCert:        filepath.Join(folder, "server.crt"),
		serverKey:         filepath.Join(folder, "server.key"),
		serviceAccountKey: filepath.Join(folder, "sa.key"),
		serviceAccPub:     filepath.Join(folder, "sa.pub"),
		tokens:            filepath.Join(folder, "tokens.csv"),
	}
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return nil, err
	}
	p.adminToken = hex.EncodeToString(random)
	if err := os.WriteFile(p.tokens, []byte(p.adminToken+`,admin,admin,"system:masters"`+"\n"), 0o600); err != nil {
		return nil, err
	}
	if err := p.writeServerCertificate(); err != nil {
		return nil, err
	}
	return p, p.writeServiceAccountKeys()
}

func (p *pki) writeServerCertificate() error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "conformance-ca"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	caBytes, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kube-apiserver"},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost", "kubernetes.default.svc"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	leafBytes, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return err
	}
	keyBytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(
		pemFile{p.ca, "CERTIFICATE", caBytes},
		pemFile{p.serverCert, "CERTIFICATE", leafBytes},
		pemFile{p.serverKey, "PRIVATE KEY", keyBytes})
}

func (p *pki) writeServiceAccountKeys() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return writePEM(
		pemFile{p.serviceAccountKey, "PRIVATE KEY", private},
		pemFile{p.serviceAccPub, "PUBLIC KEY", public})
}

type pemFile struct {
	path, kind string
	content    []byte
}

func writePEM(files ...pemFile) error {
	for _, file := range files {
		text := pem.EncodeToMemory(&pem.Block{Type: file.kind, Bytes: file.content})
		if err := os.WriteFile(file.path, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
