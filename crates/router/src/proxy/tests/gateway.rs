//! What Gateways do with requests beside handing them over.

use hyper::server::conn::http2 as server;
use serde_json::Value;

use super::*;

/// A Gateway with one public host, `g.example`, these rules, and these Services with an endpoint each.
fn gateway(rules: Value, matches: Value, services: &[(&str, SocketAddr)]) -> Table {
    let mut objects = Objects::default();
    objects.gateways.push(Arc::new(
        serde_json::from_value(json!({"metadata": {"name": "g", "namespace": "ns"}, "spec": {
            "rules": rules,
            "ports": [{"port": 80, "routerPort": 25_000, "protocol": "HTTP", "listeners": [{"mode": "HTTP", "hosts": [
                {"hostname": "g.example", "public": true, "matches": matches},
            ]}]}],
        }}))
        .unwrap(),
    ));
    for (name, endpoint) in services {
        let meta = json!({"name": name, "namespace": "ns", "labels": {"kubernetes.io/service-name": name}});
        let service = json!({"metadata": meta, "spec": {"ports": [{"port": 80}]}});
        objects.services.push(Arc::new(serde_json::from_value(service).unwrap()));
        let slice = json!({"metadata": meta, "addressType": "IPv4", "ports": [{"port": endpoint.port()}],
            "endpoints": [{"addresses": [endpoint.ip()]}]});
        objects.slices.push(Arc::new(serde_json::from_value(slice).unwrap()));
    }
    build(&objects, "cluster.local")
}

fn to(service: &str) -> Value {
    json!({"weight": 1, "target": {"namespace": "ns", "service": service, "port": 80}})
}

async fn head_of(lab: &Lab, request: Request<Full<Bytes>>) -> (StatusCode, http::HeaderMap) {
    let mut sender = lab.connect().await;
    let response = sender.send_request(request).await.unwrap();
    (response.status(), response.headers().clone())
}

