//! Paths, queries, methods and headers that make no sense.

use http::{HeaderValue, Request};
use http_body_util::{BodyExt, Full};
use minik8s_auth::User;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;
use tower::ServiceExt;

use super::{assert_sane, assert_works, junk};
use crate::cluster::*;

const SEGMENTS: [&str; 44] = [
    "api",
    "apis",
    "v1",
    "v2",
    "apps",
    "batch",
    "namespaces",
    "default",
    "kube-system",
    "pods",
    "configmaps",
    "deployments",
    "services",
    "nodes",
    "status",
    "scale",
    "finalize",
    "binding",
    "token",
    "watch",
    "openapi",
    "v3",
    "healthz",
    "readyz",
    "livez",
    "metrics",
    "version",
    "none",
    "",
    ".",
    "..",
    "%2e%2e",
    "%2F",
    "a%2Fb",
    "%00",
    "%ff",
    "%",
    "%zz",
    "%C3%28",
    "a:b",
    "ä",
    "exec",
    "log",
    "events.k8s.io",
];
const PARAMETERS: [&str; 22] = [
    "watch",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "labelSelector",
    "fieldSelector",
    "timeoutSeconds",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "force",
    "gracePeriodSeconds",
    "propagationPolicy",
    "orphanDependents",
    "includeObject",
    "pretty",
    "timeout",
    "verbose",
    "exclude",
];

fn segment() -> impl Strategy<Value = String> {
    let long = "x".repeat(3000);
    prop_oneof![20 => proptest::sample::select(SEGMENTS.to_vec()).prop_map(str::to_owned), 1 => Just(long), 1 => escaped()]
}

/// Any text, percent-encoded.
fn escaped() -> impl Strategy<Value = String> {
    let texts = prop_oneof![proptest::sample::select(junk::texts()).boxed(), any::<String>().boxed()];
    texts.prop_map(|text| form_urlencoded::byte_serialize(text.as_bytes()).collect())
}

fn paths() -> impl Strategy<Value = String> {
    let free = proptest::collection::vec(segment(), 0..9).prop_map(|parts| format!("/{}", parts.join("/")));
    let rooted = (
        proptest::sample::select(vec![
            "/api/v1",
            "/apis/apps/v1",
            "/api/v1/namespaces/default",
            "/api/v1/watch",
        ]),
        proptest::collection::vec(segment(), 0..5),
    )
        .prop_map(|(root, parts)| format!("{root}/{}", parts.join("/")));
    let value = prop_oneof![
        escaped().boxed(),
        proptest::sample::select(vec![
            "true",
            "1",
            "0",
            "-1",
            "99999999999999999999",
            "All",
            "Exact",
            "NotOlderThan",
            "metadata.name%3Da",
            "a%3Db",
            "eyJ2IjoieCJ9"
        ])
        .prop_map(str::to_owned)
        .boxed(),
        continue_tokens().boxed(),
    ];
    let query = proptest::collection::vec((proptest::sample::select(PARAMETERS.to_vec()), value), 0..4)
        .prop_map(|pairs| {
            pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("&")
        });
    (prop_oneof![free, rooted], query)
        .prop_map(|(path, query)| if query.is_empty() { path } else { format!("{path}?{query}") })
}

/// Tokens that look right and are not ours.
fn continue_tokens() -> impl Strategy<Value = String> {
    use base64::Engine;
    let after = proptest::sample::select(vec![
        "",
        "/",
        "/registry/",
        "/registry/core/secrets/kube-system/",
        "\u{0}",
        "zzz",
    ]);
    (any::<u64>(), after).prop_map(|(revision, after)| {
        let token = serde_json::json!({"v": "minik8s/1", "rv": revision, "after": after});
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token.to_string())
    })
}

fn headers() -> impl Strategy<Value = Vec<(&'static str, Vec<u8>)>> {
    let name = proptest::sample::select(vec![
        "accept",
        "content-type",
        "authorization",
        "impersonate-user",
        "impersonate-group",
        "impersonate-extra-%zz",
        "user-agent",
        "if-none-match",
        "upgrade",
        "connection",
        "accept-encoding",
        "content-encoding",
        "x-forwarded-for",
        "content-length",
    ]);
    let value = prop_oneof![
        proptest::sample::select(vec![
            "application/json",
            "application/json;as=Table;v=v1;g=meta.k8s.io",
            "application/json;as=;;;=",
            ",,,",
            "*/*;q=x",
            "Bearer",
            "Bearer x.y.z",
            "Basic eDp5",
            "system:masters",
            "gzip",
            "SPDY/3.1",
            "websocket",
            "-1",
            "application/vnd.kubernetes.protobuf;stream=watch",
        ])
        .prop_map(|text| text.as_bytes().to_vec())
        .boxed(),
        proptest::collection::vec(prop_oneof![32..127u8, 128..=255u8], 0..60).boxed(),
    ];
    proptest::collection::vec((name, value), 0..4)
}

