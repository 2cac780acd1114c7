//! For whom a node may ask tokens of its pods: audiences that the pods' volumes name, and those it was given the right
//! `request-serviceaccounts-token-audience` for. A stolen node would otherwise be its pods to whoever accepts such tokens.

use std::collections::BTreeSet;
use std::sync::Arc;

use minik8s_auth::Attributes;
use serde_json::Value;

use crate::api::Api;
use crate::error::{ApiError, Result};
use crate::object::Object;
use crate::registry::Call;

const VERB: &str = "request-serviceaccounts-token-audience";

/// `call` is about the pod's service account.
pub async fn check(api: &Arc<Api>, call: &Call, pod: &Value, audiences: &[String]) -> Result<()> {
    let refused = |why: String| Err(ApiError::forbidden(Some(call.served.resource()), &call.name, why));
    let audience = match audiences {
        [] => "",
        [audience] => audience.as_str(),
        _ => return refused("node may only request 0 or 1 audiences".to_owned()),
    };
    if projected(pod).any(|named| named == audience) || is_of_driver(api, pod, audience).await? {
        return Ok(());
    }
    let wanted = Attributes::resource(VERB, "", audience)
        .version("v1")
        .in_namespace(&call.namespace)
        .named(&call.name);
    match api.authorizer.authorize(&call.user, &wanted).await.is_allowed() {
        true => Ok(()),
        false => refused(format!("audience {audience:?} not found in pod spec volume")),
    }
}

fn volumes(pod: &Value) -> impl Iterator<Item = &Value> {
    pod["spec"]["volumes"].as_array().into_iter().flatten()
}

/// Audiences of projected tokens; empty for the API server.
fn projected(pod: &Value) -> impl Iterator<Item = &str> {
    let sources = volumes(pod).filter_map(|volume| volume["projected"]["sources"].as_array()).flatten();
    let tokens = sources.map(|source| &source["serviceAccountToken"]).filter(|token| token.is_object());
    tokens.map(|token| token["audience"].as_str().unwrap_or_default())
}

/// Names of the claims that a pod's volumes are of.
fn claims(pod: &Value) -> Vec<String> {
    let claim = |volume: &Value| match volume["persistentVolumeClaim"]["claimName"].as_str() {
        Some(name) => Some(name.to_owned()),
        None if volume["ephemeral"].is_object() => {
            Some(format!("{}-{}", pod.name(), volume["name"].as_str().unwrap_or_default()))
        }
        None => None,
    };
    volumes(pod).filter_map(claim).collect()
}

/// Whether the driver of one of the pod's volumes wants such tokens.
async fn is_of_driver(api: &Arc<Api>, pod: &Value, audience: &str) -> Result<bool> {
    let mut drivers: BTreeSet<String> =
        volumes(pod).filter_map(|volume| volume["csi"]["driver"].as_str().map(str::to_owned)).collect();
    for claim in claims(pod) {
        let claim = found(api, "", "persistentvolumeclaims", pod.namespace(), &claim).await?;
        let volume = claim["spec"]["volumeName"].as_str().unwrap_or_default();
        let volume = found(api, "", "persistentvolumes", "", volume).await?;
        drivers.extend(volume["spec"]["csi"]["driver"].as_str().map(str::to_owned));
    }
    for driver in drivers {
        let driver = found(api, "storage.k8s.io", "csidrivers", "", &driver).await?;
        let mut wanted = driver["spec"]["tokenRequests"].as_array().into_iter().flatten();
        if wanted.any(|request| request["audience"].as_str().unwrap_or_default() == audience) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Null if there is none.
async fn found(api: &Arc<Api>, group: &str, plural: &str, namespace: &str, name: &str) -> Result<Value> {
    if name.is_empty() {
        return Ok(Value::Null);
    }
    let served = api.registry.built_in(group, "v1", plural)?;
    match api.registry.look(&served, namespace, name).await {
        Err(error) if error.code == 404 => Ok(Value::Null),
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn volumes_name_audiences_and_claims() {
        let token = |audience: Value| json!({"serviceAccountToken": {"path": "t", "audience": audience}});
        let pod = json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"volumes": [
            {"name": "a", "projected": {"sources": [token(json!(null)), token(json!("vault")), {"secret": {}}]}},
            {"name": "b", "persistentVolumeClaim": {"claimName": "claimed"}},
            {"name": "c", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "d", "emptyDir": {}},
        ]}});
        assert_eq!(projected(&pod).collect::<Vec<_>>(), ["", "vault"]);
        assert_eq!(claims(&pod), ["claimed", "p-c"]);
        assert_eq!(projected(&json!({})).count() + claims(&json!({})).len(), 0);
    }
}
