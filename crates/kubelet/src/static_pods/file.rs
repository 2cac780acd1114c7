//! One manifest as a pod of this node. Pure.

use std::path::Path;

use k8s_openapi::api::core::v1 as core;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::SOURCE;

/// Aliases may multiply a small file into a large one.
const MAX_ALIASED: usize = 10_000;

pub fn parse(text: &str, path: &Path, node_name: &str) -> Result<core::Pod, String> {
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_ALIASED },
    };
    let value: Value =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())?;
    if value["kind"].as_str().is_some_and(|kind| kind != "Pod") {
        return Err(format!("its kind is {}, not Pod", value["kind"]));
    }
    let mut pod: core::Pod = serde_json::from_value(value).map_err(|error| error.to_string())?;
    let meta = &mut pod.metadata;
    let name = meta.name.take().filter(|name| !name.is_empty()).ok_or("it has no name")?;
    meta.name = Some(format!("{name}-{node_name}"));
    meta.namespace.get_or_insert_with(|| "default".to_owned());
    let digest = Sha256::new().chain_update(node_name).chain_update([0]);
    let digest =
        digest.chain_update(path.as_os_str().as_encoded_bytes()).chain_update([0]).chain_update(text);
    let uid: String = digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let annotations = meta.annotations.get_or_insert_default();
    annotations.insert(SOURCE.to_owned(), "file".to_owned());
    annotations.insert("kubernetes.io/config.hash".to_owned(), uid.clone());
    meta.uid = Some(uid);
    let spec = pod.spec.as_mut().ok_or("it has no spec")?;
    if spec.containers.is_empty() {
        return Err("it has no containers".to_owned());
    }
    spec.node_name = Some(node_name.to_owned());
    // A taint must not drive away what only the file can end.
    let stays = core::Toleration {
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        ..Default::default()
    };
    spec.tolerations.get_or_insert_default().push(stays);
    pod.status = None;
    Ok(pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests() {
        let good =
            "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers: [{name: a, image: b}]\n";
        let pod = parse(good, Path::new("/m/web.yaml"), "n1").unwrap();
        assert_eq!(pod.metadata.name.as_deref(), Some("web-n1"));
        assert_eq!(pod.metadata.namespace.as_deref(), Some("default"));
        assert_eq!(pod.spec.as_ref().unwrap().node_name.as_deref(), Some("n1"));
        let uid =
            |text: &str, path: &str, node: &str| parse(text, Path::new(path), node).unwrap().metadata.uid;
        assert_eq!(uid(good, "/m/web.yaml", "n1"), pod.metadata.uid);
        for other in [
            uid(good, "/m/other.yaml", "n1"),
            uid(good, "/m/web.yaml", "n2"),
            uid(&format!("{good}\n"), "/m/web.yaml", "n1"),
        ] {
            assert_ne!(other, pod.metadata.uid);
        }
        let check = |text: &str, complaint: &str| {
            let error = parse(text, Path::new("/m/x.yaml"), "n1").unwrap_err();
            assert!(error.contains(complaint), "{text}: {error}");
        };
        check("kind: Service\nmetadata: {name: x}", "not Pod");
        check("spec: {containers: [{name: a}]}", "no name");
        check("metadata: {name: x}", "no spec");
        check("metadata: {name: x}\nspec: {containers: []}", "no containers");
        check("spec: 7\nmetadata: {name: x}", "invalid type");
    }
}
