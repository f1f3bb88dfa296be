//! The only writer of a quota's status.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use kubequota_core::accounts::{StatusWrite, WriteResult};
use kubequota_core::quota::{ENFORCED, LAST_CHARGES};
use kubequota_core::{FieldError, Metadata, Quota, QuotaKey, ResourceList, ResourceName};
use kubequota_wire::Status;
use kubequota_wire::json::Quotas;
use serde::Serialize;

use crate::client::Cluster;
use crate::error::{ApiError, Call};
use crate::get;
use crate::object::MERGE_PATCH;
use crate::resource::ApiResource;

/// Who the fields that are written belong to, in `metadata.managedFields`.
pub const FIELD_MANAGER: &str = "kubequota";

/// How a write ended.
#[derive(Debug)]
pub enum WriteOutcome {
    /// The server took it.
    Landed {
        /// The revision it made of the quota; where nothing differed, the one it had.
        resource_version: String,
        /// The quota as it is now.
        quota: Result<Box<Quota>, FieldError>,
    },
    /// The quota has another revision by now. Nothing was written.
    Conflict,
    /// The quota is gone. Nothing was written.
    Gone,
    /// The server does not take some value. Nothing was written.
    Rejected {
        /// The path of each value, and why not.
        fields: Vec<(String, String)>,
        /// What the server says.
        message: String,
    },
    /// The server wants fewer requests. Nothing was written.
    TooMany {
        /// How long it wants to be left alone, where it says so.
        retry_after: Option<Duration>,
    },
    /// The server refused for a reason that has nothing to do with this write, such as a permission. Nothing was
    /// written.
    Refused(ApiError),
    /// No answer, or one that does not tell: it may have been written or not. A read tells.
    Unknown(ApiError),
}

/// Writes the status of quotas, and the notes that belong to it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StatusWriter {
    cluster: Cluster,
    quotas: ApiResource,
}

impl StatusWriter {
    /// A writer.
    #[must_use]
    pub fn new(cluster: Cluster) -> Self {
        StatusWriter {
            cluster,
            quotas: ApiResource::resource_quotas(),
        }
    }

    /// Writes once, if the quota still has the revision that the write was worked out from, and waits for the answer no
    /// longer than `deadline` (from when its turn under the rate limit has come). Never repeated here: only the caller
    /// knows what may be sent again.
    pub async fn write(&self, write: &StatusWrite, deadline: Duration) -> WriteOutcome {
        match self.patch(&write.quota, patch(write), deadline).await {
            Ok((Metadata { resource_version, .. }, quota)) => WriteOutcome::Landed {
                resource_version,
                quota: quota.map(Box::new),
            },
            Err(error) => outcome(error),
        }
    }

    /// Says on a quota that all it limits is enforced, whatever its revision is by now, and gives it as it is then. It goes through the
    /// status, so that nobody needs a right to change quotas.
    ///
    /// # Errors
    /// What the server or the network says.
    pub async fn say_enforced(&self, quota: &Quota) -> Result<Result<Quota, FieldError>, ApiError> {
        let patch = serde_json::json!({"metadata": {"annotations": {ENFORCED: quota.enforcement()}}});
        let deadline = self.cluster.request_timeout();
        let answer = self.patch(&quota.key, patch.to_string().into_bytes(), deadline).await?;
        Ok(answer.1)
    }

    async fn patch(
        &self,
        quota: &QuotaKey,
        patch: Vec<u8>,
        deadline: Duration,
    ) -> Result<(Metadata, Result<Quota, FieldError>), ApiError> {
        let (namespace, name) = (&*quota.namespace, &*quota.name);
        let call = Call::on_one("patch", &self.quotas, Some(namespace), name).of("status");
        let path = format!("{}/status?", self.quotas.object_path(Some(namespace), name));
        let sent = self
            .cluster
            .send(&call, Method::PATCH, &path, MERGE_PATCH, patch, deadline);
        let answer = sent.await?;
        get::read(&call, Quotas, &answer)
    }
}

/// A merge patch: what it does not name stays, a `null` takes a name out, and the revision makes a change in between a
/// clean 409. (A `PUT` of what little is known here would wipe the rest.)
fn patch(write: &StatusWrite) -> Vec<u8> {
    #[derive(Serialize)]
    struct Patch<'a> {
        metadata: PatchMetadata<'a>,
        status: PatchStatus<'a>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct PatchMetadata<'a> {
        resource_version: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        annotations: Option<BTreeMap<&'a str, &'a str>>,
    }
    #[derive(Serialize)]
    struct PatchStatus<'a> {
        hard: BTreeMap<&'a str, Option<String>>,
        used: BTreeMap<&'a str, Option<String>>,
    }
    fn values<'a>(list: &'a ResourceList, gone: &'a [ResourceName]) -> BTreeMap<&'a str, Option<String>> {
        let gone = gone.iter().map(|name| (name.as_str(), None));
        gone.chain(
            list.iter()
                .map(|(name, value)| (name.as_str(), Some(value.to_string()))),
        )
        .collect()
    }
    let patch = Patch {
        metadata: PatchMetadata {
            resource_version: &write.resource_version,
            annotations: write.last_charges.as_deref().map(|note| [(LAST_CHARGES, note)].into()),
        },
        status: PatchStatus {
            hard: values(&write.hard, &write.gone_from_hard),
            used: values(&write.used, &write.gone_from_used),
        },
    };
    // Maps with text for keys always make JSON.
    serde_json::to_vec(&patch).unwrap_or_default()
}

