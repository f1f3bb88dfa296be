//! Serves an empty embedded API server over HTTP on loopback and prints its URL, until it is interrupted:
//!
//!     cargo run -p kubequota-testserver --example serve -- --port 8080
//!     kubectl --server http://127.0.0.1:8080 get namespaces
//!
//! Port 0, the default, lets the system choose. Its clock is the machine's, and pods never get a node.

use std::error::Error;
use std::io::Write;
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
    let mut out = std::io::stdout();
    writeln!(out, "{}", listening.url())?;
    out.flush()?;
    tokio::signal::ctrl_c().await?;
    Ok(())
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
