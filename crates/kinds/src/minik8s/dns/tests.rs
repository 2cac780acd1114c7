use serde_json::{Value, json};

use crate::check;
use minik8s_meta::dns::Dns;

fn with_rule(rule: Value) -> Value {
    json!({"spec": {"rules": [rule]}})
}

fn with_path(path: Value) -> Value {
    with_rule(json!({"host": "a.b", "paths": [path]}))
}

fn backend(port: Value) -> Value {
    json!({"service": {"name": "web", "port": port}})
}

#[test]
fn defaults() {
    check::defaults(
        "dns",
        with_path(json!({"backend": backend(json!(80))})),
        with_path(json!({"backend": backend(json!(80)), "path": "/"})),
    );
}

#[test]
fn validation() {
    #[track_caller]
    fn check(object: Value, expected: &[&str]) {
        check::errors("dns", object, expected);
    }
    let web = backend(json!(80));
    check(with_path(json!({"path": "/a", "backend": web})), &[]);
    check(with_path(json!({"path": "/a/b/", "backend": backend(json!("http"))})), &[]);
    check(json!({}), &["spec.rules: Required value"]);
    check(
        with_rule(json!({"host": "", "paths": []})),
        &["spec.rules[0].host: Required value", "spec.rules[0].paths: Required value"],
    );
    let host = |host: &str| with_rule(json!({"host": host, "paths": [{"backend": web}]}));
    check(host("1.2.3.4"), &["spec.rules[0].host: Invalid value: \"1.2.3.4\": must be a DNS name"]);
    check(host("*.a.b"), &["spec.rules[0].host: Invalid value: \"*.a.b\": must not contain '*'"]);
    check(host("A"), &["spec.rules[0].host: Invalid value: \"A\": a lowercase RFC 1123 subdomain"]);
    for taken in ["localhost", "x.localhost", "web.default.svc.cluster.local"] {
        check(host(taken), &[&format!("spec.rules[0].host: Invalid value: \"{taken}\": must not be one of")]);
    }
    check(host("notlocalhost"), &[]);
    check(
        with_path(json!({"path": "a//../b?c", "backend": {"service": {"port": 0}}})),
        &[
            "spec.rules[0].paths[0].path: Invalid value: \"a//../b?c\": must be an absolute path",
            "spec.rules[0].paths[0].path: Invalid value: \"a//../b?c\": must not contain '//'",
            "spec.rules[0].paths[0].path: Invalid value: \"a//../b?c\": must not contain '?'",
            "spec.rules[0].paths[0].path: Invalid value: \"a//../b?c\": must not contain the elements",
            "spec.rules[0].paths[0].backend.service.name: Required value",
            "spec.rules[0].paths[0].backend.service.port: Invalid value: 0: must be between 1 and 65535",
        ],
    );
    check(
        with_path(json!({"path": "/", "backend": {"service": {"name": "web"}}})),
        &["spec.rules[0].paths[0].backend.service.port: Required value"],
    );
    check(
        json!({"spec": {"rules": [
            {"host": "a", "paths": [{"path": "/x", "backend": web}, {"path": "/x/", "backend": web}]},
            {"host": "a", "paths": [{"backend": web}]},
        ]}}),
        &[
            "spec.rules[0].paths[1].path: Duplicate value: \"/x/\"",
            "spec.rules[1].host: Duplicate value: \"a\"",
        ],
    );
}

#[test]
fn columns() {
    let object = json!({
        "metadata": {"name": "shop"},
        "spec": {"rules": [{"host": "shop.example", "paths": [
            {"path": "/a", "backend": {"service": {"name": "web", "port": 80}}},
            {"path": "/b", "backend": {"service": {"name": "api", "port": "http"}}},
        ]}]},
    });
    check::row(
        "dns",
        object.clone(),
        &["shop", "shop.example", "/a,/b", "web:80,api:http", "Unknown", "<unknown>", "<none>"],
    );
    let mut seen = object;
    seen["status"] = json!({"paths": [
        {"host": "shop.example", "path": "/a", "target": "web:80", "ready": true},
        {"host": "shop.example", "path": "/b", "target": "api:http", "ready": false, "message": "no pods"},
    ]});
    check::row(
        "dns",
        seen,
        &["shop", "shop.example", "/a,/b", "web:80,api:http", "True,False", "<unknown>", "no pods"],
    );
}

#[test]
fn the_type_reads_what_the_server_stores() {
    let object = json!({
        "apiVersion": "minik8s.io/v1", "kind": "DNS", "metadata": {"name": "a", "namespace": "b"},
        "spec": {"rules": [{"host": "a.b", "paths": [{"path": "/x", "backend": backend(json!(80))}]}]},
    });
    let dns: Dns = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(
        dns.paths().map(|(host, path)| (host, path.path.as_str())).collect::<Vec<_>>(),
        [("a.b", "/x")]
    );
    assert_eq!(serde_json::to_value(&dns).unwrap(), object);
}
