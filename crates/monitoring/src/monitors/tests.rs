//! Pages of monitors, and what is refused.

use minik8s_api::{FieldErrors, Resource};
use serde_json::{Value, json};

use super::{needs, page, pod_monitor, probe, service_monitor};
use crate::discovery::{Kind, Objects};

fn cluster() -> Objects {
    let mut objects = Objects::default();
    objects.put(
        Kind::Service,
        vec![
            json!({"metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web", "team": "a"}}}),
        ],
    );
    objects.put(
        Kind::EndpointSlice,
        vec![json!({"metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
            "ports": [{"name": "http", "port": 8080}, {"name": "metrics", "port": 9100}],
            "endpoints": [{"addresses": ["10.0.0.7"], "targetRef": {"kind": "Pod", "name": "web-x"}}]})],
    );
    objects.put(
        Kind::Pod,
        vec![
            json!({"metadata": {"name": "web-x", "namespace": "shop", "labels": {"app": "web", "tier": "front"}},
            "spec": {"containers": [{"name": "c", "ports": [
                {"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9100},
                {"name": "debug", "containerPort": 6060}]}]},
            "status": {"podIP": "10.0.0.7", "phase": "Running"}}),
        ],
    );
    objects.put(
        Kind::Ingress,
        vec![json!({"metadata": {"name": "front", "namespace": "shop"},
            "spec": {"tls": [{"hosts": ["shop.example"]}], "rules": [
                {"host": "shop.example", "http": {"paths": [{"path": "/cart"}]}}, {"host": "*.example"}]}})],
    );
    objects
}

fn monitor(namespace: &str, spec: Value) -> Value {
    json!({"metadata": {"name": "m", "namespace": namespace}, "spec": spec})
}

fn targets(kind: usize, monitors: Vec<Value>, honor: bool) -> Value {
    let mut all = [Vec::new(), Vec::new(), Vec::new()];
    all[kind] = monitors;
    serde_json::from_slice(&page(&all, &cluster(), honor)).unwrap()
}

#[test]
fn service_monitor_finds_endpoints_by_port() {
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "targetLabels": ["team"], "podTargetLabels": ["tier"],
        "endpoints": [{"port": "metrics", "interval": "5s", "path": "/m", "params": {"x": ["1"]}}]});
    let found = targets(0, vec![monitor("shop", spec.clone())], false);
    assert_eq!(
        found,
        json!([{"targets": ["10.0.0.7:9100"], "labels": {
            "__scheme__": "http", "__metrics_path__": "/m", "__param_x": "1", "__scrape_interval__": "5s",
            "__scrape_timeout__": "5000ms", "namespace": "shop", "service": "web", "pod": "web-x", "container": "c",
            "team": "a", "tier": "front", "job": "web", "endpoint": "metrics"}}])
    );
    // Its own namespace only, unless it says otherwise.
    assert_eq!(targets(0, vec![monitor("other", spec.clone())], false), json!([]));
    let mut wide = spec.clone();
    wide["namespaceSelector"] = json!({"any": true});
    assert_eq!(targets(0, vec![monitor("other", wide.clone())], false).as_array().unwrap().len(), 1);
    wide["namespaceSelector"] = json!({"matchNames": ["shop"]});
    assert_eq!(targets(0, vec![monitor("other", wide)], false).as_array().unwrap().len(), 1);
    // Honoring labels is a matter of the job.
    let mut honest = spec.clone();
    honest["endpoints"][0]["honorLabels"] = json!(true);
    assert_eq!(targets(0, vec![monitor("shop", honest.clone())], false), json!([]));
    assert_eq!(targets(0, vec![monitor("shop", honest)], true).as_array().unwrap().len(), 1);
    // A port of the pod that the Service does not name.
    let by_pod = json!({"selector": {}, "endpoints": [{"targetPort": "debug"}, {"targetPort": 6060}]});
    let found = targets(0, vec![monitor("shop", by_pod)], false);
    assert_eq!(
        (&found[0]["targets"][0], &found[1]["targets"][0]),
        (&json!("10.0.0.7:6060"), &json!("10.0.0.7:6060"))
    );
}

#[test]
fn pod_monitor_finds_pods_by_port() {
    let spec = json!({"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]},
        "jobLabel": "tier", "podMetricsEndpoints": [{"port": "metrics"}, {"portNumber": 6060}]});
    let found = targets(1, vec![monitor("shop", spec)], false);
    assert_eq!(found[0]["targets"], json!(["10.0.0.7:9100"]));
    assert_eq!(found[0]["labels"]["job"], "front");
    assert_eq!(found[1]["labels"]["endpoint"], "6060");
    let plain = json!({"selector": {}, "podMetricsEndpoints": [{"port": "metrics"}]});
    assert_eq!(targets(1, vec![monitor("shop", plain)], false)[0]["labels"]["job"], "shop/m");
    let none =
        json!({"selector": {"matchLabels": {"app": "db"}}, "podMetricsEndpoints": [{"port": "metrics"}]});
    assert_eq!(targets(1, vec![monitor("shop", none)], false), json!([]));
}

