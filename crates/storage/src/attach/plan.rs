//! What becomes of one volume's attachments. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use minik8s_csi::{attachment_name, unique_volume_name};
use minik8s_runtime::{Action, EventRecord, Plan, Target};
use serde_json::json;

use super::Observed;

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

pub(super) fn plan(seen: &Observed) -> Plan {
    let mut plan = Plan::default();
    let wanted = wanted_nodes(seen);
    for attachment in &seen.attachments {
        match wanted.contains(attachment.spec.node_name.as_str()) {
            true => tell_attached(seen, attachment, &mut plan),
            false => detach(seen, attachment, &mut plan),
        }
    }
    for node in wanted {
        attach(seen, node, &mut plan);
    }
    plan
}

pub fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// Its containers will not run again.
pub fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

pub fn is_out_of_service(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key == OUT_OF_SERVICE)
}

fn wanted_nodes(seen: &Observed) -> BTreeSet<&str> {
    let is_attached = seen.driver.as_ref().is_none_or(|driver| driver.spec.attach_required != Some(false));
    let users = seen.users.iter().filter(|pod| is_attached && !has_ended(pod));
    users.filter_map(|pod| node_of(pod)).filter(|node| seen.nodes.contains_key(*node)).collect()
}

fn unique_name(seen: &Observed) -> String {
    let csi = seen.volume.spec.as_ref().and_then(|spec| spec.csi.clone()).unwrap_or_default();
    unique_volume_name(&csi.driver, &csi.volume_handle)
}

fn attached_names(node: &Node) -> Vec<String> {
    let attached = node.status.iter().flat_map(|status| status.volumes_attached.iter().flatten());
    attached.into_iter().map(|volume| volume.name.clone()).collect()
}

/// The agent begins when it reads this.
fn tell_attached(seen: &Observed, attachment: &VolumeAttachment, plan: &mut Plan) {
    let is_attached = attachment.status.as_ref().is_some_and(|status| status.attached);
    let Some(node) = seen.nodes.get(&attachment.spec.node_name) else { return };
    let (mut names, own) = (attached_names(node), unique_name(seen));
    if is_attached && attachment.metadata.deletion_timestamp.is_none() && !names.contains(&own) {
        names.push(own);
        plan.act(write_attached(node, &names));
    }
}

fn write_attached(node: &Node, names: &[String]) -> Action {
    let volumes: Vec<_> = names.iter().map(|name| json!({"name": name, "devicePath": ""})).collect();
    let patch = json!({"status": {"volumesAttached": volumes}});
    // An agent that has written since we looked may be about to use the volume.
    Action::Patch { target: Target::unchanged(node), subresource: Some("status"), patch }
}

fn detach(seen: &Observed, attachment: &VolumeAttachment, plan: &mut Plan) {
    let own = unique_name(seen);
    if let Some(node) = seen.nodes.get(&attachment.spec.node_name) {
        let status = node.status.clone().unwrap_or_default();
        let is_in_use = status.volumes_in_use.unwrap_or_default().contains(&own);
        if is_in_use && !is_out_of_service(node) {
            return;
        }
        let names = attached_names(node);
        if names.contains(&own) {
            let left: Vec<String> = names.into_iter().filter(|name| *name != own).collect();
            plan.act(write_attached(node, &left));
        }
    }
    if attachment.metadata.deletion_timestamp.is_none() {
        plan.act(Action::delete(attachment));
    }
}

fn attach(seen: &Observed, node: &str, plan: &mut Plan) {
    if seen.attachments.iter().any(|one| one.spec.node_name == node) {
        return;
    }
    let spec = seen.volume.spec.clone().unwrap_or_default();
    let modes = spec.access_modes.unwrap_or_default();
    let is_exclusive = modes.iter().all(|mode| mode == "ReadWriteOnce" || mode == "ReadWriteOncePod");
    let volume = seen.volume.metadata.name.clone().unwrap_or_default();
    if let Some(other) = seen.attachments.first().filter(|_| is_exclusive) {
        let other = &other.spec.node_name;
        let message = format!(
            "Multi-Attach error for volume {volume:?} Volume is already exclusively attached to one node and can't be \
             attached to another: it is attached to {other}, whose agent has not given it up. If that machine is dead \
             for good, say so: kubectl taint node {other} {OUT_OF_SERVICE}=nodeshutdown:NoExecute"
        );
        let waiting = seen.users.iter().filter(|pod| node_of(pod) == Some(node) && !has_ended(pod));
        waiting
            .for_each(|pod| plan.event(EventRecord::warning(&**pod, "FailedAttachVolume", message.clone())));
        return;
    }
    let csi = spec.csi.unwrap_or_default();
    let attachment = json!({
        "metadata": {"name": attachment_name(&csi.driver, &csi.volume_handle, node)},
        "spec": {"attacher": csi.driver, "nodeName": node, "source": {"persistentVolumeName": volume}},
    });
    let attachment: VolumeAttachment =
        serde_json::from_value(attachment).expect("an attachment made of known fields");
    plan.act(Action::create(&attachment));
}
