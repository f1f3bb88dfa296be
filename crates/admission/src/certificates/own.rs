//! The webhook's own CA and serving certificate, kept in a Secret that all replicas share.
//!
//! The Secret is of type `kubernetes.io/tls`: `tls.crt` and `tls.key` are what is served, `ca.crt` is what callers
//! should trust, `ca.key` is the key of the first certificate there. Whichever replica comes first makes it, and every
//! replica looks at it once a minute; writes are guarded by the name being free, or by the resourceVersion, so that one
//! wins and the others take what it made. A Secret without the label `app.kubernetes.io/managed-by: kubequota` is
//! somebody else's: it is used where it can be, and never written.
//!
//! A serving certificate lasts a year, a CA ten; each is replaced after two thirds of that. A new serving certificate
//! needs no new trust. A new CA is published beside the old one (`ca.crt` holds both until the old one has ended), and
//! the serving certificate is renewed by the old CA in the same write, so the new one signs nothing before it has been
//! trusted for most of a year, or until the webhook is reached by a name that no certificate has yet.
//!
//! The CA's key is kept, for a serving certificate that could not be renewed without new trust would leave a moment in
//! which a server that has not seen the new `caBundle` fails every call. It gives nothing away: callers trust this CA
//! for this webhook alone, and whoever can read `ca.key` can read `tls.key` beside it, which is worth as much. When
//! either is lost, delete the Secret: everything is made anew, and calls fail until the new `caBundle` is published.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kubequota_cluster::backoff::{Backoff, Random};
use kubequota_cluster::{ApiError, ApiResource, Cluster};
use kubequota_shell::OncePer;
use rustls::pki_types::ServerName;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::follow::Task;
use super::issue::{Authority, Issued};
use super::x509::{self, Facts, normalized};
use super::{CertificateError, Certificates, Current, Serving};

/// How often the Secret is looked at.
const EVERY: Duration = Duration::from_secs(60);

/// So often in a row a write may find that another replica was faster.
const TRIES: u32 = 5;

/// The label by which a Secret is known to be this program's to write, and its value.
pub(crate) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "kubequota");

const TYPE: &str = "kubernetes.io/tls";
const CA: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// Where the certificates are kept, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnOptions {
    /// The namespace of the Secret.
    pub namespace: String,
    /// Its name.
    pub secret: String,
    /// The DNS names and IP addresses that the webhook is reached by: `NAME.NAMESPACE.svc` of its Service, or the host
    /// of its URL.
    pub names: Vec<String>,
}

impl OwnOptions {
    /// The Secret `kubequota-webhook-tls` in this namespace.
    #[must_use]
    pub fn new(namespace: &str, names: Vec<String>) -> Self {
        OwnOptions {
            namespace: namespace.to_owned(),
            secret: "kubequota-webhook-tls".to_owned(),
            names,
        }
    }
}

/// Why there is no certificate of one's own.
#[derive(Debug, thiserror::Error)]
pub enum OwnError {
    /// No certificate can be made for nobody.
    #[error("a serving certificate needs at least one DNS name or IP address that the webhook is reached by")]
    Nameless,
    /// What should be a name is none.
    #[error("no certificate can be made for {0:?}: it is neither a DNS name nor an IP address")]
    Name(String),
    /// The Secret can't be read or written.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The Secret is somebody else's, and holds nothing to serve with.
    #[error(
        "Secret {secret} can't be used ({source}), and is not kubequota's to write (it lacks the label {}: {}); \
         correct it, delete it, or name another Secret",
        MANAGED_BY.0, MANAGED_BY.1
    )]
    Foreign {
        /// Namespace and name.
        secret: String,
        /// What is wrong with it.
        source: CertificateError,
    },
    /// Nothing can be made.
    #[error("no certificate can be made: {0}")]
    Make(#[from] rcgen::Error),
    /// What was made can't be used.
    #[error("what was made can't be used: {0}")]
    Made(CertificateError),
    /// Other replicas wrote each time.
    #[error("Secret {0} changed each time that it was to be written; does anything but kubequota write it?")]
    Contended(String),
}

