//! `kubequota demo`: the main job on a cluster that is in this process.

mod cluster;
mod manifests;
mod page;
mod story;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use kubequota_admission::start::StartError;
use kubequota_cluster::{ApiError, ConnectError};
use kubequota_shell::Drain;

use self::cluster::Demo;
use self::page::{Page, Style};

const EXAMPLES: &str = "\
Examples:
  # See it once
  kubequota demo

  # Keep the cluster, and use it from another terminal
  kubequota demo --serve --kubeconfig demo.kubeconfig
  kubectl --kubeconfig demo.kubeconfig get quota -A
  kubectl --kubeconfig demo.kubeconfig delete pod db-0
  kubectl --kubeconfig demo.kubeconfig describe quota compute

Exit codes:
  0  all went as it should, and what quotas record agrees with the objects
  1  something did not; standard error says what
  2  wrong arguments";

/// Watch quotas being filled, enforced and given back, with nothing but this program.
///
/// It starts an API server in this process, on loopback, runs kubequota against it, controller and admission webhook, and applies the
/// manifests of examples/. Every figure and every refusal printed is that server's answer. Nothing is left behind, and no other cluster is
/// touched.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, after_help = "Examples and exit codes: --help")]
pub(crate) struct Args {
    /// Keep the cluster up afterwards, until Ctrl-C.
    #[arg(long)]
    serve: bool,

    /// Where to write the kubeconfig, a new file; by default in the system's folder for temporary files. It is removed at the end.
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,

    /// Port of the API server on loopback; by default the system chooses.
    #[arg(long, value_name = "PORT", default_value = "0")]
    port: u16,

    /// Also write what is printed to this file, as a picture (SVG).
    #[arg(long, value_name = "PATH")]
    picture: Option<PathBuf>,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("the manifests of examples/ can't be read: {0}; correct them and build anew")]
    Examples(String),
    #[error("can't listen on {address}: {source}; choose another --port, or leave it out")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("can't use the file {path}: {source}; name one that does not exist, in a folder that can be written to")]
    File { path: String, source: io::Error },
    #[error("can't write what happens: {0}")]
    Output(io::Error),
    #[error("the system gives no threads or signals to work with: {0}")]
    System(String),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Webhook(#[from] StartError),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error("{what} did not come about within {after:?}")]
    Late { what: String, after: Duration },
    #[error("{0}")]
    Unexpected(String),
    #[error("interrupted")]
    Interrupted,
}

impl DemoError {
    fn file(path: &Path, source: io::Error) -> Self {
        DemoError::File {
            path: path.display().to_string(),
            source,
        }
    }
}

/// Runs it.
pub(crate) fn run(args: &Args) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(demo(args)),
        Err(error) => Err(DemoError::System(error.to_string())),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is nowhere left to say that this fails.
            let _ = writeln!(io::stderr().lock(), "kubequota demo: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn demo(args: &Args) -> Result<(), DemoError> {
    let drain = Drain::new();
    kubequota_shell::drain::watch_signals(&drain).map_err(|error| DemoError::System(error.to_string()))?;
    let mut page = Page::new();
    let demo = Demo::start(args.port, args.kubeconfig.as_deref(), &drain).await?;
    let mut told = tokio::select! {
        told = story::tell(&demo, &mut page) => told,
        () = drain.signal() => Err(DemoError::Interrupted),
    };
    page.end_progress();
    if let (Some(path), Ok(())) = (&args.picture, &told) {
        told = std::fs::write(path, page.svg()).map_err(|source| DemoError::file(path, source));
    }
    if args.serve && told.is_ok() {
        serving(&demo, &mut page);
        drain.signal().await;
    }
    let stopped = demo.stop().await;
    told.and(stopped).and(page.written().map_err(DemoError::Output))
}

/// How to use what stays up.
fn serving(demo: &Demo, page: &mut Page) {
    page.heading(&format!("Serving {} until Ctrl-C", demo.url()));
    // Not wrapped: it is to be copied.
    page.verbatim(&format!("  export KUBECONFIG={}", demo.kubeconfig.path.display()));
    page.verbatim("  kubectl get quota -A");
    page.verbatim("  kubectl create service loadbalancer second --tcp=80   # is refused");
    page.verbatim("  kubectl delete pod db-0; kubectl describe quota compute");
    page.say(
        Style::Faint,
        2,
        "No kubelet, scheduler or deployment controller runs here: pods stay as they are written, and a deleted one is gone at once.",
    );
}
