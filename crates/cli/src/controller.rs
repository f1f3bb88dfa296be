//! `kubequota controller`: keeps `status.used` of every ResourceQuota right.

use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgAction, ValueEnum};
use kubequota_cluster::{ClientOptions, Cluster};
use kubequota_controller::{Options, Parts};
use kubequota_shell::{Drain, Endpoints, LogFormat, Metrics, Server, ServerOptions, logs};

use crate::output::BAD_INPUT;

/// How long what is still running may take to end after the drain.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Examples:
  # Look only: export and log what would be written, beside the cluster's own quota controller
  kubequota controller --kubeconfig ~/.kube/config --dry-run

  # In place of kube-controller-manager's (--controllers=*,-resourcequota-controller), in a pod
  kubequota controller --logging-format=json

Exit codes:
  0  told to stop, and stopped in order
  1  stopped by a failure, or work was still under way after --shutdown-grace
  2  wrong arguments, or no usable configuration";

/// Keep status.used of every ResourceQuota right
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Kubeconfig to use [default: KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// Compute and export, write nothing
    #[arg(long)]
    dry_run: bool,

    /// Quotas that are synced at the same time
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u16).range(1..))]
    concurrent_resource_quota_syncs: u16,

    /// How often everything is recounted; 0 turns that off
    #[arg(long, value_name = "DURATION", default_value = "5m", allow_hyphen_values = true, value_parser = duration)]
    resource_quota_sync_period: Duration,

    /// An admitted create is stored within this time of its charge, or never
    #[arg(long, value_name = "DURATION", default_value = "10s", allow_hyphen_values = true, value_parser = duration)]
    admission_grace: Duration,

    /// Requests a second to the server; 0 for no limit
    #[arg(long, value_name = "QPS", default_value = "20", allow_hyphen_values = true, value_parser = qps)]
    kube_api_qps: f32,

    /// Requests to the server at once
    #[arg(long, value_name = "N", default_value = "30", value_parser = clap::value_parser!(u32).range(1..))]
    kube_api_burst: u32,

    /// Not there yet: run one replica, and leave this out or false
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", action = ArgAction::Set, value_parser = no_leader_election)]
    leader_elect: bool,

    /// Address for health and metrics (plain HTTP)
    #[arg(long, value_name = "IP", default_value = "0.0.0.0")]
    bind_address: IpAddr,

    /// Port for health and metrics
    #[arg(long, value_name = "PORT", default_value = "8080")]
    port: u16,

    /// How long work under way may take to end after SIGTERM
    #[arg(long, value_name = "DURATION", default_value = "20s", allow_hyphen_values = true, value_parser = duration)]
    shutdown_grace: Duration,

    /// Format of the log
    #[arg(long, value_enum, default_value_t = Format::Text)]
    logging_format: Format,

    /// What is logged, as in warn or info,kubequota_cluster=debug
    #[arg(
        long,
        value_name = "FILTER",
        env = "KUBEQUOTA_LOG",
        default_value = "info,kube_client=off"
    )]
    log: String,
}

/// Formats of the log.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Lines for people
    Text,
    /// An object a line
    Json,
}

/// Go's durations, as Kubernetes' flags take them: `5m`, `1h30m`, `300s`, `0`.
fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let parsed = text
        .parse::<jiff::SignedDuration>()
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok());
    parsed.ok_or_else(|| "not a duration: write it as 30s, 5m or 1h30m".to_owned())
}

fn qps(text: &str) -> Result<f32, String> {
    let parsed = text.parse().ok().filter(|qps: &f32| qps.is_finite() && *qps >= 0.0);
    parsed.ok_or_else(|| "not a number of requests a second: write it as 20 or 0.5".to_owned())
}

fn no_leader_election(text: &str) -> Result<bool, String> {
    match text {
        "false" => Ok(false),
        "true" => Err("leader election does not exist yet: run one replica, and leave --leader-elect out".to_owned()),
        _ => Err("true or false".to_owned()),
    }
}

/// Runs it, until a signal or a failure ends it.
pub(crate) fn run(args: &Args) -> ExitCode {
    let format = match args.logging_format {
        Format::Text => LogFormat::Text,
        Format::Json => LogFormat::Json,
    };
    let color = std::env::var_os("NO_COLOR").is_none();
    if let Err(error) = logs::init(format, Some(&args.log), color) {
        // There is no log to say it in.
        let _ = writeln!(std::io::stderr().lock(), "kubequota: --log {}: {error}", args.log);
        return ExitCode::from(BAD_INPUT);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(serve(args));
            runtime.shutdown_timeout(LAST_ANSWERS);
            code
        }
        Err(error) => {
            tracing::error!("the system gives no threads to work with: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(args: &Args) -> ExitCode {
    let drain = Drain::new();
    if let Err(error) = kubequota_shell::drain::watch_signals(&drain) {
        tracing::error!("{error}");
        return ExitCode::FAILURE;
    }
    let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
    let client = ClientOptions {
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
        qps: args.kube_api_qps,
        burst: args.kube_api_burst,
        ..ClientOptions::default()
    };
    let cluster = match Cluster::connect(&client, |host| metrics.rest_client.layer(host)).await {
        Ok(cluster) => cluster,
        Err(error) => {
            tracing::error!("{error}");
            return ExitCode::from(BAD_INPUT);
        }
    };
    let endpoints = Endpoints::new(metrics.registry.clone(), drain.clone());
    let parts = Parts {
        cluster,
        metrics,
        readiness: endpoints.readiness.clone(),
        liveness: endpoints.liveness.clone(),
        drain: drain.clone(),
    };
    // Ready no sooner than the controller says so itself.
    let started = endpoints.readiness.register("controller started");
    let options = ServerOptions {
        bind_address: args.bind_address,
        port: args.port,
        ..ServerOptions::default()
    };
    let server = match Server::bind(options).await {
        Ok(server) => server,
        Err(error) => {
            tracing::error!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let serving = tokio::spawn(server.run(endpoints));
    let options = Options {
        concurrent_syncs: args.concurrent_resource_quota_syncs.into(),
        sync_period: args.resource_quota_sync_period,
        admission_grace: args.admission_grace,
        dry_run: args.dry_run,
        ..Options::default()
    };
    let controller = tokio::spawn(kubequota_controller::run(options, parts));
    started.ready();
    drain.signal().await;
    let drained = drain.wait(args.shutdown_grace).await;
    if let Err(late) = drained {
        tracing::error!("{late}");
        return ExitCode::FAILURE;
    }
    // The drain waited for the controller, and the server ends with the drain.
    let told = controller.await.unwrap_or(false);
    let _ = serving.await;
    if told { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let table = [
            ("0", Some(0)),
            ("5m", Some(300)),
            ("5m0s", Some(300)),
            ("1h30m", Some(5400)),
            ("300s", Some(300)),
            ("-5s", None),
            ("soon", None),
            ("5", None),
        ];
        for (text, seconds) in table {
            assert_eq!(duration(text).ok(), seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn rates() {
        for (text, expected) in [
            ("20", Some(20.0)),
            ("0", Some(0.0)),
            ("0.5", Some(0.5)),
            ("-1", None),
            ("NaN", None),
            ("x", None),
        ] {
            assert_eq!(qps(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn leader_election_is_refused() {
        assert_eq!(no_leader_election("false"), Ok(false));
        assert!(no_leader_election("true").is_err());
        assert!(no_leader_election("maybe").is_err());
    }
}
