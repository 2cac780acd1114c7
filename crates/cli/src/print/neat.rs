//! Objects as a person would have written them: without what the server adds. Applied again, they mean the same: a
//! field goes only if it is the server's own record, or has the value that the server would fill in.

use serde_json::{Map, Value, json};

/// What the server keeps about every object.
const RECORDS: &[&str] = &[
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];
const ANNOTATIONS: &[&str] =
    &["kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision"];

/// One object, or each of a list.
pub fn neat(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(tidy);
        return object;
    }
    tidy(&mut object);
    object
}

fn tidy(object: &mut Value) {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let Some(fields) = object.as_object_mut() else { return };
    fields.shift_remove("status");
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        tidy_metadata(metadata);
    }
    let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) else { return };
    match kind.as_str() {
        "Pod" => {
            forget(spec, &["nodeName", "preemptionPolicy", "priority"]);
            without(spec, "enableServiceLinks", &json!(true));
            tidy_tokens(spec);
            tidy_pod(spec);
        }
        "Service" => tidy_service(spec),
        "CronJob" => {
            let template = spec.get_mut("jobTemplate").and_then(|job| job.pointer_mut("/spec/template"));
            template.into_iter().for_each(tidy_template);
        }
        _ => tidy_workload(spec),
    }
}

fn tidy_metadata(metadata: &mut Map<String, Value>) {
    forget(metadata, RECORDS);
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        forget(annotations, ANNOTATIONS);
    }
    without(metadata, "annotations", &json!({}));
    // The controller makes pods of its own again; a pod that is applied is nobody's.
    metadata.shift_remove("ownerReferences");
}

fn tidy_workload(spec: &mut Map<String, Value>) {
    without(spec, "progressDeadlineSeconds", &json!(600));
    without(spec, "revisionHistoryLimit", &json!(10));
    without(spec, "podManagementPolicy", &json!("OrderedReady"));
    let rolling =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
    without(spec, "strategy", &rolling);
    without(spec, "updateStrategy", &json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}));
    if let Some(template) = spec.get_mut("template") {
        tidy_template(template);
    }
}

fn tidy_template(template: &mut Value) {
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        without(metadata, "creationTimestamp", &Value::Null);
    }
    if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) {
        tidy_pod(spec);
    }
}

fn tidy_pod(spec: &mut Map<String, Value>) {
    without(spec, "dnsPolicy", &json!("ClusterFirst"));
    without(spec, "restartPolicy", &json!("Always"));
    without(spec, "schedulerName", &json!("default-scheduler"));
    without(spec, "securityContext", &json!({}));
    without(spec, "terminationGracePeriodSeconds", &json!(30));
    // The old name of serviceAccountName, which the server fills in.
    spec.shift_remove("serviceAccount");
    without(spec, "serviceAccountName", &json!("default"));
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        containers.into_iter().flatten().filter_map(Value::as_object_mut).for_each(tidy_container);
    }
}

fn tidy_container(container: &mut Map<String, Value>) {
    without(container, "resources", &json!({}));
    without(container, "terminationMessagePath", &json!("/dev/termination-log"));
    without(container, "terminationMessagePolicy", &json!("File"));
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    let is_latest = !image.contains('@') && (name.ends_with(":latest") || !name.contains(':'));
    without(container, "imagePullPolicy", &json!(if is_latest { "Always" } else { "IfNotPresent" }));
    tidy_ports(container);
}

fn tidy_service(spec: &mut Map<String, Value>) {
    if spec.get("clusterIP").is_some_and(|address| address != "None") {
        forget(spec, &["clusterIP", "clusterIPs"]);
    }
    forget(spec, &["ipFamilies"]);
    without(spec, "ipFamilyPolicy", &json!("SingleStack"));
    without(spec, "internalTrafficPolicy", &json!("Cluster"));
    without(spec, "sessionAffinity", &json!("None"));
    without(spec, "type", &json!("ClusterIP"));
    tidy_ports(spec);
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let number = port["port"].clone();
        if let Some(port) = port.as_object_mut() {
            without(port, "targetPort", &number);
        }
    }
}

