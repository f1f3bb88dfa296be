//! A bounded loop that accepts connections, shared by the servers of a process.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address can't be listened on.
    #[error(
        "can't listen on {address} for {purpose}: {source}; \
         choose another address or port, or stop what uses it"
    )]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the server is for.
        purpose: &'static str,
        /// What the operating system said.
        source: std::io::Error,
    },
}

/// A socket that listens, and takes no more connections at once than it may.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    local_addr: SocketAddr,
    purpose: &'static str,
    max_connections: usize,
}

impl Listener {
    /// Listens, so that an address that can't be had is known before any work begins; port 0 takes any free one.
    /// `purpose` names the server in messages, as in `probes and metrics`. More than `max_connections` wait to be
    /// accepted.
    ///
    /// # Errors
    /// [`ServerError::Bind`].
    pub async fn bind(address: SocketAddr, purpose: &'static str, max_connections: usize) -> Result<Self, ServerError> {
        let bind_error = |source| ServerError::Bind {
            address,
            purpose,
            source,
        };
        let socket = TcpListener::bind(address).await.map_err(bind_error)?;
        let local_addr = socket.local_addr().map_err(bind_error)?;
        Ok(Self {
            socket,
            local_addr,
            purpose,
            max_connections,
        })
    }

    /// The address listened on, with the port taken where 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Accepts connections until `stop`, each served in a task of its own; then waits for those that are open, or have
    /// been opened by their clients without having been accepted yet. How long one may take is up to `serve`.
    pub async fn run<F>(self, stop: impl Future<Output = ()>, mut serve: impl FnMut(TcpStream) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let permits = Arc::new(Semaphore::new(self.max_connections.clamp(1, Semaphore::MAX_PERMITS)));
        let mut connections = JoinSet::new();
        let mut take = |permit: OwnedSemaphorePermit, stream| {
            let serving = serve(stream);
            connections.spawn(async move {
                serving.await;
                drop(permit);
            });
            while connections.try_join_next().is_some() {}
        };
        let accept_all = async {
            // The semaphore is never closed.
            while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
                take(permit, self.accept().await);
            }
        };
        tokio::select! {
            () = accept_all => {}
            () = stop => {}
        }
        // To those that the operating system has accepted already the end of the socket would be a broken connection.
        tokio::task::yield_now().await;
        while let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
            match self.socket.accept().now_or_never() {
                Some(Ok((stream, _))) => take(permit, stream),
                Some(Err(_)) | None => break,
            }
        }
        drop(self.socket);
        while connections.join_next().await.is_some() {}
    }

    async fn accept(&self) -> TcpStream {
        loop {
            match self.socket.accept().await {
                Ok((stream, _)) => return stream,
                Err(error) => {
                    // Most often there are no file descriptors left; trying again at once would only burn CPU.
                    tracing::warn!(%error, "a connection for {} could not be accepted", self.purpose);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn whoever_has_connected_before_the_end_is_served() {
        let address = ([127, 0, 0, 1], 0).into();
        let listener = Listener::bind(address, "tests", 8).await.unwrap();
        let address = listener.local_addr();
        // Accepted by the operating system, and by nobody else yet.
        let mut clients = Vec::new();
        for _ in 0..5 {
            clients.push(TcpStream::connect(address).await.unwrap());
        }
        let served = listener.run(std::future::ready(()), async |mut stream: TcpStream| {
            stream.write_all(b"served").await.unwrap();
        });
        served.await;
        for mut client in clients {
            let mut text = String::new();
            client.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "served");
        }
        assert!(TcpStream::connect(address).await.is_err());
    }
}