impl OwnOptions {
    /// Reads the Secret, or makes it, and keeps it from then on. While that fails it is tried again and the trouble is
    /// logged, so this resolves once there is a certificate, be it late. Needs the verbs get, create and update on the
    /// Secret.
    ///
    /// # Errors
    /// Names that no certificate can be made for.
    pub async fn keep(self, cluster: Cluster) -> Result<Certificates, OwnError> {
        let mut keeper = Keeper::new(self, cluster)?;
        let first = keeper.first().await;
        let (sender, current) = watch::channel(first.current());
        let task = tokio::spawn(async move { keeper.run(first, sender).await });
        Ok(Certificates {
            current,
            _task: Arc::new(Task(task)),
        })
    }
}

/// What is to be done about a Secret.
enum Judged {
    /// It holds this, which is good.
    Good(Content),
    /// It should hold this instead.
    Due(Content),
}

/// Keeps the Secret.
struct Keeper {
    cluster: Cluster,
    secrets: ApiResource,
    namespace: String,
    secret: String,
    /// As [`normalized`].
    names: Vec<String>,
    backoff: Backoff,
    random: Random,
    troubles: OncePer,
}

impl Keeper {
    fn new(options: OwnOptions, cluster: Cluster) -> Result<Self, OwnError> {
        let names: Vec<String> = options.names.iter().map(|name| normalized(name)).collect();
        if names.is_empty() {
            return Err(OwnError::Nameless);
        }
        for name in &names {
            ServerName::try_from(name.as_str()).map_err(|_| OwnError::Name(name.clone()))?;
        }
        Ok(Keeper {
            cluster,
            secrets: ApiResource::new("", "v1", "secrets", "Secret", true),
            namespace: options.namespace,
            secret: options.secret,
            names,
            backoff: Backoff::default(),
            random: Random::new(None),
            troubles: OncePer::new(Duration::from_secs(600)),
        })
    }

    async fn first(&mut self) -> Content {
        loop {
            match self.round().await {
                Ok(content) => return content,
                Err(error) => {
                    self.tell(&error);
                    sleep(self.backoff.next(&mut self.random)).await;
                }
            }
        }
    }

    async fn run(mut self, mut content: Content, sender: watch::Sender<Current>) {
        loop {
            sleep(EVERY).await;
            match self.round().await {
                Ok(found) if found == content => {
                    self.troubles.over(&self.secret);
                }
                Ok(found) => {
                    self.troubles.over(&self.secret);
                    sender.send_replace(found.current());
                    info!(
                        secret = self.secret,
                        valid_until = %found.serving.not_after,
                        "new connections use a new serving certificate, or callers should trust another CA"
                    );
                    content = found;
                }
                Err(error) => self.tell(&error),
            }
        }
    }

    fn tell(&mut self, error: &OwnError) {
        let text = error.to_string();
        if let Some(repeats) = self.troubles.check(&self.secret, &text, Instant::now()) {
            warn!(repeats, "the webhook's own certificate could not be kept: {text}");
        }
    }

    fn place(&self) -> String {
        format!("{}/{}", self.namespace, self.secret)
    }