fn tidy_ports(owner: &mut Map<String, Value>) {
    let ports = owner.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        without(port, "protocol", &json!("TCP"));
    }
}

/// The volume with a token that admission adds to every pod, and the tolerations that it adds.
fn tidy_tokens(spec: &mut Map<String, Value>) {
    let is_token = |name: &Value| name.as_str().is_some_and(|name| name.starts_with("kube-api-access-"));
    let keep = |owner: &mut Map<String, Value>, list: &str| {
        if let Some(items) = owner.get_mut(list).and_then(Value::as_array_mut) {
            items.retain(|item| !is_token(&item["name"]));
        }
        without(owner, list, &json!([]));
    };
    keep(spec, "volumes");
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            keep(container, "volumeMounts");
        }
    }
    let added = |toleration: &Value| {
        let key = toleration["key"].as_str().unwrap_or_default();
        matches!(key, "node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable")
            && toleration["tolerationSeconds"] == 300
    };
    if let Some(tolerations) = spec.get_mut("tolerations").and_then(Value::as_array_mut) {
        tolerations.retain(|toleration| !added(toleration));
    }
    without(spec, "tolerations", &json!([]));
}

fn forget(fields: &mut Map<String, Value>, names: &[&str]) {
    for name in names {
        fields.shift_remove(*name);
    }
}

fn without(fields: &mut Map<String, Value>, name: &str, default: &Value) {
    if fields.get(name) == Some(default) {
        fields.shift_remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_adds_goes() {
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "uid": "1", "resourceVersion": "2", "generation": 3, "creationTimestamp": "x",
                "annotations": {"deployment.kubernetes.io/revision": "1"}, "labels": {"a": "b"}},
            "spec": {
                "replicas": 2, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
                "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}, "type": "RollingUpdate"},
                "template": {"metadata": {"creationTimestamp": null, "labels": {"a": "b"}}, "spec": {
                    "containers": [{"name": "c", "image": "r:5000/web", "imagePullPolicy": "Always", "resources": {},
                        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                        "ports": [{"containerPort": 80, "protocol": "TCP"}]}],
                    "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                    "securityContext": {}, "terminationGracePeriodSeconds": 5,
                }},
            },
            "status": {"replicas": 2},
        });
        let expected = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"a": "b"}},
            "spec": {"replicas": 2, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                "containers": [{"name": "c", "image": "r:5000/web", "ports": [{"containerPort": 80}]}],
                "terminationGracePeriodSeconds": 5,
            }}},
        });
        assert_eq!(neat(&deployment), expected);
        assert_eq!(neat(&json!({"kind": "List", "items": [deployment]}))["items"][0], expected);
    }

    #[test]
    fn what_somebody_chose_stays() {
        let chosen = json!({
            "kind": "Service", "metadata": {"name": "s"},
            "spec": {"clusterIP": "None", "type": "NodePort", "ports": [{"port": 80, "targetPort": 8080, "protocol": "UDP"}]},
        });
        assert_eq!(neat(&chosen), chosen);
        let container = json!({"name": "c", "image": "web:1", "imagePullPolicy": "Always"});
        let pod = json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}});
        assert_eq!(neat(&pod), pod);
    }

    #[test]
    fn token_of_a_pod_goes() {
        let pod = json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": {
            "nodeName": "n", "serviceAccount": "default", "serviceAccountName": "default",
            "containers": [{"name": "c", "image": "web:1", "volumeMounts": [{"name": "kube-api-access-x"}, {"name": "own"}]}],
            "volumes": [{"name": "kube-api-access-x"}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "tolerationSeconds": 300}],
        }});
        let expected = json!({"kind": "Pod", "metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "c", "image": "web:1", "volumeMounts": [{"name": "own"}]}],
        }});
        assert_eq!(neat(&pod), expected);
    }
}
