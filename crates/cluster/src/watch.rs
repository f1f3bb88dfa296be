//! One watch, from a revision on.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt as _;
use kube::client::Body;
use kubequota_wire::WatchEvent;
use kubequota_wire::json::{self, Shape};
use tokio::time::timeout;

use crate::client::{Cluster, request};
use crate::error::{ApiError, Call, chain};
use crate::lines::Lines;
use crate::list::ACCEPT_JSON;
use crate::resource::{ApiResource, encoded};

/// Metadata of the objects, where the server can do that.
const ACCEPT_METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";

/// How one watch is held.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// After how long the server shall end it; watches that end at different times spread their renewal.
    pub lasting: Duration,
    /// A watch on which nothing came for so long is given up. kube-apiserver sends a bookmark about once a minute.
    pub idle: Duration,
    /// The longest event that is taken, in bytes. No object is stored that is larger than about 1.5 MiB.
    pub longest: usize,
}

impl Default for WatchOptions {
    fn default() -> Self {
        WatchOptions {
            lasting: Duration::from_secs(450),
            idle: Duration::from_secs(150),
            longest: 16 << 20,
        }
    }
}

/// A watch. Dropping it ends it.
#[derive(Debug)]
pub struct Watch<S> {
    call: Call,
    shape: S,
    options: WatchOptions,
    body: Body,
    lines: Lines,
}

impl Cluster {
    /// Starts a watch of what happens in a namespace, or everywhere, after `revision`.
    ///
    /// # Errors
    /// What the server or the network says. Where the revision [has expired](ApiError::is_expired), everything must be
    /// listed again.
    pub async fn watch<S: Shape>(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        shape: S,
        revision: &str,
        options: &WatchOptions,
    ) -> Result<Watch<S>, ApiError> {
        let call = Call::on("watch", resource, namespace);
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}",
            resource.path(namespace),
            options.lasting.as_secs(),
            encoded(revision),
        );
        let accept = if shape.metadata_only() {
            ACCEPT_METADATA
        } else {
            ACCEPT_JSON
        };
        let request = request(&call, Method::GET, &path, accept)?;
        // Some proxies hold the head back until something comes, so it is waited for as long as for an event.
        let head = self.open(&call, request, options.idle).await?;
        let body = head.response.into_body();
        Ok(Watch {
            call,
            shape,
            options: *options,
            body,
            lines: Lines::new(options.longest),
        })
    }
}

