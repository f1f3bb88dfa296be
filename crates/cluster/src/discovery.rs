//! Which resources a server serves.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use kubequota_core::GroupResource;
use kubequota_core::object::or_default;
use kubequota_wire::WireError;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::client::Cluster;
use crate::error::{ApiError, Call};
use crate::list::ACCEPT_JSON;
use crate::resource::{ApiResource, Versions};

/// Everything in one answer, where the server can do that (v1.30 and later; v2beta1 from v1.27).
const ACCEPT_AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
     application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// What a server serves, as far as it could be found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// The resources, at every version that is served.
    pub resources: BTreeMap<GroupResource, Versions>,
    /// The groups that could not be asked, or not at every version, and why: an aggregated API that is down.
    pub failed_groups: BTreeMap<Arc<str>, String>,
}

/// Whether a resource is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served<'a> {
    /// Yes, at these versions.
    At(&'a Versions),
    /// No.
    Not,
    /// Its group could not be asked, and why.
    Unknown(&'a str),
}

impl Discovery {
    /// Whether `resource` is served.
    #[must_use]
    pub fn served(&self, resource: &GroupResource) -> Served<'_> {
        match (self.resources.get(resource), self.failed_groups.get(&resource.group)) {
            (Some(versions), _) => Served::At(versions),
            (None, Some(why)) => Served::Unknown(why),
            (None, None) => Served::Not,
        }
    }

    /// The resources that upstream would count: see [`ApiResource::is_quotable`].
    pub fn quotable(&self) -> impl Iterator<Item = &Versions> {
        self.resources
            .values()
            .filter(|versions| versions.preferred.is_quotable())
    }

    /// Adds a resource, after the versions of it that are there.
    fn add(&mut self, resource: ApiResource) {
        if let Some(versions) = self.resources.get_mut(&resource.id) {
            versions.others.push(resource);
        } else {
            self.resources.insert(resource.id.clone(), Versions::from(resource));
        }
    }

    fn fail(&mut self, group: &str, why: String) {
        self.failed_groups.insert(group.into(), why);
    }
}

impl Cluster {
    /// Asks the server what it serves: in two requests where it can do that, else in one for each group and version. A
    /// group that fails does not stop the others.
    ///
    /// # Errors
    /// The server could not even tell its groups.
    pub async fn discover(&self) -> Result<Discovery, ApiError> {
        let mut found = Discovery::default();
        for root in ["/api", "/apis"] {
            match self.ask(root, ACCEPT_AGGREGATED).await? {
                Root::Aggregated { items } => items.into_iter().for_each(|group| take_in(&mut found, group)),
                Root::Core { versions } => {
                    let versions = versions.into_iter().map(|version| (String::new(), version));
                    self.discover_each(&mut found, versions).await;
                }
                Root::Groups { groups } => {
                    let versions = groups.into_iter().flat_map(in_order);
                    self.discover_each(&mut found, versions).await;
                }
            }
        }
        Ok(found)
    }

    /// One request for each group and version.
    async fn discover_each(&self, found: &mut Discovery, versions: impl Iterator<Item = (String, String)>) {
        let ask = |(group, version): (String, String)| async move {
            let path = if group.is_empty() {
                format!("/api/{version}")
            } else {
                format!("/apis/{group}/{version}")
            };
            let answer = self.ask::<Resources>(&path, ACCEPT_JSON).await;
            (group, version, answer)
        };
        for (group, version, answer) in join_all(versions.map(ask)).await {
            match answer {
                Ok(Resources { resources }) => {
                    // A name with a slash is a subresource.
                    for Resource {
                        name,
                        kind,
                        namespaced,
                        verbs,
                    } in resources.into_iter().filter(|found| !found.name.contains('/'))
                    {
                        let resource = ApiResource::new(&group, &version, &name, &kind, namespaced);
                        found.add(ApiResource { verbs, ..resource });
                    }
                }
                Err(error) => found.fail(&group, error.to_string()),
            }
        }
    }

