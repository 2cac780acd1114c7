//! Most changes of a pod are of its status, and change nothing about what its node may read. To see that costs
//! less than to read the pod.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A stored pod, as far as the node graph looks at it (`references::of_pod`), unread.
#[derive(Deserialize)]
struct Relevant<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Status<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata<'a> {
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status<'a> {
    #[serde(borrow)]
    resource_claim_statuses: Option<&'a RawValue>,
    #[serde(borrow)]
    extended_resource_claim_status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Placement<'a> {
    #[serde(borrow, default)]
    node_name: Option<Cow<'a, str>>,
}

impl<'a> Relevant<'a> {
    fn parts(&self) -> [Option<&'a str>; 4] {
        [
            self.metadata.annotations,
            self.spec,
            self.status.resource_claim_statuses,
            self.status.extended_resource_claim_status,
        ]
        .map(|part| part.map(RawValue::get))
    }
}

/// Whether both states of a pod mean the same to the graph. What cannot be read is not the same.
pub fn is_same_to_node(before: &[u8], after: &[u8]) -> bool {
    let parse = |pod| serde_json::from_slice::<Relevant<'_>>(pod).ok();
    match (parse(before), parse(after)) {
        (Some(before), Some(after)) => before.parts() == after.parts(),
        _ => false,
    }
}

/// Whether the pod has a node. What cannot be read may have one.
pub fn is_placed(pod: &[u8]) -> bool {
    let Ok(Relevant { spec, .. }) = serde_json::from_slice(pod) else { return true };
    let Some(spec) = spec else { return false };
    let placement = serde_json::from_str::<Placement<'_>>(spec.get());
    placement.map_or(true, |placement| placement.node_name.is_some_and(|name| !name.is_empty()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_what_the_graph_looks_at_counts() {
        let before = json!({
            "metadata": {"name": "a", "annotations": {"a": "b"}, "managedFields": [1]},
            "spec": {"nodeName": "n", "containers": []}, "status": {"phase": "Pending"},
        });
        let check = |path: &str, value: Value, same: bool| {
            let mut after = before.clone();
            *path.split('.').fold(&mut after, |at, name| &mut at[name]) = value;
            assert_eq!(
                is_same_to_node(before.to_string().as_bytes(), after.to_string().as_bytes()),
                same,
                "{path}"
            );
        };
        check("status.phase", json!("Running"), true);
        check("metadata.managedFields", json!([2]), true);
        check("metadata.labels", json!({"a": "b"}), true);
        check("spec.nodeName", json!("other"), false);
        check("spec.ephemeralContainers", json!([{"name": "e"}]), false);
        check("metadata.annotations", json!({"kubernetes.io/config.mirror": "x"}), false);
        check("status.resourceClaimStatuses", json!([{"name": "a", "resourceClaimName": "b"}]), false);
        check("status.extendedResourceClaimStatus", json!({"resourceClaimName": "b"}), false);
        assert!(!is_same_to_node(b"x", b"x"));
    }

    #[test]
    fn placed_is_who_has_a_node() {
        let check =
            |pod: Value, placed: bool| assert_eq!(is_placed(pod.to_string().as_bytes()), placed, "{pod}");
        check(json!({"spec": {"nodeName": "n"}}), true);
        check(json!({"spec": {"nodeName": ""}}), false);
        check(json!({"spec": {"containers": []}}), false);
        check(json!({"metadata": {"name": "nodeName"}}), false);
        check(json!({"spec": 1}), true);
        assert!(is_placed(b"x"));
    }
}
