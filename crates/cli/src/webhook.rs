//! `kubequota webhook`: refuses what would exceed a quota; `kubequota run`: that and the controller in one process.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::ArgAction;
use kubequota_admission::certificates::{ClientOptions, FileOptions, OwnOptions};
use kubequota_admission::configuration::{self, Address};
use kubequota_admission::serve::HttpsOptions;
use kubequota_admission::start::{CertificateOptions, Options, Webhook};
use kubequota_core::decision::LimitedResources;
use kubequota_wire::configuration::{self as limits, ConfigurationError, Source};

use crate::controller::{ControllerArgs, Enforcer};
use crate::process::{self, EXIT_CODES, Ended, Process, ProcessArgs, duration};

const EXAMPLES: &str = "\
Examples:
  # In a pod behind the Service kubequota-webhook, with certificates of its own
  kubequota webhook --webhook-service kubequota-system/kubequota-webhook:443

  # Elsewhere, with certificates that someone else keeps
  kubequota webhook --webhook-url https://quota.example.com:8443 \\
      --tls-cert-file tls.crt --tls-private-key-file tls.key --tls-ca-file ca.crt";

const RUN_EXAMPLES: &str = "\
Examples:
  # Controller and webhook in one process
  kubequota run --webhook-service kubequota-system/kubequota-webhook:443";

/// Refuse what would exceed a quota, in place of kube-apiserver's ResourceQuota plugin
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct Args {
    #[command(flatten)]
    webhook: WebhookArgs,

    #[command(flatten)]
    process: ProcessArgs,
}

/// Keep quotas and refuse what would exceed them: controller and webhook in one process
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{RUN_EXAMPLES}\n\n{EXIT_CODES}"))]
pub(crate) struct RunArgs {
    #[command(flatten)]
    webhook: WebhookArgs,

    #[command(flatten)]
    controller: ControllerArgs,

    /// An admitted create is stored within this time of its charge, or never [default: 35s]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = duration)]
    admission_grace: Option<Duration>,

    #[command(flatten)]
    process: ProcessArgs,
}

#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(group = clap::ArgGroup::new("address").required(true))]
pub(crate) struct WebhookArgs {
    /// Service by which kube-apiserver reaches this, as NAMESPACE/NAME:PORT
    #[arg(
        long,
        value_name = "NS/NAME:PORT",
        value_parser = Address::service,
        group = "address"
    )]
    webhook_service: Option<Address>,

    /// URL by which kube-apiserver reaches this, where there is no Service: https://HOST:PORT
    #[arg(long, value_name = "URL", value_parser = Address::url, group = "address")]
    webhook_url: Option<Address>,

    /// Keep the webhook configuration of kube-apiserver as quotas need it; false leaves that to you
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = ArgAction::Set)]
    manage_webhook: bool,

    /// Address for reviews (HTTPS)
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    webhook_bind_address: IpAddr,

    /// Port for reviews
    #[arg(long, value_name = "PORT", default_value = "8443")]
    webhook_port: u16,

    /// After SIGTERM, how long new connections are still taken, until all have learned that this one is going
    #[arg(long, value_name = "DURATION", default_value = "5s", allow_hyphen_values = true, value_parser = duration)]
    shutdown_delay_duration: Duration,

    /// Serving certificate, PEM, reloaded when it changes [default: an own one, kept in a Secret]
    #[arg(long, value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,

    /// Its private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,

    /// CA of the serving certificate, PEM, for the webhook configuration's caBundle
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_ca_file: Option<PathBuf>,

    /// CA that callers' certificates must be of, PEM [default: whoever can reach it may call]
    #[arg(long, value_name = "FILE")]
    client_ca_file: Option<PathBuf>,

    /// Names of which a caller's certificate must have one
    #[arg(long, value_name = "NAME", requires = "client_ca_file", value_delimiter = ',')]
    client_allowed_names: Vec<String>,

    /// Namespace of its own Secret and ConfigMap, in which nothing is reviewed [default: the pod's, else kubequota-system]
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    /// limitedResources: the same file that kube-apiserver's plugin reads
    #[arg(long, value_name = "FILE")]
    admission_control_config_file: Option<PathBuf>,
}

