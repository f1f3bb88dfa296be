//! Serves an empty embedded API server over HTTP on loopback and prints its URL, until its input ends or it is interrupted:
//!
//!     cargo run -p kubequota-testserver --example serve -- --port 8080
//!     kubectl --server http://127.0.0.1:8080 get namespaces
//!
//! Port 0, the default, lets the system choose. Its clock is the machine's, and pods never get a node. It does what lines of its input
//! say: `compact` forgets the history and answers `compacted`.

use std::error::Error;
use std::io::{BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};

use kubequota_testserver::TestServer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port(std::env::args().skip(1))?));
    let server = TestServer::builder()
        .epoch(jiff::Timestamp::now())
        .user("kubernetes-admin")
        .build();
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

/// The port of `--port N` or `--port=N`.
fn port(mut arguments: impl Iterator<Item = String>) -> Result<u16, Box<dyn Error>> {
    let Some(argument) = arguments.next() else {
        return Ok(0);
    };
    let value = match argument.split_once('=') {
        Some(("--port", value)) => value.to_owned(),
        None if argument == "--port" => arguments.next().unwrap_or_default(),
        _ => return Err(format!("unknown argument {argument:?}: only --port N is known").into()),
    };
    match arguments.next() {
        Some(extra) => Err(format!("unknown argument {extra:?}: only --port N is known").into()),
        None => Ok(value.parse().map_err(|_| format!("--port {value:?} is no port"))?),
    }
}