    /// Reads the Secret, and writes it where that is due.
    async fn round(&self) -> Result<Content, OwnError> {
        let namespace = Some(self.namespace.as_str());
        for _ in 0..TRIES {
            let read = self
                .cluster
                .get_object::<Secret>(&self.secrets, namespace, &self.secret);
            let (content, written) = match read.await {
                Ok(mut stored) => match self.judged(&stored)? {
                    Judged::Good(content) => return Ok(content),
                    Judged::Due(content) => {
                        stored.data = Some(content.data());
                        let write = self
                            .cluster
                            .replace_object(&self.secrets, namespace, &self.secret, &stored);
                        (content, write.await)
                    }
                },
                Err(error) if error.is_not_found() => {
                    let content = Content::new(&self.names, self.now())?;
                    let stored = self.secret(&content);
                    let write = self
                        .cluster
                        .create_object(&self.secrets, namespace, &self.secret, &stored);
                    (content, write.await)
                }
                Err(error) => return Err(error.into()),
            };
            match written {
                Ok(_) => {
                    info!(
                        secret = self.place(),
                        valid_until = %content.serving.not_after,
                        names = ?content.serving.names,
                        "a serving certificate was made"
                    );
                    return Ok(content);
                }
                // Another replica was faster.
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(OwnError::Contended(self.place()))
    }

    /// What a Secret holds, and what it should hold.
    fn judged(&self, stored: &Secret) -> Result<Judged, OwnError> {
        let (key, value) = MANAGED_BY;
        let labels = stored.metadata.labels.as_ref();
        let ours = labels.is_some_and(|labels| labels.get(key).is_some_and(|label| label == value));
        match Content::read(stored, &self.place()) {
            // What others keep they renew, too.
            Ok(content) if !ours => Ok(Judged::Good(content)),
            Ok(content) => Ok(match content.renewed(&self.names, self.now())? {
                None => Judged::Good(content),
                Some(renewed) => Judged::Due(renewed),
            }),
            Err(source) if !ours => Err(OwnError::Foreign {
                secret: self.place(),
                source,
            }),
            Err(error) => {
                let secret = self.place();
                warn!(secret, "its certificates can't be used, so new ones are made: {error}");
                Content::new(&self.names, self.now()).map(Judged::Due)
            }
        }
    }

    /// The server's time: it is the one that judges what is made.
    fn now(&self) -> Timestamp {
        self.cluster.clock().now().unwrap_or_else(Timestamp::now)
    }

    fn secret(&self, content: &Content) -> Secret {
        let mut secret = Secret {
            type_: Some(TYPE.to_owned()),
            data: Some(content.data()),
            ..Secret::default()
        };
        secret.metadata.name = Some(self.secret.clone());
        secret.metadata.namespace = Some(self.namespace.clone());
        let labels = [("app.kubernetes.io/name", "kubequota"), MANAGED_BY];
        secret.metadata.labels = Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        secret
    }
}

/// What the Secret holds.
#[derive(Clone, Debug)]
struct Content {
    /// CA certificates, the one that signs first.
    bundle: Vec<Trusted>,
    /// The signing CA's key, PEM; none in a Secret that somebody else keeps.
    ca_key: Option<String>,
    issued: Issued,
    serving: Arc<Serving>,
}

/// What is served and trusted is the same.
impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.bundle == other.bundle && self.issued == other.issued
    }
}

/// A CA certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Trusted {
    pem: String,
    facts: Facts,
}

impl Content {
    /// Everything new.
    fn new(names: &[String], now: Timestamp) -> Result<Self, OwnError> {
        let authority = Authority::new(now)?;
        let issued = authority.issue(names, now)?;
        Content::made(vec![authority.certificate.clone()], &authority, issued)
    }

    fn made(bundle: Vec<String>, authority: &Authority, issued: Issued) -> Result<Self, OwnError> {
        let bundle = bundle.into_iter().map(|pem| Trusted::read(pem, CA));
        Ok(Content {
            bundle: bundle.collect::<Result<_, _>>().map_err(OwnError::Made)?,
            ca_key: Some(authority.key()),
            serving: Arc::new(served(&issued, "").map_err(OwnError::Made)?),
            issued,
        })
    }

