//! A certificate that somebody else keeps in files: cert-manager, an operator, a mount of a Secret.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use tracing::warn;

use super::follow::follow;
use super::{CertificateError, Certificates, Current, Serving, x509};

/// Which files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// The certificate, PEM; any intermediate ones after it.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// The CA certificates that callers should trust, PEM, where they are to be published.
    pub ca: Option<PathBuf>,
}

impl FileOptions {
    /// Reads the files, and from then on whenever they change: every few seconds their contents are compared. A change
    /// that can't be used is logged, and what was there before stays in use. A certificate that has ended, or names
    /// nobody, is used and warned of: callers will refuse it. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// What can't be used now: which file, and why.
    pub fn follow(self) -> Result<Certificates, CertificateError> {
        let mut paths = vec![self.certificate.clone(), self.key.clone()];
        paths.extend(self.ca.clone());
        let read = move |contents: &[Vec<u8>]| self.read(contents);
        let (current, task) = follow("the serving certificate", paths, read)?;
        Ok(Certificates {
            current,
            _task: Arc::new(task),
        })
    }

    fn read(&self, contents: &[Vec<u8>]) -> Result<Current, CertificateError> {
        let content = |index: usize| contents.get(index).map(Vec::as_slice).unwrap_or_default();
        let place = self.certificate.display().to_string();
        let serving = Serving::from_pem(content(0), &place, content(1), &self.key.display().to_string())?;
        for complaint in complaints(&serving, Timestamp::now()) {
            warn!("the certificate in {place} {complaint}");
        }
        let ca_bundle = match &self.ca {
            None => None,
            Some(path) => {
                let place = path.display().to_string();
                for certificate in x509::certificates(content(2), &place)? {
                    x509::Facts::read(&certificate, &place)?;
                }
                // PEM is ASCII, and so is what people write between its sections.
                Some(String::from_utf8_lossy(content(2)).into())
            }
        };
        Ok(Current {
            serving: Arc::new(serving),
            ca_bundle,
        })
    }
}

