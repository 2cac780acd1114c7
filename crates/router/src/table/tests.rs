use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn object<K: serde::de::DeserializeOwned>(value: Value) -> Arc<K> {
    Arc::new(serde_json::from_value(value).unwrap())
}

/// `host path service:port` lines.
fn dns(name: &str, age: &str, lines: &[&str]) -> Arc<minik8s_meta::dns::Dns> {
    dns_in("ns", name, age, lines)
}

fn dns_in(namespace: &str, name: &str, age: &str, lines: &[&str]) -> Arc<minik8s_meta::dns::Dns> {
    let rules: Vec<Value> = lines
        .iter()
        .map(|line| {
            let [host, path, service] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
            json!({"host": host, "paths": [{"path": path, "backend": {"service": {"name": service, "port": 80}}}]})
        })
        .collect();
    object(json!({
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": format!("2026-01-01T00:00:{age}Z")},
        "spec": {"rules": rules},
    }))
}

/// `host|- Exact|Prefix path service` lines; `- default - service` is the default backend.
fn ingress(name: &str, age: &str, lines: &[&str]) -> Value {
    let backend = |name: &str| json!({"service": {"name": name, "port": {"name": "http"}}});
    let mut spec = json!({"rules": []});
    for line in lines {
        let [host, kind, path, service] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        if kind == "default" {
            spec["defaultBackend"] = backend(service);
            continue;
        }
        let host = if host == "-" { Value::Null } else { json!(host) };
        let paths = json!([{"path": path, "pathType": kind, "backend": backend(service)}]);
        spec["rules"].as_array_mut().unwrap().push(json!({"host": host, "http": {"paths": paths}}));
    }
    json!({
        "metadata": {"name": name, "namespace": "ns", "creationTimestamp": format!("2026-01-01T00:00:{age}Z")},
        "spec": spec,
    })
}

fn with_services(names: &[&str]) -> Objects {
    let service = |name: &&str| {
        object(
            json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {"ports": [{"name": "http", "port": 80}]}}),
        )
    };
    let slice = |name: &&str| {
        object(json!({
            "metadata": {"name": name, "namespace": "ns", "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}],
            "endpoints": [{"addresses": ["10.0.0.1"]}],
        }))
    };
    Objects {
        services: names.iter().map(service).collect(),
        slices: names.iter().map(slice).collect(),
        ..Objects::default()
    }
}

#[track_caller]
fn leads(table: &Table, host: &str, path: &str, expected: Option<(&str, &str)>) {
    let found = table.find(host, path);
    let found = found.map(|route| (route.backend.service.as_str(), route.rewrite(path).into_owned()));
    let expected = expected.map(|(service, path)| (format!("ns/{service}"), path.to_owned()));
    assert_eq!(found.map(|(service, path)| (service.to_owned(), path)), expected, "{host}{path}");
}

#[test]
fn dns_paths_are_taken_away() {
    let mut objects = with_services(&["a", "b", "root"]);
    objects.dns =
        vec![dns("x", "01", &["shop.example /a a", "shop.example /a/b/ b", "other.example / root"])];
    let table = build(&objects, "cluster.local");
    for (host, path, expected) in [
        ("shop.example", "/a", Some(("a", "/"))),
        ("shop.example", "/a/", Some(("a", "/"))),
        ("shop.example", "/a/rest/x?q=1", Some(("a", "/rest/x?q=1"))),
        ("shop.example", "/a/b", Some(("b", "/"))),
        ("shop.example", "/a/b/c", Some(("b", "/c"))),
        ("shop.example", "/a/bc", Some(("a", "/bc"))),
        ("shop.example", "/ab", None),
        ("shop.example", "/", None),
        ("other.example", "/any/thing", Some(("root", "/any/thing"))),
        ("nobody.example", "/a", None),
    ] {
        leads(&table, host, path, expected);
    }
    assert_eq!(table.names().iter().collect::<Vec<_>>(), ["other.example", "shop.example"]);
    assert_eq!(table.endpoints().len(), 1);
}

