use std::convert::Infallible;

use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::client::Body;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::*;

/// A server that answers by a function and writes down what it was asked.
fn serve(
    answer: impl Fn(&str, &str, &Value) -> (u16, Value) + Send + Sync + 'static,
) -> (Executor, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (log, answer) = (asked.clone(), Arc::new(answer));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (log, answer) = (log.clone(), answer.clone());
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map(|b| b.to_bytes()).unwrap_or_default();
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            if !parts.uri.path().ends_with("/events") {
                log.lock().push(format!("{} {}", parts.method, parts.uri));
            }
            let (code, value) = answer(parts.method.as_str(), parts.uri.path(), &body);
            let response =
                http::Response::builder().status(code).body(Body::from(value.to_string().into_bytes()));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    let client = Client::new(service, "default");
    let caches = Caches::new(client.clone(), CancellationToken::new());
    (Executor::new(client.clone(), caches, Recorder::start(client)), asked)
}

#[tokio::test]
async fn recorder_has_written_all_when_it_is_flushed() {
    let written = Arc::new(Mutex::new(Vec::new()));
    let seen = written.clone();
    let (executor, _) = serve(move |_, path, body| {
        if path.ends_with("/events") {
            seen.lock().push(body["reason"].clone());
        }
        (201, body.clone())
    });
    let pod = Pod::default();
    for reason in ["First", "Second", "Third"] {
        executor.recorder().record("test", EventRecord::normal(&pod, reason, "told"));
    }
    executor.recorder().flush().await;
    assert_eq!(*written.lock(), ["First", "Second", "Third"]);
}

fn failure(code: u16, reason: &str, cause: &str) -> Value {
    json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason,
        "details": {"causes": [{"reason": cause}]}})
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "ns", "uid": name}})).unwrap()
}

fn plan(actions: Vec<Action>) -> Plan {
    Plan { actions, ..Plan::default() }
}

#[tokio::test]
async fn every_kind_of_action_ends() {
    let (executor, asked) = serve(|method, _, body| match method {
        "GET" => (404, failure(404, "NotFound", "")),
        _ => (200, body.clone()),
    });
    let (a, b) = (map("a"), map("b"));
    let patch = |map: &ConfigMap| Action::patch(map, json!({"data": {"x": "y"}}));
    let actions = vec![
        Action::create(&a),
        Action::create(&b),
        patch(&a),
        patch(&b),
        patch(&a),
        Action::update(&a),
        Action::update_status(&a),
        Action::Post { target: Target::of(&a), subresource: "eviction", body: json!({}) },
        Action::RequireAbsent { target: Target::of(&a) },
        Action::RequireNone { kind: Kind::of::<ConfigMap>(), namespace: "ns".to_owned() },
        Action::DeleteCollection { kind: Kind::of::<ConfigMap>(), namespace: "ns".to_owned() },
        Action::delete(&a),
        Action::delete(&b),
    ];
    executor.run("test", plan(actions)).await.unwrap();
    let maps = "/api/v1/namespaces/ns/configmaps";
    assert_eq!(
        *asked.lock(),
        [
            format!("POST {maps}"),
            format!("POST {maps}"),
            format!("PATCH {maps}/a"),
            format!("PATCH {maps}/b"),
            format!("PATCH {maps}/a"),
            format!("PUT {maps}/a"),
            format!("PUT {maps}/a/status"),
            format!("POST {maps}/a/eviction"),
            format!("GET {maps}/a"),
            format!("GET {maps}?limit=1"),
            format!("DELETE {maps}"),
            format!("DELETE {maps}/a"),
            format!("DELETE {maps}/b"),
        ]
    );
}

#[tokio::test]
async fn a_refused_template_costs_one_request() {
    let (executor, asked) = serve(|_, _, _| (403, failure(403, "Forbidden", "")));
    let error = executor.run("test", plan(vec![Action::create(&map("a")); 500])).await.unwrap_err();
    assert_eq!(asked.lock().len(), 1);
    assert_eq!((error.cause().as_str(), error.is_expected()), ("Forbidden", false));
}

#[tokio::test]
async fn what_is_already_so_counts_as_done() {
    let check = async |code: u16, cause: &'static str, action: Action, done: bool| {
        let (executor, _) = serve(move |_, _, _| (code, failure(code, "x", cause)));
        let outcome = executor.run("test", plan(vec![action.clone()])).await;
        assert_eq!(outcome.is_ok(), done, "{code} {cause} for {action:?}");
    };
    let a = map("a");
    check(404, "", Action::delete(&a), true).await;
    check(404, "", Action::patch(&a, json!({})), true).await;
    check(404, "", Action::update_status(&a), true).await;
    check(409, "", Action::update_status(&a), false).await;
    check(409, "", Action::create(&a), false).await;
    check(403, "NamespaceTerminating", Action::create(&a), true).await;
    check(500, "", Action::delete(&a), false).await;
}

#[tokio::test]
async fn owners_are_only_missing_if_the_api_says_so() {
    let a = map("a");
    let required = |uid: &str| {
        let uid = Some(uid.to_owned());
        Action::RequireAbsent { target: Target { uid, ..Target::of(&a) } }
    };
    let (executor, _) = serve(|_, _, _| (200, json!({"metadata": {"name": "a", "uid": "a"}})));
    let error = executor.run("test", plan(vec![required("a")])).await.unwrap_err();
    assert!(error.is_expected());
    executor.run("test", plan(vec![required("other")])).await.unwrap();
}

#[tokio::test]
async fn answers_show_in_the_cache_at_once() {
    let (executor, _) = serve(|method, path, body| match (method, path) {
        ("GET", _) => (200, json!({"metadata": {"resourceVersion": "1"}, "items": []})),
        ("DELETE", _) => (200, json!({"kind": "Status", "status": "Success"})),
        _ => {
            let mut object = body.clone();
            object["metadata"]["resourceVersion"] = json!("7");
            (200, object)
        }
    });
    let cache = executor.caches.of::<ConfigMap>();
    cache.wait_synced().await;
    executor.run("test", plan(vec![Action::create(&map("a"))])).await.unwrap();
    assert_eq!(cache.len(), 1);
    executor.run("test", plan(vec![Action::delete(&map("a"))])).await.unwrap();
    assert_eq!(cache.len(), 0);
}

#[test]
fn preconditions_go_where_the_api_reads_them() {
    let key = Key::new("a", "b");
    let uid = Some("u".to_owned());
    let target = Target { kind: Kind::of::<Pod>(), key, uid, resource_version: None };
    let patch = guarded(&json!({"metadata": {"labels": {"x": null}}}), &target);
    assert_eq!(patch, json!({"metadata": {"labels": {"x": null}, "uid": "u"}}));
    let options = delete_options(&target, Some(crate::Propagation::Foreground), Some(0));
    assert_eq!(
        options,
        json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "u"},
            "propagationPolicy": "Foreground", "gracePeriodSeconds": 0})
    );
}
