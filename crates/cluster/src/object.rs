//! Whole objects, read and written as they are: for the few that this program owns.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};
use kubequota_wire::WireError;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::{Answer, Cluster, request};
use crate::error::{ApiError, Call};
use crate::list::ACCEPT_JSON;
use crate::resource::ApiResource;
use crate::writer::FIELD_MANAGER;

const JSON: &str = "application/json";

/// What it does not name stays, and a `null` takes a field out.
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";

impl Cluster {
    /// Reads one object as it is now, from the server's store; `T` is `serde_json::Value` or the object's own type.
    ///
    /// # Errors
    /// What the server or the network says; an object that is not there [is not found](ApiError::is_not_found).
    pub async fn get_object<T: DeserializeOwned>(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<T, ApiError> {
        let call = Call::on_one("get", resource, namespace, name);
        let answer = self
            .fetch(&call, &resource.object_path(namespace, name), ACCEPT_JSON)
            .await?;
        decode(&call, &answer)
    }

    /// Creates an object, and gives it as it was stored. `name` is for messages.
    ///
    /// # Errors
    /// What the server or the network says; where the name is taken it [is a conflict](ApiError::is_conflict).
    pub async fn create_object<T: Serialize + DeserializeOwned>(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        object: &T,
    ) -> Result<T, ApiError> {
        self.post(resource, namespace, name, "", object).await
    }

    /// Asks whether an object would be created, without creating it (a dry run), and gives it as it would be stored. `name` is for
    /// messages.
    ///
    /// # Errors
    /// What the server, one of its webhooks, or the network says.
    pub async fn try_create_object<T: Serialize + DeserializeOwned>(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        object: &T,
    ) -> Result<T, ApiError> {
        self.post(resource, namespace, name, "dryRun=All&", object).await
    }

    async fn post<T: Serialize + DeserializeOwned>(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        query: &str,
        object: &T,
    ) -> Result<T, ApiError> {
        let call = Call::on_one("create", resource, namespace, name);
        let path = format!("{}?{query}", resource.path(namespace));
        self.send_object(&call, Method::POST, &path, JSON, object).await
    }

    /// Puts an object in the place of the one that has its name, and gives it as it was stored. With a
    /// `metadata.resourceVersion` only where the stored one still has that.
    ///
    /// # Errors
    /// What the server or the network says; another revision by now [is a conflict](ApiError::is_conflict).
    pub async fn replace_object<T: Serialize + DeserializeOwned>(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        object: &T,
    ) -> Result<T, ApiError> {
        let call = Call::on_one("update", resource, namespace, name);
        let path = format!("{}?", resource.object_path(namespace, name));
        self.send_object(&call, Method::PUT, &path, JSON, object).await
    }

    /// Changes what a JSON merge patch names, and gives the object as it was stored. With a `metadata.resourceVersion`
    /// only where the stored one still has that.
    ///
    /// # Errors
    /// What the server or the network says; another revision by now [is a conflict](ApiError::is_conflict).
    pub async fn patch_object<T: DeserializeOwned>(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        patch: &serde_json::Value,
    ) -> Result<T, ApiError> {
        let call = Call::on_one("patch", resource, namespace, name);
        let path = format!("{}?", resource.object_path(namespace, name));
        self.send_object(&call, Method::PATCH, &path, MERGE_PATCH, patch).await
    }

    async fn send_object<T: DeserializeOwned>(
        &self,
        call: &Call,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        let body = serde_json::to_vec(body).map_err(|source| malformed(call, source))?;
        let deadline = self.request_timeout();
        let answer = self.send(call, method, path, content_type, body, deadline).await?;
        decode(call, &answer)
    }

    /// Sends what is to be written, once, as every write. `path` ends in its query, to which it is added who writes.
    pub(crate) async fn send(
        &self,
        call: &Call,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Vec<u8>,
        deadline: Duration,
    ) -> Result<Answer, ApiError> {
        let path = format!("{path}fieldManager={FIELD_MANAGER}");
        let mut request = request(call, method, &path, ACCEPT_JSON)?;
        request
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        *request.body_mut() = body;
        self.request(call, request, deadline).await
    }
}

fn decode<T: DeserializeOwned>(call: &Call, answer: &Answer) -> Result<T, ApiError> {
    serde_json::from_slice(&answer.body).map_err(|source| malformed(call, source))
}

fn malformed(call: &Call, source: serde_json::Error) -> ApiError {
    ApiError::Decode {
        call: Box::new(call.clone()),
        source: WireError::Malformed {
            expected: "an object",
            source,
        },
    }
}

#[cfg(test)]
mod tests {
    use kubequota_testserver::{Action, Fault, TestServer};
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{cluster, stub};

    fn config_maps() -> ApiResource {
        ApiResource::new("", "v1", "configmaps", "ConfigMap", true)
    }

    fn config_map(data: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": data}})
    }

    #[tokio::test(start_paused = true)]
    async fn objects_are_created_read_replaced_and_patched() {
        let server = TestServer::new();
        let cluster = cluster(&server);
        let (of, place) = (config_maps(), Some("default"));
        let error = cluster.get_object::<Value>(&of, place, "c").await.unwrap_err();
        assert!(error.is_not_found(), "{error}");
        let error = cluster
            .replace_object(&of, place, "c", &config_map("0"))
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "could not update configmaps default/c: 404 NotFound: configmaps \"c\" not found"
        );

        let created = cluster.create_object(&of, place, "c", &config_map("1")).await.unwrap();
        assert_eq!(created["metadata"]["namespace"], "default");
        let error = cluster
            .create_object(&of, place, "c", &config_map("2"))
            .await
            .unwrap_err();
        assert!(error.is_conflict(), "{error}");
        assert!(
            error
                .to_string()
                .starts_with("could not create configmaps default/c: 409 AlreadyExists: "),
            "{error}"
        );

        let mut changed = created.clone();
        changed["data"]["k"] = "3".into();
        let replaced = cluster.replace_object(&of, place, "c", &changed).await.unwrap();
        let error = cluster.replace_object(&of, place, "c", &changed).await.unwrap_err();
        assert!(error.is_conflict(), "the revision has passed: {error}");
        let read: Value = cluster.get_object(&of, place, "c").await.unwrap();
        assert_eq!((&read, &read["data"]["k"]), (&replaced, &json!("3")));

        let patch = json!({"metadata": {"resourceVersion": read["metadata"]["resourceVersion"]}, "data": {"l": "4"}});
        let patched: Value = cluster.patch_object(&of, place, "c", &patch).await.unwrap();
        assert_eq!(patched["data"], json!({"k": "3", "l": "4"}));
        let error = cluster
            .patch_object::<Value>(&of, place, "c", &patch)
            .await
            .unwrap_err();
        assert!(error.is_conflict(), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_sent_once_and_in_time_or_fails() {
        let server = TestServer::new();
        let cluster = cluster(&server);
        server.fault(Fault::new(Action::Hang).verb("create").once());
        let created = cluster
            .create_object(&config_maps(), Some("default"), "c", &config_map("1"))
            .await;
        let error = created.unwrap_err().to_string();
        assert!(
            error.starts_with("could not create configmaps default/c: no answer within 60s"),
            "{error}"
        );
        assert_eq!(server.request_count("create", "configmaps"), 1);

        let error = stub(|_| "[1".to_owned())
            .get_object::<Value>(&config_maps(), Some("default"), "c")
            .await
            .unwrap_err();
        assert!(matches!(error, ApiError::Decode { .. }), "{error}");
    }
}