/// Hosts and paths of a Service with a VirtualService lead to its address, where the mesh goes on.
#[test]
fn services_with_rules_are_called_by_their_address() {
    use minik8s_proxy::LedBy;
    let mut objects = with_services(&["a", "b", "gone"]);
    let with_address = |(number, service): (usize, &Arc<k8s_openapi::api::core::v1::Service>)| {
        let mut service = (**service).clone();
        service.spec.as_mut().unwrap().cluster_ip = Some(format!("10.96.0.{number}"));
        Arc::new(service)
    };
    objects.services = objects.services.iter().enumerate().map(with_address).collect();
    objects.slices.pop();
    objects.dns = vec![dns("x", "01", &["h /a a", "h /b b", "h /gone gone"])];
    objects.ingresses = vec![object(ingress("i", "02", &["i Prefix / a"]))];
    let led = [
        ("10.96.0.0:80", LedBy::VirtualService),
        ("10.96.0.1:81", LedBy::VirtualService),
        ("10.96.0.2:80", LedBy::ServiceRoutes),
    ];
    objects.led = Arc::new(led.into_iter().map(|(text, by)| (text.parse().unwrap(), by)).collect());
    let table = build(&objects, "");
    let at = |host: &str, path: &str| {
        let endpoints = table.find(host, path).unwrap().backend.endpoints.clone();
        endpoints.ok().map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(at("h", "/a").as_deref(), Some("10.96.0.0:80"));
    assert_eq!(at("h", "/b").as_deref(), Some("10.0.0.1:8080"), "rules of another port");
    assert_eq!(at("h", "/gone"), None, "nobody is ready");
    assert_eq!(at("i", "/x").as_deref(), Some("10.96.0.0:80"));
}

#[test]
fn a_query_right_after_the_path_stays_a_query() {
    let mut objects = with_services(&["a"]);
    objects.dns = vec![dns("x", "01", &["h /a a"])];
    let table = build(&objects, "");
    assert_eq!(table.find("h", "/a").unwrap().rewrite("/a?x=1"), "/?x=1");
}

#[test]
fn ingress_paths_stay() {
    let mut objects = with_services(&["web", "exact", "wild", "any", "fallback"]);
    objects.ingresses = vec![object(ingress(
        "i",
        "01",
        &[
            "a.example Prefix /foo web",
            "a.example Exact /foo exact",
            "*.example Prefix / wild",
            "- Prefix /any any",
            "- default - fallback",
        ],
    ))];
    let table = build(&objects, "");
    for (host, path, service) in [
        ("a.example", "/foo", "exact"),
        ("a.example", "/foo/", "web"),
        ("a.example", "/foo/bar", "web"),
        ("a.example", "/foobar", "wild"),
        ("b.example", "/x", "wild"),
        ("c.b.example", "/x", "fallback"),
        ("c.b.example", "/any/x", "any"),
        ("example", "/x", "fallback"),
    ] {
        leads(&table, host, path, Some((service, path)));
    }
    assert!(table.names().is_empty(), "the world's names are not ours to resolve");
}

#[test]
fn the_older_object_keeps_its_place() {
    let mut objects = with_services(&["old", "new", "middle"]);
    objects.dns = vec![dns("b", "03", &["h /x new", "h /y new"]), dns("a", "01", &["h /x old"])];
    objects.ingresses =
        vec![object(ingress("i", "02", &["h Prefix /x middle", "h Prefix /y/ middle", "h Exact /x new"]))];
    let table = build(&objects, "");
    leads(&table, "h", "/x/z", Some(("old", "/z")));
    leads(&table, "h", "/y/z", Some(("middle", "/y/z")));
    leads(&table, "h", "/x", Some(("new", "/x")));
    objects.dns.reverse();
    assert_eq!(build(&objects, ""), table, "order of arrival does not matter");
}

/// Another namespace gets neither a path of the host nor what its owner left over.
#[test]
fn host_belongs_to_the_oldest_claims_namespace() {
    let mut objects = with_services(&["mine", "default"]);
    let elsewhere = |name: &str, age: &str, lines: &[&str]| {
        let mut ingress = ingress(name, age, lines);
        ingress["metadata"]["namespace"] = json!("other");
        ingress
    };
    let mut thief = elsewhere(
        "thief",
        "02",
        &["h.x Prefix /login t", "*.x Prefix /wild t", "- Prefix /any t", "- default - t"],
    );
    thief["spec"]["tls"] = json!([{"hosts": ["h.x", "i.x"], "secretName": "s"}]);
    objects.dns =
        vec![dns("owner", "01", &["h.x /a mine"]), dns_in("other", "late", "03", &["h.x /b t", "own.y / t"])];
    objects.ingresses = vec![object(thief)];
    let table = build(&objects, "");
    leads(&table, "h.x", "/a", Some(("mine", "/")));
    for path in ["/login", "/b", "/wild", "/any", "/else"] {
        leads(&table, "h.x", path, None);
    }
    let service = |host: &str, path: &str| table.find(host, path).map(|route| route.backend.service.as_str());
    assert_eq!(service("i.x", "/wild"), Some("other/t"));
    assert_eq!(service("elsewhere", "/any"), Some("other/t"));
    assert_eq!(table.names().iter().collect::<Vec<_>>(), ["h.x", "own.y"]);
    assert_eq!(table.certificates().keys().collect::<Vec<_>>(), ["i.x"]);
}

#[test]
fn backends_that_cannot_answer_say_why() {
    let mut objects = with_services(&["web"]);
    objects.dns = vec![dns("x", "01", &["h /gone gone", "h /web web"])];
    objects.slices.clear();
    let table = build(&objects, "");
    let problem = |path: &str| table.find("h", path).unwrap().backend.endpoints.clone().unwrap_err();
    assert_eq!(problem("/gone"), Problem::NoService);
    assert_eq!(problem("/web"), Problem::NoEndpoints(0));
    let mut other = ingress("i", "01", &[]);
    other["spec"]["defaultBackend"] = json!({"resource": {"kind": "Bucket", "name": "b"}});
    objects.ingresses = vec![object(other)];
    let table = build(&objects, "");
    assert_eq!(table.find("z", "/").unwrap().backend.endpoints, Err(Problem::NotAService));
}

#[test]
fn the_clusters_own_names_are_not_for_sale() {
    let mut objects = with_services(&["a"]);
    objects.dns = vec![dns("x", "01", &["web.default.svc.my.domain / a", "notmy.domain / a"])];
    let table = build(&objects, "my.domain.");
    leads(&table, "web.default.svc.my.domain", "/", None);
    assert_eq!(table.names().iter().collect::<Vec<_>>(), ["notmy.domain"]);
}

#[test]
fn only_our_classes() {
    let mut objects = with_services(&["a"]);
    let mut theirs = ingress("i", "01", &["h Prefix / a"]);
    theirs["spec"]["ingressClassName"] = json!("nginx");
    theirs["spec"]["tls"] = json!([{"hosts": ["h"], "secretName": "s"}]);
    objects.ingresses = vec![object(theirs)];
    assert_eq!(build(&objects, ""), build(&Objects::default(), ""));
}

#[test]
fn whose_certificate() {
    let with_tls = |name: &str, age: &str, tls: Value| {
        let mut ingress = ingress(name, age, &["h Prefix / a"]);
        ingress["spec"]["tls"] = tls;
        object(ingress)
    };
    let mut objects = with_services(&["a"]);
    objects.ingresses = vec![
        with_tls("b", "02", json!([{"hosts": ["h", "*.x"], "secretName": "young"}, {"secretName": "all"}])),
        with_tls("a", "01", json!([{"hosts": ["h"], "secretName": "old"}, {"hosts": ["none"]}])),
    ];
    let table = build(&objects, "");
    let secret = |name: &str| ("ns".to_owned(), name.to_owned());
    let expected = [("", "all"), ("*.x", "young"), ("h", "old")];
    assert_eq!(
        table.certificates().clone(),
        expected.map(|(host, name)| (host.to_owned(), secret(name))).into()
    );
}

proptest! {
    /// The table agrees with the rule said plainly: of all matching prefixes the one with most elements.
    #[test]
    fn the_longest_prefix_wins(prefixes in prop::collection::vec("(/[ab]{1,2}){0,3}", 1..8), path in "(/[ab]{1,2}){0,4}/?") {
        let path = if path.is_empty() { "/".to_owned() } else { path };
        let lines: Vec<String> = prefixes.iter().map(|p| format!("h {} s", if p.is_empty() { "/" } else { p })).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut objects = with_services(&["s"]);
        objects.dns = vec![dns("x", "01", &lines)];
        let table = build(&objects, "");
        let elements = |path: &str| path.split('/').filter(|e| !e.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        let wanted = prefixes.iter().map(|p| elements(p)).filter(|p| elements(&path).starts_with(p)).max_by_key(Vec::len);
        prop_assert_eq!(table.find("h", &path).map(|route| elements(&route.path)), wanted);
    }
}

/// Whoever has the host has its paths; on all others events have theirs.
#[test]
fn events_have_a_path_of_their_own_in_every_namespace() {
    let mut objects = with_services(&["a"]);
    objects.ingresses = vec![object(ingress("i", "01", &["h Prefix / a"]))];
    let table = build(&objects, "");
    let taken = |host: &str, path: &str| {
        table.find(host, path).and_then(|route| route.function.as_ref()).is_some_and(|(_, name)| name == "-")
    };
    assert!(taken("x", "/fn/shop/-/events") && taken("x", "/fn/other/-/hooks/t"));
    assert!(!taken("x", "/fn/shop/events") && !taken("x", "/fn/-") && !taken("x", "/fn/shop/f/-/events"));
    assert!(!taken("h", "/fn/shop/-/events"), "the host is another's");
}
