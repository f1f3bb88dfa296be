//! Reviews over HTTP: what a body must be, and how long a verdict may take.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode, Uri};
use kubequota_wire::review::{Answer, Refused, Review, ReviewError};
use tokio::time::Instant;

use crate::engine::Engine;

/// Where reviews are sent.
pub const PATH: &str = "/admission";

/// Where reviews of probes are sent, with the number of the rules that sent them.
pub(crate) const PROBE_PATH: &str = "/admission/probe/";

/// What a probe is told, with the number.
pub(crate) const PROBE_ANSWER: &str = "kubequota is asked by its rules of number ";

/// A verdict takes no longer than this, whatever time the server gives.
const LONGEST: Duration = Duration::from_secs(30);

/// What is left of the server's time for the answer to reach it.
const FOR_THE_WAY: Duration = Duration::from_secs(1);

/// The server's time where it does not say (`timeoutSeconds` of the webhook, ten by default).
const USUAL: Duration = Duration::from_secs(10);

/// The routes of the webhook.
pub fn router(engine: Arc<Engine>) -> Router {
    Router::new()
        .route(PATH, post(review))
        .route(&format!("{PROBE_PATH}{{number}}"), post(probe))
        .with_state(engine)
}

/// Refuses, and says by which rules it was asked: that tells whoever sent the probe that the API server follows them by now.
async fn probe(Path(number): Path<u64>, headers: HeaderMap, body: Bytes) -> Response {
    let review = match read(&headers, &body) {
        Ok(review) => review,
        Err(answer) => return answer.into_response(),
    };
    let refused = Refused {
        code: 403,
        reason: "Forbidden",
        message: format!("{PROBE_ANSWER}{number}"),
        name: review.name.clone(),
        kind: review.kind.clone(),
        retry_after_seconds: 0,
    };
    let answer = Answer {
        refusal: Some(refused),
        audit_annotations: BTreeMap::new(),
    };
    reply(&answer, &review)
}

async fn review(State(engine): State<Arc<Engine>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let deadline = Instant::now() + verdict_time(uri.query().unwrap_or_default());
    match read(&headers, &body) {
        Ok(review) => reply(&engine.review(&review, deadline).await, &review),
        Err(answer) => answer.into_response(),
    }
}

/// The review that a body holds, or what to say of it.
fn read<'a>(headers: &HeaderMap, body: &'a Bytes) -> Result<Review<'a>, (StatusCode, String)> {
    let content_type = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        let why = format!("reviews are application/json, this is {content_type:?}\n");
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    Review::read(body).map_err(|error| {
        tracing::debug!("a request that is no review was refused: {error}");
        (code(&error), format!("{error}\n"))
    })
}

fn reply(answer: &Answer, review: &Review<'_>) -> Response {
    let json = [(CONTENT_TYPE, "application/json")];
    (json, answer.body(&review.uid)).into_response()
}

fn code(error: &ReviewError) -> StatusCode {
    match error {
        ReviewError::Version { .. } | ReviewError::Operation(_) => StatusCode::UNPROCESSABLE_ENTITY,
        ReviewError::Malformed { .. } | ReviewError::Missing(_) => StatusCode::BAD_REQUEST,
    }
}

/// How long a verdict may take: the server says in the query how long it waits, `timeout=10s`.
fn verdict_time(query: &str) -> Duration {
    let given = query.split('&').find_map(|pair| pair.strip_prefix("timeout="));
    let given: Option<Duration> = given.and_then(|text| text.parse::<jiff::SignedDuration>().ok()?.try_into().ok());
    let server_waits = given.unwrap_or(USUAL).min(LONGEST);
    // Of a very short time half is for the way.
    server_waits.saturating_sub(FOR_THE_WAY.min(server_waits / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_for_a_verdict() {
        for (query, millis) in [
            ("", 9_000),
            ("timeout=10s", 9_000),
            ("a=b&timeout=3s", 2_000),
            ("timeout=1s", 500),
            ("timeout=0s", 0),
            ("timeout=1h", 29_000),
            ("timeout=-5s", 9_000),
            ("timeout=soon", 9_000),
        ] {
            assert_eq!(verdict_time(query), Duration::from_millis(millis), "{query}");
        }
    }
}
