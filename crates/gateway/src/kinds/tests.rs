//! Rules that hold for every kind, and tables of what is refused.

use minik8s_api::{FieldErrors, Resource};
use serde_json::{Value, json};

use super::{GROUP, all};

fn kind(name: &str) -> Resource {
    all().into_iter().find(|resource| resource.kind == name && resource.version == "v1").unwrap()
}

fn problems(name: &str, spec: Value) -> String {
    let resource = kind(name);
    let mut object = json!({"metadata": {"name": "x", "namespace": "ns"}, "spec": spec});
    resource.strategy.default(&mut object);
    let mut errors = FieldErrors::default();
    resource.strategy.validate(&object, &mut errors);
    errors.into_iter().map(|error| error.to_string()).collect::<Vec<_>>().join("\n")
}

fn samples() -> Vec<(&'static str, Value)> {
    let parents = json!([{"name": "g"}]);
    let backends = json!([{"name": "s", "port": 80}]);
    vec![
        ("GatewayClass", json!({"controllerName": "x.io/y"})),
        (
            "Gateway",
            json!({"gatewayClassName": "minik8s", "addresses": [{"value": "10.0.0.1"}], "listeners": [
                {"name": "a", "port": 80, "protocol": "HTTP"},
                {"name": "b", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "c"}]}},
            ]}),
        ),
        (
            "ListenerSet",
            json!({"parentRef": {"name": "g"}, "listeners": [{"name": "a", "port": 80, "protocol": "HTTP"}]}),
        ),
        (
            "HTTPRoute",
            json!({"parentRefs": parents, "rules": [{
                "matches": [{"headers": [{"name": "a", "value": "b"}]}],
                "filters": [{"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "s", "port": 80}}}],
                "backendRefs": backends,
            }]}),
        ),
        (
            "GRPCRoute",
            json!({"parentRefs": parents, "rules": [{"matches": [{"method": {"service": "s"}}],
            "backendRefs": backends}]}),
        ),
        (
            "TLSRoute",
            json!({"parentRefs": parents, "hostnames": ["a.b"], "rules": [{"backendRefs": backends}]}),
        ),
        ("TCPRoute", json!({"parentRefs": parents, "rules": [{"backendRefs": backends}]})),
        ("UDPRoute", json!({"parentRefs": parents, "rules": [{"backendRefs": backends}]})),
        (
            "ReferenceGrant",
            json!({"from": [{"group": GROUP, "kind": "HTTPRoute", "namespace": "a"}],
            "to": [{"group": "", "kind": "Service"}]}),
        ),
        (
            "BackendTLSPolicy",
            json!({"targetRefs": [{"group": "", "kind": "Service", "name": "s"}],
            "validation": {"hostname": "a.b", "wellKnownCACertificates": "System"}}),
        ),
    ]
}

#[test]
fn good_objects_are_taken_and_defaults_are_idempotent() {
    for (name, spec) in samples() {
        assert_eq!(problems(name, spec.clone()), "", "{name}");
        let strategy = kind(name).strategy;
        let mut once = json!({"metadata": {"name": "x"}, "spec": spec});
        strategy.default(&mut once);
        let mut twice = once.clone();
        strategy.default(&mut twice);
        assert_eq!(once, twice, "{name}");
    }
}

#[test]
fn every_kind_shows_as_many_cells_as_columns() {
    for resource in all() {
        let Some(columns) = resource.strategy.columns() else { continue };
        for object in [json!({}), json!({"metadata": {"name": "x"}, "spec": 1, "status": []})] {
            let row = resource.strategy.row(&object, jiff::Timestamp::UNIX_EPOCH);
            assert_eq!(row.len(), columns.len(), "{}", resource.qualified());
        }
    }
}

