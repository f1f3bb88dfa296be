//! Single objects.

use kubequota_wire::WireError;
use kubequota_wire::json::Shape;

use crate::client::{Answer, Cluster};
use crate::error::{ApiError, Call};
use crate::list::ACCEPT_JSON;
use crate::resource::ApiResource;

impl Cluster {
    /// Reads one object as it is now, from the server's store.
    ///
    /// # Errors
    /// What the server or the network says; an object that is not there [is not found](ApiError::is_not_found).
    pub async fn get<S: Shape>(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        shape: S,
    ) -> Result<S::Output, ApiError> {
        let call = Call::on_one("get", resource, namespace, name);
        let answer = self
            .fetch(&call, &resource.object_path(namespace, name), ACCEPT_JSON)
            .await?;
        read(&call, shape, &answer)
    }
}

/// Reads the object that an answer holds.
pub(crate) fn read<S: Shape>(call: &Call, shape: S, answer: &Answer) -> Result<S::Output, ApiError> {
    let undecodable = |source| ApiError::Decode {
        call: Box::new(call.clone()),
        source,
    };
    // The parser has the words for what is wrong with the bytes.
    let text: &serde_json::value::RawValue = serde_json::from_slice(&answer.body).map_err(|source| {
        undecodable(WireError::Malformed {
            expected: "an object",
            source,
        })
    })?;
    shape.read(text.get()).map_err(undecodable)
}
