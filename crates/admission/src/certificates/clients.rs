//! Who may call: clients that show a certificate of a given CA.
//!
//! kube-apiserver shows webhooks no certificate unless it is told to, with a kubeconfig that its
//! `--admission-control-config-file` names; there a user's `client-certificate` stands beside the webhook's host name
//! (`NAME.NAMESPACE.svc`, or the URL's host). Any CA may sign it. Where that CA signs others too, as the cluster's own
//! does for every kubelet, the names that may call should be given.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError as Refusal, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use tokio::sync::watch;
use tracing::debug;

use super::follow::{Task, follow};
use super::{CertificateError, provider, x509};

/// Which clients may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// The CA certificates, PEM.
    pub ca: PathBuf,
    /// The common names, DNS names or URIs of which a client's certificate must have one; any will do where this is
    /// empty.
    pub names: Vec<String>,
}

impl ClientOptions {
    /// Reads the CA, and from then on whenever it changes. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// What can't be used now: which file, and why.
    pub fn follow(self) -> Result<Clients, CertificateError> {
        let paths = vec![self.ca.clone()];
        let read = move |contents: &[Vec<u8>]| {
            let content = contents.first().map(Vec::as_slice).unwrap_or_default();
            self.verifier(content)
        };
        let (verifier, task) = follow("the clients' CA", paths, read)?;
        Ok(Clients {
            verifier,
            _task: Arc::new(task),
        })
    }

    pub(super) fn verifier(&self, ca: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
        let place = self.ca.display().to_string();
        let unusable = |cause: String| CertificateError::Certificate {
            place: place.clone(),
            cause,
        };
        let mut roots = RootCertStore::empty();
        for certificate in x509::certificates(ca, &place)? {
            roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
        }
        let signed = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        Ok(Arc::new(Named {
            signed,
            names: self.names.clone(),
        }))
    }
}

/// What clients' certificates are held against, as it is now and as it changes. A cheap handle.
#[derive(Clone, Debug)]
pub struct Clients {
    pub(crate) verifier: watch::Receiver<Arc<dyn ClientCertVerifier>>,
    _task: Arc<Task>,
}

#[cfg(test)]
impl Clients {
    /// Clients whom whoever has the sender lets in.
    pub(crate) fn of(verifier: watch::Receiver<Arc<dyn ClientCertVerifier>>) -> Self {
        let task = Arc::new(Task(tokio::spawn(async {})));
        Clients { verifier, _task: task }
    }
}

/// A certificate that the CA has signed, with one of the names.
#[derive(Debug)]
struct Named {
    signed: Arc<dyn ClientCertVerifier>,
    names: Vec<String>,
}

impl ClientCertVerifier for Named {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.signed.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.signed.verify_client_cert(certificate, intermediates, now)?;
        if self.names.is_empty() {
            return Ok(verified);
        }
        let facts = x509::Facts::read(certificate, "the client's certificate")
            .map_err(|_| rustls::Error::from(Refusal::BadEncoding))?;
        let mut texts = facts.common_names.iter().chain(&facts.uris);
        let mut hosts = self.names.iter().map(|name| x509::normalized(name));
        if texts.any(|name| self.names.contains(name)) || hosts.any(|name| facts.names.contains(&name)) {
            return Ok(verified);
        }
        let x509::Facts { common_names, uris, .. } = &facts;
        debug!(?common_names, names = ?facts.names, ?uris, "a client with none of the allowed names");
        Err(Refusal::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Authority, Directory, authority, verifier};
    use super::*;

    fn options(directory: &Directory) -> ClientOptions {
        ClientOptions {
            ca: directory.path("ca.crt"),
            names: Vec::new(),
        }
    }

    fn let_in(verifier: &dyn ClientCertVerifier, certificate: &CertificateDer<'_>) -> bool {
        verifier.verify_client_cert(certificate, &[], UnixTime::now()).is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_ca_is_read_again_when_it_changes() {
        let directory = Directory::new();
        let (old, new) = (authority(), authority());
        directory.write("ca.crt", old.pem());
        let mut clients = options(&directory).follow().unwrap();
        let certificates = [&old, &new].map(|authority| authority.client("kube-apiserver").0.remove(0));
        let those = |clients: &Clients| {
            let verifier = Arc::clone(&clients.verifier.borrow());
            certificates
                .each_ref()
                .map(|certificate| let_in(&*verifier, certificate))
        };
        assert_eq!(those(&clients), [true, false]);
        directory.write("ca.crt", &(old.pem().to_owned() + new.pem()));
        clients.verifier.changed().await.unwrap();
        assert_eq!(those(&clients), [true, true]);
        directory.write("ca.crt", new.pem());
        clients.verifier.changed().await.unwrap();
        assert_eq!(those(&clients), [false, true]);
    }

    #[test]
    fn a_certificate_must_have_one_of_the_names() {
        let authority = authority();
        let host = |authority: &Authority| authority.client_of("any", &["api.example", "10.0.0.1"]);
        for (certificate, names, expected) in [
            (
                authority.client("kube-apiserver").0.remove(0),
                vec!["other", "kube-apiserver"],
                true,
            ),
            (authority.client("kube-apiserver").0.remove(0), vec!["kube"], false),
            (host(&authority), vec!["API.example"], true),
            (host(&authority), vec!["10.0.0.1"], true),
            (host(&authority), vec!["example"], false),
            (host(&authority), vec![], true),
        ] {
            let verifier = verifier(authority.pem(), &names);
            assert_eq!(let_in(&*verifier, &certificate), expected, "{names:?}");
        }
        let server = authority.serving("kube-apiserver").serving.key.cert[0].clone();
        let any = verifier(authority.pem(), &[]);
        assert!(!let_in(&*any, &server), "a server's certificate is no client's");
    }

    #[tokio::test]
    async fn a_ca_that_can_not_be_used_is_named() {
        let directory = Directory::new();
        let error = options(&directory).follow().unwrap_err().to_string();
        assert!(
            error.starts_with("can't read ") && error.contains("ca.crt: "),
            "{error}"
        );
        directory.write("ca.crt", "");
        let error = options(&directory).follow().unwrap_err().to_string();
        assert!(error.starts_with("there is no certificate in "), "{error}");
    }
}