    /// What a Secret holds, where it can be used.
    fn read(secret: &Secret, name: &str) -> Result<Self, CertificateError> {
        let text = |key: &str| {
            let bytes = secret.data.as_ref().and_then(|data| data.get(key));
            bytes.map(|ByteString(bytes)| String::from_utf8_lossy(bytes).into_owned())
        };
        let place = |key: &str| format!("{key} of Secret {name}");
        let bundle = x509::sections(&text(CA).unwrap_or_default());
        let bundle = bundle.into_iter().map(|pem| Trusted::read(pem, &place(CA)));
        let bundle: Vec<Trusted> = bundle.collect::<Result<_, _>>()?;
        let signing = bundle
            .first()
            .ok_or_else(|| CertificateError::NoCertificate { place: place(CA) })?;
        let ca_key = text(CA_KEY);
        if let Some(key) = &ca_key {
            Authority::read(&signing.pem, &place(CA), key, &place(CA_KEY))?;
        }
        let issued = Issued {
            certificate: text(CERTIFICATE).unwrap_or_default(),
            key: text(KEY).unwrap_or_default(),
        };
        let serving = Arc::new(served(&issued, name)?);
        Ok(Content {
            bundle,
            ca_key,
            issued,
            serving,
        })
    }

    /// What should be there instead, where anything should.
    fn renewed(&self, names: &[String], now: Timestamp) -> Result<Option<Self>, OwnError> {
        let Some(signing) = self.bundle.first() else {
            return Content::new(names, now).map(Some);
        };
        let new_ca = is_due(signing.facts.not_before, signing.facts.not_after, now);
        let missing = names.iter().any(|name| !self.serving.names.contains(name));
        let due = is_due(self.serving.not_before, self.serving.not_after, now);
        if self.vouched() && !new_ca && !missing && !due {
            return Ok(None);
        }
        // Without the key, or after the end, trust can only begin anew.
        let Some(ca_key) = self.ca_key.as_ref().filter(|_| now < signing.facts.not_after) else {
            return Content::new(names, now).map(Some);
        };
        let mut wanted = names.to_vec();
        if missing {
            // Replicas of two configurations must not take turns, so names only go when the next certificate is due.
            let more = self.serving.names.iter().filter(|name| !names.contains(name));
            wanted.extend(more.cloned());
        }
        let mut authority = Authority::read(&signing.pem, CA, ca_key, CA_KEY).map_err(OwnError::Made)?;
        let issued = authority.issue(&wanted, now)?;
        let live = self.bundle.iter().filter(|trusted| now < trusted.facts.not_after);
        let mut bundle: Vec<String> = live.map(|trusted| trusted.pem.clone()).collect();
        if new_ca {
            authority = Authority::new(now)?;
            bundle.insert(0, authority.certificate.clone());
        }
        Content::made(bundle, &authority, issued).map(Some)
    }

    /// Whether what is served was signed by what is trusted, as far as the names tell.
    fn vouched(&self) -> bool {
        let leaf = self
            .serving
            .key
            .cert
            .first()
            .and_then(|leaf| Facts::read(leaf, CERTIFICATE).ok());
        leaf.is_some_and(|leaf| self.bundle.iter().any(|trusted| trusted.facts.subject == leaf.issuer))
    }

    fn bundle(&self) -> String {
        self.bundle.iter().map(|trusted| trusted.pem.as_str()).collect()
    }

    fn current(&self) -> Current {
        Current {
            serving: Arc::clone(&self.serving),
            ca_bundle: Some(self.bundle().into()),
        }
    }

    fn data(&self) -> BTreeMap<String, ByteString> {
        let (certificate, key) = (self.issued.certificate.clone(), self.issued.key.clone());
        let mut data = BTreeMap::from([(CA, self.bundle()), (CERTIFICATE, certificate), (KEY, key)]);
        data.extend(self.ca_key.clone().map(|key| (CA_KEY, key)));
        let bytes = |(key, text): (&str, String)| (key.to_owned(), ByteString(text.into_bytes()));
        data.into_iter().map(bytes).collect()
    }
}

