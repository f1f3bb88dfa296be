use axum::extract::Request;
use axum::routing::post;
use http::StatusCode;

use super::*;
use crate::status::json_response;

const PLACE: &str = "https://hook.example";

/// A configuration of one webhook, with these fields beside the usual ones.
fn configuration(fields: &Value) -> Value {
    let mut webhook = json!({
        "name": "hook.example.com", "clientConfig": {"url": "https://hook.example/ask"}, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}],
    });
    for (name, value) in fields.as_object().unwrap() {
        webhook[name] = value.clone();
    }
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hooks"}, "webhooks": [webhook],
    })
}

/// A server whose webhook gives this answer, and the reviews it was asked.
fn server(answer: Value) -> (TestServer, std::sync::Arc<Mutex<Vec<Value>>>) {
    let server = TestServer::new();
    let asked = std::sync::Arc::new(Mutex::new(Vec::new()));
    let log = std::sync::Arc::clone(&asked);
    let handler = move |body: bytes::Bytes| {
        let (log, mut response) = (log.clone(), answer.clone());
        let review: Value = serde_json::from_slice(&body).unwrap();
        async move {
            response["uid"] = review["request"]["uid"].clone();
            log.lock().push(review);
            json_response(
                200,
                &json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}),
            )
        }
    };
    server.serve_webhook(PLACE, Router::new().route("/ask", post(handler)));
    (server, asked)
}

fn body(value: &Value) -> axum::body::Body {
    axum::body::Body::from(value.to_string())
}

async fn send(server: &TestServer, method: &str, path: &str, value: &Value) -> (u16, Value, Vec<String>) {
    let request = Request::builder().method(method).uri(path);
    let request = request.header(
        "Content-Type",
        match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        },
    );
    let answer = tower::ServiceExt::oneshot(server.router(), request.body(body(value)).unwrap())
        .await
        .unwrap();
    let code = answer.status().as_u16();
    let warnings = answer.headers().get_all("Warning").iter();
    let warnings = warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect();
    let bytes = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    (code, serde_json::from_slice(&bytes).unwrap(), warnings)
}

async fn create(server: &TestServer, query: &str) -> (u16, Value, Vec<String>) {
    let path = format!("/api/v1/namespaces/default/configmaps{query}");
    send(
        server,
        "POST",
        &path,
        &json!({"metadata": {"name": "c", "labels": {"app": "a"}}}),
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn which_webhooks_are_asked() {
    let rule = |fields: Value| {
        let mut rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]});
        for (name, value) in fields.as_object().unwrap() {
            rule[name] = value.clone();
        }
        json!({ "rules": [rule] })
    };
    let named = |name: &str| json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
    let app = |operator: &str| json!({"objectSelector": {"matchExpressions": [{"key": "app", "operator": operator, "values": ["a"]}]}});
    for (fields, asked) in [
        (json!({}), true),
        (rule(json!({})), true),
        (rule(json!({"resources": ["*/*"]})), true),
        (rule(json!({"resources": ["configmaps/*"]})), true),
        (rule(json!({"resources": ["configmaps/status", "pods"]})), false),
        (rule(json!({"apiGroups": ["apps"]})), false),
        (rule(json!({"apiVersions": ["v2"]})), false),
        (rule(json!({"operations": ["UPDATE", "DELETE"]})), false),
        (rule(json!({"operations": ["CREATE"]})), true),
        (rule(json!({"scope": "Namespaced"})), true),
        (rule(json!({"scope": "Cluster"})), false),
        (json!({"namespaceSelector": named("default")}), true),
        (json!({"namespaceSelector": named("other")}), false),
        (app("In"), true),
        (app("NotIn"), false),
        (app("Exists"), true),
        (app("DoesNotExist"), false),
    ] {
        let (server, log) = server(json!({"allowed": false}));
        server.create(configuration(&fields)).unwrap();
        let (code, _, _) = create(&server, "").await;
        assert_eq!(
            (code, log.lock().len()),
            if asked { (400, 1) } else { (201, 0) },
            "{fields}"
        );
    }
    let (server, _) = server(json!({"allowed": false}));
    server.create(configuration(&app("Unheard"))).unwrap();
    let (code, body, _) = create(&server, "").await;
    assert_eq!((code, body["reason"].as_str()), (500, Some("InternalError")));
}

