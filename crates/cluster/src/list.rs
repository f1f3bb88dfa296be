//! Consistent lists, page by page.

use kubequota_wire::WireError;
use kubequota_wire::json::{self, Shape};
use serde::de::Error as _;
use tokio::time::Instant;

use crate::client::Cluster;
use crate::error::{ApiError, Call};
use crate::resource::{ApiResource, encoded};

/// How many objects a page has: client-go's number.
pub const PAGE_SIZE: u32 = 500;

pub(crate) const ACCEPT_JSON: &str = "application/json";

/// Metadata of the objects, where the server can do that.
const ACCEPT_METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";

/// A page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// What the whole list stands for.
    pub listed: Listed,
    /// The objects.
    pub objects: Vec<T>,
}

/// What a list stands for: everything that was there at a revision, and the revision is not older than the moment it
/// was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The revision.
    pub revision: String,
    /// When the request for the first page was sent.
    pub sent_at: Instant,
}

/// A list that is being read. Every page is fetched when it is asked for; nothing is kept.
#[derive(Debug)]
pub struct List<S> {
    cluster: Cluster,
    call: Call,
    path: String,
    shape: S,
    page_size: u32,
    /// Known from the first page on.
    listed: Option<Listed>,
    /// What the next page is had for, but for the first.
    token: Option<String>,
    complete: bool,
}

impl Cluster {
    /// A consistent list of the objects in a namespace, or everywhere. Nothing is sent before the first page is asked
    /// for.
    #[must_use]
    pub fn list<S: Shape>(&self, resource: &ApiResource, namespace: Option<&str>, shape: S) -> List<S> {
        List {
            cluster: self.clone(),
            call: Call::on("list", resource, namespace),
            path: resource.path(namespace),
            shape,
            page_size: PAGE_SIZE,
            listed: None,
            token: None,
            complete: false,
        }
    }

    /// A consistent list with all its pages together: for small lists, such as those of one namespace.
    ///
    /// # Errors
    /// Those of [`List::next`].
    pub async fn list_all<S: Shape>(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        shape: S,
    ) -> Result<Page<S::Output>, ApiError> {
        let mut list = self.list(resource, namespace, shape);
        let mut all = list.fetch().await?;
        while let Some(page) = list.next().await? {
            all.objects.extend(page.objects);
        }
        Ok(all)
    }
}

impl<S: Shape> List<S> {
    /// Pages of another size.
    #[must_use]
    pub fn page_size(mut self, objects: u32) -> Self {
        self.page_size = objects;
        self
    }

    /// Whether the last page has been had.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The next page; `None` after the last. There is always a first, be it empty.
    ///
    /// # Errors
    /// What the server or the network says. If the rest of the list [has expired](ApiError::is_expired), the list must
    /// be started again.
    pub async fn next(&mut self) -> Result<Option<Page<S::Output>>, ApiError> {
        if self.complete {
            Ok(None)
        } else {
            self.fetch().await.map(Some)
        }
    }

    /// The first page, or the one after the last one had.
    pub(crate) async fn fetch(&mut self) -> Result<Page<S::Output>, ApiError> {
        // No resourceVersion: the server answers with no less than what is stored when it gets the request.
        let mut path = format!("{}?limit={}", self.path, self.page_size);
        if let Some(token) = &self.token {
            path = format!("{path}&continue={}", encoded(token));
        }
        let accept = if self.shape.metadata_only() {
            ACCEPT_METADATA
        } else {
            ACCEPT_JSON
        };
        let answer = self.cluster.fetch(&self.call, &path, accept).await?;
        let page = json::list_page(self.shape, &answer.body).map_err(|source| self.undecodable(source))?;
        let listed = match &self.listed {
            Some(listed) => listed.clone(),
            None => Listed {
                revision: page.resource_version,
                sent_at: answer.sent_at,
            },
        };
        // Whatever is no list of Kubernetes must not be taken for an empty one.
        if listed.revision.is_empty() {
            let source = serde_json::Error::custom("it has no metadata.resourceVersion");
            return Err(self.undecodable(WireError::Malformed {
                expected: "a list",
                source,
            }));
        }
        self.listed = Some(listed.clone());
        self.complete = page.next.is_none();
        self.token = page.next;
        Ok(Page {
            listed,
            objects: page.items,
        })
    }