impl Trusted {
    fn read(pem: String, place: &str) -> Result<Self, CertificateError> {
        let der = x509::certificates(pem.as_bytes(), place)?;
        let facts = Facts::read(der.first().map_or(&[], AsRef::as_ref), place)?;
        Ok(Trusted { pem, facts })
    }
}

fn served(issued: &Issued, secret: &str) -> Result<Serving, CertificateError> {
    let place = |key: &str| format!("{key} of Secret {secret}");
    Serving::from_pem(
        issued.certificate.as_bytes(),
        &place(CERTIFICATE),
        issued.key.as_bytes(),
        &place(KEY),
    )
}

/// Whether two thirds of a validity are over.
fn is_due(not_before: Timestamp, not_after: Timestamp, now: Timestamp) -> bool {
    let seconds = |time: Timestamp| i128::from(time.as_second());
    3 * (seconds(now) - seconds(not_before)) >= 2 * (seconds(not_after) - seconds(not_before))
}

#[cfg(test)]
mod tests {
    use kubequota_cluster::ClientOptions;
    use kubequota_testserver::{Action, Fault, TestServer};
    use serde_json::{Value, json};

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const NAME: &str = "kubequota-webhook-tls";
    const HOST: &str = "quota.kube-system.svc";

    fn cluster(server: &TestServer) -> Cluster {
        let options = ClientOptions {
            qps: 0.0,
            ..ClientOptions::default()
        };
        Cluster::from_client(kube::Client::new(server.router(), "default"), &options)
    }

    async fn keep(server: &TestServer, names: &[&str]) -> Certificates {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        OwnOptions::new("kube-system", names)
            .keep(cluster(server))
            .await
            .unwrap()
    }

    async fn stored(server: &TestServer) -> Secret {
        let secrets = ApiResource::new("", "v1", "secrets", "Secret", true);
        cluster(server)
            .get_object(&secrets, Some("kube-system"), NAME)
            .await
            .unwrap()
    }

    async fn content(server: &TestServer) -> Content {
        Content::read(&stored(server).await, NAME).unwrap()
    }

    fn bundle(certificates: &Certificates) -> Arc<str> {
        certificates.current().ca_bundle.unwrap()
    }

    /// Lets every keeper look once more.
    async fn look() {
        sleep(EVERY + Duration::from_secs(1)).await;
    }

