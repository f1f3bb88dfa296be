//! Serves an empty embedded API server over HTTP on loopback and prints its URL, until its input ends or it is interrupted:
//!
//!     cargo run -p kubequota-testserver --example serve -- --port 8080
//!     kubectl --server http://127.0.0.1:8080 get namespaces
//!
//! Port 0, the default, lets the system choose. Its clock is the machine's, and pods never get a node. With `--quota-plugin` it admits as
//! Kubernetes' ResourceQuota plugin does. It does what lines of its input say: `compact` forgets the history and answers `compacted`.

use std::error::Error;
use std::io::{BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};

use kubequota_testserver::{QuotaPlugin, TestServer};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Flags { port, quota_plugin } = Flags::parse(std::env::args().skip(1))?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let server = TestServer::builder()
        .epoch(jiff::Timestamp::now())
        .user("kubernetes-admin")
        .build();
    if quota_plugin {
        server.admitter(QuotaPlugin::new());
    }
    let listening = server.listen(address).await?;
    say(&listening.url())?;
    // A thread of its own: nothing waits for it when an interrupt comes first.
    let (done, commands) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || done.send(obey(&server)));
    tokio::select! {
        obeyed = commands => Ok(obeyed??),
        interrupted = tokio::signal::ctrl_c() => Ok(interrupted?),
    }
}

/// Does what the input says, until it ends.
fn obey(server: &TestServer) -> std::io::Result<()> {
    for line in std::io::stdin().lock().lines() {
        match line?.as_str() {
            "compact" => {
                server.compact();
                say("compacted")?;
            }
            other => say(&format!("unknown command {other:?}"))?,
        }
    }
    Ok(())
}

/// Says a line at once: the reader waits for it.
fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    out.flush()
}

/// What the command line says.
#[derive(Default)]
struct Flags {
    port: u16,
    quota_plugin: bool,
}

impl Flags {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut flags = Self::default();
        while let Some(argument) = arguments.next() {
            let port = match (argument.as_str(), argument.strip_prefix("--port=")) {
                ("--quota-plugin", _) => {
                    flags.quota_plugin = true;
                    continue;
                }
                ("--port", _) => arguments.next().unwrap_or_default(),
                (_, Some(port)) => port.to_owned(),
                _ => {
                    return Err(format!("unknown argument {argument:?}: --port N and --quota-plugin are known").into());
                }
            };
            flags.port = port.parse().map_err(|_| format!("--port {port:?} is no port"))?;
        }
        Ok(flags)
    }
}
