//! PersistentVolumes, claims and storage classes.

use serde_json::Value;

use super::super::page::{Page, amount, items, shown};
use super::volume::source;
use crate::error::Result;
use crate::print::{self, table};
use crate::session::Session;

/// `RWO,ROX`.
fn modes(list: &Value) -> String {
    let short = |mode: &Value| match mode.as_str() {
        Some("ReadWriteOnce") => "RWO".to_owned(),
        Some("ReadOnlyMany") => "ROX".to_owned(),
        Some("ReadWriteMany") => "RWX".to_owned(),
        Some("ReadWriteOncePod") => "RWOP".to_owned(),
        _ => shown(mode),
    };
    items(list).iter().map(short).collect::<Vec<_>>().join(",")
}

fn finalizers(object: &Value) -> String {
    let names: Vec<String> = items(&object["metadata"]["finalizers"]).iter().map(shown).collect();
    format!("[{}]", names.join(" "))
}

pub fn volume(object: &Value, page: &mut Page) {
    let (spec, status) = (&object["spec"], &object["status"]);
    page.head(object);
    page.field(0, "Finalizers", finalizers(object));
    page.field(0, "StorageClass", shown(&spec["storageClassName"]));
    let deleting = object["metadata"]["deletionTimestamp"].is_string();
    page.field(0, "Status", if deleting { "Terminating".to_owned() } else { shown(&status["phase"]) });
    let claim = &spec["claimRef"];
    let claimed =
        claim.is_object().then(|| format!("{}/{}", shown(&claim["namespace"]), shown(&claim["name"])));
    page.field(0, "Claim", claimed.unwrap_or_default());
    page.field(0, "Reclaim Policy", shown(&spec["persistentVolumeReclaimPolicy"]));
    page.field(0, "Access Modes", modes(&spec["accessModes"]));
    page.maybe(0, "VolumeMode", &spec["volumeMode"]);
    page.field(0, "Capacity", amount(&spec["capacity"]["storage"]));
    node_affinity(&spec["nodeAffinity"], page);
    page.field(0, "Message", shown(&status["message"]));
    page.line(0, "Source:");
    let kinds = ["hostPath", "local", "nfs", "csi"];
    let own = kinds.iter().find(|kind| spec[**kind].is_object());
    source(&own.map(|kind| serde_json::json!({*kind: spec[*kind]})).unwrap_or_default(), page);
}

fn node_affinity(affinity: &Value, page: &mut Page) {
    let terms = items(&affinity["required"]["nodeSelectorTerms"]);
    if terms.is_empty() {
        return page.field(0, "Node Affinity", "<none>");
    }
    page.line(0, "Node Affinity:");
    page.line(1, "Required Terms:");
    for (i, term) in terms.iter().enumerate() {
        for expression in items(&term["matchExpressions"]) {
            let values: Vec<String> = items(&expression["values"]).iter().map(shown).collect();
            let operator = shown(&expression["operator"]).to_lowercase();
            page.field(
                2,
                &format!("Term {i}"),
                format!("{} {operator} [{}]", shown(&expression["key"]), values.join(", ")),
            );
        }
    }
}

pub async fn claim(session: &Session, object: &Value, page: &mut Page) -> Result<bool> {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    page.field(0, "Name", shown(&metadata["name"]));
    page.field(0, "Namespace", shown(&metadata["namespace"]));
    page.field(0, "StorageClass", shown(&spec["storageClassName"]));
    let deleting = metadata["deletionTimestamp"].is_string();
    page.field(0, "Status", if deleting { "Terminating".to_owned() } else { shown(&status["phase"]) });
    page.field(0, "Volume", shown(&spec["volumeName"]));
    page.labels(object);
    page.annotations(object);
    page.field(0, "Finalizers", finalizers(object));
    let bound = spec["volumeName"].as_str().is_some_and(|name| !name.is_empty());
    let capacity = Some(amount(&status["capacity"]["storage"])).filter(|capacity| !capacity.is_empty());
    let capacity = if bound { capacity.unwrap_or_else(|| "0".to_owned()) } else { String::new() };
    page.field(0, "Capacity", capacity);
    page.field(0, "Access Modes", if bound { modes(&status["accessModes"]) } else { String::new() });
    page.maybe(0, "VolumeMode", &spec["volumeMode"]);
    let pods = session
        .client()
        .await?
        .get(format!("/api/v1/namespaces/{}/pods", shown(&metadata["namespace"])))
        .await?;
    let uses = |pod: &&Value| {
        items(&pod["spec"]["volumes"])
            .iter()
            .any(|volume| volume["persistentVolumeClaim"]["claimName"] == metadata["name"])
    };
    let users: Vec<String> =
        print::members(&pods).iter().filter(uses).map(|pod| shown(&pod["metadata"]["name"])).collect();
    match users.as_slice() {
        [] => page.field(0, "Used By", "<none>"),
        [first, rest @ ..] => {
            page.field(0, "Used By", first);
            rest.iter().for_each(|name| page.line(0, format!("\t{name}")));
        }
    }
    Ok(true)
}

pub fn class(object: &Value, page: &mut Page) {
    let annotations = &object["metadata"]["annotations"];
    let default = annotations["storageclass.kubernetes.io/is-default-class"] == "true";
    page.field(0, "Name", shown(&object["metadata"]["name"]));
    page.field(0, "IsDefaultClass", if default { "Yes" } else { "No" });
    page.field(0, "Annotations", table::labels(annotations));
    page.field(0, "Provisioner", shown(&object["provisioner"]));
    page.field(0, "Parameters", table::labels(&object["parameters"]));
    let expands = match object["allowVolumeExpansion"].as_bool() {
        None => "<unset>",
        Some(true) => "True",
        Some(false) => "False",
    };
    page.field(0, "AllowVolumeExpansion", expands);
    let options: Vec<String> = items(&object["mountOptions"]).iter().map(shown).collect();
    match options.is_empty() {
        true => page.field(0, "MountOptions", "<none>"),
        false => {
            page.line(0, "MountOptions:");
            options.iter().for_each(|option| page.line(1, option));
        }
    }
    page.maybe(0, "ReclaimPolicy", &object["reclaimPolicy"]);
    page.maybe(0, "VolumeBindingMode", &object["volumeBindingMode"]);
}