    async fn ask<T: DeserializeOwned>(&self, path: &str, accept: &'static str) -> Result<T, ApiError> {
        let call = Call::get_path(path);
        let answer = self.fetch(&call, path, accept).await?;
        serde_json::from_slice(&answer.body).map_err(|source| {
            let source = WireError::Malformed {
                expected: "a list of APIs",
                source,
            };
            ApiError::Decode {
                call: Box::new(call),
                source,
            }
        })
    }
}

/// A group of aggregated discovery. Its versions stand in order of preference.
fn take_in(found: &mut Discovery, group: GroupDiscovery) {
    let name = group.metadata.name;
    for VersionDiscovery {
        version,
        freshness,
        resources,
    } in group.versions
    {
        if freshness == "Stale" {
            found.fail(
                &name,
                format!("the server behind {name}/{version} does not tell what it serves"),
            );
            continue;
        }
        for ResourceDiscovery {
            resource,
            response_kind,
            scope,
            verbs,
        } in resources
        {
            let resource = ApiResource::new(&name, &version, &resource, &response_kind.kind, scope == "Namespaced");
            found.add(ApiResource { verbs, ..resource });
        }
    }
}

/// Group and version, the preferred version first.
fn in_order(group: Group) -> Vec<(String, String)> {
    let Group {
        name,
        versions,
        preferred_version,
    } = group;
    let mut versions: Vec<String> = versions.into_iter().map(|version| version.version).collect();
    versions.sort_by_key(|version| *version != preferred_version.version);
    versions.into_iter().map(|version| (name.clone(), version)).collect()
}

