//! From a request to its answer: log, faults, then what the API server does.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures::stream;
use http::header::{CACHE_CONTROL, DATE, HeaderValue, WARNING};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::TestServer;
use crate::admitter::{Admitter, Decision, Review};
use crate::apply::{self, Manager};
use crate::clock::rfc3339;
use crate::discovery;
use crate::kinds::{GroupHealth, GroupResource, Kind, Kinds, api_version, split_api_version};
use crate::list::{self, ListOptions, number};
use crate::object::{has_finalizers, is_deleting, meta, set_meta, set_top};
use crate::openapi;
use crate::patch::{self, Patch};
use crate::protobuf::{self, Unreadable};
use crate::render::{Form, MEDIA_TYPES, Rendered};
use crate::request::RequestInfo;
use crate::schema::Type;
use crate::status::{Status, json_response, page_not_found};
use crate::store::{DeleteOptions, Deleted, Key, Origin, Part};
use crate::subresource;
use crate::table::Printer;
use crate::unknown::{self, Unknown};
use crate::watch::{self, WatchFault};
use crate::webhook::{self, Attributes};

const BODY_LIMIT: usize = 3 * 1024 * 1024;
const JSON: &str = "application/json";
/// How upstream says that an object is of another type than its path, or can't be read.
const UNDECODABLE: &str = "cannot be handled as a";

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
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-cache, private"));
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
        if request.path.starts_with("/openapi/") {
            return openapi::respond(&server.store(), &request.path);
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
            return no_route(&store.kinds, &request.group);
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
        return no_route(&server.store().kinds, &request.group);
    }
    let call = Call {
        server,
        kind: &kind,
        request,
        now: rfc3339(server.now()),
        warnings: Mutex::default(),
        webhook_warnings: Mutex::default(),
    };
    let mut response = call
        .answer(body, fault)
        .await
        .unwrap_or_else(IntoResponse::into_response);
    let warnings = call.warnings.into_inner().into_iter();
    for warning in warnings.chain(call.webhook_warnings.into_inner()) {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}

/// A path of a built-in group is known to be wrong; any other might have been anything.
fn no_route(kinds: &Kinds, group: &str) -> Response {
    if kinds.is_built_in(group) {
        Status::no_such_resource().into_response()
    } else {
        page_not_found()
    }
}