#[tokio::test(start_paused = true)]
async fn what_the_client_is_told() {
    let denied = r#"admission webhook "hook.example.com" denied the request"#;
    for (answer, code, reason, message) in [
        (json!({"allowed": true}), 201, None, None),
        (
            json!({"allowed": false}),
            400,
            None,
            Some(format!("{denied} without explanation")),
        ),
        (
            json!({"allowed": false, "status": {"reason": "Why"}}),
            400,
            Some("Why"),
            Some(format!("{denied}: Why")),
        ),
        (
            json!({"allowed": false, "status": {"message": "no", "reason": "Forbidden", "code": 403}}),
            403,
            Some("Forbidden"),
            Some(format!("{denied}: no")),
        ),
        (
            json!({"allowed": false, "status": {"message": "no", "code": 200}}),
            400,
            None,
            Some(format!("{denied}: no")),
        ),
    ] {
        let (server, _) = server(answer.clone());
        server.create(configuration(&json!({}))).unwrap();
        let (told, body, _) = create(&server, "").await;
        assert_eq!((told, body["reason"].as_str()), (code, reason), "{answer}");
        assert_eq!(body["message"].as_str(), message.as_deref(), "{answer}");
    }
    let details = json!({"retryAfterSeconds": 2, "causes": [{"field": "spec"}]});
    let (server, _) = server(json!({
        "allowed": false, "warnings": ["w", "v", "w"], "status": {"code": 429, "details": details},
    }));
    server.create(configuration(&json!({}))).unwrap();
    let (code, body, warnings) = create(&server, "").await;
    assert_eq!((code, &body["details"]), (429, &details));
    assert_eq!(warnings, ["299 - \"w\"", "299 - \"v\""]);
    assert!(server.get("configmaps", "default", "c").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_fails_is_judged_by_its_policy() {
    let failed = |why: &str| format!("Internal error occurred: failed calling webhook \"hook.example.com\": {why}");
    let post = "failed to call webhook: Post \"https://hook.example/ask?timeout=10s\":";
    let services = json!({"clientConfig": {"service": {"namespace": "a", "name": "b"}}});
    for (fields, query, why) in [
        (
            json!({}),
            "",
            "failed to call webhook: an error on the server (\"boom\") has prevented the request from succeeding"
                .to_owned(),
        ),
        (
            json!({"clientConfig": {"url": "https://hook.example/slow"}}),
            "",
            post.replace("ask", "slow") + " context deadline exceeded",
        ),
        (
            json!({"clientConfig": {"url": "https://hook.example/other"}}),
            "",
            "received invalid webhook response: webhook response was absent".to_owned(),
        ),
        (
            services,
            "",
            "failed to call webhook: Post \"https://b.a.svc:443/?timeout=10s\": service \"b\" not found".to_owned(),
        ),
        (
            json!({"admissionReviewVersions": ["v1beta1"]}),
            "",
            "could not create admission objects: webhook does not accept known AdmissionReview versions (v1)"
                .to_owned(),
        ),
        (
            json!({"sideEffects": null}),
            "?dryRun=All",
            "Webhook SideEffects is nil".to_owned(),
        ),
    ] {
        for policy in ["Fail", "Ignore"] {
            let server = TestServer::new();
            let router = Router::new()
                .route(
                    "/ask",
                    axum::routing::post(|| async { (StatusCode::INTERNAL_SERVER_ERROR, "boom\n") }),
                )
                .route("/slow", axum::routing::post(std::future::pending::<()>))
                .route(
                    "/other",
                    axum::routing::post(|| async { json_response(200, &json!({})) }),
                );
            server.serve_webhook(PLACE, router);
            let mut configuration = configuration(&fields);
            configuration["webhooks"][0]["failurePolicy"] = policy.into();
            server.create(configuration).unwrap();
            let (code, body, _) = create(&server, query).await;
            if policy == "Ignore" {
                assert_eq!(code, 201, "{why}");
            } else {
                assert_eq!((code, body["message"].as_str()), (500, Some(failed(&why).as_str())));
                assert_eq!(
                    body["details"]["causes"][0]["message"],
                    failed(&why)["Internal error occurred: ".len()..]
                );
            }
        }
    }
    let server = TestServer::new();
    server
        .create(configuration(
            &json!({"sideEffects": "Some", "failurePolicy": "Ignore"}),
        ))
        .unwrap();
    let (code, body, _) = create(&server, "?dryRun=All").await;
    assert_eq!(
        (code, body["message"].as_str()),
        (
            400,
            Some("admission webhook \"hook.example.com\" does not support dry run")
        )
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_webhook_is_asked() {
    let (server, log) = server(json!({"allowed": true}));
    let everything =
        json!({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}]});
    server.create(configuration(&everything)).unwrap();
    let maps = "/api/v1/namespaces/default/configmaps";
    let last = || log.lock().last().unwrap()["request"].clone();
    let request = |request: &Value| {
        ["operation", "namespace", "name", "subResource"]
            .map(|field| request[field].as_str().unwrap_or_default().to_owned())
    };
    for (method, path, sent, expected) in [
        (
            "POST",
            maps,
            json!({"metadata": {"name": "c"}}),
            ["CREATE", "default", "c", ""],
        ),
        (
            "PATCH",
            "/api/v1/namespaces/default/configmaps/c",
            json!({"data": {"a": "b"}}),
            ["UPDATE", "default", "c", ""],
        ),
        (
            "DELETE",
            "/api/v1/namespaces/default/configmaps/c",
            json!({}),
            ["DELETE", "default", "c", ""],
        ),
        (
            "POST",
            "/api/v1/namespaces",
            json!({"metadata": {"name": "n"}}),
            ["CREATE", "n", "n", ""],
        ),
        (
            "POST",
            "/api/v1/nodes",
            json!({"metadata": {"name": "n"}}),
            ["CREATE", "", "n", ""],
        ),
        (
            "PATCH",
            "/api/v1/nodes/n/status",
            json!({"status": {}}),
            ["UPDATE", "", "n", "status"],
        ),
    ] {
        let (code, _, _) = send(&server, method, path, &sent).await;
        assert!((200..300).contains(&code), "{method} {path}: {code}");
        assert_eq!(request(&last()), expected, "{method} {path}");
        assert_eq!(last()["object"].is_null(), method == "DELETE");
        assert_eq!(last()["oldObject"].is_null(), method == "POST");
    }
    send(
        &server,
        "POST",
        &format!("{maps}?dryRun=All&fieldManager=me"),
        &json!({"metadata": {"generateName": "g-"}}),
    )
    .await;
    let dry = last();
    assert!(dry["name"].as_str().unwrap().starts_with("g-") && dry["object"]["metadata"]["name"] == dry["name"]);
    assert_eq!(
        (&dry["dryRun"], &dry["userInfo"]["username"]),
        (&json!(true), &json!("u"))
    );
    assert_eq!(
        dry["options"],
        json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"], "fieldManager": "me"})
    );
    assert_eq!(
        (&dry["object"]["kind"], &dry["object"]["apiVersion"]),
        (&json!("ConfigMap"), &json!("v1"))
    );
    assert_eq!(dry["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));

    let asked = log.lock().len();
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert_eq!(
        send(&server, "DELETE", &format!("{path}/hooks"), &json!({})).await.0,
        200
    );
    assert_eq!(log.lock().len(), asked, "webhooks are not asked about webhooks");
}

#[tokio::test(start_paused = true)]
async fn conditions_decide_who_is_asked() {
    let app = "object.metadata.labels.app == 'a'";
    let forbidden = "configmaps \"c\" is forbidden: expression 'object.data.a == 'b'' resulted in error: ";
    for (expressions, policy, code, asked) in [
        (&[app][..], "Fail", 400, 1),
        (&[app, "request.operation == 'UPDATE'"], "Fail", 201, 0),
        (
            &["request.name == 'c' && request.namespace == 'default'"],
            "Fail",
            400,
            1,
        ),
        // What can't be evaluated is judged by the policy, unless it does not matter.
        (&["object.data.a == 'b'"], "Fail", 403, 0),
        (&["object.data.a == 'b'"], "Ignore", 201, 0),
        (&["object.data.a == 'b'", "false"], "Fail", 201, 0),
        (&[app], "Ignore", 400, 1),
    ] {
        let (server, log) = server(json!({"allowed": false}));
        let conditions = expressions.iter().enumerate();
        let conditions: Vec<Value> = conditions
            .map(|(at, expression)| json!({"name": format!("n{at}"), "expression": expression}))
            .collect();
        let fields = json!({"matchConditions": conditions, "failurePolicy": policy});
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        assert_eq!(send(&server, "POST", path, &configuration(&fields)).await.0, 201);
        let (told, body, _) = create(&server, "").await;
        assert_eq!(
            (told, log.lock().len()),
            (code, asked),
            "{expressions:?} {policy}: {body}"
        );
        if code == 403 {
            assert!(body["message"].as_str().unwrap().starts_with(forbidden), "{body}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn conditions_that_are_not_stored() {
    let condition = |name: &str, expression: &str| json!({"name": name, "expression": expression});
    let many: Vec<Value> = (0..65).map(|at| condition(&format!("n{at}"), "true")).collect();
    for (conditions, told) in [
        (json!([]), None),
        (
            json!([condition("n", "true"), condition("m", "has(object.spec)")]),
            None,
        ),
        (
            json!(many),
            Some("webhooks[0].matchConditions: Too many: 65: must have at most 64 items"),
        ),
        (
            json!([condition("n", " ")]),
            Some("webhooks[0].matchConditions[0].expression: Required value"),
        ),
        (
            json!([condition("", "true")]),
            Some("webhooks[0].matchConditions[0].name: Required value"),
        ),
        (
            json!([condition("n", "true"), condition("n", "true")]),
            Some("webhooks[0].matchConditions[1].name: Duplicate value: \"n\""),
        ),
        (
            json!([condition("n", "object.")]),
            Some("webhooks[0].matchConditions[0].expression: Invalid value: \"object.\": compilation failed: "),
        ),
    ] {
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        let configuration = configuration(&json!({"matchConditions": conditions}));
        let (code, body, _) = send(&TestServer::new(), "POST", path, &configuration).await;
        match told {
            None => assert_eq!(code, 201, "{body}"),
            Some(told) => assert!(
                code == 422 && body["message"].as_str().unwrap().contains(told),
                "{told}: {body}"
            ),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn equivalent_versions_match_where_that_is_wanted() {
    let widget = crate::Kind::new("example.com", "v1", "Widget", "widgets").version("v1beta1");
    for (policy, asked_at) in [("Equivalent", Some("v1")), ("Exact", None)] {
        let (server, log) = server(json!({"allowed": true}));
        server.add_kind(widget.clone());
        let rules = json!([{"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["*"]}]);
        server
            .create(configuration(&json!({"matchPolicy": policy, "rules": rules})))
            .unwrap();
        let made = json!({"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": "w"}});
        let (code, _, _) = send(
            &server,
            "POST",
            "/apis/example.com/v1beta1/namespaces/default/widgets",
            &made,
        )
        .await;
        assert_eq!(code, 201);
        let asked = log.lock().first().map(|review| review["request"].clone());
        assert_eq!(
            asked
                .as_ref()
                .map(|request| request["kind"]["version"].as_str().unwrap()),
            asked_at
        );
        if let Some(request) = asked {
            assert_eq!(request["object"]["apiVersion"], "example.com/v1");
            assert_eq!(request["requestResource"]["version"], "v1beta1");
        }
    }
}
