//! Makes a CA, and certificates that it vouches for.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _,
};
use time::OffsetDateTime;

use super::{CertificateError, x509};

/// How long a CA is valid.
pub(super) const CA_LIFETIME: Duration = Duration::from_secs(10 * 365 * 86_400);

/// How long a serving certificate is valid: less than the third of the CA's life in which the CA is replaced, so that
/// none outlives the CA that signed it.
pub(super) const SERVING_LIFETIME: Duration = Duration::from_secs(365 * 86_400);

/// Certificates are valid from a little before they are made: clocks differ. The controller manager's signer takes as
/// much.
const BACKDATED: SignedDuration = SignedDuration::from_mins(5);

/// A certificate and its key, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Issued {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// A CA that can sign.
pub(crate) struct Authority {
    /// Its certificate, PEM.
    pub(super) certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new one.
    pub(super) fn new(now: Timestamp) -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::default();
        // Each CA has a name of its own, so that a chain leads to one only while two are trusted.
        params.distinguished_name = named(&format!("kubequota-webhook-ca@{}", now.as_second()));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        valid(&mut params, now, CA_LIFETIME)?;
        let key = KeyPair::generate()?;
        Ok(Authority {
            certificate: params.self_signed(&key)?.pem(),
            issuer: Issuer::new(params, key),
        })
    }

    /// One that was made before. The places are for messages.
    pub(super) fn read(
        certificate: &str,
        certificate_place: &str,
        key: &str,
        key_place: &str,
    ) -> Result<Self, CertificateError> {
        let der = x509::certificates(certificate.as_bytes(), certificate_place)?;
        let facts = x509::Facts::read(der.first().map_or(&[], AsRef::as_ref), certificate_place)?;
        let key = KeyPair::from_pem(key).map_err(|error| CertificateError::Key {
            place: key_place.to_owned(),
            cause: error.to_string(),
        })?;
        if key.subject_public_key_info() != facts.public_key {
            return Err(CertificateError::Mismatch {
                certificate: certificate_place.to_owned(),
                key: key_place.to_owned(),
            });
        }
        let issuer = Issuer::from_ca_cert_pem(certificate, key).map_err(|error| CertificateError::Certificate {
            place: certificate_place.to_owned(),
            cause: error.to_string(),
        })?;
        Ok(Authority {
            certificate: certificate.to_owned(),
            issuer,
        })
    }

    /// Its key, PEM.
    pub(super) fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A new key, and a certificate of it for a server that is reached by these names.
    pub(super) fn issue(&self, names: &[String], now: Timestamp) -> Result<Issued, rcgen::Error> {
        // Of the common name nothing reads but people.
        let common_name = names.first().map_or("kubequota-webhook", String::as_str);
        self.sign(common_name, names, ExtendedKeyUsagePurpose::ServerAuth, now)
    }

    /// The same for a client of this name.
    #[cfg(test)]
    pub(super) fn issue_for_client(
        &self,
        name: &str,
        names: &[String],
        now: Timestamp,
    ) -> Result<Issued, rcgen::Error> {
        self.sign(name, names, ExtendedKeyUsagePurpose::ClientAuth, now)
    }

    fn sign(
        &self,
        common_name: &str,
        names: &[String],
        usage: ExtendedKeyUsagePurpose,
        now: Timestamp,
    ) -> Result<Issued, rcgen::Error> {
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = named(common_name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        valid(&mut params, now, SERVING_LIFETIME)?;
        let key = KeyPair::generate()?;
        Ok(Issued {
            certificate: params.signed_by(&key, &self.issuer)?.pem(),
            key: key.serialize_pem(),
        })
    }
}

fn named(common_name: &str) -> DistinguishedName {
    // No common name of more is valid (RFC 5280).
    const LONGEST: usize = 64;
    let mut name = DistinguishedName::new();
    name.push(
        DnType::CommonName,
        common_name.chars().take(LONGEST).collect::<String>(),
    );
    name
}

fn valid(params: &mut CertificateParams, now: Timestamp, lasting: Duration) -> Result<(), rcgen::Error> {
    let at = |time: Result<Timestamp, jiff::Error>| {
        let seconds = time.map_err(|_| rcgen::Error::Time)?.as_second();
        OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| rcgen::Error::Time)
    };
    params.not_before = at(now.checked_sub(BACKDATED))?;
    params.not_after = at(now.checked_add(lasting))?;
    Ok(())
}