/// A request for a kind that is served.
struct Call<'a> {
    server: &'a TestServer,
    kind: &'a Kind,
    request: &'a RequestInfo,
    /// When it came. Changes are worked out while the store is locked, so that they can't ask for the time.
    now: String,
    /// What the client is told beside the answer.
    warnings: Mutex<Vec<String>>,
    /// What webhooks add to that.
    webhook_warnings: Mutex<Vec<String>>,
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
                    "update" => self.update(form, &body).await,
                    "patch" => self.patch(form, &body).await,
                    "delete" => self.delete(form, &body).await,
                    "deletecollection" => self.delete_collection(form, &body).await,
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
        match self.request.subresource.as_str() {
            "status" => Part::Status,
            "resize" => Part::Resources,
            _ => Part::Main,
        }
    }

    fn rendered(&self, code: u16, form: Form, object: &Value) -> Response {
        if self.request.subresource == "scale" {
            return json_response(code, &self.shown(object, self.definition().as_deref()));
        }
        if form == Form::Table {
            let metadata = json!({ "resourceVersion": object["metadata"]["resourceVersion"] });
            return match self.table(std::iter::once(object), &metadata) {
                Ok(table) => json_response(code, &table),
                Err(status) => status.into_response(),
            };
        }
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

    fn table<'a>(&self, objects: impl Iterator<Item = &'a Value>, metadata: &Value) -> Result<Value, Status> {
        let store = self.server.store();
        let printer = Printer::new(&store, self.kind, self.request)?;
        Ok(printer.table(objects, metadata, store.clock.now(), true))
    }

    /// The CustomResourceDefinition behind the kind, if there is one.
    fn definition(&self) -> Option<Arc<Value>> {
        self.server.store().definition(self.kind).cloned()
    }

    /// What is known of the kind's fields.
    fn field_type<'d>(&self, definition: Option<&'d Value>) -> Type<'d> {
        if !self.kind.custom {
            return Type::built_in(&self.kind.group, &self.request.version, &self.kind.kind);
        }
        let schema = definition.and_then(|definition| openapi::schema_of(definition, &self.request.version));
        Type::custom(schema.unwrap_or(&Value::Null))
    }

    /// What the addressed part of an object looks like.
    fn shown(&self, object: &Value, definition: Option<&Value>) -> Value {
        match self.request.subresource.as_str() {
            "scale" => subresource::scale(object, self.kind, definition, &self.request.version),
            _ => object.clone(),
        }
    }

    /// The object after the addressed part of it was set to `wanted`, and who owns what it changed.
    fn with_part(&self, current: &Value, wanted: Value, definition: Option<&Value>) -> Value {
        let mut wanted = match self.request.subresource.as_str() {
            "scale" => subresource::scaled(current, &wanted, self.kind, definition, &self.request.version),
            "resize" => subresource::resized(current, &wanted),
            _ => wanted,
        };
        self.manage(|manager| apply::track(current, &mut wanted, self.field_type(definition), manager));
        wanted
    }

    /// Calls with who writes and when; the name is the one given or the client's own.
    fn manage<T>(&self, write: impl FnOnce(Manager<'_>) -> T) -> T {
        let given = self.request.parameter("fieldManager").filter(|name| !name.is_empty());
        let client = self.request.user_agent.split('/').next().unwrap_or_default();
        write(Manager {
            name: given.as_deref().unwrap_or(client),
            api_version: &api_version(&self.kind.group, &self.request.version),
            subresource: &self.request.subresource,
            time: &self.now,
        })
    }

    /// Drops the fields that the kind doesn't have, and does about them what the request wants.
    fn check_fields(&self, object: &mut Value, definition: Option<&Value>) -> Result<(), Status> {
        let policy = Unknown::parse(self.request.parameter("fieldValidation").as_deref())?;
        if self.request.subresource == "scale" {
            return Ok(());
        }
        let found = unknown::prune(object, self.field_type(definition));
        match policy {
            Unknown::Refuse if !found.is_empty() => {
                let (kind, version) = (&self.kind.kind, &self.request.version);
                let what = found.join(", ");
                Err(Status::bad_request(format!(
                    "{kind} in version {version:?} {UNDECODABLE} {kind}: strict decoding error: {what}"
                )))
            }
            Unknown::Warn => {
                *self.warnings.lock() = found;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn list(&self, form: Form) -> Result<Response, Status> {
        let options = ListOptions::parse(self.request)?;
        let list = list::read(&self.server.store(), self.kind, &options)?;
        if form == Form::Table {
            let table = self.table(list.items.iter().map(AsRef::as_ref), &list.metadata())?;
            return Ok(json_response(200, &table));
        }
        Ok(list::respond(self.kind, &self.request.version, form, &list))
    }

    fn get(&self, form: Form) -> Result<Response, Status> {
        let resource = self.kind.resource();
        let found = self.server.store().get(&resource, &self.key()).cloned();
        let object = found.ok_or_else(|| Status::not_found(&resource, &self.request.name))?;
        Ok(self.rendered(200, form, &object))
    }

    async fn create(&self, form: Form, body: &[u8]) -> Result<Response, Status> {
        let mut object = self.body_object(body)?;
        self.check_fields(&mut object, self.definition().as_deref())?;
        set_meta(&mut object, "managedFields", Value::Null);
        self.create_object(form, object).await
    }

    async fn create_object(&self, form: Form, mut object: Value) -> Result<Response, Status> {
        self.check_namespace(&object)?;
        let dry_run = self.dry_run()?;
        if self.kind.namespaced {
            self.check_namespace_takes(&object)?;
        }
        self.admit_create(&mut object, dry_run).await?;
        let mut store = self.server.store();
        let created = store.create(self.kind, &self.request.namespace, object, Origin::Wire, dry_run)?;
        drop(store);
        Ok(self.rendered(201, form, &created))
    }

    /// Who is to be asked about this request.
    fn admitter(&self) -> Option<Arc<dyn Admitter>> {
        let admitter = self.server.current_admitter();
        admitter.filter(|admitter| self.kind.namespaced && admitter.handles(self.request))
    }

    /// Waits for a create to be admitted. The object is validated and given its name before; that the name is taken shows afterwards.
    async fn admit_create(&self, object: &mut Value, dry_run: bool) -> Result<(), Status> {
        if !self.is_admitted() {
            return Ok(());
        }
        let namespace = &self.request.namespace;
        let tried = self
            .server
            .store()
            .create(self.kind, namespace, object.clone(), Origin::Wire, true);
        let new = match tried {
            Ok(new) => Arc::unwrap_or_clone(new),
            Err(Status { code: 409, .. }) => object.clone(),
            Err(status) => return Err(status),
        };
        set_meta(object, "name", meta(&new, "name").into());
        self.admit(new, None, dry_run).await
    }

    /// Whether anybody may have to be asked about this request.
    fn is_admitted(&self) -> bool {
        self.admitter().is_some() || self.concerns_webhooks()
    }

    fn concerns_webhooks(&self) -> bool {
        webhook::concerns(&self.server.store(), &self.kind.resource())
    }

    /// Asks the webhooks.
    async fn ask_webhooks(
        &self,
        object: Option<&Value>,
        old: Option<&Value>,
        options: Value,
        dry_run: bool,
    ) -> Result<(), Status> {
        if !self.concerns_webhooks() {
            return Ok(());
        }
        let request = self.request;
        // A create has the name that was made for it; a deletion of a whole collection has none.
        let name = object
            .map_or(request.name.as_str(), |object| meta(object, "name"))
            .to_owned();
        let of_namespace = self.kind.group.is_empty() && self.kind.plural == "namespaces";
        let definition = self.definition();
        let (api_version, kind) = self.body_type();
        let (group, version) = split_api_version(&api_version);
        let others = self.kind.versions.iter().filter(|version| **version != request.version);
        let attributes = Attributes {
            operation: match (object, old) {
                (Some(_), None) => "CREATE",
                (Some(_), Some(_)) => "UPDATE",
                (None, _) => "DELETE",
            },
            resource: self.kind.resource(),
            version: request.version.clone(),
            other_versions: others.cloned().collect(),
            subresource: request.subresource.clone(),
            kind: (group.to_owned(), version.to_owned(), kind.to_owned()),
            namespace: if of_namespace {
                name.clone()
            } else {
                request.namespace.clone()
            },
            name,
            object: object.map(|object| self.shown(object, definition.as_deref())),
            old: old.map(|old| self.shown(old, definition.as_deref())),
            options,
            dry_run,
        };
        webhook::validate(self.server, &attributes, &self.webhook_warnings).await
    }

    /// The options of a create or update, as webhooks are shown them.
    fn write_options(&self, kind: &str, dry_run: bool) -> Value {
        let mut options = json!({ "kind": kind, "apiVersion": "meta.k8s.io/v1" });
        if dry_run {
            options["dryRun"] = json!(["All"]);
        }
        for name in ["fieldManager", "fieldValidation"] {
            if let Some(value) = self.request.parameter(name).filter(|value| !value.is_empty()) {
                options[name] = value.into();
            }
        }
        options
    }

    /// Asks the webhooks about the deletion of an object that could be deleted.
    async fn admit_delete(&self, key: &Key, options: &DeleteOptions) -> Result<(), Status> {
        if !self.concerns_webhooks() {
            return Ok(());
        }
        let old = {
            let mut store = self.server.store();
            let tried = DeleteOptions {
                dry_run: true,
                ..options.clone()
            };
            store.delete(self.kind, key, &tried)?;
            store.get(&self.kind.resource(), key).cloned()
        };
        self.ask_webhooks(None, old.as_deref(), options.shown(), options.dry_run)
            .await
    }

    /// Asks the webhooks, then the admitter.
    async fn admit(&self, object: Value, old: Option<Value>, dry_run: bool) -> Result<(), Status> {
        let options = match old {
            None => self.write_options("CreateOptions", dry_run),
            Some(_) => self.write_options("UpdateOptions", dry_run),
        };
        self.ask_webhooks(Some(&object), old.as_ref(), options, dry_run).await?;
        let Some(admitter) = self.admitter() else {
            return Ok(());
        };
        let request = self.request.clone();
        let review = Review {
            request,
            object,
            old,
            dry_run,
        };
        match admitter.before_store(self.server.clone(), review).await {
            Decision::Allow => Ok(()),
            Decision::DelayStore(duration) => {
                pause(duration).await;
                Ok(())
            }
            Decision::Deny(status) => Err(status),
        }
    }

    /// Changes the object once that is admitted; what was admitted for an object that has changed meanwhile is worked out anew.
    async fn change(
        &self,
        change: impl Fn(&Value) -> Result<Value, Status>,
        dry_run: bool,
    ) -> Result<Arc<Value>, Status> {
        let (resource, key, part) = (self.kind.resource(), self.key(), self.part());
        loop {
            if !self.is_admitted() {
                return self.server.store().update(self.kind, &key, part, &change, dry_run);
            }
            let (old, new) = {
                let mut store = self.server.store();
                let old = store.get(&resource, &key).cloned();
                (old, store.update(self.kind, &key, part, &change, true)?)
            };
            let reviewed = old.as_deref().cloned();
            self.admit(Arc::unwrap_or_clone(new), reviewed, dry_run).await?;
            let mut store = self.server.store();
            if store.get(&resource, &key).map(Arc::as_ptr) == old.as_ref().map(Arc::as_ptr) {
                return store.update(self.kind, &key, part, &change, dry_run);
            }
        }
    }

    /// Objects are created where there is a namespace that isn't being deleted.
    fn check_namespace_takes(&self, object: &Value) -> Result<(), Status> {
        let (namespaces, name) = (GroupResource::new("", "namespaces"), &self.request.namespace);
        let store = self.server.store();
        let namespace = store
            .get(&namespaces, &Key::new("", name))
            .ok_or_else(|| Status::not_found(&namespaces, name))?;
        if !is_deleting(namespace) {
            return Ok(());
        }
        let why = format!("unable to create new content in namespace {name} because it is being terminated");
        let mut status = Status::denied(&self.kind.resource(), meta(object, "name"), why);
        status.details["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {name} is being terminated"),
            "field": "metadata.namespace",
        }]);
        Err(status)
    }

    async fn update(&self, form: Form, body: &[u8]) -> Result<Response, Status> {
        let definition = self.definition();
        let mut object = self.body_object(body)?;
        self.check_fields(&mut object, definition.as_deref())?;
        self.check_name(&object)?;
        if self.kind.custom && self.request.subresource != "scale" && meta(&object, "resourceVersion").is_empty() {
            let why = "Invalid value: 0: must be specified for an update".to_owned();
            let causes = [("metadata.resourceVersion".to_owned(), why)];
            // Upstream names the resource here, not the kind.
            return Err(Status::invalid(
                &self.kind.resource().to_string(),
                &self.request.name,
                &causes,
            ));
        }
        let dry_run = self.dry_run()?;
        let change = |current: &Value| Ok(self.with_part(current, object.clone(), definition.as_deref()));
        let updated = self.change(change, dry_run).await?;
        Ok(self.rendered(200, form, &updated))
    }

    async fn patch(&self, form: Form, body: &[u8]) -> Result<Response, Status> {
        if patch::is_apply(&self.request.content_type) {
            return self.apply(form, body).await;
        }
        let patch = Patch::parse(&self.request.content_type, body, self.kind.custom)?;
        let definition = self.definition();
        let definition = definition.as_deref();
        let dry_run = self.dry_run()?;
        let change = |current: &Value| {
            let mut patched = patch.apply(&self.shown(current, definition), self.field_type(definition))?;
            self.check_fields(&mut patched, definition)?;
            self.check_name(&patched)?;
            self.check_patched(current, &patched)?;
            Ok(self.with_part(current, patched, definition))
        };
        let patched = self.change(change, dry_run).await;
        // What a PUT answers with 400, since it can't be decoded, is an invalid patch here.
        let patched = patched.map_err(|status| match status.code {
            400 if status.message.contains(UNDECODABLE) => {
                let why = format!("Invalid value: {{patched object}}: {}", status.message);
                Status::invalid("", "", &[("patch".to_owned(), why)])
            }
            _ => status,
        })?;
        Ok(self.rendered(200, form, &patched))
    }

    /// A patch changes neither the type of an object nor which object it is.
    fn check_patched(&self, current: &Value, patched: &Value) -> Result<(), Status> {
        let of_scale = self.request.subresource == "scale";
        if !of_scale && patched["kind"] != current["kind"] {
            let (kind, sent) = (&self.kind.kind, patched["kind"].as_str().unwrap_or_default());
            return Err(Status::bad_request(format!(
                "{sent} {UNDECODABLE} {kind}: it is of another type"
            )));
        }
        let uid = meta(patched, "uid");
        if !uid.is_empty() && uid != meta(current, "uid") {
            let causes = [(
                "metadata.uid".to_owned(),
                format!("Invalid value: {uid:?}: field is immutable"),
            )];
            return Err(Status::invalid(&self.kind.qualified(), &self.request.name, &causes));
        }
        Ok(())
    }

    /// Server-side apply.
    async fn apply(&self, form: Form, body: &[u8]) -> Result<Response, Status> {
        if self
            .request
            .parameter("fieldManager")
            .is_none_or(|name| name.is_empty())
        {
            let why = "Required value: is required for apply patch".to_owned();
            return Err(Status::invalid(
                "PatchOptions.meta.k8s.io",
                "",
                &[("fieldManager".to_owned(), why)],
            ));
        }
        let mut configuration = self.read_object(body)?;
        if !configuration["metadata"]["managedFields"].is_null() {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        let definition = self.definition();
        let definition = definition.as_deref();
        self.check_fields(&mut configuration, definition)?;
        self.check_name(&configuration)?;
        let of_status = self.request.subresource == "status";
        if of_status {
            for field in ["spec", "data"] {
                set_top(&mut configuration, field, None);
            }
        } else if self.kind.has_subresource("status") {
            set_top(&mut configuration, "status", None);
        }
        let force = matches!(self.request.parameter("force").as_deref(), Some("true" | "1"));
        let applied = |current: Option<&Value>| {
            self.manage(|manager| apply::apply(current, &configuration, self.field_type(definition), manager, force))
        };
        let exists = self.server.store().get(&self.kind.resource(), &self.key()).is_some();
        if !exists && self.request.subresource.is_empty() {
            return self.create_object(form, applied(None)?).await;
        }
        let dry_run = self.dry_run()?;
        let changed = self.change(|current| applied(Some(current)), dry_run).await?;
        Ok(self.rendered(200, form, &changed))
    }

    async fn delete(&self, form: Form, body: &[u8]) -> Result<Response, Status> {
        let options = self.delete_options(body)?;
        self.admit_delete(&self.key(), &options).await?;
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

    async fn delete_collection(&self, form: Form, body: &[u8]) -> Result<Response, Status> {
        let delete = self.delete_options(body)?;
        let options = ListOptions::parse(self.request)?;
        let list = list::read(&self.server.store(), self.kind, &options)?;
        for item in &list.items {
            let key = Key::new(&self.request.namespace, meta(item, "name"));
            let deleted = match self.admit_delete(&key, &delete).await {
                Ok(()) => self.server.store().delete(self.kind, &key, &delete).map(drop),
                Err(status) => Err(status),
            };
            match deleted {
                // A page of the past may name objects that are gone.
                Ok(()) | Err(Status { code: 404, .. }) => {}
                Err(status) => return Err(status),
            }
        }
        Ok(list::respond(self.kind, &self.request.version, form, &list))
    }

    /// The object in the body of a create or update, of the type that the path says. Custom kinds have no protobuf.
    fn body_object(&self, body: &[u8]) -> Result<Value, Status> {
        if self.kind.custom && protobuf::is_media_type(&self.request.content_type) {
            return Err(Status::unsupported_media_type(MEDIA_TYPES));
        }
        check_content_type(&self.request.content_type)?;
        self.read_object(body)
    }

    /// `apiVersion` and kind of what a body has to hold.
    fn body_type(&self) -> (String, &str) {
        match self.request.subresource.as_str() {
            "scale" => ("autoscaling/v1".to_owned(), "Scale"),
            _ => (api_version(&self.kind.group, &self.request.version), &self.kind.kind),
        }
    }

    fn decode(&self, body: &[u8]) -> Result<Value, Status> {
        if !protobuf::is_media_type(&self.request.content_type) {
            return serde_json::from_slice(body)
                .map_err(|error| self.unrecognized(format!("couldn't get version/kind; json parse error: {error}")));
        }
        let (version, kind) = self.body_type();
        protobuf::read(body, (&version, kind)).map_err(|unreadable| match unreadable {
            Unreadable::Envelope(why) => self.unrecognized(format!("{why} ({})", protobuf::summary(body))),
            Unreadable::Object {
                api_version,
                kind: sent,
                why,
            } => {
                let (_, version) = split_api_version(&api_version);
                Status::bad_request(format!("{sent} in version {version:?} {UNDECODABLE} {kind}: {why}"))
            }
        })
    }

    fn read_object(&self, body: &[u8]) -> Result<Value, Status> {
        let object = self.decode(body)?;
        if !object.is_object() {
            return Err(self.unrecognized("couldn't get version/kind; json parse error: it is no object"));
        }
        let (version, kind) = self.body_type();
        let version = version.as_str();
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let (sent_version, sent_kind) = (text("apiVersion"), text("kind"));
        if self.kind.custom && sent_kind.is_empty() {
            return Err(self.unrecognized(format!(
                "Object 'Kind' is missing in '{}'",
                String::from_utf8_lossy(body)
            )));
        }
        let another = |sent: &str, expected: &str| sent != expected && (self.kind.custom || !sent.is_empty());
        if self.kind.custom && another(sent_version, version) {
            return Err(Status::bad_request(format!(
                "the API version in the data ({sent_version}) does not match the expected API version ({version})"
            )));
        }
        if self.kind.custom && another(sent_kind, kind) {
            let subject = format!("{sent_kind}.{}", self.kind.group);
            let causes = [(
                "kind".to_owned(),
                format!("Invalid value: {sent_kind:?}: must be {kind}"),
            )];
            return Err(Status::invalid(&subject, meta(&object, "name"), &causes));
        }
        if another(sent_version, version) || another(sent_kind, kind) {
            let sent = if sent_kind.is_empty() { kind } else { sent_kind };
            let shown = if sent_version.is_empty() { version } else { sent_version };
            return Err(Status::bad_request(format!(
                "{sent} in version {shown:?} {UNDECODABLE} {kind}: it is of another type"
            )));
        }
        Ok(object)
    }

    fn unrecognized(&self, why: impl std::fmt::Display) -> Status {
        let kind = &self.kind.kind;
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why}"
        ))
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
        if name.is_empty() {
            return Err(Status::bad_request(format!(
                "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
            )));
        }
        let why = format!("the name of the object ({name}) does not match the name on the URL ({wanted})");
        Err(Status::bad_request(why))
    }

    fn dry_run(&self) -> Result<bool, Status> {
        match self.request.parameter("dryRun").as_deref() {
            None | Some("") => Ok(false),
            Some("All") => Ok(true),
            Some(other) => {
                let options = match self.request.verb.as_str() {
                    "create" => "CreateOptions",
                    "update" => "UpdateOptions",
                    "patch" => "PatchOptions",
                    _ => "DeleteOptions",
                };
                let why = format!("Unsupported value: [{other:?}]: supported values: \"All\"");
                let causes = [("dryRun".to_owned(), why)];
                Err(Status::invalid(&format!("{options}.meta.k8s.io"), "", &causes))
            }
        }
    }

    fn delete_options(&self, body: &[u8]) -> Result<DeleteOptions, Status> {
        let sent: Value = if body.is_empty() {
            Value::Null
        } else {
            check_content_type(&self.request.content_type)?;
            read_delete_options(&self.request.content_type, body).map_err(Status::bad_request)?
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

fn read_delete_options(content_type: &str, body: &[u8]) -> Result<Value, String> {
    if !protobuf::is_media_type(content_type) {
        return serde_json::from_slice(body)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"));
    }
    protobuf::read(body, ("meta.k8s.io/v1", "DeleteOptions")).map_err(|unreadable| match unreadable {
        Unreadable::Envelope(why) | Unreadable::Object { why, .. } => why,
    })
}

/// Bodies are JSON, also where no type is given, or protobuf.
fn check_content_type(content_type: &str) -> Result<(), Status> {
    match content_type.split(';').next().unwrap_or_default().trim() {
        "" | JSON => Ok(()),
        _ if protobuf::is_media_type(content_type) => Ok(()),
        _ => Err(Status::unsupported_media_type(MEDIA_TYPES)),
    }
}
