//! The certificates of the webhook: what it shows its callers, what they should trust, and whom it trusts itself.
//!
//! - [`files`]: a certificate that somebody else keeps in files, read again when they change;
//! - [`own`]: its own CA and serving certificate, kept in a Secret that all replicas share, and renewed;
//! - [`clients`]: the CA that clients' certificates are held against.
//!
//! All of them follow what may change, each in a task that ends with the last handle on it; a server looks at what is
//! current for every new connection.

pub mod clients;
pub mod files;
mod follow;
mod issue;
pub mod own;
#[cfg(test)]
pub(crate) mod testing;
mod x509;

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

pub use clients::{ClientOptions, Clients};
pub use files::FileOptions;
pub(crate) use own::MANAGED_BY;
pub use own::{OwnError, OwnOptions};
pub(crate) use x509::sections;

use follow::Task;

/// Why a certificate or a key can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file can't be read.
    #[error("can't read {}: {source}; name a file that is there, and that this process may read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// It is no PEM.
    #[error("{place} is not PEM: {cause}; it must hold sections such as -----BEGIN CERTIFICATE-----")]
    NotPem {
        /// The file, or the key in a Secret.
        place: String,
        /// What is wrong with it.
        cause: String,
    },
    /// There is no certificate.
    #[error("there is no certificate in {place}: it must hold at least one -----BEGIN CERTIFICATE----- section")]
    NoCertificate {
        /// The file, or the key in a Secret.
        place: String,
    },
    /// There is no private key.
    #[error(
        "there is no private key in {place}: it must hold a -----BEGIN PRIVATE KEY----- section \
         (or RSA or EC PRIVATE KEY), not encrypted"
    )]
    NoKey {
        /// The file, or the key in a Secret.
        place: String,
    },
    /// A certificate can't be understood.
    #[error("a certificate in {place} can't be used: {cause}; have it issued again")]
    Certificate {
        /// The file, or the key in a Secret.
        place: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A private key can't be used.
    #[error(
        "the private key in {place} can't be used: {cause}; \
         use ECDSA (P-256, P-384), RSA (2048 bits or more) or Ed25519"
    )]
    Key {
        /// The file, or the key in a Secret.
        place: String,
        /// What is wrong with it.
        cause: String,
    },
    /// Certificate and key are not of one pair.
    #[error(
        "the private key in {key} is not the one of the certificate in {certificate}: \
         give the two that were issued together"
    )]
    Mismatch {
        /// Where the certificate is.
        certificate: String,
        /// Where the key is.
        key: String,
    },
    /// No TLS can be had with them.
    #[error("no TLS with these certificates: {0}")]
    Tls(#[from] rustls::Error),
}

/// A certificate that is shown to callers, and its key.
#[derive(Debug)]
pub struct Serving {
    /// Chain and key, as TLS uses them.
    pub(crate) key: Arc<CertifiedKey>,
    /// From when on it is valid.
    pub not_before: Timestamp,
    /// Until when it is valid.
    pub not_after: Timestamp,
    /// The DNS names and IP addresses it is valid for.
    pub names: Vec<String>,
}

impl Serving {
    /// Reads a chain, the server's own certificate first, and its key, both PEM. The places are for messages.
    ///
    /// # Errors
    /// What can't be used, or does not belong together.
    pub(crate) fn from_pem(
        chain: &[u8],
        chain_place: &str,
        key: &[u8],
        key_place: &str,
    ) -> Result<Self, CertificateError> {
        let chain = x509::certificates(chain, chain_place)?;
        let facts = x509::Facts::read(chain.first().map_or(&[], AsRef::as_ref), chain_place)?;
        let key = x509::private_key(key, key_place)?;
        let key = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => CertificateError::Mismatch {
                certificate: chain_place.to_owned(),
                key: key_place.to_owned(),
            },
            rustls::Error::InvalidCertificate(cause) => CertificateError::Certificate {
                place: chain_place.to_owned(),
                cause: cause.to_string(),
            },
            error => CertificateError::Key {
                place: key_place.to_owned(),
                cause: error.to_string(),
            },
        })?;
        Ok(Serving {
            key: Arc::new(key),
            not_before: facts.not_before,
            not_after: facts.not_after,
            names: facts.names,
        })
    }
}

/// What a webhook shows, and what its callers need to trust it.
#[derive(Clone, Debug)]
pub struct Current {
    /// The serving certificate.
    pub serving: Arc<Serving>,
    /// The CA certificates that callers should trust, PEM: what goes into `caBundle`. `None` where nobody said: then
    /// callers trust their system's roots, or someone else fills `caBundle`.
    pub ca_bundle: Option<Arc<str>>,
}

/// The certificates of a webhook as they are now, and as they change. A cheap handle; the work of following them ends
/// with the last one.
#[derive(Clone, Debug)]
pub struct Certificates {
    current: watch::Receiver<Current>,
    _task: Arc<Task>,
}

impl Certificates {
    /// Certificates that whoever has the sender changes.
    #[cfg(test)]
    pub(crate) fn of(current: watch::Receiver<Current>) -> Self {
        Certificates {
            current,
            _task: Arc::new(Task(tokio::spawn(async {}))),
        }
    }

    /// As they are now.
    #[must_use]
    pub fn current(&self) -> Current {
        self.current.borrow().clone()
    }

    /// As they are now, and a notice of every change: for whoever publishes the CA bundle.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<Current> {
        self.current.clone()
    }
}

/// The one provider of cryptography, named wherever it matters so that none has to be installed for the process.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
