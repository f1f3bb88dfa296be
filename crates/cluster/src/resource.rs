//! Resources: where the server serves them, and at which versions.

use std::fmt;
use std::sync::Arc;

use kubequota_core::GroupResource;

/// A resource at one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResource {
    /// Its group and plural name.
    pub id: GroupResource,
    /// The version, as in `v1`.
    pub version: Arc<str>,
    /// The kind of its objects, as in `Pod`.
    pub kind: Arc<str>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// The verbs that are served.
    pub verbs: Vec<String>,
}

impl ApiResource {
    /// A resource without any verbs.
    #[must_use]
    pub fn new(group: &str, version: &str, plural: &str, kind: &str, namespaced: bool) -> Self {
        let id = GroupResource::new(group, plural);
        ApiResource {
            id,
            version: version.into(),
            kind: kind.into(),
            namespaced,
            verbs: Vec::new(),
        }
    }

    /// ResourceQuotas, which every server serves.
    #[must_use]
    pub fn resource_quotas() -> Self {
        ApiResource::new("", "v1", "resourcequotas", "ResourceQuota", true)
    }

    /// CustomResourceDefinitions: with a change of one, kinds may come or go.
    #[must_use]
    pub fn custom_resource_definitions() -> Self {
        ApiResource::new(
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            false,
        )
    }

    /// APIServices: with a change of one, groups may come or go.
    #[must_use]
    pub fn api_services() -> Self {
        ApiResource::new("apiregistration.k8s.io", "v1", "apiservices", "APIService", false)
    }

    /// Whether `verb` is served.
    #[must_use]
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|served| served == verb)
    }

    /// Whether upstream would count it: namespaced, and served with create, list, watch and delete
    /// (`GetQuotableResources`).
    #[must_use]
    pub fn is_quotable(&self) -> bool {
        self.namespaced && ["create", "list", "watch", "delete"].iter().all(|verb| self.can(verb))
    }

    /// The path of all objects, in one namespace or everywhere.
    #[must_use]
    pub fn path(&self, namespace: Option<&str>) -> String {
        let GroupResource { group, resource } = &self.id;
        let root = if group.is_empty() {
            "/api".to_owned()
        } else {
            format!("/apis/{group}")
        };
        let namespace = namespace
            .map(|name| format!("/namespaces/{}", encoded(name)))
            .unwrap_or_default();
        format!("{root}/{}{namespace}/{resource}", self.version)
    }

    /// The path of one object.
    #[must_use]
    pub fn object_path(&self, namespace: Option<&str>, name: &str) -> String {
        format!("{}/{}", self.path(namespace), encoded(name))
    }
}

/// `deployments.v1.apps`, `pods.v1`.
impl fmt::Display for ApiResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GroupResource { group, resource } = &self.id;
        write!(f, "{resource}.{}", self.version)?;
        if group.is_empty() {
            Ok(())
        } else {
            write!(f, ".{group}")
        }
    }
}

/// A resource at every version that is served, the preferred one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The version that the server prefers.
    pub preferred: ApiResource,
    /// The others, in the server's order.
    pub others: Vec<ApiResource>,
}

impl Versions {
    /// All of them, the preferred one first.
    pub fn iter(&self) -> impl Iterator<Item = &ApiResource> {
        std::iter::once(&self.preferred).chain(&self.others)
    }

    /// Group and plural name.
    #[must_use]
    pub fn id(&self) -> &GroupResource {
        &self.preferred.id
    }
}

impl From<ApiResource> for Versions {
    fn from(only: ApiResource) -> Self {
        Versions {
            preferred: only,
            others: Vec::new(),
        }
    }
}

/// Text as it may stand in a path's segment or a query's value.
pub(crate) fn encoded(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            result.push(char::from(byte));
        } else {
            result.push('%');
            result.extend([byte >> 4, byte & 15].map(|digit| char::from(b"0123456789ABCDEF"[usize::from(digit)])));
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let pods = ApiResource::new("", "v1", "pods", "Pod", true);
        assert_eq!(pods.path(None), "/api/v1/pods");
        assert_eq!(pods.path(Some("a")), "/api/v1/namespaces/a/pods");
        assert_eq!(
            pods.object_path(Some("a"), "x y/z"),
            "/api/v1/namespaces/a/pods/x%20y%2Fz"
        );
        let deployments = ApiResource::new("apps", "v1", "deployments", "Deployment", true);
        assert_eq!(deployments.path(Some("a")), "/apis/apps/v1/namespaces/a/deployments");
        assert_eq!(deployments.to_string(), "deployments.v1.apps");
        assert_eq!(
            ApiResource::api_services().path(None),
            "/apis/apiregistration.k8s.io/v1/apiservices"
        );
    }

    #[test]
    fn what_is_quotable() {
        let mut widgets = ApiResource::new("example.com", "v1", "widgets", "Widget", true);
        assert!(!widgets.is_quotable());
        widgets.verbs = ["create", "delete", "get", "list", "watch"].map(str::to_owned).to_vec();
        assert!(widgets.is_quotable());
        widgets.namespaced = false;
        assert!(!widgets.is_quotable());
    }
}
