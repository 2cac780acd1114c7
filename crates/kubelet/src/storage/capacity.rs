//! Tells the API how much room the disk of the data dir has for volumes of the class `local`: a CSIStorageCapacity, by which
//! the scheduler leaves out a node where a volume cannot be.
//!
//! Images are thin, so what volumes were promised is not taken off. It writes only what has changed noticeably: an idle
//! node writes nothing.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSIStorageCapacity;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use minik8s_informer::Lenient;
use minik8s_meta::local_volume::{CAPACITY_NAMESPACE, capacity_name};
use serde_json::json;

use crate::Config;
use crate::context::VolumeContext;
use crate::quantity;
use crate::stats::{Disk, disk};

const HOSTNAME: &str = "kubernetes.io/hostname";
const MEBI: u64 = 1 << 20;
const GIBI: u64 = 1 << 30;
const LOOK: Duration = Duration::from_secs(30);
/// Until what could not be told is told again.
const AGAIN: Duration = Duration::from_secs(5);
/// For how long the API is believed to know what it was told: the object goes when the Node is deleted, and the agent
/// may stay.
const KNOWN: Duration = Duration::from_secs(600);

struct Told {
    free: u64,
    at: Instant,
}

/// Never returns.
pub async fn tell_capacity(context: &VolumeContext) {
    let mut told = None;
    loop {
        let pause = match look(context, &mut told).await {
            Ok(()) => LOOK,
            Err(error) => {
                tracing::debug!(%error, "cannot tell how much room there is for volumes yet");
                AGAIN
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn look(context: &VolumeContext, told: &mut Option<Told>) -> Result<(), kube::Error> {
    let disk = disk_of_images(&context.node.config);
    let free = disk.available;
    let is_known = told.as_ref().is_some_and(|told| told.at.elapsed() < KNOWN && !is_news(told.free, free));
    // One of no size could not be measured.
    if is_known || disk.capacity == 0 {
        return Ok(());
    }
    let free = tell(context, free).await?;
    *told = Some(Told { free, at: Instant::now() });
    Ok(())
}

/// The disk on which images are, or will be.
pub(super) fn disk_of_images(config: &Config) -> Disk {
    let images = config.volumes_dir();
    if images.is_dir() { disk(&images) } else { disk(&config.data_dir) }
}

/// Whether it matters: a tenth of what was told, or a gibibyte of a large disk.
fn is_news(told: u64, free: u64) -> bool {
    told.abs_diff(free) >= (told / 10).clamp(MEBI, GIBI)
}

/// Gives what the API knows afterwards.
async fn tell(context: &VolumeContext, free: u64) -> Result<u64, kube::Error> {
    let name = capacity_name(&context.node.config.node_name);
    let all: Api<Lenient<CSIStorageCapacity>> = Api::namespaced(context.client.clone(), CAPACITY_NAMESPACE);
    let capacity = format!("{}Mi", free / MEBI);
    match all.get_opt(&name).await?.map(Lenient::into_inner) {
        None => create(context, &name, &capacity).await?,
        Some(found) => {
            let told = amount(&found);
            if !is_news(told, free) {
                return Ok(told);
            }
            let patch = json!({"capacity": capacity});
            all.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
    }
    Ok(free / MEBI * MEBI)
}

fn amount(capacity: &CSIStorageCapacity) -> u64 {
    let amount = capacity.capacity.as_ref().and_then(|amount| quantity::value(&amount.0));
    amount.and_then(|amount| u64::try_from(amount).ok()).unwrap_or(0)
}

async fn create(context: &VolumeContext, name: &str, capacity: &str) -> Result<(), kube::Error> {
    let node_name = &context.node.config.node_name;
    let nodes: Api<Lenient<Node>> = Api::all(context.client.clone());
    let node = nodes.get(node_name).await?.into_inner();
    let host = node.metadata.labels.as_ref().and_then(|labels| labels.get(HOSTNAME)).unwrap_or(node_name);
    let object = json!({
        "metadata": {"name": name, "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": node.metadata.uid}]},
        "storageClassName": "local",
        "nodeTopology": {"matchLabels": {HOSTNAME: host}},
        "capacity": capacity,
    });
    let object: CSIStorageCapacity = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
    let all: Api<CSIStorageCapacity> = Api::namespaced(context.client.clone(), CAPACITY_NAMESPACE);
    all.create(&PostParams::default(), &object).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_told_again_when_it_has_changed_noticeably() {
        let check = |told: u64, free: u64, expected: bool| {
            assert_eq!(is_news(told, free), expected, "{told} {free}");
        };
        check(100 * MEBI, 91 * MEBI, false);
        check(100 * MEBI, 90 * MEBI, true);
        check(100 * MEBI, 111 * MEBI, true);
        check(1000 * GIBI, 1000 * GIBI - GIBI / 2, false);
        check(1000 * GIBI, 999 * GIBI, true);
        check(0, MEBI - 1, false);
        check(0, MEBI, true);
    }
}
