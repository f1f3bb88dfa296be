package cluster

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"time"

	"kubequota.dev/conformance/binaries"
)

// APIServer is one of the kube-apiservers of a cluster, which share one etcd.
type APIServer struct {
	// URL is its address.
	URL string
	// Client talks to it as administrator.
	Client *Client

	cluster *Cluster
	process string
	args    []string
}

// AddServer starts one more kube-apiserver beside those that run. Flags are added to those that all have.
func (c *Cluster) AddServer(ctx context.Context, flags ...string) (*APIServer, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	s, err := c.startServer(port, flags)
	if err != nil {
		return nil, err
	}
	return s, s.waitReady(ctx)
}

// First is the kube-apiserver that Start started.
func (c *Cluster) First() *APIServer { return c.servers[0] }

// RestartWith stops the server (SIGTERM), and starts it again with other flags. What relies on the cluster goes on.
func (s *APIServer) RestartWith(ctx context.Context, flags ...string) error {
	old, at, err := s.cluster.find(s.process)
	if err != nil {
		return err
	}
	// It lets watches go on until its clients end them.
	if err := old.stop(5 * time.Second); err != nil && old.running() {
		return err
	}
	again := old.program
	again.args = append(append([]string{}, s.args...), flags...)
	p, err := startProcess(s.cluster.options.Logs, again, s.cluster.lose)
	if err != nil {
		return err
	}
	s.cluster.processes[at] = p
	return s.waitReady(ctx)
}

func (s *APIServer) waitReady(ctx context.Context) error {
	return Poll(ctx, s.process+" to be ready (see "+s.process+".log)", 2*time.Minute, 200*time.Millisecond, s.Client.ready)
}

func (c *Cluster) startServer(port string, flags []string) (*APIServer, error) {
	process := ServerProcess
	if n := len(c.servers); n > 0 {
		process += "-" + strconv.Itoa(n+1)
	}
	s := &APIServer{URL: "https://127.0.0.1:" + port, cluster: c, process: process, args: []string{"apiserver",
		"--etcd-servers", c.Etcd,
		"--bind-address", "127.0.0.1", "--secure-port", port,
		// No address of this machine is looked for or published: everything stays on loopback.
		"--advertise-address", "127.0.0.1", "--endpoint-reconciler-type", "none",
		"--cert-dir", filepath.Join(c.data, process),
		"--tls-cert-file", c.pki.serverCert, "--tls-private-key-file", c.pki.serverKey,
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", c.pki.serviceAccPub, "--service-account-signing-key-file", c.pki.serviceAccountKey,
		"--token-auth-file", c.pki.tokens, "--authorization-mode", "RBAC",
		// Pods are made where no controller makes service accounts.
		"--disable-admission-plugins", "ServiceAccount",
		"--service-cluster-ip-range", "10.0.0.0/16",
		// A suite is judged by its answers, not by how a busy server shares itself out.
		"--max-requests-inflight", "0", "--max-mutating-requests-inflight", "0", "--enable-priority-and-fairness=false",
	}}
	client, clientErr := newClient(s.URL, c.pki.ca, c.pki.adminToken)
	s.Client = client
	if err := errors.Join(clientErr, c.start(process, binaries.ControlPlane, append(append([]string{}, s.args...), flags...)...)); err != nil {
		return nil, err
	}
	c.servers = append(c.servers, s)
	return s, nil
}
