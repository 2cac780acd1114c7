//! Tables of cases.

use std::sync::Arc;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use minik8s_meta::gateway::{Cors, GatewayConfig, HeaderModifier, PathModifier, RequestRedirect};
use minik8s_proxy::RequestHead;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Table;
use crate::table::{Objects, build};
use minik8s_proxy::gateway::filter::{Asked, change_headers, change_path, preflight, redirect};

fn from<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A Gateway in `ns` with one listener and these hosts; rule N goes to Service `sN`.
fn config(name: &str, created: &str, port: Value, rules: usize) -> Arc<GatewayConfig> {
    let rule = |number: usize| {
        json!({"route": format!("HTTPRoute ns/r{number}"), "backends": [
            {"weight": 1, "target": {"namespace": "ns", "service": format!("s{number}"), "port": 80}},
        ]})
    };
    let rules: Vec<Value> = (0..rules).map(rule).collect();
    Arc::new(from(json!({"metadata": {"namespace": "ns", "name": name},
        "spec": {"created": created, "ports": [port], "rules": rules}})))
}

fn service_at(
    table: &Table,
    port: u16,
    host: &str,
    method: &str,
    target: &str,
    headers: &HeaderMap,
) -> String {
    let head = RequestHead { method, host, target, headers };
    match table.gateways.port(port).unwrap().find(host, None, &head) {
        Ok(route) => route.backend.service.clone(),
        Err(refusal) => refusal.status.as_u16().to_string(),
    }
}

#[test]
fn request_goes_to_the_first_match_of_the_most_specific_listener() {
    let port = json!({"port": 80, "routerPort": 25_000, "protocol": "HTTP", "listeners": [
        {"hostname": "a.b", "mode": "HTTP", "hosts": [{"hostname": "a.b", "matches": [
            {"path": {"kind": "Exact", "value": "/x"}, "rule": 0},
            {"path": {"kind": "RegularExpression", "value": "/n/[0-9]+"}, "rule": 1},
            {"path": {"kind": "PathPrefix", "value": "/p"}, "method": "POST", "rule": 2},
            {"headers": [{"name": "who", "value": "jason"}], "query": [{"name": "q", "value": "[ab ]", "regex": true}],
                "rule": 3},
        ]}]},
        {"hostname": "*.b", "mode": "HTTP", "hosts": [{"hostname": "*.b", "matches": [{"rule": 4}]}]},
    ]});
    let objects = Objects { gateways: vec![config("g", "2026", port, 5)], ..Objects::default() };
    let table = build(&objects, "cluster.local");
    let none = HeaderMap::new();
    let jason = HeaderMap::from_iter([(HeaderName::from_static("who"), HeaderValue::from_static("jason"))]);
    let check = |host: &str, method: &str, target: &str, headers: &HeaderMap, expected: &str| {
        let found = service_at(&table, 25_000, host, method, target, headers);
        assert_eq!(found, expected, "{host} {method} {target}");
    };
    check("a.b", "GET", "/x", &none, "ns/s0");
    check("a.b", "GET", "/x?y", &none, "ns/s0");
    check("a.b", "GET", "/x/", &none, "404");
    check("a.b", "GET", "/n/12", &none, "ns/s1");
    check("a.b", "GET", "/n/12/x", &none, "404");
    check("a.b", "POST", "/p/1", &none, "ns/s2");
    check("a.b", "GET", "/p/1", &none, "404");
    check("a.b", "POST", "/px", &none, "404");
    check("a.b", "GET", "/?q=a", &jason, "ns/s3");
    check("a.b", "GET", "/?r=1&q=%61", &jason, "ns/s3");
    check("a.b", "GET", "/?q=+", &jason, "ns/s3");
    check("a.b", "GET", "/?q=c&q=a", &jason, "404");
    check("a.b", "GET", "/?q=a", &none, "404");
    // The listener of a host has all its requests, also those that another would know a way for.
    check("c.b", "GET", "/x", &none, "ns/s4");
    check("x.c.b", "GET", "/", &none, "ns/s4");
    check("b", "GET", "/", &none, "404");
}