    fn undecodable(&self, source: WireError) -> ApiError {
        ApiError::Decode {
            call: Box::new(self.call.clone()),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kubequota_core::evaluators::ViewKind;
    use kubequota_testserver::{Action, Fault, TestServer};
    use kubequota_wire::json::{MetadataOnly, Quotas};
    use serde_json::json;

    use super::*;
    use crate::testing::{cluster, pod, pods, quota, stub};

    #[tokio::test(start_paused = true)]
    async fn pages_come_one_by_one_and_stand_for_one_revision() {
        let server = TestServer::new();
        let names: Vec<String> = (0..7).map(|number| format!("p{number}")).collect();
        for name in &names {
            server.create(pod("a", name)).unwrap();
        }
        server.create(pod("b", "p")).unwrap();
        let revision = server.revision().to_string();
        let sent_at = Instant::now();
        let cluster = cluster(&server);
        let mut list = cluster.list(&pods(), Some("a"), ViewKind::Pod).page_size(3);
        let mut found = Vec::new();
        while let Some(page) = list.next().await.unwrap() {
            assert_eq!(
                page.listed,
                Listed {
                    revision: revision.clone(),
                    sent_at
                }
            );
            assert!(page.objects.len() <= 3 && page.objects.iter().all(|pod| pod.view.is_ok()));
            found.extend(page.objects.into_iter().map(|pod| pod.metadata.name));
            // What happens meanwhile is no part of the list.
            tokio::time::advance(Duration::from_secs(1)).await;
            server.create(pod("a", &format!("x{}", found.len()))).unwrap();
        }
        assert!(list.is_complete() && list.next().await.unwrap().is_none());
        assert_eq!(found, names);
        assert_eq!(server.request_count("list", "pods"), 3);
        assert!(
            server
                .requests()
                .iter()
                .all(|request| request.parameter("resourceVersion").is_none()),
            "consistent"
        );
        let all = cluster.list_all(&pods(), None, MetadataOnly).await.unwrap();
        assert_eq!(all.objects.len(), 11);
        assert_eq!(all.listed.revision, server.revision().to_string());
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_rest_is_known_as_such() {
        let server = TestServer::new();
        for name in ["p", "q"] {
            server.create(pod("a", name)).unwrap();
        }
        let cluster = cluster(&server);
        let mut list = cluster.list(&pods(), None, ViewKind::Pod).page_size(1);
        assert_eq!(list.next().await.unwrap().unwrap().objects.len(), 1);
        server.create(pod("a", "r")).unwrap();
        server.compact();
        assert!(list.next().await.unwrap_err().is_expired());
        server.fault(Fault::new(Action::Expired).verb("list"));
        assert!(
            cluster
                .list_all(&pods(), None, ViewKind::Pod)
                .await
                .unwrap_err()
                .is_expired()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn one_bad_object_does_not_fail_a_page() {
        let server = TestServer::new();
        server.create(pod("a", "good")).unwrap();
        let bad = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": "bad"}, "spec": {"containers": 3}});
        server.put_raw("pods", bad);
        server.create(quota("a", "q", &json!({"pods": "3"}))).unwrap();
        let cluster = cluster(&server);
        let found = cluster.list_all(&pods(), None, ViewKind::Pod).await.unwrap().objects;
        let found: Vec<_> = found
            .iter()
            .map(|pod| (pod.metadata.name.as_str(), pod.view.is_ok()))
            .collect();
        assert_eq!(found, [("bad", false), ("good", true)]);
        let quotas = cluster
            .list_all(&ApiResource::resource_quotas(), None, Quotas)
            .await
            .unwrap()
            .objects;
        assert_eq!(quotas[0].1.as_ref().unwrap().key.to_string(), "a/q");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_counted_is_asked_for_as_metadata() {
        let server = TestServer::new();
        server
            .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}))
            .unwrap();
        let cluster = cluster(&server);
        let config_maps = ApiResource::new("", "v1", "configmaps", "ConfigMap", true);
        let page = cluster.list_all(&config_maps, None, ViewKind::Counted).await.unwrap();
        assert_eq!(page.objects[0].metadata.name, "c");
        let call = Call::on("list", &config_maps, None);
        let answer = cluster
            .fetch(&call, &config_maps.path(None), ACCEPT_METADATA)
            .await
            .unwrap();
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        assert!(
            text.contains("PartialObjectMetadata") && !text.contains("data\":{\"a\""),
            "{text}"
        );
    }

    #[tokio::test]
    async fn what_is_no_list_is_told_and_not_taken_for_an_empty_one() {
        for text in [
            "<html>please log in</html>",
            "{}",
            r#"{"kind":"Status","status":"Success","metadata":{}}"#,
        ] {
            let cluster = stub(move |_| text.to_owned());
            let error = cluster.list_all(&pods(), None, ViewKind::Pod).await.unwrap_err();
            assert!(matches!(error, ApiError::Decode { .. }));
            let error = error.to_string();
            assert!(
                error.starts_with("could not list pods: the server's answer can't be read as a list"),
                "{error}"
            );
        }
    }
}
