//! The secrets that a class or a volume names for its driver, and what else stands among a class's parameters.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret, SecretReference};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::{Api, Client};
use minik8s_csi::Pairs;
use serde_json::{Value, json};

use super::provision::volume_name;
use super::remote::RemoteError;

const PREFIX: &str = "csi.storage.k8s.io/";

/// A class's parameters for the driver alone.
pub fn plain_parameters(class: &StorageClass) -> Pairs {
    let all = class.parameters.clone().unwrap_or_default();
    all.into_iter().filter(|(key, _)| !key.starts_with(PREFIX)).collect()
}

pub fn fs_type(class: &StorageClass) -> Option<String> {
    class.parameters.as_ref()?.get("csi.storage.k8s.io/fstype").cloned()
}

/// The reference that a class has for one purpose (`provisioner`, `node-stage` and so on), with the claim's names put in.
pub fn reference(class: &StorageClass, claim: &PersistentVolumeClaim, purpose: &str) -> Option<Value> {
    let parameters = class.parameters.as_ref()?;
    let part = |part: &str| {
        let text = parameters.get(&format!("{PREFIX}{purpose}-secret-{part}"))?;
        Some(filled_in(text, claim))
    };
    Some(json!({"name": part("name")?, "namespace": part("namespace")?}))
}

/// `${pvc.name}`, `${pvc.namespace}`, `${pv.name}` and the claim's annotations.
fn filled_in(text: &str, claim: &PersistentVolumeClaim) -> String {
    let empty = BTreeMap::new();
    let annotations = claim.metadata.annotations.as_ref().unwrap_or(&empty);
    let mut text = text
        .replace("${pvc.name}", claim.metadata.name.as_deref().unwrap_or_default())
        .replace("${pvc.namespace}", claim.metadata.namespace.as_deref().unwrap_or_default())
        .replace("${pv.name}", &volume_name(claim));
    for (key, value) in annotations {
        text = text.replace(&format!("${{pvc.annotations['{key}']}}"), value);
    }
    text
}

pub async fn read(client: &Client, reference: Option<&SecretReference>) -> Result<Pairs, RemoteError> {
    let Some(reference) = reference else { return Ok(Pairs::new()) };
    let (namespace, name) =
        (reference.namespace.as_deref().unwrap_or_default(), reference.name.as_deref().unwrap_or_default());
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let Some(found) = secrets.get_opt(name).await? else {
        return Err(RemoteError::Wish(format!("secret {namespace}/{name} of the volume is not there")));
    };
    let data = found.data.unwrap_or_default().into_iter();
    Ok(data.map(|(key, value)| (key, String::from_utf8_lossy(&value.0).into_owned())).collect())
}
