use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

/// An API server that knows two tokens, of which one may read metrics; and counts what it is asked.
fn access(asked: &Arc<AtomicUsize>) -> TokenAccess {
    let asked = asked.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let asked = asked.clone();
        async move {
            asked.fetch_add(1, Ordering::Relaxed);
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap();
            let spec = &body["spec"];
            let status = if path.ends_with("/tokenreviews") {
                match spec["token"].as_str().unwrap() {
                    "down" => return Ok(Response::builder().status(503).body(Body::empty()).unwrap()),
                    known @ ("scraper" | "nobody") => {
                        json!({"authenticated": true, "user": {"username": known}})
                    }
                    _ => json!({"authenticated": false, "error": "unknown"}),
                }
            } else {
                let wanted = &spec["resourceAttributes"];
                assert_eq!((&wanted["name"], &wanted["verb"]), (&json!("n1"), &json!("get")), "{wanted}");
                let is_metrics = wanted["resource"] == "nodes" && wanted["subresource"] == "metrics";
                json!({"allowed": spec["user"] == "scraper" && is_metrics})
            };
            let answer = json!({"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": {},
                "spec": spec, "status": status});
            Ok::<_, std::convert::Infallible>(Response::new(Body::from(answer.to_string().into_bytes())))
        }
    });
    TokenAccess::new(Client::new(service, "default"), "n1")
}

fn with(value: &str) -> HeaderMap {
    HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())])
}

#[tokio::test]
async fn pages_need_a_known_token_with_the_right() {
    let asked = Arc::default();
    let access = access(&asked);
    let check = async |method: Method, path: &str, headers: HeaderMap, want: Option<u16>| {
        let found = access.check(&method, path, &headers).await.err().map(|refusal| refusal.status);
        assert_eq!(
            found,
            want.map(|code| StatusCode::from_u16(code).unwrap()),
            "{method} {path} {headers:?}"
        );
    };
    for page in ["/metrics", "/metrics/cadvisor", "/metrics/resource", "/metrics/probes", "/metrics/node"] {
        check(Method::GET, page, with("Bearer scraper"), None).await;
        check(Method::GET, page, with("Bearer nobody"), Some(403)).await;
        check(Method::GET, page, with("Bearer wrong"), Some(401)).await;
        check(Method::GET, page, HeaderMap::new(), Some(401)).await;
    }
    check(Method::GET, "/metrics/", with("bearer  scraper "), None).await;
    check(Method::GET, "/stats/summary", with("Bearer scraper"), Some(403)).await;
    for header in ["Bearer", "Bearer ", "Basic c2NyYXBlcg==", &format!("Bearer {}", "x".repeat(20_000))] {
        check(Method::GET, "/metrics", with(header), Some(401)).await;
    }
    // What no token opens is not even asked about.
    let before = asked.load(Ordering::Relaxed);
    for path in
        ["/pods", "/exec/a/b/c", "/containerLogs/a/b/c", "/metrics/stream", "/metrics/pods", "/", "/healthz"]
    {
        check(Method::GET, path, with("Bearer scraper"), Some(403)).await;
    }
    check(Method::POST, "/metrics", with("Bearer scraper"), Some(403)).await;
    assert_eq!(asked.load(Ordering::Relaxed), before);
    check(Method::GET, "/metrics", with("Bearer down"), Some(500)).await;
}

#[tokio::test]
async fn answers_are_kept_for_a_while_and_not_without_end() {
    let asked = Arc::new(AtomicUsize::new(0));
    let access = access(&asked);
    for _ in 0..5 {
        access.check(&Method::GET, "/metrics", &with("Bearer scraper")).await.unwrap();
        access.check(&Method::GET, "/metrics", &with("Bearer wrong")).await.unwrap_err();
    }
    assert_eq!(asked.load(Ordering::Relaxed), 3, "two for the one, one for the other");
    let question = (Sha256::digest(b"scraper").into(), "metrics");
    let now = Instant::now();
    assert!(access.known(&question, now).is_some());
    assert!(access.known(&question, now + ALLOWED_FOR + Duration::from_secs(1)).is_none());
    for number in 0..2 * MOST_ANSWERS {
        let stranger = (Sha256::digest(number.to_string().as_bytes()).into(), "metrics");
        access.keep(stranger, Err(Refusal::unauthorized()), now);
    }
    assert!(access.answers.lock().len() <= MOST_ANSWERS);
    assert!(access.known(&question, now).is_some(), "strangers push out each other only");
    // A server that does not answer is asked again.
    access.check(&Method::GET, "/metrics", &with("Bearer down")).await.unwrap_err();
    let before = asked.load(Ordering::Relaxed);
    access.check(&Method::GET, "/metrics", &with("Bearer down")).await.unwrap_err();
    assert_eq!(asked.load(Ordering::Relaxed), before + 1);
}