fn outcome(error: ApiError) -> WriteOutcome {
    let retry_after = error.retry_after();
    match &error {
        ApiError::Status { status, .. } => match status.code {
            409 => WriteOutcome::Conflict,
            404 => WriteOutcome::Gone,
            // A value that is no quantity to the server fails before validation, as a bad request.
            400 | 422 => rejected(status),
            429 => WriteOutcome::TooMany { retry_after },
            401..=499 => WriteOutcome::Refused(error),
            // The store may have taken it before the answer got lost inside the server.
            _ => WriteOutcome::Unknown(error),
        },
        ApiError::Credentials { .. } | ApiError::Invalid { .. } => WriteOutcome::Refused(error),
        _ => WriteOutcome::Unknown(error),
    }
}

fn rejected(status: &Status) -> WriteOutcome {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let fields = causes
        .map(|cause| (cause.field.clone(), cause.message.clone()))
        .collect();
    WriteOutcome::Rejected {
        fields,
        message: status.message.clone(),
    }
}

impl WriteOutcome {
    /// The outcome as the accounts take it. What is to be tried again waits for `pause`, or longer where the server
    /// says so.
    #[must_use]
    pub fn result(&self, pause: Duration) -> WriteResult {
        let unsettled = |wanted: Option<Duration>| WriteResult::Unsettled {
            retry_after: wanted.unwrap_or_default().max(pause),
        };
        match self {
            WriteOutcome::Landed { resource_version, .. } => WriteResult::Landed {
                resource_version: resource_version.clone(),
            },
            WriteOutcome::Conflict | WriteOutcome::Gone => WriteResult::Superseded,
            WriteOutcome::Rejected { fields, .. } => {
                let names: Vec<ResourceName> = fields.iter().filter_map(|(path, _)| resource_name(path)).collect();
                if names.is_empty() {
                    unsettled(None)
                } else {
                    WriteResult::Rejected { names }
                }
            }
            WriteOutcome::TooMany { retry_after } => unsettled(*retry_after),
            WriteOutcome::Refused(error) | WriteOutcome::Unknown(error) => unsettled(error.retry_after()),
        }
    }
}

/// The name in `status.used[NAME]`.
fn resource_name(path: &str) -> Option<ResourceName> {
    let (_, rest) = path.strip_prefix("status.")?.split_once('[')?;
    let (name, _) = rest.split_once(']')?;
    Some(ResourceName::from(name))
}

#[cfg(test)]
mod tests {
    use kubequota_testserver::{Action, Fault, Status as TestStatus, TestServer};
    use serde_json::json;

    use super::*;
    use crate::testing::{cluster, quota};

    const DEADLINE: Duration = Duration::from_secs(10);

    fn list(values: &[(&str, &str)]) -> ResourceList {
        values
            .iter()
            .map(|(name, value)| (ResourceName::from(*name), value.parse().unwrap()))
            .collect()
    }

    fn write(resource_version: &str) -> StatusWrite {
        StatusWrite {
            quota: QuotaKey::new("a", "q"),
            resource_version: resource_version.to_owned(),
            hard: list(&[("pods", "3"), ("requests.cpu", "2")]),
            used: list(&[("pods", "1"), ("requests.cpu", "500m")]),
            gone_from_hard: vec!["secrets".into()],
            gone_from_used: vec!["secrets".into()],
            last_charges: None,
        }
    }