#[test]
fn bad_routes_are_refused_with_the_words_of_the_project() {
    let check = |rule: Value, expected: &str| {
        let found = problems("HTTPRoute", json!({"rules": [rule]}));
        assert!(found.contains(expected), "{expected}: {found}");
    };
    let path = |kind: &str, value: &str| json!({"matches": [{"path": {"type": kind, "value": value}}]});
    check(path("Exact", "x"), "value must be an absolute path and start with '/'");
    check(path("PathPrefix", "/a//b"), "must not contain '//' when type one of ['Exact', 'PathPrefix']");
    check(path("PathPrefix", "/a/.."), "must not end with '/..'");
    check(path("PathPrefix", "/a%2fb"), "must not contain '%2f'");
    check(path("RegularExpression", "/("), "must be a regular expression");
    check(path("Glob", "/"), "Unsupported value");
    let filter = |filter: Value| json!({"filters": [filter]});
    check(
        filter(json!({"type": "RequestRedirect"})),
        "filter.requestRedirect must be specified for RequestRedirect",
    );
    check(
        filter(json!({"type": "URLRewrite", "urlRewrite": {}, "cors": {}})),
        "filter.cors must be nil if the filter.type is not CORS",
    );
    check(
        json!({"filters": [{"type": "RequestRedirect", "requestRedirect": {}}],
            "backendRefs": [{"name": "s", "port": 80}]}),
        "RequestRedirect filter must not be used together with backendRefs",
    );
    let prefix = json!({"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}});
    check(
        json!({"matches": [{}, {}], "filters": [{"type": "URLRewrite", "urlRewrite": prefix}]}),
        "exactly one PathPrefix match must be specified",
    );
    check(json!({"backendRefs": [{"name": "s"}]}), "Must have port for Service reference");
    check(
        json!({"timeouts": {"request": "1s", "backendRequest": "2s"}}),
        "cannot be longer than request timeout",
    );
    check(json!({"timeouts": {"request": "soon"}}), "must be a duration");
    let header = json!({"set": [{"name": "a b", "value": "1\r\nx: y"}]});
    check(
        filter(json!({"type": "RequestHeaderModifier", "requestHeaderModifier": header})),
        "control characters",
    );
}

#[test]
fn bad_listeners_are_refused_with_the_words_of_the_project() {
    let check = |listeners: Value, expected: &str| {
        let found = problems("Gateway", json!({"gatewayClassName": "c", "listeners": listeners}));
        assert!(found.contains(expected), "{expected}: {found}");
    };
    let http = |name: &str, port: i64| json!({"name": name, "port": port, "protocol": "HTTP"});
    check(json!([]), "should have at least 1 items");
    check(json!([http("a", 80), http("b", 80)]), "Combination of port, protocol and hostname must be unique");
    check(json!([http("a", 80), http("a", 81)]), "Listener name must be unique within the Gateway");
    check(json!([http("a", 0)]), "must be between 1 and 65535");
    let with = |protocol: &str, field: &str, value: Value| json!([{"name": "a", "port": 80, "protocol": protocol, field: value}]);
    check(with("HTTP", "tls", json!({"options": {"a": "b"}})), "tls must not be specified for protocols");
    check(with("TCP", "hostname", json!("a.b")), "hostname must not be specified for protocols");
    check(
        with("HTTPS", "tls", json!({"mode": "Passthrough"})),
        "tls mode must be Terminate for protocol HTTPS",
    );
    check(
        with("HTTPS", "tls", json!({})),
        "certificateRefs or options must be specified when mode is Terminate",
    );
    check(with("HTTP", "hostname", json!("10.0.0.1")), "must be a host name");
    check(with("HTTP", "hostname", json!("A.b")), "must be a host name");
}

#[test]
fn other_objects_are_refused_with_the_words_of_the_project() {
    let check = |name: &str, spec: Value, expected: &str| {
        let found = problems(name, spec);
        assert!(found.contains(expected), "{expected}: {found}");
    };
    let http = |rule: Value, expected: &str| check("HTTPRoute", json!({"rules": [rule]}), expected);
    for (field, what) in
        [("allowOrigins", "AllowOrigins"), ("allowMethods", "AllowMethods"), ("allowHeaders", "AllowHeaders")]
    {
        let cors = json!({"filters": [{"type": "CORS", "cors": {field: ["*", "a"]}}]});
        http(cors, &format!("{what} cannot contain '*' alongside other"));
    }
    let prefix = json!({"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}});
    for (kind, field, when) in
        [("RequestRedirect", "requestRedirect", "when"), ("URLRewrite", "urlRewrite", "When")]
    {
        let backend = json!({"name": "s", "port": 80, "filters": [{"type": kind, field: prefix}]});
        let expected = format!(
            "Within backendRefs, {when} using {kind} filter with path.replacePrefixMatch, exactly one PathPrefix match must be \
             specified"
        );
        http(json!({"matches": [{}, {}], "backendRefs": [backend]}), &expected);
    }
    let grpc = |method: Value, expected: &str| {
        check("GRPCRoute", json!({"rules": [{"matches": [{"method": method}]}]}), expected);
    };
    grpc(json!({"service": "a..b"}), "service must only contain valid characters (matching ^(?i)\\.?[a-z_]");
    grpc(json!({"method": "a-b"}), "method must only contain valid characters (matching ^[A-Za-z_]");
    let gateway = |field: &str, value: Value, expected: &str| {
        let listener = json!({"name": "a", "port": 80, "protocol": "HTTP"});
        let spec = json!({"gatewayClassName": "c", "listeners": [listener], field: value});
        check("Gateway", spec, expected);
    };
    let ip = json!({"value": "10.0.0.1"});
    gateway("addresses", json!([ip, ip]), "IPAddress values must be unique");
    let name = |value: &str| json!({"type": "Hostname", "value": value});
    gateway("addresses", json!([name("a.b"), name("a.b")]), "Hostname values must be unique");
    gateway(
        "addresses",
        json!([name("A.b")]),
        "Hostname value must be empty or contain only valid characters",
    );
    let long = format!("{}/a", "a".repeat(253));
    for (field, what) in [("labels", "Label"), ("annotations", "Annotation")] {
        let keys = |key: &str| json!({field: {key: "x"}});
        let form = format!("{what} keys must be in the form of an optional DNS subdomain prefix");
        ["", "a b", "A/b", "a/b/c", "-a"].iter().for_each(|key| gateway("infrastructure", keys(key), &form));
        let expected = format!("If specified, the {} key's prefix must be", what.to_lowercase());
        gateway("infrastructure", keys(&long), &expected);
    }
    let port = json!({"port": 443, "tls": {}});
    gateway(
        "tls",
        json!({"frontend": {"default": {}, "perPort": [port, port]}}),
        "Port for TLS configuration must be unique within the Gateway",
    );
    let tls = |hostname: &str, expected: &str| {
        let rule = json!({"backendRefs": [{"name": "s", "port": 80}]});
        check("TLSRoute", json!({"hostnames": [hostname], "rules": [rule]}), expected);
    };
    tls("10.0.0.1", "Hostnames cannot contain an IP");
    tls("A.b", "Hostnames must be valid based on RFC-1123");
    tls("a.*", "Wildcards on hostnames must be the first label");
}

#[test]
fn references_to_the_same_object_name_different_parts() {
    let check = |name: &str, list: &str, references: Value, expected: &str| {
        let found = match name {
            "HTTPRoute" => problems(name, json!({list: references})),
            _ => {
                let validation = json!({"hostname": "a.b", "wellKnownCACertificates": "System"});
                problems(name, json!({list: references, "validation": validation}))
            }
        };
        match expected {
            "" => assert_eq!(found, ""),
            _ => assert!(found.contains(expected), "{expected}: {found}"),
        }
    };
    let part = |section: &str| json!({"group": "", "kind": "Service", "name": "s", "sectionName": section});
    let (whole, port) = (
        json!({"group": "", "kind": "Service", "name": "s"}),
        json!({"group": "", "kind": "Service", "name": "s", "port": 1}),
    );
    for (name, list, one) in
        [("HTTPRoute", "parentRefs", "parent"), ("BackendTLSPolicy", "targetRefs", "target")]
    {
        let text = |problem: &str| {
            format!(
                "sectionName must be {problem} when {list} includes 2 or more references to the same {one}"
            )
        };
        check(name, list, json!([part("a"), part("a")]), &text("unique"));
        check(name, list, json!([part("a"), whole]), &text("specified"));
        check(name, list, json!([part("a"), part("b")]), "");
    }
    check("HTTPRoute", "parentRefs", json!([port, port]), "sectionName or port must be unique");
    check("HTTPRoute", "parentRefs", json!([port, whole]), "sectionName or port must be specified");
}

#[test]
fn names_in_a_certificate_fit_their_type() {
    let check = |name: Value, expected: &str| {
        let validation =
            json!({"hostname": "a.b", "wellKnownCACertificates": "System", "subjectAltNames": [name]});
        let target = json!({"group": "", "kind": "Service", "name": "s"});
        let found = problems("BackendTLSPolicy", json!({"targetRefs": [target], "validation": validation}));
        assert!(found.contains(&format!("SubjectAltName element {expected}")), "{expected}: {found}");
    };
    check(json!({"type": "Hostname"}), "must contain Hostname, if Type is set to Hostname");
    check(
        json!({"type": "URI", "hostname": "a"}),
        "must not contain Hostname, if Type is not set to Hostname",
    );
    check(json!({"type": "URI"}), "must contain URI, if Type is set to URI");
    check(json!({"type": "Hostname", "uri": "a"}), "must not contain URI, if Type is not set to URI");
}