#[test]
fn requests_that_make_no_sense() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cluster = runtime.block_on(Cluster::start());
    let admin = cluster.admin();
    let before = runtime.block_on(everything(&admin));
    // No DELETE of collections: it would rightly empty them.
    let methods =
        ["GET", "GET", "GET", "HEAD", "POST", "PUT", "PATCH", "OPTIONS", "TRACE", "BREW", "get", "CONNECT"];
    let input = (proptest::sample::select(methods.to_vec()), paths(), headers());
    let config = Config { cases: 4000, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[9; 32]));
    let checked = runner.run(&input, |(method, path, headers)| {
        let Ok(mut request) =
            Request::builder().method(method).uri(&path).body(Full::new(bytes::Bytes::from_static(b"{}")))
        else {
            return Ok(());
        };
        for (name, value) in headers {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                request.headers_mut().append(name, value);
            }
        }
        let sent = format!("{request:?}");
        let service = cluster.server.local(User::authenticated("admin", &["system:masters"]));
        runtime.block_on(async {
            let response =
                tokio::time::timeout(TIMEOUT, service.oneshot(request)).await.expect("an answer").unwrap();
            let (parts, body) = response.into_parts();
            // Watches go on: what has come within a moment is enough.
            let watching = parts.status == 200 && sent.contains("watch");
            let timeout = if watching { std::time::Duration::from_millis(1) } else { TIMEOUT };
            let bytes = match tokio::time::timeout(timeout, body.collect()).await {
                Ok(body) => body.unwrap().to_bytes(),
                Err(_) => bytes::Bytes::new(),
            };
            let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            let code = parts.status.as_u16();
            let answer =
                Answer { what: format!("{method} {path}"), code, headers: parts.headers, bytes, body };
            if code != 304 {
                assert_sane(&answer, &sent);
            }
        });
        Ok(())
    });
    if let Err(failure) = checked {
        panic!("{failure}");
    }
    runtime.block_on(async {
        assert_eq!(everything(&admin).await, before, "nothing was made or changed");
        assert_works(&admin).await;
    });
}

/// Names and versions of what could have been touched.
async fn everything(admin: &Client) -> Vec<String> {
    let mut found = Vec::new();
    for path in [
        "/api/v1/namespaces",
        "/api/v1/configmaps",
        "/api/v1/pods",
        "/api/v1/services",
        "/api/v1/serviceaccounts",
        "/apis/apps/v1/deployments",
    ] {
        let list = admin.get(path).await.ok();
        let items = list["items"].as_array().unwrap().iter();
        found.extend(items.map(|item| {
            format!("{path} {} {}", item["metadata"]["name"], item["metadata"]["resourceVersion"])
        }));
    }
    found
}

/// Each label is kept for ever: strangers must not be able to make up new ones.
#[tokio::test]
async fn metrics_name_only_what_exists() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    for path in [
        "/made-up",
        "/api/v1/made-up",
        "/apis/made-up/v1/pods",
        "/api/v1/namespaces/default/pods/p/made-up",
        "/api/v1/namespaces/made-up/pods",
    ] {
        for method in ["GET", "POST", "MADE-UP", "made-up"] {
            let method = http::Method::from_bytes(method.as_bytes()).unwrap();
            admin.send(method, path, "", "").await;
        }
    }
    let metrics = admin.get("/metrics").await;
    let text = String::from_utf8(metrics.bytes.to_vec()).unwrap();
    assert!(text.contains("apiserver_request_total") && !text.to_lowercase().contains("made-up"), "{text}");
}

#[tokio::test]
async fn names_that_cannot_be() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let long = "a".repeat(254);
    for name in ["A", "a_b", "-a", "a-", "a..b", "a/b", "..", ".", "a b", "%2F", "ä", "", &long, "\0", "a\nb"]
    {
        let answer = admin.post(CONFIG_MAPS, config_map(name)).await;
        assert_sane(&answer, name);
        assert!(matches!(answer.code, 400 | 422), "{name:?}: {}", answer.text());
    }
    for name in ["a/b", "..", ".", "%", "%41"] {
        let role = serde_json::json!({"metadata": {"name": name}, "rules": []});
        admin.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await.refused(422, "Invalid");
    }
    for name in ["default", "x".repeat(64).as_str(), "a.b", "A"] {
        let answer = admin.post("/api/v1/namespaces", serde_json::json!({"metadata": {"name": name}})).await;
        assert!(matches!(answer.code, 409 | 422), "{name}: {}", answer.text());
    }
    assert_works(&admin).await;
}
