//! Putting the webhook together.

use std::sync::Arc;
use std::time::Duration;

use kubequota_cluster::monitor::{Failure, Sink, Update};
use kubequota_cluster::quotas::QuotaCacheSink;
use kubequota_cluster::{ApiResource, Cluster, Monitor, MonitorOptions, QuotaCache};
use kubequota_core::decision::LimitedResources;
use kubequota_core::{FieldError, Metadata, Quota};
use kubequota_shell::{AdmissionMetrics, Readiness, ReadyGate, Shell};
use kubequota_wire::json::Quotas;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::certificates::{CertificateError, Certificates, ClientOptions, FileOptions, OwnError, OwnOptions};
use crate::configuration;
use crate::device_classes;
use crate::engine::{self, Engine};
use crate::handler;
use crate::serve::{HttpsError, HttpsOptions, HttpsServer};

/// The heart beats this often.
const BEAT: Duration = Duration::from_secs(5);

/// Without a beat for this long the process should be restarted.
const STALE: Duration = Duration::from_secs(60);

/// Where the serving certificate comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateOptions {
    /// Files that someone else keeps.
    Files(FileOptions),
    /// An own CA, kept in a Secret.
    Own(OwnOptions),
}

/// The webhook's options.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens, and its bounds.
    pub https: HttpsOptions,
    /// What it shows to callers.
    pub certificates: CertificateOptions,
    /// Who may call; anyone who can reach it where this is `None`.
    pub clients: Option<ClientOptions>,
    /// What may only be used under a quota.
    pub limited: LimitedResources,
    /// How the server is told of the webhook.
    pub configuration: configuration::Options,
}

/// Why the webhook could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The certificates can't be used.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    /// There is no own certificate to be had.
    #[error(transparent)]
    Own(#[from] OwnError),
    /// The server can't serve.
    #[error(transparent)]
    Https(#[from] HttpsError),
}

/// A webhook that listens, and answers once it runs.
pub struct Webhook {
    cluster: Cluster,
    shell: Shell,
    server: HttpsServer,
    engine: Arc<Engine>,
    quotas: Arc<QuotaCache>,
    certificates: Certificates,
    limited: LimitedResources,
    configuration: configuration::Options,
    /// Somebody else watches quotas.
    is_fed: bool,
}

impl Webhook {
    /// Reads or makes the certificates, and listens.
    ///
    /// # Errors
    /// What is wrong with the certificates, or the address.
    pub async fn start(options: Options, cluster: Cluster, shell: Shell) -> Result<Self, StartError> {
        let certificates = match options.certificates {
            CertificateOptions::Files(files) => files.follow()?,
            CertificateOptions::Own(own) => own.keep(cluster.clone()).await?,
        };
        let clients = options.clients.map(ClientOptions::follow).transpose()?;
        let server = HttpsServer::bind(options.https, certificates.clone(), clients).await?;
        let quotas = QuotaCache::new();
        let engine = Engine::new(engine::Parts {
            cluster: cluster.clone(),
            quotas: quotas.clone(),
            limited: options.limited.clone(),
            metrics: AdmissionMetrics::register(&shell.metrics.registry),
            drain: shell.drain.clone(),
        });
        Ok(Webhook {
            cluster,
            shell,
            server,
            engine,
            quotas,
            certificates,
            limited: options.limited,
            configuration: options.configuration,
            is_fed: false,
        })
    }

    /// Where another watch of all quotas is to tell what it sees. With it the webhook has none of its own.
    pub fn feed(&mut self) -> impl Sink<Read> + 'static {
        self.is_fed = true;
        self.watched()
    }

    fn watched(&self) -> WatchedQuotas<QuotaCacheSink> {
        WatchedQuotas {
            gate: self.shell.readiness.register("admission: quotas listed"),
            readiness: self.shell.readiness.clone(),
            cache: self.quotas.sink(),
        }
    }

    /// Serves until it is told to drain: then what is under way is still answered. Returns whether it ended because it was told to, and
    /// not by a failure (which starts the drain).
    pub async fn run(self) -> bool {
        let own_watch = (!self.is_fed).then(|| {
            let resource = ApiResource::resource_quotas().into();
            let monitor = Monitor::new(self.cluster.clone(), &resource, None, Quotas, MonitorOptions::default());
            monitor.spawn(self.watched())
        });
        let Webhook {
            cluster,
            shell,
            server,
            engine,
            quotas,
            certificates,
            limited,
            configuration,
            ..
        } = self;
        let Shell {
            readiness,
            liveness,
            drain,
            ..
        } = shell;
        let heartbeat = liveness.heartbeat("webhook", STALE);
        let working = drain.guard("webhook");
        tracing::info!(address = %server.local_addr(), "starting the admission webhook");
        let mut tasks = JoinSet::new();
        tasks.spawn(device_classes::follow(engine.clone()));
        let upkeep = configuration::Parts {
            cluster,
            quotas,
            limited,
            certificates: certificates.changes(),
            readiness,
        };
        tasks.spawn(configuration::keep(configuration, upkeep));
        let serving = tokio::spawn(server.run(handler::router(engine), drain.clone()));
        let beats = async {
            let mut beats = interval(BEAT);
            beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                beats.tick().await;
                heartbeat.beat(Instant::now());
            }
        };
        let told = tokio::select! {
            () = drain.signal() => true,
            () = beats => false,
            Some(_) = tasks.join_next() => {
                tracing::error!("a task of the webhook has failed, this is a bug, please report it; shutting down");
                drain.start();
                false
            }
        };
        tracing::info!("shutting the admission webhook down");
        // The drain waits for what is under way, and the quotas are still followed meanwhile.
        let served = serving.await.is_ok();
        drop(certificates);
        drop(own_watch);
        drop(working);
        told && served
    }
}

type Read = (Metadata, Result<Quota, FieldError>);

/// The cache's sink, with what it says to readiness.
struct WatchedQuotas<S> {
    cache: S,
    gate: ReadyGate,
    readiness: Readiness,
}

const WATCH: &str = "admission: quotas watched";

impl<S: Sink<Read>> Sink<Read> for WatchedQuotas<S> {
    async fn handle(&mut self, update: Update<Read>) {
        let listed = matches!(update, Update::ListEnded(_));
        match &update {
            Update::Failed(Failure { error, .. }) => self.readiness.degraded(WATCH, error.to_string()),
            Update::Recovered | Update::ListEnded(_) => self.readiness.clear(WATCH),
            _ => {}
        }
        self.cache.handle(update).await;
        if listed {
            self.gate.ready();
        }
    }
}
