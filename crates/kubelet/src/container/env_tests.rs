use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

fn desired_pod(container: Value) -> DesiredPod {
    let pod = json!({
        "metadata": {"name": "web", "namespace": "ns", "uid": "u", "labels": {"app": "x"},
            "annotations": {"a": "say \"hi\""}},
        "spec": {"containers": [container], "serviceAccountName": "sa"},
    });
    DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()))
}

fn objects() -> Objects {
    let mut objects = Objects::default();
    let data = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), v.as_bytes().to_vec())).collect::<BTreeMap<_, _>>()
    };
    objects.config_maps.insert("cm".into(), Some(data(&[("K", "from-cm"), ("bad=key", "x")])));
    objects.secrets.insert("s".into(), Some(data(&[("K", "from-secret"), ("ONLY", "here")])));
    objects
}

fn check(container: Value, want: Result<&[(&str, &str)], &str>) {
    let mut container = container;
    container["name"] = "main".into();
    let desired_pod = desired_pod(container.clone());
    let placement = Placement {
        node_name: "n1".into(),
        host_ips: vec!["192.0.2.1".into()],
        pod_ips: vec!["10.0.0.2".into(), "fd00::2".into()],
        allocatable_cpu: 4000,
        allocatable_memory: 1 << 30,
    };
    let got = environment(&desired_pod, &desired_pod.containers[0], &objects(), &placement, &[]);
    let want = want
        .map(|pairs| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<Vec<_>>())
        .map_err(str::to_owned);
    assert_eq!(got.map_err(|e| e.to_string()), want, "{container}");
}

#[test]
fn values_refer_to_earlier_ones() {
    check(
        json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}, {"name": "C", "value": "3"}]}),
        Ok(&[("A", "1"), ("B", "1$(C)"), ("C", "3")]),
    );
    check(json!({"env": [{"name": "A"}, {"name": "A", "value": "2"}]}), Ok(&[("A", "2")]));
}

/// A pod of some lines that would take the node's memory, and a pod that names a large key again and again.
#[test]
fn values_that_grow_without_end_are_refused() {
    let too_large =
        "environment, command and paths with their variables are larger than 6291456 bytes together";
    let mut doubling = vec![json!({"name": "V0", "value": "laugh"})];
    for n in 1..100 {
        let before = n - 1;
        doubling.push(json!({"name": format!("V{n}"), "value": format!("$(V{before})$(V{before})")}));
    }
    check(json!({"env": doubling}), Err(too_large));
    let large = "x".repeat(1_000_000);
    let repeated: Vec<Value> = (0..10).map(|n| json!({"name": format!("V{n}"), "value": large})).collect();
    check(json!({"env": repeated}), Err(too_large));
}

#[test]
fn whole_objects() {
    check(
        json!({"envFrom": [{"configMapRef": {"name": "cm"}}, {"prefix": "P_", "secretRef": {"name": "s"}}],
            "env": [{"name": "K", "value": "own"}]}),
        Ok(&[("K", "own"), ("P_K", "from-secret"), ("P_ONLY", "here")]),
    );
    check(json!({"envFrom": [{"configMapRef": {"name": "no"}}]}), Err("configmap \"no\" not found"));
    check(json!({"envFrom": [{"configMapRef": {"name": "no", "optional": true}}]}), Ok(&[]));
}

#[test]
fn single_keys() {
    let key = |kind: &str, reference: Value| json!({"env": [{"name": "V", "valueFrom": {kind: reference}}]});
    check(key("configMapKeyRef", json!({"name": "cm", "key": "K"})), Ok(&[("V", "from-cm")]));
    check(key("secretKeyRef", json!({"name": "s", "key": "ONLY"})), Ok(&[("V", "here")]));
    check(
        key("configMapKeyRef", json!({"name": "cm", "key": "X"})),
        Err("couldn't find key X in ConfigMap ns/cm"),
    );
    check(key("secretKeyRef", json!({"name": "no", "key": "X"})), Err("secret \"no\" not found"));
    check(key("secretKeyRef", json!({"name": "no", "key": "X", "optional": true})), Ok(&[]));
}

#[test]
fn the_downward_api() {
    let field = |path: &str, want: Result<&str, &str>| {
        let env = json!({"env": [{"name": "V", "valueFrom": {"fieldRef": {"fieldPath": path}}}]});
        match want {
            Ok(value) => check(env, Ok(&[("V", value)])),
            Err(message) => check(env, Err(message)),
        }
    };
    field("metadata.name", Ok("web"));
    field("metadata.namespace", Ok("ns"));
    field("metadata.uid", Ok("u"));
    field("metadata.labels['app']", Ok("x"));
    field("metadata.annotations['none']", Ok(""));
    field("metadata.annotations", Ok(r#"a="say \"hi\"""#));
    field("spec.nodeName", Ok("n1"));
    field("spec.serviceAccountName", Ok("sa"));
    field("status.hostIP", Ok("192.0.2.1"));
    field("status.podIP", Ok("10.0.0.2"));
    field("status.podIPs", Ok("10.0.0.2,fd00::2"));
    field("spec.tolerations", Err("field path \"spec.tolerations\" is not supported"));
}

#[test]
fn resources_with_divisors() {
    let resource = |resource: &str, divisor: &str, want: &str| {
        check(
            json!({"resources": {"requests": {"cpu": "1200m"}, "limits": {"memory": "1.5Gi"}},
                "env": [{"name": "V", "valueFrom": {"resourceFieldRef": {"resource": resource, "divisor": divisor}}}]}),
            Ok(&[("V", want)]),
        );
    };
    resource("requests.cpu", "1", "2");
    resource("requests.cpu", "1m", "1200");
    resource("limits.cpu", "1", "4");
    resource("limits.memory", "1Mi", "1536");
    resource("requests.memory", "0", &(3_u64 << 29).to_string());
}