#[test]
fn probe_asks_the_prober_for_each_target() {
    let spec = json!({"prober": {"url": "blackbox:9115"}, "module": "http_2xx",
        "targets": {"staticConfig": {"static": ["https://a.example"], "labels": {"env": "prod"}}}});
    let found = targets(2, vec![monitor("shop", spec)], false);
    assert_eq!(
        found,
        json!([{"targets": ["blackbox:9115"], "labels": {
            "__scheme__": "http", "__metrics_path__": "/probe", "__param_target": "https://a.example",
            "__param_module": "http_2xx", "instance": "https://a.example", "job": "probe/shop/m", "env": "prod",
            "namespace": "shop"}}])
    );
    let spec = json!({"prober": {"url": "blackbox:9115"}, "jobName": "sites", "targets": {"ingress": {"selector": {}}}});
    let found = targets(2, vec![monitor("shop", spec)], false);
    assert_eq!(found.as_array().unwrap().len(), 1);
    assert_eq!(found[0]["labels"]["__param_target"], "https://shop.example/cart");
    assert_eq!(
        (&found[0]["labels"]["job"], &found[0]["labels"]["ingress"]),
        (&json!("sites"), &json!("front"))
    );
}

#[test]
fn relabelling_leads_to_no_other_host_and_no_other_namespace() {
    let with = |relabelings: Value| {
        let spec = json!({"selector": {}, "endpoints": [{"port": "http", "relabelings": relabelings}]});
        targets(0, vec![monitor("shop", spec)], false)
    };
    let elsewhere = json!([{"targetLabel": "__address__", "replacement": "169.254.169.254:80"}]);
    assert_eq!(with(elsewhere), json!([]));
    let port = json!([{"sourceLabels": ["__address__"], "regex": "(.+):\\d+", "targetLabel": "__address__", "replacement": "$1:6060"}]);
    assert_eq!(with(port)[0]["targets"], json!(["10.0.0.7:6060"]));
    let other = json!([{"targetLabel": "namespace", "replacement": "kube-system"}]);
    assert_eq!(with(other)[0]["labels"]["namespace"], "shop");
    let meta = json!([{"sourceLabels": ["__meta_kubernetes_pod_label_tier"], "targetLabel": "tier"}]);
    assert_eq!(with(meta)[0]["labels"]["tier"], "front");
    assert_eq!(with(json!([{"action": "drop", "sourceLabels": ["pod"], "regex": "web-.*"}])), json!([]));
    // What could not be read would have been refused; it is never passed over.
    assert_eq!(with(json!([{"regex": "("}])), json!([]));
}

#[test]
fn objects_are_read_only_for_monitors_that_need_them() {
    let one = || vec![json!({"spec": {"targets": {"staticConfig": {}}}})];
    assert!(needs(&[Vec::new(), Vec::new(), one()]).is_empty());
    assert_eq!(needs(&[Vec::new(), one(), Vec::new()]), [Kind::Pod]);
    assert_eq!(needs(&[one(), Vec::new(), Vec::new()]), [Kind::EndpointSlice, Kind::Service, Kind::Pod]);
}

#[track_caller]
fn check(resource: &Resource, spec: Value, expected: &[&str]) {
    let mut errors = FieldErrors::default();
    resource.strategy.validate(&json!({"spec": spec}), &mut errors);
    let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.contains(expected), "{found}\n{expected}");
    }
}

#[test]
fn monitors_are_refused_with_the_field_that_is_wrong() {
    let services = service_monitor();
    check(&services, json!({"selector": {}, "endpoints": [{"port": "http"}]}), &[]);
    check(&services, json!({}), &["spec.selector: Required", "spec.endpoints: Required"]);
    check(
        &services,
        json!({"selector": {}, "endpoints": [{"interval": "soon", "scheme": "ftp", "relabelings": [{"regex": "("}]}]}),
        &[
            "spec.endpoints[0].interval: Invalid value: \"soon\"",
            "spec.endpoints[0].scheme",
            "spec.endpoints[0].relabelings[0]",
        ],
    );
    check(
        &services,
        json!({"selector": {}, "endpoints": [{"interval": "5s", "scrapeTimeout": "10s"}]}),
        &["scrape timeout greater than scrape interval"],
    );
    check(&pod_monitor(), json!({"selector": {}}), &["spec.podMetricsEndpoints: Required"]);
    check(
        &probe(),
        json!({"prober": {"url": "http://x"}}),
        &["spec.prober.url: Invalid", "spec.targets: Required"],
    );
    let told = services.strategy.warnings(&json!({"spec": {"endpoints": [
        {"metricRelabelings": [{"action": "drop"}], "tlsConfig": {"insecureSkipVerify": true}}]}}));
    assert_eq!(told, ["spec.endpoints[0].metricRelabelings is kept but not applied: see docs/monitoring.md"]);
}
