//! From a request to its answer: log, faults, then what the API server does.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures::stream;
use http::header::{CACHE_CONTROL, DATE, HeaderValue};
use serde_json::{Value, json};

use crate::TestServer;
use crate::admitter::{Decision, Review};
use crate::discovery;
use crate::kinds::{GroupHealth, GroupResource, Kind, api_version};
use crate::list::{self, ListOptions, number};
use crate::object::{has_finalizers, meta};
use crate::patch::Patch;
use crate::render::{Form, Rendered};
use crate::request::RequestInfo;
use crate::status::{Status, json_response, page_not_found};
use crate::store::{DeleteOptions, Deleted, Key, Origin, Part};
use crate::watch::{self, WatchFault};

const BODY_LIMIT: usize = 3 * 1024 * 1024;
const JSON: &str = "application/json";

/// The client sees its connection break.
struct ConnectionLost;

/// Answers any request.
pub(crate) async fn handle(State(server): State<TestServer>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let info = RequestInfo::parse(&parts);
    server.record(&info);
    let mut response = match serve(&server, &info, body).await {
        Ok(response) => response,
        Err(ConnectionLost) => {
            // An error from the body is what breaks the connection, over a socket before anything was sent.
            let lost = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
            Response::new(Body::from_stream(stream::once(async { Err::<bytes::Bytes, _>(lost) })))
        }
    };
    let headers = response.headers_mut();
    if let Ok(date) = HeaderValue::from_str(&server.http_date()) {
        headers.insert(DATE, date);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

async fn serve(server: &TestServer, request: &RequestInfo, body: Body) -> Result<Response, ConnectionLost> {
    if server.is_down() {
        return Err(ConnectionLost);
    }
    let plan = server.plan(request);
    pause(plan.delay).await;
    if plan.hang {
        std::future::pending::<()>().await;
    }
    if plan.refuse || server.is_down() {
        return Err(ConnectionLost);
    }
    let response = match plan.answer {
        Some(status) => status.into_response(),
        None => dispatch(server, request, body, plan.watch).await,
    };
    pause(plan.delay_answer).await;
    if plan.lose_answer || server.is_down() {
        return Err(ConnectionLost);
    }
    Ok(response)
}

async fn pause(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}

async fn dispatch(server: &TestServer, request: &RequestInfo, body: Body, fault: WatchFault) -> Response {
    if request.resource.is_empty() {
        if !matches!(request.method.as_str(), "GET" | "HEAD") {
            return Status::method_not_allowed().into_response();
        }
        return discovery::respond(
            &server.store().kinds,
            server.minor_version(),
            &request.path,
            &request.accept,
        );
    }
    let (kind, health) = {
        let store = server.store();
        let Some(kind) = store.kinds.served(&request.group, &request.version, &request.resource) else {
            return page_not_found();
        };
        (kind.clone(), store.kinds.health(&request.group))
    };
    if health != GroupHealth::Current {
        return Status::unavailable().into_response();
    }
    let routed = match (kind.namespaced, request.namespace.is_empty()) {
        (true, true) => request.name.is_empty(),
        (false, false) => false,
        _ => true,
    };
    if !routed || !(request.subresource.is_empty() || kind.has_subresource(&request.subresource)) {
        return page_not_found();
    }
    let call = Call {
        server,
        kind: &kind,
        request,
    };
    call.answer(body, fault)
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

/// A request for a kind that is served.
struct Call<'a> {
    server: &'a TestServer,
    kind: &'a Kind,
    request: &'a RequestInfo,
}

impl Call<'_> {
    async fn answer(&self, body: Body, fault: WatchFault) -> Result<Response, Status> {
        let request = self.request;
        if !self.is_allowed() {
            return Err(Status::method_not_allowed());
        }
        let form = Form::negotiate(&request.accept, request.verb == "list")?;
        match request.verb.as_str() {
            "list" => self.list(form),
            "watch" => watch::respond(self.server, self.kind, request, form, fault),
            "get" => self.get(form),
            _ => {
                let body = to_bytes(body, BODY_LIMIT).await.map_err(|_| Status::too_large())?;
                match request.verb.as_str() {
                    "create" => self.create(form, &body).await,
                    "update" => self.update(form, &body),
                    "patch" => self.patch(form, &body),
                    "delete" => self.delete(form, &body),
                    "deletecollection" => self.delete_collection(form, &body),
                    _ => Err(Status::method_not_allowed()),
                }
            }
        }
    }

    /// Whether the verb exists at all for this path.
    fn is_allowed(&self) -> bool {
        let (request, verb) = (self.request, self.request.verb.as_str());
        if !request.subresource.is_empty() {
            return matches!(verb, "get" | "update" | "patch");
        }
        let fits = match verb {
            "create" => request.name.is_empty() && self.in_its_place(),
            "deletecollection" => self.in_its_place(),
            "update" | "patch" => !request.name.is_empty(),
            _ => true,
        };
        fits && self.kind.verbs.iter().any(|served| served == verb)
    }

    /// Namespaced kinds are created inside of a namespace, others outside.
    fn in_its_place(&self) -> bool {
        self.kind.namespaced != self.request.namespace.is_empty()
    }

    fn key(&self) -> Key {
        Key::new(&self.request.namespace, &self.request.name)
    }

    fn part(&self) -> Part {
        if self.request.subresource == "status" {
            Part::Status
        } else {
            Part::Main
        }
    }

    fn rendered(&self, code: u16, form: Form, object: &Value) -> Response {
        let api_version = api_version(&self.kind.group, &self.request.version);
        json_response(
            code,
            &Rendered {
                object,
                api_version: &api_version,
                form,
            },
        )
    }

    fn list(&self, form: Form) -> Result<Response, Status> {
        let options = ListOptions::parse(self.request)?;
        let list = list::read(&self.server.store(), self.kind, &options)?;
        Ok(list::respond(self.kind, &self.request.version, form, &list))
    }

    fn get(&self, form: Form) -> Result<Response, Status> {
        let resource = self.kind.resource();
        let found = self.server.store().get(&resource, &self.key()).cloned();
        let object = found.ok_or_else(|| Status::not_found(&resource, &self.request.name))?;
        Ok(self.rendered(200, form, &object))
    }

    async fn create(&self, form: Form, body: &[u8]) -> Result<Response, Status> {
        let object = self.body_object(body)?;
        self.check_namespace(&object)?;
        let dry_run = self.dry_run()?;
        if self.kind.namespaced {
            self.check_namespace_exists()?;
            if let Some(admitter) = self.server.current_admitter() {
                let review = Review {
                    request: self.request.clone(),
                    object: object.clone(),
                    dry_run,
                };
                match admitter.before_store(self.server.clone(), review).await {
                    Decision::Allow => {}
                    Decision::DelayStore(duration) => pause(duration).await,
                    Decision::Deny(status) => return Err(status),
                }
            }
        }
        let mut store = self.server.store();
        let created = store.create(self.kind, &self.request.namespace, object, Origin::Wire, dry_run)?;
        drop(store);
        Ok(self.rendered(201, form, &created))
    }

    fn check_namespace_exists(&self) -> Result<(), Status> {
        let namespaces = GroupResource::new("", "namespaces");
        let exists = self
            .server
            .store()
            .get(&namespaces, &Key::new("", &self.request.namespace))
            .is_some();
        if exists {
            Ok(())
        } else {
            Err(Status::not_found(&namespaces, &self.request.namespace))
        }
    }

    fn update(&self, form: Form, body: &[u8]) -> Result<Response, Status> {
        let object = self.body_object(body)?;
        self.check_name(&object)?;
        if self.kind.custom && meta(&object, "resourceVersion").is_empty() {
            let why = "Invalid value: 0: must be specified for an update".to_owned();
            let causes = [("metadata.resourceVersion".to_owned(), why)];
            return Err(Status::invalid(&self.kind.qualified(), &self.request.name, &causes));
        }
        let dry_run = self.dry_run()?;
        let mut store = self.server.store();
        let updated = store.update(self.kind, &self.key(), self.part(), |_| Ok(object), dry_run)?;
        drop(store);
        Ok(self.rendered(200, form, &updated))
    }

    fn patch(&self, form: Form, body: &[u8]) -> Result<Response, Status> {
        let patch = Patch::parse(&self.request.content_type, body)?;
        let dry_run = self.dry_run()?;
        let change = |current: &Value| {
            let patched = patch.apply(current)?;
            self.check_name(&patched)?;
            Ok(patched)
        };
        let patched = self
            .server
            .store()
            .update(self.kind, &self.key(), self.part(), change, dry_run);
        // What a PUT answers with 400, since it can't be decoded, is an invalid patch here.
        let patched = patched.map_err(|status| match status.code {
            400 => Status::invalid(
                "",
                "",
                &[("patch".to_owned(), format!("Invalid value: {}", status.message))],
            ),
            _ => status,
        })?;
        Ok(self.rendered(200, form, &patched))
    }

    fn delete(&self, form: Form, body: &[u8]) -> Result<Response, Status> {
        let options = self.delete_options(body)?;
        let deleted = self.server.store().delete(self.kind, &self.key(), &options)?;
        let (object, gone) = match deleted {
            Deleted::Removed(object) => (object, true),
            Deleted::Marked(object) => (object, false),
        };
        if !gone || self.kind.returns_deleted || has_finalizers(&object) {
            return Ok(self.rendered(200, form, &object));
        }
        let mut details =
            json!({ "name": self.request.name, "kind": self.kind.plural, "uid": object["metadata"]["uid"] });
        if !self.kind.group.is_empty() {
            details["group"] = self.kind.group.as_str().into();
        }
        let success =
            json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details });
        Ok(json_response(200, &success))
    }

    fn delete_collection(&self, form: Form, body: &[u8]) -> Result<Response, Status> {
        let delete = self.delete_options(body)?;
        let options = ListOptions::parse(self.request)?;
        let mut store = self.server.store();
        let list = list::read(&store, self.kind, &options)?;
        for item in &list.items {
            match store.delete(
                self.kind,
                &Key::new(&self.request.namespace, meta(item, "name")),
                &delete,
            ) {
                // A page of the past may name objects that are gone.
                Ok(_) | Err(Status { code: 404, .. }) => {}
                Err(status) => return Err(status),
            }
        }
        drop(store);
        Ok(list::respond(self.kind, &self.request.version, form, &list))
    }

    /// The object in the body of a create or update, of the type that the path says.
    fn body_object(&self, body: &[u8]) -> Result<Value, Status> {
        check_content_type(&self.request.content_type)?;
        let object: Value = serde_json::from_slice(body)
            .map_err(|error| Status::bad_request(format!("the object provided is unrecognized: {error}")))?;
        if !object.is_object() {
            return Err(Status::bad_request(
                "the object provided is unrecognized: it is no object",
            ));
        }
        let expected = api_version(&self.kind.group, &self.request.version);
        for (field, expected) in [("apiVersion", expected.as_str()), ("kind", self.kind.kind.as_str())] {
            match object[field].as_str().unwrap_or_default() {
                "" if self.kind.custom => return Err(Status::bad_request(format!("Object '{field}' is missing"))),
                "" => {}
                actual if actual == expected => {}
                actual => {
                    return Err(Status::bad_request(format!(
                        "the {field} in the data ({actual}) does not match the expected one ({expected})"
                    )));
                }
            }
        }
        Ok(object)
    }

    fn check_namespace(&self, object: &Value) -> Result<(), Status> {
        let namespace = meta(object, "namespace");
        if namespace.is_empty() || namespace == self.request.namespace {
            return Ok(());
        }
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        Err(Status::bad_request(why))
    }

    fn check_name(&self, object: &Value) -> Result<(), Status> {
        self.check_namespace(object)?;
        let (name, wanted) = (meta(object, "name"), &self.request.name);
        if name == wanted {
            return Ok(());
        }
        let why = format!("the name of the object ({name}) does not match the name on the URL ({wanted})");
        Err(Status::bad_request(why))
    }

    fn dry_run(&self) -> Result<bool, Status> {
        match self.request.parameter("dryRun").as_deref() {
            None | Some("") => Ok(false),
            Some("All") => Ok(true),
            Some(other) => Err(Status::bad_request(format!(
                "invalid dryRun {other:?}: supported values: \"All\""
            ))),
        }
    }

    fn delete_options(&self, body: &[u8]) -> Result<DeleteOptions, Status> {
        let sent: Value = if body.is_empty() {
            Value::Null
        } else {
            check_content_type(&self.request.content_type)?;
            serde_json::from_slice(body)
                .map_err(|error| Status::bad_request(format!("the DeleteOptions can't be read: {error}")))?
        };
        let precondition = |name: &str| sent["preconditions"][name].as_str().map(str::to_owned);
        Ok(DeleteOptions {
            grace: sent["gracePeriodSeconds"]
                .as_i64()
                .or(number(self.request, "gracePeriodSeconds")?),
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            dry_run: self.dry_run()? || sent["dryRun"].as_array().is_some_and(|dry_run| !dry_run.is_empty()),
        })
    }
}

/// Bodies are JSON, also where no type is given.
fn check_content_type(content_type: &str) -> Result<(), Status> {
    match content_type.split(';').next().unwrap_or_default().trim() {
        "" | JSON => Ok(()),
        _ => Err(Status::unsupported_media_type(JSON)),
    }
}
