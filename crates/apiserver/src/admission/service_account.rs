//! Every pod runs as a service account, with a token it can use mounted.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Admission, Operation, Request};
use crate::error::{ApiError, Result};
use crate::object::object_at;
use crate::registry::Registry;

const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Slightly above an hour, as upstream: clients that refresh hourly never see it expire.
const TOKEN_SECONDS: u64 = 3607;
const MIRROR: &str = "kubernetes.io/config.mirror";

pub struct ServiceAccounts;

#[async_trait]
impl Admission for ServiceAccounts {
    async fn admit(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        if request.operation != Operation::Create || !request.is_core("pods") {
            return Ok(());
        }
        if request.object["metadata"]["annotations"][MIRROR].is_string() {
            return Ok(());
        }
        let spec = object_at(request.object, "spec");
        let given = spec.get("serviceAccountName").and_then(Value::as_str).unwrap_or_default();
        let name = if given.is_empty() { "default".to_owned() } else { given.to_owned() };
        let accounts = registry.built_in("", "v1", "serviceaccounts")?;
        let account = match registry.look(&accounts, &request.call.namespace, &name).await {
            Ok(account) => account,
            Err(e) if e.code == 404 => {
                let account =
                    format!("{}/{name}: serviceaccount \"{name}\" not found", request.call.namespace);
                let why = format!("error looking up service account {account}");
                let pod = request.object["metadata"]["name"].as_str().unwrap_or_default();
                return Err(ApiError::forbidden(Some(request.call.served.resource()), pod, why));
            }
            Err(e) => return Err(e),
        };
        spec.insert("serviceAccountName".into(), name.clone().into());
        spec.insert("serviceAccount".into(), name.into());
        let pull_secrets = spec.get("imagePullSecrets").and_then(Value::as_array).is_none_or(Vec::is_empty);
        if pull_secrets && account["imagePullSecrets"].is_array() {
            spec.insert("imagePullSecrets".into(), account["imagePullSecrets"].clone());
        }
        let of_pod = spec.get("automountServiceAccountToken").and_then(Value::as_bool);
        if of_pod.or(account["automountServiceAccountToken"].as_bool()).unwrap_or(true) {
            mount_token(&mut request.object["spec"]);
        }
        Ok(())
    }
}

/// Adds the projected volume to the pod and a mount to every container that has none at that path.
fn mount_token(spec: &mut Value) {
    let mut volume_name = None;
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mounts = container["volumeMounts"].as_array();
            let mounted = mounts.into_iter().flatten().any(|mount| mount["mountPath"] == MOUNT_PATH);
            if mounted {
                continue;
            }
            let name = volume_name.get_or_insert_with(|| format!("kube-api-access-{}", suffix()));
            let mount = json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH});
            match container["volumeMounts"].as_array_mut() {
                Some(mounts) => mounts.push(mount),
                None => container["volumeMounts"] = json!([mount]),
            }
        }
    }
    let Some(name) = volume_name else { return };
    let volume = json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
        ]}},
    ]}});
    match spec["volumes"].as_array_mut() {
        Some(volumes) => volumes.push(volume),
        None => spec["volumes"] = json!([volume]),
    }
}

fn suffix() -> String {
    crate::registry::random_suffix()
}