#[tokio::test]
async fn filters_change_requests_and_answers() {
    let a = Backend::start("a").await;
    let lab = Lab::start().await;
    let rule = json!({"route": "HTTPRoute ns/r", "prefix": "/old", "filters": {
        "requestHeaders": {"set": [{"name": "x-set", "value": "1"}], "remove": ["x-gone"]},
        "responseHeaders": {"set": [{"name": "x-told", "value": "2"}], "remove": ["x-kept"]},
        "rewrite": {"hostname": "in.example", "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/new"}},
    }, "backends": [{"weight": 1, "target": {"namespace": "ns", "service": "a", "port": 80},
        "filters": {"requestHeaders": {"add": [{"name": "x-set", "value": "3"}]}}}]});
    let matches = json!([{"path": {"kind": "PathPrefix", "value": "/old"}, "rule": 0}]);
    lab.shared.table.send_replace(Arc::new(gateway(json!([rule]), matches, &[("a", a.address)])));
    let mut asked = request(Method::POST, "g.example", "/old/x?q=1", "body");
    asked.headers_mut().insert("x-gone", "1".parse().unwrap());
    asked.headers_mut().insert("x-forwarded-for", "192.0.2.1".parse().unwrap());
    let (status, headers) = head_of(&lab, asked).await;
    assert_eq!(
        (status, &headers["x-told"], headers.get("x-kept")),
        (StatusCode::OK, &"2".parse().unwrap(), None)
    );
    let (method, target, headers, body) = a.last();
    assert_eq!((method, target.as_str(), body.as_ref()), (Method::POST, "/new/x?q=1", &b"body"[..]));
    assert_eq!(headers["host"], "in.example");
    assert_eq!(headers["x-set"], "1,3");
    assert!(!headers.contains_key("x-gone"));
    assert_eq!(headers["x-forwarded-for"], "127.0.0.1", "a client's own word is not believed");
    assert_eq!(lab.get("g.example", "/other").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn share_of_a_backend_that_is_missing_is_answered_with_an_error() {
    let a = Backend::start("a").await;
    let lab = Lab::start().await;
    let mut missing = to("b");
    missing["target"]["problem"] = json!("Service ns/b does not exist");
    let mut heavy = to("a");
    heavy["weight"] = json!(3);
    let rules =
        json!([{"route": "HTTPRoute ns/r", "backends": [heavy, missing]}, {"route": "HTTPRoute ns/n"}]);
    let matches = json!([{"path": {"kind": "Exact", "value": "/none"}, "rule": 1}, {"rule": 0}]);
    lab.shared.table.send_replace(Arc::new(gateway(rules, matches, &[("a", a.address)])));
    let mut codes = Vec::new();
    for _ in 0..8 {
        codes.push(lab.get("g.example", "/").await.0.as_u16());
    }
    codes.sort_unstable();
    assert_eq!(codes, [200, 200, 200, 200, 200, 200, 500, 500]);
    assert_eq!(lab.get("g.example", "/none").await.0, StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn copies_go_to_mirrors_and_redirections_to_clients() {
    let (a, copy) = (Backend::start("a").await, Backend::start("copy").await);
    let lab = Lab::start().await;
    let mirror = |top: u32| {
        json!({"numerator": top, "denominator": 2,
        "target": {"namespace": "ns", "service": "copy", "port": 80}})
    };
    let rules = json!([
        {"route": "HTTPRoute ns/r", "filters": {"mirrors": [mirror(2)]}, "backends": [to("a")]},
        {"route": "HTTPRoute ns/s", "filters": {"redirect": {"hostname": "x.example", "statusCode": 308}}},
    ]);
    let matches = json!([{"path": {"kind": "Exact", "value": "/moved"}, "rule": 1}, {"rule": 0}]);
    let services = [("a", a.address), ("copy", copy.address)];
    lab.shared.table.send_replace(Arc::new(gateway(rules, matches, &services)));
    let answer = send(&mut lab.connect().await, request(Method::PUT, "g.example", "/x", "twice")).await;
    assert_eq!(answer, (StatusCode::OK, "a".to_owned()));
    while copy.seen.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!((a.last().3, copy.last().3), (Bytes::from("twice"), Bytes::from("twice")));
    let (status, headers) = head_of(&lab, request(Method::GET, "g.example", "/moved?q", "")).await;
    assert_eq!((status.as_u16(), &headers["location"]), (308, &"http://x.example/moved?q".parse().unwrap()));
    assert_eq!(a.seen.lock().unwrap().len(), 1);
}

/// Somebody else's Service, which no grant lets a route refer to.
#[tokio::test]
async fn nothing_is_sent_to_a_target_that_may_not_be_named() {
    let (a, foreign) = (Backend::start("a").await, Backend::start("foreign").await);
    let lab = Lab::start().await;
    let mut target = to("foreign")["target"].clone();
    target["problem"] = json!("no ReferenceGrant allows it");
    let mirror = json!({"numerator": 1, "denominator": 1, "target": target});
    let rules = json!([
        {"route": "HTTPRoute ns/r", "filters": {"mirrors": [mirror]}, "backends": [to("a")]},
        {"route": "HTTPRoute ns/s", "backends": [{"weight": 1, "target": target}]},
    ]);
    let matches = json!([{"path": {"kind": "Exact", "value": "/theirs"}, "rule": 1}, {"rule": 0}]);
    let services = [("a", a.address), ("foreign", foreign.address)];
    let table = gateway(rules, matches, &services);
    assert!(!table.endpoints().contains(&foreign.address), "nobody here knows where it is");
    lab.shared.table.send_replace(Arc::new(table));
    assert_eq!(lab.get("g.example", "/").await.1, "a");
    assert_eq!(lab.get("g.example", "/theirs").await.0, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(foreign.connections.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn answers_are_waited_for_and_asked_for_again_as_the_route_says() {
    let a = Backend::start("a").await;
    let lab = Lab::with(Timeouts::default()).await;
    let rules = json!([
        {"route": "HTTPRoute ns/r", "requestTimeoutMillis": 100, "backends": [to("a")]},
        {"route": "HTTPRoute ns/s", "retry": {"codes": [204], "attempts": 2}, "backends": [to("a")]},
        {"route": "HTTPRoute ns/t", "requestTimeoutMillis": 100, "filters": {"responseHeaders": {"remove": ["a"]}},
            "backends": [to("a")]},
    ]);
    let matches = json!([
        {"path": {"kind": "Exact", "value": "/empty"}, "rule": 1},
        {"method": "POST", "rule": 2},
        {"rule": 0},
    ]);
    lab.shared.table.send_replace(Arc::new(gateway(rules, matches, &[("a", a.address)])));
    assert_eq!(lab.get("g.example", "/slow").await.0, StatusCode::GATEWAY_TIMEOUT);
    let slow = request(Method::POST, "g.example", "/slow", "x");
    assert_eq!(send(&mut lab.connect().await, slow).await.0, StatusCode::GATEWAY_TIMEOUT);
    let before = a.seen.lock().unwrap().len();
    let again = request(Method::POST, "g.example", "/empty", "body");
    assert_eq!(send(&mut lab.connect().await, again).await.0, StatusCode::NO_CONTENT);
    assert_eq!(a.seen.lock().unwrap().len() - before, 3);
    assert_eq!(a.last().3, "body");
}

#[tokio::test]
async fn backend_of_http2_gets_http2() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, lab) = (listener.local_addr().unwrap(), Lab::start().await);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service_fn(|request: Request<Incoming>| async move {
                let text = format!("{:?} {}", request.version(), request.uri());
                Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(text)))
            });
            tokio::spawn(
                server::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    let mut h2c = to("a");
    h2c["target"]["h2c"] = json!(true);
    let rules = json!([{"route": "GRPCRoute ns/r", "backends": [h2c]}]);
    lab.shared.table.send_replace(Arc::new(gateway(rules, json!([{"rule": 0}]), &[("a", address)])));
    for path in ["/one", "/two"] {
        let (status, text) = lab.get("g.example", path).await;
        assert_eq!((status, text), (StatusCode::OK, format!("HTTP/2.0 http://g.example{path}")));
    }
}