    /// Whether callers that trust this take what is served, at this time.
    fn trusted(ca_bundle: &str, serving: &Serving, now: Timestamp) -> bool {
        use rustls::client::WebPkiServerVerifier;
        use rustls::client::danger::ServerCertVerifier as _;
        use rustls::pki_types::UnixTime;
        let mut roots = rustls::RootCertStore::empty();
        for root in x509::certificates(ca_bundle.as_bytes(), "").unwrap() {
            roots.add(root).unwrap();
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), super::super::provider())
            .build()
            .unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now.as_second().try_into().unwrap()));
        let name = ServerName::try_from(HOST).unwrap();
        let leaf = &serving.key.cert[0];
        verifier.verify_server_cert(leaf, &[], &name, &[], now).is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_secret_is_made_and_replicas_agree_on_it() {
        let server = TestServer::new();
        let (one, two) = tokio::join!(keep(&server, &[HOST]), keep(&server, &[HOST]));
        assert_eq!(bundle(&one), bundle(&two));
        assert_eq!(one.current().serving.key.cert, two.current().serving.key.cert);
        assert!(trusted(&bundle(&one), &one.current().serving, server.now()));

        let secret = stored(&server).await;
        assert_eq!(secret.type_.as_deref(), Some("kubernetes.io/tls"));
        let data = secret.data.clone().unwrap();
        assert_eq!(
            data.keys().collect::<Vec<_>>(),
            ["ca.crt", "ca.key", "tls.crt", "tls.key"]
        );
        assert_eq!(data["ca.crt"].0, bundle(&one).as_bytes());
        assert_eq!(secret.metadata.labels.unwrap()[MANAGED_BY.0], MANAGED_BY.1);

        // A replica that comes later takes what is there, and nobody writes again.
        let three = keep(&server, &[HOST]).await;
        assert_eq!(bundle(&three), bundle(&one));
        look().await;
        assert_eq!(
            stored(&server).await.metadata.resource_version,
            secret.metadata.resource_version
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_serving_certificate_is_renewed_by_the_same_ca() {
        let server = TestServer::new();
        let (one, two) = tokio::join!(keep(&server, &[HOST]), keep(&server, &[HOST]));
        let first = one.current();
        tokio::time::advance(DAY * 243).await;
        look().await;
        assert_eq!(one.current().serving.not_after, first.serving.not_after, "not yet");
        tokio::time::advance(DAY).await;
        look().await;
        look().await;
        for replica in [&one, &two] {
            let current = replica.current();
            assert_eq!(current.ca_bundle, first.ca_bundle);
            assert!(current.serving.not_after > server.now() + jiff::SignedDuration::from_hours(364 * 24));
            assert!(trusted(&bundle(&one), &current.serving, server.now()));
        }
        assert_eq!(one.current().serving.key.cert, two.current().serving.key.cert);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_ca_is_trusted_long_before_it_signs() {
        let server = TestServer::new();
        let certificates = keep(&server, &[HOST]).await;
        let old = bundle(&certificates);
        let mut cas = Vec::new();
        // For twelve years in steps of a month, what callers were told a month ago is enough to trust what is served.
        for month in 0..146 {
            let told = bundle(&certificates);
            cas.push(x509::sections(&told).len());
            tokio::time::advance(DAY * 30).await;
            look().await;
            let current = certificates.current();
            assert!(trusted(&told, &current.serving, server.now()), "month {month}");
        }
        let new = bundle(&certificates);
        assert!(!new.contains(&*old), "the old one has ended");
        cas.dedup();
        assert_eq!(cas, [1, 2, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn names_are_added_at_once_and_go_with_the_next_certificate() {
        let server = TestServer::new();
        let old = keep(&server, &["a.example"]).await;
        let new = keep(&server, &["b.example", "[::1]"]).await;
        assert_eq!(new.current().serving.names, ["b.example", "::1", "a.example"]);
        let version = stored(&server).await.metadata.resource_version;
        look().await;
        assert_eq!(old.current().serving.names, new.current().serving.names);
        assert_eq!(
            stored(&server).await.metadata.resource_version,
            version,
            "they don't take turns"
        );
        drop(old);
        tokio::time::advance(DAY * 250).await;
        look().await;
        assert_eq!(new.current().serving.names, ["b.example", "::1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_deleted_or_spoiled_is_made_anew() {
        let server = TestServer::new();
        let certificates = keep(&server, &[HOST]).await;
        let first = bundle(&certificates);
        server.delete("secrets", "kube-system", NAME).unwrap();
        look().await;
        let second = bundle(&certificates);
        assert_ne!(first, second);
        for (key, value) in [
            (CERTIFICATE, "no PEM".to_owned()),
            (KEY, Authority::new(server.now()).unwrap().key()),
            (CA, String::new()),
            (CA_KEY, Authority::new(server.now()).unwrap().key()),
        ] {
            let before = bundle(&certificates);
            let mut secret = stored(&server).await;
            secret
                .data
                .as_mut()
                .unwrap()
                .insert(key.to_owned(), ByteString(value.into_bytes()));
            secret
                .metadata
                .labels
                .as_mut()
                .unwrap()
                .insert("kept".to_owned(), "yes".to_owned());
            let secrets = ApiResource::new("", "v1", "secrets", "Secret", true);
            let write = cluster(&server);
            write
                .replace_object(&secrets, Some("kube-system"), NAME, &secret)
                .await
                .unwrap();
            look().await;
            assert_ne!(bundle(&certificates), before, "{key}");
            assert!(content(&server).await.vouched());
            assert_eq!(stored(&server).await.metadata.labels.unwrap()["kept"], "yes");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_the_cas_key_what_is_there_is_used_until_it_is_due() {
        let server = TestServer::new();
        let certificates = keep(&server, &[HOST]).await;
        let before = bundle(&certificates);
        let mut secret = stored(&server).await;
        secret.data.as_mut().unwrap().remove(CA_KEY);
        let secrets = ApiResource::new("", "v1", "secrets", "Secret", true);
        let write = cluster(&server);
        write
            .replace_object(&secrets, Some("kube-system"), NAME, &secret)
            .await
            .unwrap();
        look().await;
        assert_eq!(bundle(&certificates), before);
        tokio::time::advance(DAY * 250).await;
        look().await;
        assert_ne!(bundle(&certificates), before);
        assert!(content(&server).await.ca_key.is_some());
    }

    fn foreign(data: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": TYPE,
            "metadata": {"name": NAME, "namespace": "kube-system"}, "data": data,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_that_others_keep_is_used_and_never_written() {
        let elsewhere = TestServer::new();
        keep(&elsewhere, &[HOST]).await;
        let theirs = stored(&elsewhere).await;
        let server = TestServer::new();
        let created = server.create(foreign(&json!(theirs.data))).unwrap();
        let certificates = keep(&server, &["another.example"]).await;
        assert_eq!(certificates.current().serving.names, [HOST]);
        tokio::time::advance(DAY * 400).await;
        look().await;
        assert_eq!(
            stored(&server).await.metadata.resource_version.as_deref(),
            created["metadata"]["resourceVersion"].as_str()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn troubles_are_waited_out() {
        let server = TestServer::new();
        server.create(foreign(&json!({"tls.crt": "", "tls.key": ""}))).unwrap();
        let keeper = Keeper::new(OwnOptions::new("kube-system", vec![HOST.to_owned()]), cluster(&server)).unwrap();
        let error = keeper.round().await.unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "Secret kube-system/{NAME} can't be used \
                 (there is no certificate in ca.crt of Secret kube-system/{NAME}: \
                 it must hold at least one -----BEGIN CERTIFICATE----- section), and is not kubequota's to write \
                 (it lacks the label app.kubernetes.io/managed-by: kubequota); \
                 correct it, delete it, or name another Secret"
            )
        );
        let waiting = tokio::spawn(OwnOptions::new("kube-system", vec![HOST.to_owned()]).keep(cluster(&server)));
        sleep(Duration::from_secs(100)).await;
        assert!(!waiting.is_finished());
        server.delete("secrets", "kube-system", NAME).unwrap();
        let certificates = waiting.await.unwrap().unwrap();

        // What is there stays in use while the server can't be asked.
        let fault = server.fault(Fault::new(Action::Unavailable));
        look().await;
        look().await;
        assert_eq!(certificates.current().serving.names, [HOST]);
        server.clear_fault(fault);
        assert_eq!(
            bundle(&certificates).as_bytes(),
            stored(&server).await.data.unwrap()[CA].0
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_always_comes_too_late_gives_up_for_now() {
        let server = TestServer::new();
        server.fault(Fault::new(Action::Conflict).verb("create"));
        let keeper = Keeper::new(OwnOptions::new("kube-system", vec![HOST.to_owned()]), cluster(&server)).unwrap();
        let error = keeper.round().await.unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("Secret kube-system/{NAME} changed each time")),
            "{error}"
        );
        assert_eq!(server.request_count("create", "secrets"), TRIES as usize);
    }

    #[tokio::test]
    async fn what_is_no_name_is_refused() {
        let server = TestServer::new();
        for (names, expected) in [
            (vec![], "a serving certificate needs at least one"),
            (vec!["a b".to_owned()], "no certificate can be made for \"a b\""),
        ] {
            let kept = OwnOptions::new("kube-system", names).keep(cluster(&server)).await;
            let error = kept.unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
