//! Serves the embedded API server for `conformance/run apiserver`: prints its URL, and does what lines of its input say.
//!
//! `compact` forgets the history and answers `compacted`. It ends with its input.

use std::io::{BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};

use kubequota_testserver::TestServer;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let server = TestServer::new();
    let listening = server.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    say(&listening.url())?;
    let commands = tokio::task::spawn_blocking(move || -> std::io::Result<()> {
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
    });
    commands.await?
}

/// Says a line at once: the reader waits for it.
fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    out.flush()
}
