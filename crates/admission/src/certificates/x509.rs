//! PEM and X.509, as far as they are looked into here.

use std::net::IpAddr;

use jiff::Timestamp;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};
use x509_parser::time::ASN1Time;

use super::CertificateError;

/// All certificates of a PEM text, one at least.
pub(super) fn certificates(text: &[u8], place: &str) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|error| not_pem(&error, place))?;
    if all.is_empty() {
        return Err(CertificateError::NoCertificate {
            place: place.to_owned(),
        });
    }
    Ok(all)
}

/// The certificates of a PEM text, each as a PEM text of its own, without what is written between them.
pub(crate) fn sections(text: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    let sections = text.split_inclusive(END).filter(|section| section.ends_with(END));
    let begun = sections.filter_map(|section| section.rfind("-----BEGIN CERTIFICATE-----").map(|at| &section[at..]));
    begun.map(|section| format!("{section}\n")).collect()
}

/// The first private key of a PEM text.
pub(super) fn private_key(text: &[u8], place: &str) -> Result<PrivateKeyDer<'static>, CertificateError> {
    match PrivateKeyDer::from_pem_slice(text) {
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) => Err(CertificateError::NoKey {
            place: place.to_owned(),
        }),
        Err(error) => Err(not_pem(&error, place)),
    }
}

fn not_pem(error: &pem::Error, place: &str) -> CertificateError {
    CertificateError::NotPem {
        place: place.to_owned(),
        cause: error.to_string(),
    }
}

/// What is looked at in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
    /// Names as they are encoded, to be compared.
    pub(super) subject: Vec<u8>,
    pub(super) issuer: Vec<u8>,
    pub(super) public_key: Vec<u8>,
    pub(super) common_names: Vec<String>,
    /// DNS names and IP addresses of the subject's alternative names, as [`normalized`].
    pub(super) names: Vec<String>,
    /// URIs of the subject's alternative names, as SPIFFE has them.
    pub(super) uris: Vec<String>,
}

impl Facts {
    /// Reads a certificate.
    pub(super) fn read(der: &[u8], place: &str) -> Result<Self, CertificateError> {
        let unusable = |cause: String| CertificateError::Certificate {
            place: place.to_owned(),
            cause,
        };
        let (_, certificate) = X509Certificate::from_der(der).map_err(|error| unusable(error.to_string()))?;
        let time =
            |time: ASN1Time| Timestamp::from_second(time.timestamp()).map_err(|error| unusable(error.to_string()));
        let alternatives = certificate
            .subject_alternative_name()
            .map_err(|error| unusable(error.to_string()))?;
        let (mut names, mut uris) = (Vec::new(), Vec::new());
        for name in alternatives.iter().flat_map(|extension| &extension.value.general_names) {
            match name {
                GeneralName::DNSName(name) => names.push(normalized(name)),
                GeneralName::IPAddress(bytes) => names.extend(address(bytes).map(|address| address.to_string())),
                GeneralName::URI(uri) => uris.push((*uri).to_owned()),
                _ => {}
            }
        }
        let common_names = certificate.subject().iter_common_name();
        Ok(Facts {
            not_before: time(certificate.validity().not_before)?,
            not_after: time(certificate.validity().not_after)?,
            subject: certificate.subject().as_raw().to_vec(),
            issuer: certificate.issuer().as_raw().to_vec(),
            public_key: certificate.public_key().raw.to_vec(),
            common_names: common_names
                .filter_map(|name| Some(name.as_str().ok()?.to_owned()))
                .collect(),
            names,
            uris,
        })
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(v4.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

/// A DNS name or an IP address in the one form that is compared: a URL's brackets, a final dot and case don't matter.
pub(super) fn normalized(name: &str) -> String {
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => name.trim_end_matches('.').to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::issue::Authority;
    use super::*;

    #[test]
    fn names_in_one_form() {
        for (name, expected) in [
            ("quota.kube-system.svc", "quota.kube-system.svc"),
            ("Quota.Example.com.", "quota.example.com"),
            ("10.0.0.1", "10.0.0.1"),
            ("[FD00:0::1]", "fd00::1"),
            ("fd00::1", "fd00::1"),
        ] {
            assert_eq!(normalized(name), expected, "{name}");
        }
    }

    #[test]
    fn what_is_issued_is_read_as_it_was_meant() {
        let now: Timestamp = "2026-01-06T10:00:00Z".parse().unwrap();
        let authority = Authority::new(now).unwrap();
        let names = ["quota.kube-system.svc", "10.0.0.1", "fd00::1"].map(str::to_owned);
        let issued = authority.issue(&names, now).unwrap();
        let der = certificates(issued.certificate.as_bytes(), "x").unwrap();
        let facts = Facts::read(&der[0], "x").unwrap();
        assert_eq!(facts.names, names);
        assert_eq!(facts.not_before, "2026-01-06T09:55:00Z".parse().unwrap());
        assert_eq!(facts.not_after, "2027-01-06T10:00:00Z".parse().unwrap());
        assert_eq!(facts.common_names, ["quota.kube-system.svc"]);

        let der = certificates(authority.certificate.as_bytes(), "x").unwrap();
        let ca = Facts::read(&der[0], "x").unwrap();
        assert_eq!((&ca.subject, &ca.issuer), (&facts.issuer, &facts.issuer));
        assert_eq!(ca.not_after, "2036-01-04T10:00:00Z".parse().unwrap());
    }

    #[test]
    fn what_is_no_certificate_says_so() {
        let broken = "-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n";
        let empty = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (text, expected) in [
            ("", "there is no certificate in f: "),
            ("any text", "there is no certificate in f: "),
            (broken, "f is not PEM: "),
        ] {
            let error = certificates(text.as_bytes(), "f").unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
        let der = certificates(empty.as_bytes(), "f").unwrap();
        let error = Facts::read(&der[0], "f").unwrap_err().to_string();
        assert!(error.starts_with("a certificate in f can't be used: "), "{error}");
        for (text, expected) in [
            (empty, "there is no private key in f: "),
            (
                "-----BEGIN PRIVATE KEY-----\n?\n-----END PRIVATE KEY-----\n",
                "f is not PEM: ",
            ),
        ] {
            let error = private_key(text.as_bytes(), "f").unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
