//! What the tests of certificates and of the server share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;

pub(crate) use super::issue::Authority;
use super::{ClientOptions, Current, Serving, x509};

/// A CA of its own.
pub(crate) fn authority() -> Authority {
    Authority::new(Timestamp::now()).unwrap()
}

/// Lets clients in that this CA has signed, and that have one of the names.
pub(crate) fn verifier(ca: &str, names: &[&str]) -> Arc<dyn ClientCertVerifier> {
    let options = ClientOptions {
        ca: "ca.crt".into(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    options.verifier(ca.as_bytes()).unwrap()
}

impl Authority {
    /// The CA certificate, PEM.
    pub(crate) fn pem(&self) -> &str {
        &self.certificate
    }

    /// The CA certificate.
    pub(crate) fn root(&self) -> CertificateDer<'static> {
        x509::certificates(self.certificate.as_bytes(), "ca").unwrap().remove(0)
    }

    /// What a server of this name shows.
    pub(crate) fn serving(&self, name: &str) -> Current {
        let issued = self.issue(&[name.to_owned()], Timestamp::now()).unwrap();
        let serving = Serving::from_pem(issued.certificate.as_bytes(), "c", issued.key.as_bytes(), "k").unwrap();
        Current {
            serving: Arc::new(serving),
            ca_bundle: None,
        }
    }

    /// What a client of this common name shows.
    pub(crate) fn client(&self, name: &str) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let issued = self.issue_for_client(name, &[], Timestamp::now()).unwrap();
        let chain = x509::certificates(issued.certificate.as_bytes(), "c").unwrap();
        (chain, x509::private_key(issued.key.as_bytes(), "k").unwrap())
    }

    /// The certificate of a client with these names besides.
    pub(crate) fn client_of(&self, name: &str, names: &[&str]) -> CertificateDer<'static> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let issued = self.issue_for_client(name, &names, Timestamp::now()).unwrap();
        x509::certificates(issued.certificate.as_bytes(), "c")
            .unwrap()
            .remove(0)
    }
}

/// A directory that goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("kubequota-admission-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        std::fs::write(self.path(name), content).unwrap();
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
