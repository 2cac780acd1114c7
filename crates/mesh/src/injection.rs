//! Every pod of a cluster with a mesh gets a proxy: an init container that stays, before all others.
//!
//! Pods of the host's network have no network of their own to watch over, and whoever says `minik8s.io/mesh: disabled`, as a
//! pod or as a namespace, is left alone. A pod that runs as the proxy's user would go past it unseen, so it is refused.

use async_trait::async_trait;
use minik8s_api::{AdmissionError, AdmissionRequest, AdmissionRule, Objects, Operation, ResourceRef, Scope};
use minik8s_meta::mesh::{INBOUND_ENV, MESH_LABEL, SIDECAR, SIDECAR_IMAGE, SIDECAR_UID, is_sidecar_image};
use serde_json::{Value, json};

const MIRROR: &str = "kubernetes.io/config.mirror";
const NAMESPACES: ResourceRef<'static> = ResourceRef { group: "", version: "v1", plural: "namespaces" };

pub struct ProxyInjection;

#[async_trait]
impl AdmissionRule for ProxyInjection {
    async fn admit(
        &self,
        cluster: &dyn Objects,
        request: &mut AdmissionRequest<'_>,
    ) -> Result<(), AdmissionError> {
        if is_debugging(request) && wants_proxy(request.object) {
            return check_ephemeral(&request.object["spec"]).map_err(AdmissionError::Forbidden);
        }
        let is_new_pod = request.operation == Operation::Create && request.is_core("pods");
        if !is_new_pod || !wants_proxy(request.object) {
            return Ok(());
        }
        let scope = Scope { namespace: "", name: Some(request.namespace), now: request.now };
        if cluster.read(&NAMESPACES, scope).await?.iter().any(is_disabled) {
            return Ok(());
        }
        inject(&mut request.object["spec"]).map_err(AdmissionError::Forbidden)
    }
}

/// Whether it adds containers to a pod that runs.
fn is_debugging(request: &AdmissionRequest<'_>) -> bool {
    let is_pod = request.resource.group.is_empty() && request.resource.plural == "pods";
    is_pod && request.operation == Operation::Update && request.subresource == "ephemeralcontainers"
}

/// They are held to the same as those that a pod with a proxy begins with.
fn check_ephemeral(spec: &Value) -> Result<(), String> {
    let mut init = spec["initContainers"].as_array().into_iter().flatten();
    let has_proxy = init.any(|container| container["name"] == SIDECAR);
    let mut added = spec["ephemeralContainers"].as_array().into_iter().flatten();
    let as_user = added.find(|container| container["securityContext"]["runAsUser"] == SIDECAR_UID);
    match as_user.filter(|_| has_proxy) {
        Some(container) => Err(as_proxy(&container["name"])),
        None => Ok(()),
    }
}

fn is_disabled(object: &Value) -> bool {
    object["metadata"]["labels"][MESH_LABEL] == "disabled"
}

fn wants_proxy(pod: &Value) -> bool {
    let is_mirror = pod["metadata"]["annotations"][MIRROR].is_string();
    !is_mirror && !is_disabled(pod) && pod["spec"]["hostNetwork"] != true
}

/// Once: rules are gone through again after webhooks have changed a pod.
fn inject(spec: &mut Value) -> Result<(), String> {
    let init = spec["initContainers"].as_array().into_iter().flatten();
    let main = spec["containers"].as_array().into_iter().flatten();
    for container in init.clone().chain(main) {
        let is_ours = container["name"] == SIDECAR && is_sidecar_image(container["image"].as_str());
        if container["name"] == SIDECAR && !is_ours {
            return Err(format!("the name {SIDECAR} is that of the mesh's own container: choose another"));
        }
        let same_user = container["securityContext"]["runAsUser"] == SIDECAR_UID;
        if same_user && !is_ours {
            return Err(as_proxy(&container["name"]));
        }
    }
    if spec["securityContext"]["runAsUser"] == SIDECAR_UID {
        return Err(as_proxy(&Value::Null));
    }
    if init.clone().any(|container| container["name"] == SIDECAR) {
        return Ok(());
    }
    match spec["initContainers"].as_array_mut() {
        Some(containers) => containers.insert(0, proxy()),
        None => spec["initContainers"] = json!([proxy()]),
    }
    Ok(())
}

fn as_proxy(container: &Value) -> String {
    let who = container.as_str().map_or("it".to_owned(), |name| format!("container {name}"));
    format!(
        "{who} runs as user {SIDECAR_UID}, whose connections the mesh takes for those of its proxy: use another user, or \
         the label {MESH_LABEL}: disabled"
    )
}

/// As a user without any right, so that it is allowed wherever pods are.
fn proxy() -> Value {
    json!({
        "name": SIDECAR,
        "image": SIDECAR_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        "env": [{"name": INBOUND_ENV, "value": "1"}],
        "resources": {"requests": {"cpu": "5m", "memory": "6Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": {
            "runAsUser": SIDECAR_UID,
            "runAsGroup": SIDECAR_UID,
            "runAsNonRoot": true,
            "readOnlyRootFilesystem": true,
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_is_first_and_only_once() {
        let mut spec = json!({"initContainers": [{"name": "first"}], "containers": [{"name": "main"}]});
        for _ in 0..2 {
            inject(&mut spec).unwrap();
        }
        let names: Vec<_> =
            spec["initContainers"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
        assert_eq!(names, [SIDECAR, "first"]);
    }

    #[test]
    fn pod_that_would_pass_for_the_proxy_is_refused() {
        for spec in [
            json!({"securityContext": {"runAsUser": 1337}, "containers": [{"name": "main"}]}),
            json!({"containers": [{"name": "main", "securityContext": {"runAsUser": 1337}}]}),
            json!({"initContainers": [{"name": "a", "securityContext": {"runAsUser": 1337}}], "containers": []}),
            json!({"containers": [{"name": SIDECAR, "image": "mine"}]}),
        ] {
            assert!(inject(&mut spec.clone()).is_err(), "{spec}");
        }
    }

    #[test]
    fn ephemeral_container_of_the_proxys_user_is_refused() {
        let check = |init: Value, user: i64, expected: bool| {
            let added = json!([{"name": "debug", "securityContext": {"runAsUser": user}}]);
            let spec = json!({"initContainers": init, "ephemeralContainers": added});
            assert_eq!(check_ephemeral(&spec).is_ok(), expected, "{spec}");
        };
        check(json!([{"name": SIDECAR}]), 1337, false);
        check(json!([{"name": SIDECAR}]), 1000, true);
        check(json!([{"name": "other"}]), 1337, true);
    }

    #[test]
    fn who_has_no_proxy() {
        let check = |pod: Value, expected: bool| assert_eq!(wants_proxy(&pod), expected, "{pod}");
        check(json!({"spec": {}}), true);
        check(json!({"spec": {"hostNetwork": true}}), false);
        check(json!({"metadata": {"labels": {MESH_LABEL: "disabled"}}, "spec": {}}), false);
        check(json!({"metadata": {"labels": {MESH_LABEL: "enabled"}}, "spec": {}}), true);
        check(json!({"metadata": {"annotations": {MIRROR: "x"}}, "spec": {}}), false);
    }
}
