//! What every subcommand that runs as a server has: how it reaches the cluster, logs, is probed, and ends.

use std::future::{Future, poll_fn};
use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use clap::ValueEnum;
use kubequota_cluster::{ClientOptions, Cluster};
use kubequota_shell::{Endpoints, LogFormat, ReadyGate, Server, ServerOptions, Shell, logs};

use crate::output::BAD_INPUT;

/// How long what is still running may take to end after the drain.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// The part of a server's help that is the same for all.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  told to stop, and stopped in order
  1  stopped by a failure, or work was still under way after --shutdown-grace
  2  wrong arguments, or no usable configuration";

#[derive(Debug, clap::Args)]
pub(crate) struct ProcessArgs {
    /// Kubeconfig to use [default: KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// Requests a second to the server; 0 for no limit
    #[arg(long, value_name = "QPS", default_value = "20", allow_hyphen_values = true, value_parser = qps)]
    kube_api_qps: f32,

    /// Requests to the server at once
    #[arg(long, value_name = "N", default_value = "30", value_parser = clap::value_parser!(u32).range(1..))]
    kube_api_burst: u32,

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
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
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

/// What a server is part of.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) cluster: Cluster,
    pub(crate) shell: Shell,
    /// Until this is ready nothing is.
    started: Arc<ReadyGate>,
}

impl Process {
    /// Does the work that the process is there for. From its first step on readiness is its own: by then it has registered what it waits
    /// for.
    pub(crate) async fn work(self, work: impl Future<Output = Ended>) -> Ended {
        let mut work = pin!(work);
        let first = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
        self.started.ready();
        match first {
            Poll::Ready(ended) => ended,
            Poll::Pending => work.await,
        }
    }
}

/// How a server came to its end.
pub(crate) enum Ended {
    /// It was told to.
    Told,
    /// By a failure, which has been logged.
    Failed,
    /// It never began: the configuration can't be used, as has been logged.
    Unusable,
}

impl Ended {
    /// The end of a server that says whether it was told to.
    pub(crate) fn by(told: bool) -> Self {
        if told { Ended::Told } else { Ended::Failed }
    }
}

/// Runs `work` until a signal or a failure ends it. It begins when everything around it is there, and says through [`Process::work`] when it
/// is under way.
pub(crate) fn run<F>(args: &ProcessArgs, work: impl FnOnce(Process) -> F + Send + 'static) -> ExitCode
where
    F: Future<Output = Ended> + Send + 'static,
{
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
            let code = runtime.block_on(serve(args, work));
            runtime.shutdown_timeout(LAST_ANSWERS);
            code
        }
        Err(error) => {
            tracing::error!("the system gives no threads to work with: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve<F>(args: &ProcessArgs, work: impl FnOnce(Process) -> F + Send + 'static) -> ExitCode
where
    F: Future<Output = Ended> + Send + 'static,
{
    let shell = Shell::new(env!("CARGO_PKG_VERSION"));
    let drain = shell.drain.clone();
    if let Err(error) = kubequota_shell::drain::watch_signals(&drain) {
        tracing::error!("{error}");
        return ExitCode::FAILURE;
    }
    let client = ClientOptions {
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
        qps: args.kube_api_qps,
        burst: args.kube_api_burst,
        ..ClientOptions::default()
    };
    let cluster = match Cluster::connect(&client, |host| shell.metrics.rest_client.layer(host)).await {
        Ok(cluster) => cluster,
        Err(error) => {
            tracing::error!("{error}");
            return ExitCode::from(BAD_INPUT);
        }
    };
    let endpoints = Endpoints {
        readiness: shell.readiness.clone(),
        liveness: shell.liveness.clone(),
        registry: shell.metrics.registry.clone(),
        drain: drain.clone(),
    };
    let process = Process {
        cluster,
        started: Arc::new(shell.readiness.register("started")),
        shell,
    };
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
    let ending = drain.clone();
    let working = tokio::spawn(async move {
        let ended = work(process).await;
        ending.start();
        ended
    });
    drain.signal().await;
    let drained = drain.wait(args.shutdown_grace).await;
    if let Err(late) = drained {
        tracing::error!("{late}");
        return ExitCode::FAILURE;
    }
    // The drain waited for the work, and the server ends with the drain.
    let ended = working.await.unwrap_or(Ended::Failed);
    let _ = serving.await;
    match ended {
        Ended::Told => ExitCode::SUCCESS,
        Ended::Failed => ExitCode::FAILURE,
        Ended::Unusable => ExitCode::from(BAD_INPUT),
    }
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
}
