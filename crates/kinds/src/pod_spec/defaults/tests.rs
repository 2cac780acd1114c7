use serde_json::{Value, json};

use super::container::pull_policy;
use super::{pod_spec, template_spec};

fn filled(fill: fn(&mut Value), mut spec: Value) -> Value {
    fill(&mut spec);
    let once = spec.clone();
    fill(&mut spec);
    assert_eq!(spec, once, "defaulting twice is defaulting once");
    once
}

/// Every field of `expected` must be in the defaulted spec.
fn check(spec: Value, pointer: &str, expected: Value) {
    let spec = filled(pod_spec, spec);
    assert_eq!(spec.pointer(pointer), Some(&expected), "{pointer} in {spec}");
}

fn with_container(container: Value) -> Value {
    json!({ "containers": [container] })
}

#[test]
fn pull_policies() {
    for (image, policy) in [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.29", "IfNotPresent"),
        ("localhost:5000/nginx", "Always"),
        ("localhost:5000/nginx:1", "IfNotPresent"),
        ("nginx@sha256:0123", "IfNotPresent"),
        ("", "IfNotPresent"),
    ] {
        assert_eq!(pull_policy(image), policy, "{image}");
    }
}

#[test]
fn an_ordinary_pod() {
    let spec = filled(pod_spec, with_container(json!({"name": "web", "image": "nginx:1"})));
    assert_eq!(
        spec,
        json!({
            "containers": [{
                "name": "web",
                "image": "nginx:1",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
                "resources": {},
            }],
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30,
            "securityContext": {},
            "enableServiceLinks": true,
        })
    );
}

#[test]
fn containers() {
    let container = json!({
        "name": "web",
        "ports": [{"containerPort": 80}],
        "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}, "requests": {"cpu": "100.5m"}},
        "livenessProbe": {"httpGet": {"port": 80}, "timeoutSeconds": 0},
        "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
    });
    let check = |pointer: &str, expected: Value| {
        check(with_container(container.clone()), &format!("/containers/0{pointer}"), expected);
    };
    check("/ports/0", json!({"containerPort": 80, "protocol": "TCP"}));
    check("/env/0/valueFrom/fieldRef/apiVersion", json!("v1"));
    check("/resources/limits", json!({"cpu": "500m", "memory": "1Gi"}));
    check("/resources/requests", json!({"cpu": "101m", "memory": "1Gi"}));
    check(
        "/livenessProbe",
        json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1,
            "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}),
    );
    check("/lifecycle/preStop/httpGet/scheme", json!("HTTP"));
}

#[test]
fn only_pods_open_host_ports_and_request_limits() {
    let spec = json!({
        "hostNetwork": true,
        "containers": [{"name": "a", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": 1}}}],
    });
    check(spec.clone(), "/containers/0/ports/0/hostPort", json!(80));
    check(spec.clone(), "/containers/0/resources/requests/cpu", json!("1"));
    let template = filled(template_spec, spec);
    assert_eq!(template.pointer("/containers/0/ports/0/hostPort"), None);
    assert_eq!(template.pointer("/containers/0/resources/requests"), None);
    assert_eq!(template.pointer("/enableServiceLinks"), None);
}

#[test]
fn whole_pod_asks_for_what_its_containers_do_or_else_for_its_limit() {
    let asks = |requests: Value| json!({"name": "c", "resources": {"requests": requests}});
    let check = |spec: Value, expected: Value| check(spec, "/resources/requests", expected);
    let limits = json!({"cpu": 4, "memory": "2048Mi", "hugepages-2Mi": "4Mi", "example.com/gpu": 1});
    let containers = [asks(json!({"cpu": 1})), asks(json!({"cpu": "500m"}))];
    check(
        json!({"containers": containers, "resources": {"limits": limits}}),
        json!({"cpu": "1500m", "memory": "2Gi", "hugepages-2Mi": "4Mi"}),
    );
    check(
        json!({"containers": containers, "resources": {"limits": {"memory": "1Gi"}, "requests": {"memory": "1Mi"}}}),
        json!({"memory": "1Mi", "cpu": "1500m"}),
    );
    let limited = json!({"name": "c", "resources": {"limits": {"cpu": 2}}});
    check(json!({"containers": [limited], "resources": {"limits": {"cpu": 3}}}), json!({"cpu": "2"}));
    let sidecar = |cpu: i64| {
        let mut container = asks(json!({ "cpu": cpu }));
        container["restartPolicy"] = json!("Always");
        container
    };
    for (init, expected) in [
        (json!([asks(json!({"cpu": 3})), sidecar(1)]), "3"),
        (json!([sidecar(1), asks(json!({"cpu": 3}))]), "4"),
        (json!([sidecar(2), asks(json!({"memory": 1}))]), "3500m"),
    ] {
        check_cpu(json!({"containers": containers, "initContainers": init}), expected);
    }
    let most = asks(json!({"cpu": "9E"}));
    check_cpu(json!({"containers": [most, most]}), "9223372036854775807");
    for resources in [Value::Null, json!({}), json!({"limits": {}}), json!({"limits": {"cpu": "x"}})] {
        let spec = filled(pod_spec, json!({"containers": [], "resources": resources}));
        assert_eq!(spec["resources"], resources);
    }
    let template = filled(template_spec, json!({"resources": {"limits": {"cpu": "1"}}}));
    assert_eq!(template["resources"], json!({"limits": {"cpu": "1"}}));
}

/// What a pod asks for that is limited to more.
fn check_cpu(mut spec: Value, expected: &str) {
    spec["resources"] = json!({"limits": {"cpu": "10"}});
    check(spec, "/resources/requests/cpu", json!(expected));
}

#[test]
fn volumes() {
    let check =
        |volume: Value, expected: Value| check(json!({ "volumes": [volume] }), "/volumes/0", expected);
    check(json!({"name": "a"}), json!({"name": "a", "emptyDir": {}}));
    check(json!({"secret": {"secretName": "s"}}), json!({"secret": {"secretName": "s", "defaultMode": 420}}));
    check(json!({"hostPath": {"path": "/x"}}), json!({"hostPath": {"path": "/x", "type": ""}}));
    check(json!({"emptyDir": {"sizeLimit": "1024Ki"}}), json!({"emptyDir": {"sizeLimit": "1Mi"}}));
    check(
        json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}),
        json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
            "defaultMode": 420}}),
    );
}

#[test]
fn service_account_names_agree() {
    check(json!({"serviceAccount": "a"}), "/serviceAccountName", json!("a"));
    check(json!({"serviceAccountName": "b", "serviceAccount": "a"}), "/serviceAccount", json!("b"));
}
