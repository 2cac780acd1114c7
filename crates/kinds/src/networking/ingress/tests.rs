use serde_json::{Value, json};

use crate::check;

fn with_path(path: Value) -> Value {
    json!({"spec": {"rules": [{"host": "a.b", "http": {"paths": [path]}}]}})
}

#[test]
fn validation() {
    #[track_caller]
    fn check(object: Value, expected: &[&str]) {
        check::errors("ingresses", object, expected);
    }
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    check(with_path(json!({"path": "/", "pathType": "Prefix", "backend": backend})), &[]);
    check(json!({"spec": {"defaultBackend": backend}}), &[]);
    check(
        json!({"spec": {}}),
        &["spec: Invalid value: {}: either `defaultBackend` or `rules` must be specified"],
    );
    check(
        with_path(json!({"path": "a//b", "pathType": "Exact", "backend": {"service": {"name": "web"}}})),
        &[
            "spec.rules[0].http.paths[0].path: Invalid value: \"a//b\": must be an absolute path",
            "spec.rules[0].http.paths[0].path: Invalid value: \"a//b\": must not contain '//'",
            "spec.rules[0].http.paths[0].backend: Required value: port name or number is required",
        ],
    );
    check(
        with_path(json!({"path": "/", "backend": {}})),
        &[
            "spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified",
            "spec.rules[0].http.paths[0].backend: Invalid value: \"\": resource or service backend is required",
        ],
    );
    check(
        json!({"spec": {"rules": [{"host": "1.2.3.4"}, {"host": "*.*.a"}, {"host": "A"}, {"http": {}}],
            "tls": [{"hosts": ["*.a.b", "-"], "secretName": "S"}], "ingressClassName": "B"}}),
        &[
            "spec.rules[0].host: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address",
            "spec.rules[1].host: Invalid value: \"*.*.a\": a wildcard DNS-1123 subdomain",
            "spec.rules[2].host: Invalid value: \"A\": a lowercase RFC 1123 subdomain",
            "spec.rules[3].http.paths: Required value",
            "spec.tls[0].hosts[1]: Invalid value: \"-\"",
            "spec.tls[0].secretName: Invalid value: \"S\"",
            "spec.ingressClassName: Invalid value: \"B\"",
        ],
    );
}

#[test]
fn columns() {
    let hosts: Vec<Value> = ["a", "b", "c", "d"].iter().map(|h| json!({ "host": h })).collect();
    check::row(
        "ingresses",
        json!({"metadata": {"name": "web"}, "spec": {"ingressClassName": "nginx", "rules": hosts, "tls": [{}]},
            "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}),
        &["web", "nginx", "a,b,c + 1 more...", "1.2.3.4", "80, 443", "<unknown>"],
    );
    check::row(
        "ingresses",
        json!({"metadata": {"name": "web"}}),
        &["web", "<none>", "*", "", "80", "<unknown>"],
    );
}