/// Why there are no options.
#[derive(Debug, thiserror::Error)]
enum ArgumentError {
    #[error("name --webhook-service or --webhook-url: kube-apiserver has to find this somewhere")]
    Address,
    #[error("--admission-control-config-file {}: can't be read: {source}; check the path and its permissions", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("--admission-control-config-file {}: {source}", path.display())]
    Configuration { path: PathBuf, source: ConfigurationError },
}

impl WebhookArgs {
    fn options(&self) -> Result<Options, ArgumentError> {
        let given = self.webhook_service.as_ref().or(self.webhook_url.as_ref());
        let address = given.ok_or(ArgumentError::Address)?.clone();
        let namespace = self.namespace.clone().unwrap_or_else(configuration::own_namespace);
        let certificates = match (&self.tls_cert_file, &self.tls_private_key_file) {
            (Some(certificate), Some(key)) => CertificateOptions::Files(FileOptions {
                certificate: certificate.clone(),
                key: key.clone(),
                ca: self.tls_ca_file.clone(),
            }),
            _ => CertificateOptions::Own(OwnOptions::new(&namespace, vec![address.host()])),
        };
        Ok(Options {
            https: HttpsOptions {
                bind_address: self.webhook_bind_address,
                port: self.webhook_port,
                shutdown_delay: self.shutdown_delay_duration,
                ..HttpsOptions::default()
            },
            certificates,
            clients: self.client_ca_file.clone().map(|ca| ClientOptions {
                ca,
                names: self.client_allowed_names.clone(),
            }),
            limited: self.limited()?,
            configuration: configuration::Options {
                manage: self.manage_webhook,
                namespace,
                ..configuration::Options::new(address)
            },
        })
    }

    fn limited(&self) -> Result<LimitedResources, ArgumentError> {
        let Some(path) = &self.admission_control_config_file else {
            return Ok(LimitedResources::default());
        };
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| ArgumentError::Unreadable {
                path: path.to_owned(),
                source,
            })
        };
        let wrong = |path: &Path| {
            let path = path.to_owned();
            |source| ArgumentError::Configuration { path, source }
        };
        match limits::admission(path, &read(path)?).map_err(wrong(path))? {
            Source::Here(limited) => Ok(limited),
            Source::File(path) => limits::plugin(&read(&path)?).map_err(wrong(&path)),
        }
    }
}

/// Runs the webhook, until a signal or a failure ends it.
pub(crate) fn run(args: &Args) -> ExitCode {
    let options = args.webhook.options();
    process::run(&args.process, |process| async move {
        match prepare(options, &process).await {
            Ok(webhook) => process.work(async { Ended::by(webhook.run().await) }).await,
            Err(ended) => ended,
        }
    })
}

/// Runs both.
pub(crate) fn run_both(args: &RunArgs) -> ExitCode {
    let options = args.webhook.options();
    let mut controller = args.controller.options(Enforcer::Webhook, args.admission_grace);
    if !args.webhook.manage_webhook {
        // Who keeps no rules can't say whether they are followed.
        controller.enforcement_patience = None;
    }
    process::run(&args.process, |process| async move {
        let mut webhook = match prepare(options, &process).await {
            Ok(webhook) => webhook,
            Err(ended) => return ended,
        };
        let Process { cluster, shell, .. } = process.clone();
        let both = async {
            let drain = shell.drain.clone();
            let controlled = kubequota_controller::run_and_feed(controller, cluster, shell, webhook.feed());
            let webhook = async {
                let told = webhook.run().await;
                drain.start();
                told
            };
            // The watch of quotas ends after both.
            let ((controlled, _quotas), told) = tokio::join!(controlled, webhook);
            Ended::by(controlled && told)
        };
        process.work(both).await
    })
}

/// A webhook that listens. What keeps it from that is logged.
async fn prepare(options: Result<Options, ArgumentError>, process: &Process) -> Result<Webhook, Ended> {
    let options = options.map_err(|error| {
        tracing::error!("{error}");
        Ended::Unusable
    })?;
    // A CA of its own may have to wait for the server; a signal ends that.
    tokio::select! {
        webhook = Webhook::start(options, process.cluster.clone(), process.shell.clone()) => webhook.map_err(|error| {
            tracing::error!("{error}");
            Ended::Unusable
        }),
        () = process.shell.drain.signal() => Err(Ended::Told),
    }
}