impl<S: Shape> Watch<S> {
    /// The next event; `None` when the server has ended the watch. Nothing is lost where this is dropped before it is
    /// ready.
    ///
    /// # Errors
    /// A watch that broke, fell silent, says what can't be read, or tells that it has failed (an event of type
    /// `ERROR`): it is over then.
    pub async fn next(&mut self) -> Result<Option<WatchEvent<S::Output>>, ApiError> {
        loop {
            let line = self.lines.next();
            let too_long = |_| ApiError::TooLong {
                call: Box::new(self.call.clone()),
                limit: self.options.longest,
            };
            if let Some(line) = line.map_err(too_long)? {
                return match json::watch_event(self.shape, &line) {
                    Ok(WatchEvent::Error(status)) => Err(ApiError::from_status(&self.call, status, None)),
                    Ok(event) => Ok(Some(event)),
                    Err(source) => Err(ApiError::Decode {
                        call: Box::new(self.call.clone()),
                        source,
                    }),
                };
            }
            match self.chunk().await? {
                Some(chunk) => self.lines.feed(chunk),
                // What is left is the beginning of an event, which will come again.
                None => return Ok(None),
            }
        }
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, ApiError> {
        let call = || Box::new(self.call.clone());
        let idle = self.options.idle;
        let frame = timeout(idle, self.body.frame()).await.map_err(|_| ApiError::Silent {
            call: call(),
            after: idle,
        })?;
        match frame {
            None => Ok(None),
            // Trailers hold nothing that is needed.
            Some(Ok(frame)) => Ok(Some(frame.into_data().unwrap_or_default())),
            Some(Err(error)) => Err(ApiError::Unreachable {
                call: call(),
                cause: chain(&error),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use kubequota_core::evaluators::ViewKind;
    use kubequota_testserver::{Action, Fault, TestServer, WatchMode};
    use tokio::time::Instant;

    use super::*;
    use crate::testing::{cluster, pod, pods, stub};

    async fn watch(server: &TestServer, revision: &str) -> Result<Watch<ViewKind>, ApiError> {
        cluster(server)
            .watch(&pods(), None, ViewKind::Pod, revision, &WatchOptions::default())
            .await
    }

    fn said(event: Option<WatchEvent<kubequota_core::Object>>) -> String {
        match event {
            Some(WatchEvent::Applied(object)) => format!("applied {}", object.metadata.name),
            Some(WatchEvent::Deleted(object)) => format!("deleted {}", object.metadata.name),
            Some(WatchEvent::Bookmark { resource_version, .. }) => format!("bookmark {resource_version}"),
            Some(WatchEvent::Error(_)) => "error".to_owned(),
            None => "end".to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn events_bookmarks_and_the_end() {
        let server = TestServer::new();
        server.create(pod("a", "before")).unwrap();
        let start = Instant::now();
        let mut watch = watch(&server, &server.revision().to_string()).await.unwrap();
        server.create(pod("a", "p")).unwrap();
        server.delete("pods", "a", "p").unwrap();
        assert_eq!(said(watch.next().await.unwrap()), "applied p");
        assert_eq!(said(watch.next().await.unwrap()), "deleted p");
        assert_eq!(
            said(watch.next().await.unwrap()),
            format!("bookmark {}", server.revision())
        );
        assert_eq!(start.elapsed().as_secs(), 60);
        let mut last = String::new();
        while last != "end" {
            last = said(watch.next().await.unwrap());
        }
        assert_eq!(start.elapsed().as_secs(), 450);
        let request = &server.requests()[0];
        assert_eq!(request.parameter("timeoutSeconds").as_deref(), Some("450"));
        assert_eq!(request.parameter("allowWatchBookmarks").as_deref(), Some("true"));
    }

    #[tokio::test(start_paused = true)]
    async fn ways_to_fail() {
        let server = TestServer::new();
        let mut dropped = watch(&server, "1").await.unwrap();
        server.drop_watches("pods");
        assert!(matches!(dropped.next().await, Err(ApiError::Unreachable { .. })));

        let mut expired = watch(&server, "1").await.unwrap();
        server.set_watches("pods", WatchMode::Expired);
        assert!(expired.next().await.unwrap_err().is_expired());

        server.fault(Fault::new(Action::SilentWatch).once());
        let start = Instant::now();
        let mut silent = watch(&server, "1").await.unwrap();
        assert!(matches!(silent.next().await, Err(ApiError::Silent { .. })));
        assert_eq!(start.elapsed().as_secs(), 150);

        server.fault(Fault::new(Action::Forbidden).once());
        let error = watch(&server, "1").await.unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("may not watch pods: grant verb watch on pods"),
            "{error}"
        );
        server.fault(Fault::new(Action::Expired).once());
        assert!(watch(&server, "1").await.unwrap_err().is_expired());
    }

    #[tokio::test]
    async fn lines_that_can_not_be_taken() {
        let line = r#"{"type":"ADDED","object":{"metadata":{"name":"p","resourceVersion":"7"},"spec":{}}}"#;
        let options = WatchOptions {
            longest: 200,
            ..WatchOptions::default()
        };
        for (more, expected) in [
            (format!("{}\n", "x".repeat(201)), "an event of more than 200 bytes"),
            ("{\"type\":\"ADDED\"}\n".to_owned(), "can't be read as a watch event"),
            (
                line.replace("ADDED", "MOVED") + "\n",
                "unknown type of watch event \"MOVED\"",
            ),
        ] {
            let cluster = stub(move |_| format!("{line}\n{more}"));
            let mut watch = cluster
                .watch(&pods(), None, ViewKind::Pod, "1", &options)
                .await
                .unwrap();
            assert_eq!(said(watch.next().await.unwrap()), "applied p");
            let error = watch.next().await.unwrap_err().to_string();
            assert!(
                error.starts_with("could not watch pods: ") && error.contains(expected),
                "{error}"
            );
        }
        let cluster = stub(move |_| format!("{line}\n{}", &line[..20]));
        let mut watch = cluster
            .watch(&pods(), None, ViewKind::Pod, "1", &options)
            .await
            .unwrap();
        assert_eq!(said(watch.next().await.unwrap()), "applied p");
        assert_eq!(
            said(watch.next().await.unwrap()),
            "end",
            "half an event will come again"
        );
    }
}