/// What `/api` and `/apis` answer, in their two ways.
#[derive(Deserialize)]
#[serde(tag = "kind")]
enum Root {
    #[serde(rename = "APIGroupDiscoveryList")]
    Aggregated {
        #[serde(default, deserialize_with = "or_default")]
        items: Vec<GroupDiscovery>,
    },
    #[serde(rename = "APIVersions")]
    Core {
        #[serde(default, deserialize_with = "or_default")]
        versions: Vec<String>,
    },
    #[serde(rename = "APIGroupList")]
    Groups {
        #[serde(default, deserialize_with = "or_default")]
        groups: Vec<Group>,
    },
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupDiscovery {
    metadata: Name,
    #[serde(deserialize_with = "or_default")]
    versions: Vec<VersionDiscovery>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Name {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct VersionDiscovery {
    version: String,
    freshness: String,
    #[serde(deserialize_with = "or_default")]
    resources: Vec<ResourceDiscovery>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ResourceDiscovery {
    resource: String,
    #[serde(deserialize_with = "or_default")]
    response_kind: Kind,
    scope: String,
    #[serde(deserialize_with = "or_default")]
    verbs: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Kind {
    kind: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Group {
    name: String,
    #[serde(deserialize_with = "or_default")]
    versions: Vec<GroupVersion>,
    #[serde(deserialize_with = "or_default")]
    preferred_version: GroupVersion,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupVersion {
    version: String,
}

#[derive(Deserialize)]
struct Resources {
    #[serde(default, deserialize_with = "or_default")]
    resources: Vec<Resource>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resource {
    name: String,
    kind: String,
    namespaced: bool,
    #[serde(deserialize_with = "or_default")]
    verbs: Vec<String>,
}

#[cfg(test)]
mod tests {
    use kubequota_testserver::{Action, Fault, GroupHealth, Kind as TestKind, TestServer};

    use super::*;
    use crate::testing::{cluster, stub_of};

    fn versions(found: &Discovery, resource: &str) -> Vec<String> {
        match found.served(&GroupResource::parse(resource)) {
            Served::At(versions) => versions.iter().map(ToString::to_string).collect(),
            Served::Not => vec!["not".to_owned()],
            Served::Unknown(why) => vec![format!("unknown: {why}")],
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_in_two_requests() {
        let server = TestServer::new();
        server.add_kind(
            TestKind::new("example.com", "v2", "Widget", "widgets")
                .version("v1")
                .with_status(),
        );
        let found = cluster(&server).discover().await.unwrap();
        assert_eq!(server.requests().len(), 2);
        assert_eq!(versions(&found, "pods"), ["pods.v1"]);
        assert_eq!(
            versions(&found, "widgets.example.com"),
            ["widgets.v2.example.com", "widgets.v1.example.com"]
        );
        assert_eq!(versions(&found, "nothing.example.com"), ["not"]);
        assert!(found.failed_groups.is_empty());
        let quotable: Vec<String> = found.quotable().map(|versions| versions.id().to_string()).collect();
        for (resource, expected) in [
            ("pods", true),
            ("widgets.example.com", true),
            ("namespaces", false),
            ("nodes", false),
        ] {
            assert_eq!(quotable.iter().any(|found| found == resource), expected, "{resource}");
        }
        let Served::At(pods) = found.served(&GroupResource::core("pods")) else {
            panic!("pods")
        };
        assert_eq!((&*pods.preferred.kind, pods.preferred.namespaced), ("Pod", true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_that_is_away_stops_no_other() {
        let server = TestServer::new();
        server.add_kind(TestKind::new("example.com", "v1", "Widget", "widgets"));
        for health in [GroupHealth::Stale, GroupHealth::Failing] {
            server.set_group_health("example.com", health);
            let found = cluster(&server).discover().await.unwrap();
            let why = "unknown: the server behind example.com/v1 does not tell what it serves";
            assert_eq!(versions(&found, "widgets.example.com"), [why]);
            assert_eq!(versions(&found, "deployments.apps"), ["deployments.v1.apps"]);
        }
        server.fault(Fault::new(Action::Unavailable).path("/apis"));
        assert!(cluster(&server).discover().await.unwrap_err().is_server_error());
    }

    #[tokio::test]
    async fn a_server_that_can_not_aggregate_is_asked_group_by_group() {
        let cluster = stub_of(|path| {
            let body = match path {
                "/api" => r#"{"kind":"APIVersions","versions":["v1"]}"#,
                "/apis" => {
                    r#"{"kind":"APIGroupList","groups":[
                        {"name":"a.io","versions":[{"version":"v1beta1"},{"version":"v1"}],"preferredVersion":{"version":"v1"}},
                        {"name":"down.io","versions":[{"version":"v1"}],"preferredVersion":{"version":"v1"}},
                        {"name":"empty.io","versions":null}]}"#
                }
                "/api/v1" => {
                    r#"{"kind":"APIResourceList","resources":[
                        {"name":"pods","namespaced":true,"kind":"Pod","verbs":["create","delete","list","watch"]},
                        {"name":"pods/status","namespaced":true,"kind":"Pod","verbs":["get"]}]}"#
                }
                "/apis/a.io/v1" | "/apis/a.io/v1beta1" => {
                    r#"{"kind":"APIResourceList","resources":[{"name":"as","namespaced":false,"kind":"A","verbs":null}]}"#
                }
                _ => return http::Response::builder().status(503).body(String::new()).unwrap(),
            };
            http::Response::new(body.to_owned())
        });
        let found = cluster.discover().await.unwrap();
        assert_eq!(
            versions(&found, "as.a.io"),
            ["as.v1.a.io", "as.v1beta1.a.io"],
            "the preferred version is first"
        );
        assert_eq!(found.resources.len(), 2);
        assert_eq!(
            found
                .quotable()
                .map(|versions| versions.id().to_string())
                .collect::<Vec<_>>(),
            ["pods"]
        );
        let [why] = &versions(&found, "downs.down.io")[..] else {
            panic!("one line")
        };
        assert!(why.starts_with("unknown: could not get /apis/down.io/v1: 503"), "{why}");
    }
}
