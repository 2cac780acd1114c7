//! Tells the API which drivers this node has: CSINode, and the node's labels and annotation that go with it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use minik8s_informer::Lenient;
use serde_json::{Value, json};

use super::Registered;
use crate::context::VolumeContext;

/// Where attachers of others look for the name that a driver has for the node.
const NODE_IDS: &str = "csi.volume.kubernetes.io/nodeid";

/// Writes only what is news.
pub async fn tell(context: &VolumeContext) -> Result<(), kube::Error> {
    let all = context.csi.drivers.all();
    let nodes: Api<Lenient<CSINode>> = Api::all(context.client.clone());
    let wanted = drivers(&all);
    if context.csi.told_drivers.lock().as_ref() == Some(&wanted) {
        return Ok(());
    }
    write(context, nodes, &all, wanted.clone()).await?;
    *context.csi.told_drivers.lock() = Some(wanted);
    Ok(())
}

async fn write(
    context: &VolumeContext,
    nodes: Api<Lenient<CSINode>>,
    all: &BTreeMap<String, Registered>,
    wanted: Value,
) -> Result<(), kube::Error> {
    let name = &context.node.config.node_name;
    match nodes.get_opt(name).await?.map(Lenient::into_inner) {
        None if all.is_empty() => Ok(()),
        None => {
            tell_node(context, all).await?;
            create(context, wanted).await
        }
        Some(found) if serde_json::to_value(&found.spec.drivers).unwrap_or_default() == wanted => Ok(()),
        Some(_) => {
            tell_node(context, all).await?;
            let patch = json!({"spec": {"drivers": wanted}});
            nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
        }
    }
}

async fn create(context: &VolumeContext, drivers: Value) -> Result<(), kube::Error> {
    let name = &context.node.config.node_name;
    let node: Api<Lenient<Node>> = Api::all(context.client.clone());
    let uid = node.get(name).await?.into_inner().metadata.uid;
    let object = json!({
        "metadata": {"name": name, "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}]},
        "spec": {"drivers": drivers},
    });
    let object: CSINode = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
    let nodes: Api<CSINode> = Api::all(context.client.clone());
    nodes.create(&PostParams::default(), &object).await.map(drop)
}

/// The labels that say from where volumes can be reached, and the drivers' names of the node. Labels of drivers that are
/// gone stay: volumes may still be told by them.
async fn tell_node(context: &VolumeContext, all: &BTreeMap<String, Registered>) -> Result<(), kube::Error> {
    if all.is_empty() {
        return Ok(());
    }
    let ids: BTreeMap<&str, &str> =
        all.iter().map(|(name, one)| (name.as_str(), one.info.node_id.as_str())).collect();
    let segments = all.values().filter_map(|one| one.info.accessible_topology.as_ref());
    let labels: BTreeMap<&str, &str> =
        segments.flat_map(|topology| &topology.segments).map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let patch = json!({"metadata": {"labels": labels, "annotations": {NODE_IDS: json!(ids).to_string()}}});
    let nodes: Api<Lenient<Node>> = Api::all(context.client.clone());
    nodes.patch(&context.node.config.node_name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}

/// As CSINode lists them. Pure.
fn drivers(all: &BTreeMap<String, Registered>) -> Value {
    let one = |(name, registered): (&String, &Registered)| {
        let info = &registered.info;
        let keys: BTreeSet<&String> =
            info.accessible_topology.iter().flat_map(|topology| topology.segments.keys()).collect();
        let mut driver = json!({"name": name, "nodeID": info.node_id});
        if !keys.is_empty() {
            driver["topologyKeys"] = json!(keys);
        }
        if info.max_volumes_per_node > 0 {
            let count = info.max_volumes_per_node.min(i64::from(i32::MAX));
            driver["allocatable"] = json!({"count": count});
        }
        driver
    };
    all.iter().map(one).collect()
}