/// Why callers will not take a certificate that is well formed.
fn complaints(serving: &Serving, now: Timestamp) -> impl Iterator<Item = String> {
    let ended = (now > serving.not_after).then(|| format!("has ended at {}: renew it", serving.not_after));
    let early = (now < serving.not_before).then(|| {
        format!(
            "is valid only from {} on: wait, or set this machine's clock",
            serving.not_before
        )
    });
    let nameless = serving.names.is_empty().then(|| {
        "has no subject alternative names, and kube-apiserver looks at nothing else: \
         have it issued for the webhook's DNS name"
            .to_owned()
    });
    [ended, early, nameless].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::follow::EVERY;
    use super::super::issue::{Authority, Issued};
    use super::super::testing::Directory;
    use super::*;

    fn issued(name: &str) -> (Authority, Issued) {
        let authority = Authority::new(Timestamp::now()).unwrap();
        let issued = authority.issue(&[name.to_owned()], Timestamp::now()).unwrap();
        (authority, issued)
    }

    fn options(directory: &Directory) -> FileOptions {
        FileOptions {
            certificate: directory.path("tls.crt"),
            key: directory.path("tls.key"),
            ca: None,
        }
    }

    fn put(directory: &Directory, issued: &Issued) {
        directory.write("tls.crt", &issued.certificate);
        directory.write("tls.key", &issued.key);
    }

    fn error(options: FileOptions) -> String {
        options.follow().unwrap_err().to_string()
    }

    #[tokio::test]
    async fn what_can_not_be_used_says_which_file_and_why() {
        let directory = Directory::new();
        let (_, one) = issued("one.example");
        let (_, two) = issued("two.example");
        let [crt, key, ca] = ["tls.crt", "tls.key", "ca.crt"].map(|name| directory.path(name).display().to_string());
        let said = error(options(&directory));
        assert!(said.starts_with(&format!("can't read {crt}: No such file")), "{said}");
        put(&directory, &one);
        directory.write("tls.key", &two.key);
        assert_eq!(
            error(options(&directory)),
            format!(
                "the private key in {key} is not the one of the certificate in {crt}: \
                 give the two that were issued together"
            )
        );
        directory.write("tls.key", &one.certificate);
        assert!(error(options(&directory)).starts_with(&format!("there is no private key in {key}: ")));
        put(&directory, &one);
        directory.write("tls.crt", &one.key);
        assert!(error(options(&directory)).starts_with(&format!("there is no certificate in {crt}: ")));
        put(&directory, &one);
        let with_ca = FileOptions {
            ca: Some(directory.path("ca.crt")),
            ..options(&directory)
        };
        directory.write("ca.crt", "no PEM");
        assert!(error(with_ca.clone()).starts_with(&format!("there is no certificate in {ca}: ")));
        directory.write("ca.crt", &one.certificate);
        let bundle = with_ca.follow().unwrap().current().ca_bundle;
        assert_eq!(bundle.as_deref(), Some(one.certificate.as_str()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_taken_up_and_a_broken_one_is_not() {
        let directory = Directory::new();
        put(&directory, &issued("one.example").1);
        let certificates = options(&directory).follow().unwrap();
        let mut changes = certificates.changes();
        let names = |certificates: &Certificates| certificates.current().serving.names.clone();
        assert_eq!(names(&certificates), ["one.example"]);

        directory.write("tls.crt", &issued("two.example").1.certificate);
        tokio::time::sleep(EVERY * 3).await;
        assert_eq!(names(&certificates), ["one.example"], "its key has not come");
        std::fs::remove_file(directory.path("tls.key")).unwrap();
        tokio::time::sleep(EVERY * 3).await;
        assert!(!changes.has_changed().unwrap());

        put(&directory, &issued("three.example").1);
        changes.changed().await.unwrap();
        assert_eq!(names(&certificates), ["three.example"]);
    }

    /// As the kubelet does it: the files are links into a directory that is itself a link, and that one is swapped.
    #[cfg(unix)]
    #[tokio::test(start_paused = true)]
    async fn a_mount_of_a_secret_that_changes() {
        use std::os::unix::fs::symlink;
        let directory = Directory::new();
        let version = |name: &str, issued: &Issued| {
            std::fs::create_dir(directory.path(name)).unwrap();
            directory.write(&format!("{name}/tls.crt"), &issued.certificate);
            directory.write(&format!("{name}/tls.key"), &issued.key);
        };
        version("..1", &issued("one.example").1);
        symlink("..1", directory.path("..data")).unwrap();
        for file in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(file), directory.path(file)).unwrap();
        }
        let certificates = options(&directory).follow().unwrap();
        let mut changes = certificates.changes();
        version("..2", &issued("two.example").1);
        symlink("..2", directory.path("..data_tmp")).unwrap();
        std::fs::rename(directory.path("..data_tmp"), directory.path("..data")).unwrap();
        changes.changed().await.unwrap();
        assert_eq!(certificates.current().serving.names, ["two.example"]);
    }

    #[test]
    fn what_callers_will_refuse_is_complained_of() {
        let (_, issued) = issued("one.example");
        let mut serving = Serving::from_pem(issued.certificate.as_bytes(), "c", issued.key.as_bytes(), "k").unwrap();
        let said = |serving: &Serving, now: Timestamp| complaints(serving, now).collect::<Vec<_>>().join("; ");
        assert_eq!(said(&serving, Timestamp::now()), "");
        let after = serving.not_after + jiff::SignedDuration::from_secs(1);
        assert_eq!(
            said(&serving, after),
            format!("has ended at {}: renew it", serving.not_after)
        );
        let before = serving.not_before - jiff::SignedDuration::from_secs(1);
        assert!(said(&serving, before).starts_with("is valid only from "));
        serving.names.clear();
        assert!(said(&serving, Timestamp::now()).starts_with("has no subject alternative names"));
    }
}