    fn server() -> (TestServer, String, StatusWriter) {
        let server = TestServer::new();
        let mut quota = quota("a", "q", &json!({"pods": "3", "requests.cpu": "2"}));
        quota["status"] = json!({"hard": {"secrets": "1"}, "used": {"secrets": "1"}});
        let quota = server.create(quota).unwrap();
        let writer = StatusWriter::new(cluster(&server));
        (
            server,
            quota["metadata"]["resourceVersion"].as_str().unwrap().to_owned(),
            writer,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_lands_and_leaves_the_rest_alone() {
        let (server, revision, writer) = server();
        let outcome = writer.write(&write(&revision), DEADLINE).await;
        let WriteOutcome::Landed {
            resource_version,
            quota: Ok(quota),
        } = &outcome
        else {
            panic!("{outcome:?}")
        };
        assert_eq!(resource_version, &server.revision().to_string());
        assert_eq!(quota.status.used, Some(write("").used));
        let stored = server.get("resourcequotas", "a", "q").unwrap();
        assert_eq!(stored["metadata"]["labels"], json!({"kept": "yes"}));
        let hard = json!({"pods": "3", "requests.cpu": "2"});
        assert_eq!(
            stored["status"],
            json!({"hard": hard, "used": {"pods": "1", "requests.cpu": "500m"}})
        );
        let request = server.requests().pop().unwrap();
        assert_eq!((&*request.verb, &*request.subresource), ("patch", "status"));
        assert_eq!(request.parameter("fieldManager").as_deref(), Some("kubequota"));
        assert!(matches!(outcome.result(DEADLINE), WriteResult::Landed { .. }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_never_goes_over_a_newer_one() {
        let (server, revision, writer) = server();
        server
            .apply_status("resourcequotas", "a", "q", json!({"used": {"pods": "2"}}))
            .unwrap();
        let outcome = writer.write(&write(&revision), DEADLINE).await;
        assert!(matches!(outcome, WriteOutcome::Conflict), "{outcome:?}");
        assert_eq!(
            server.get("resourcequotas", "a", "q").unwrap()["status"],
            json!({"used": {"pods": "2"}})
        );
        server.remove("resourcequotas", "a", "q");
        let outcome = writer.write(&write(&revision), DEADLINE).await;
        assert!(matches!(outcome, WriteOutcome::Gone), "{outcome:?}");
        assert_eq!(outcome.result(DEADLINE), WriteResult::Superseded);
        assert_eq!(server.request_count("patch", "resourcequotas"), 2, "each was sent once");
    }

    #[tokio::test(start_paused = true)]
    async fn no_answer_leaves_it_open_whether_it_was_written() {
        for (action, is_written) in [
            (Action::LoseAnswer, true),
            (Action::DelayAnswer(Duration::from_secs(11)), true),
            (Action::Hang, false),
            (Action::Refuse, false),
            (Action::InternalError, false),
            (Action::Unavailable, false),
        ] {
            let (server, revision, writer) = server();
            server.fault(Fault::new(action.clone()).verb("patch"));
            let outcome = writer.write(&write(&revision), DEADLINE).await;
            assert!(matches!(outcome, WriteOutcome::Unknown(_)), "{action:?}: {outcome:?}");
            assert_eq!(
                server.request_count("patch", "resourcequotas"),
                1,
                "{action:?}: sent once"
            );
            assert_eq!(server.revision().to_string() != revision, is_written, "{action:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_say_what_was_refused() {
        let (server, revision, writer) = server();
        let once = |action| {
            server.fault(Fault::new(action).verb("patch").once());
        };
        once(Action::TooManyRequests(4));
        let outcome = writer.write(&write(&revision), DEADLINE).await;
        assert_eq!(
            outcome.result(Duration::from_secs(1)),
            WriteResult::Unsettled {
                retry_after: Duration::from_secs(4)
            }
        );
        once(Action::Forbidden);
        let outcome = writer.write(&write(&revision), DEADLINE).await;
        let WriteOutcome::Refused(error) = &outcome else {
            panic!("{outcome:?}")
        };
        let expected =
            "may not patch resourcequotas/status a/q: grant verb patch on resourcequotas/status in API group \"\"";
        assert!(error.to_string().starts_with(expected), "{error}");

        let mut invalid = TestStatus::new(422, "Invalid", "ResourceQuota \"q\" is invalid");
        let cause =
            |field: &str| json!({"reason": "FieldValueInvalid", "message": "must be an integer", "field": field});
        invalid.details =
            json!({"causes": [cause("status.used[pods]"), cause("status.hard[count/widgets.example.com]")]});
        once(Action::Answer(invalid));
        let outcome = writer.write(&write(&revision), DEADLINE).await;
        let names = vec!["pods".into(), "count/widgets.example.com".into()];
        assert_eq!(outcome.result(DEADLINE), WriteResult::Rejected { names });
        let WriteOutcome::Rejected { fields, message } = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(
            fields[0],
            ("status.used[pods]".to_owned(), "must be an integer".to_owned())
        );
        assert_eq!(message, "ResourceQuota \"q\" is invalid");

        once(Action::Answer(TestStatus::bad_request(
            "quantities must match the regular expression",
        )));
        let outcome = writer.write(&write(&revision), DEADLINE).await;
        assert!(matches!(outcome, WriteOutcome::Rejected { .. }));
        assert_eq!(
            outcome.result(DEADLINE),
            WriteResult::Unsettled { retry_after: DEADLINE }
        );
        assert_eq!(server.revision().to_string(), revision);
    }
}