#[test]
fn host_of_dns_or_ingress_is_not_a_gateways() {
    let host =
        |name: &str, rule: usize| json!({"hostname": name, "public": true, "matches": [{"rule": rule}]});
    let port = json!({"port": 80, "routerPort": 25_000, "protocol": "HTTP", "listeners": [{"mode": "HTTP",
        "hosts": [host("shop.example", 0), host("free.example", 1), host("kubernetes.default.svc", 2),
            {"hostname": "inner.example", "matches": [{"rule": 2}]}, host("", 2)]}]});
    let ingress = |namespace: &str, created: &str| {
        from(json!({"metadata": {"namespace": namespace, "name": "i", "creationTimestamp": created},
            "spec": {"rules": [{"host": "shop.example", "http": {"paths": [{"path": "/i", "pathType": "Prefix",
                "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}}))
    };
    let check = |namespace: &str, created: &str, host: &str, path: &str, expected: Option<&str>| {
        let objects = Objects {
            gateways: vec![config("g", "2026-01-02T00:00:00Z", port.clone(), 3)],
            ingresses: vec![Arc::new(ingress(namespace, created))],
            ..Objects::default()
        };
        let table = build(&objects, "cluster.local");
        let head = RequestHead { method: "GET", host, target: path, headers: &HeaderMap::new() };
        let found = table.find_at_node(false, host, &head).map(|route| route.backend.service.as_str());
        assert_eq!(found, expected, "{namespace} {created} {host}{path}");
    };
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z");
    // Another namespace's Ingress is older: the host is its own, also the paths that it does not name.
    check("other", early, "shop.example", "/i", Some("other/web"));
    check("other", early, "shop.example", "/x", None);
    // It is younger: the host is the Gateway's.
    check("other", late, "shop.example", "/i", Some("ns/s0"));
    // In one namespace the Ingress has its paths, and the Gateway the rest.
    check("ns", late, "shop.example", "/i", Some("ns/web"));
    check("ns", late, "shop.example", "/x", Some("ns/s0"));
    check("ns", early, "free.example", "/i", Some("ns/s1"));
    check("ns", early, "nobody.example", "/", Some("ns/s2"));
    // Not for everybody, and the cluster's own.
    check("ns", early, "inner.example", "/", Some("ns/s2"));
    check("ns", early, "kubernetes.default.svc", "/", Some("ns/s2"));
}

#[test]
fn misdirected_request_is_refused() {
    let listener = |host: &str| json!({"hostname": host, "mode": "HTTP", "hosts": [{"hostname": host, "matches": [{"rule": 0}]}]});
    let port = json!({"port": 443, "routerPort": 25_001, "protocol": "TLS",
        "listeners": [listener("a.b"), listener("c.b"), listener("*.d")]});
    let objects = Objects { gateways: vec![config("g", "", port, 1)], ..Objects::default() };
    let table = build(&objects, "cluster.local");
    let check = |server_name: &str, host: &str, expected: Option<u16>| {
        let head = RequestHead { method: "GET", host, target: "/", headers: &HeaderMap::new() };
        let found = table.gateways.port(25_001).unwrap().find(host, Some(server_name), &head);
        assert_eq!(found.err().map(|refusal| refusal.status.as_u16()), expected, "{server_name} {host}");
    };
    check("a.b", "a.b", None);
    check("a.b", "c.b", Some(421));
    check("x.d", "y.d", None);
    check("a.b", "nobody", Some(421));
}

#[test]
fn paths_are_changed() {
    let check = |path: &str, prefix: &str, change: Value, expected: &str| {
        let change: PathModifier = from(change);
        assert_eq!(change_path(path, &change, Some(prefix)), expected, "{path} {prefix} {change:?}");
    };
    let prefix = |new: &str| json!({"type": "ReplacePrefixMatch", "replacePrefixMatch": new});
    check("/a/b", "/a", json!({"type": "ReplaceFullPath", "replaceFullPath": "/x"}), "/x");
    check("/foo/bar", "/foo", prefix("/xyz"), "/xyz/bar");
    check("/foo/bar", "/foo", prefix("/xyz/"), "/xyz/bar");
    check("/foo", "/foo", prefix("/xyz"), "/xyz");
    check("/foo/", "/foo", prefix("/xyz"), "/xyz/");
    check("/foo/bar", "/foo", prefix(""), "/bar");
    check("/foo/bar", "/foo", prefix("/"), "/bar");
    check("/foo", "/foo", prefix("/"), "/");
    check("/bar", "/", prefix("/x"), "/x/bar");
}

#[test]
fn redirections_lead_elsewhere() {
    let check = |wanted: Value, host: &str, port: Option<u16>, expected: (u16, &str)| {
        let asked = Asked { scheme: "http", host, path_and_query: "/a/b?c=d", prefix: Some("/a"), port };
        let wanted: RequestRedirect = from(wanted);
        let (code, place) = redirect(&wanted, &asked);
        assert_eq!((code.as_u16(), place.as_str()), expected, "{wanted:?}");
    };
    check(json!({"hostname": "x.y"}), "h", Some(80), (302, "http://x.y/a/b?c=d"));
    check(json!({"statusCode": 301}), "h:8080", Some(8080), (301, "http://h:8080/a/b?c=d"));
    check(json!({"scheme": "https"}), "h:8080", Some(8080), (302, "https://h/a/b?c=d"));
    check(json!({"scheme": "https", "port": 8443}), "h", None, (302, "https://h:8443/a/b?c=d"));
    check(json!({"port": 80}), "h:8080", None, (302, "http://h/a/b?c=d"));
    let path = json!({"type": "ReplacePrefixMatch", "replacePrefixMatch": "/z"});
    check(json!({"path": path}), "h", None, (302, "http://h/z/b?c=d"));
}

#[test]
fn headers_are_changed_but_not_those_that_messages_rely_on() {
    let lines = |text: &str| -> HeaderMap {
        let parse = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
        };
        text.lines().map(parse).collect()
    };
    let change: HeaderModifier = from(json!({
        "set": [{"name": "X-Set", "value": "new"}, {"name": "Content-Length", "value": "0"}],
        "add": [{"name": "x-add", "value": "more"}, {"name": "x-first", "value": "one"}],
        "remove": ["X-Gone", "Transfer-Encoding", "Host"],
    }));
    let mut headers =
        lines("x-set: old\nx-add: some\nx-gone: 1\nhost: h\ncontent-length: 5\ntransfer-encoding: chunked");
    change_headers(&mut headers, &change);
    let expected =
        "x-set: new\nx-add: some,more\nx-first: one\nhost: h\ncontent-length: 5\ntransfer-encoding: chunked";
    assert_eq!(headers, lines(expected));
}

#[test]
fn browsers_are_told_of_allowed_origins_alone() {
    let cors: Cors = from(
        json!({"allowOrigins": ["https://a.example", "https://*.b.example"], "allowCredentials": true,
        "allowMethods": ["*"], "allowHeaders": ["x-one"], "exposeHeaders": ["x-two", "x-three"], "maxAge": 60}),
    );
    let check = |origin: &str, expected: Option<&str>| {
        let asked = HeaderMap::from_iter([
            (HeaderName::from_static("origin"), HeaderValue::from_str(origin).unwrap()),
            (HeaderName::from_static("access-control-request-method"), HeaderValue::from_static("PUT")),
        ]);
        let told = preflight(&cors, &asked);
        let text = |name: &str| told.get(name).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(text("access-control-allow-origin").as_deref(), expected, "{origin}");
        assert_eq!(text("access-control-allow-methods").as_deref(), expected.map(|_| "PUT"), "{origin}");
        let exposed = text("access-control-expose-headers");
        assert_eq!(exposed.as_deref(), expected.map(|_| "x-two, x-three"), "{origin}");
    };
    check("https://a.example", Some("https://a.example"));
    check("https://x.b.example", Some("https://x.b.example"));
    check("https://b.example", None);
    check("http://a.example", None);
    check("https://evil.example", None);
}
