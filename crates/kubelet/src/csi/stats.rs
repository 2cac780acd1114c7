//! How full volumes of drivers are, as the drivers say.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use minik8s_csi::node::{self, Unit};

use super::record::{PUBLISHED, pod_records};
use crate::context::VolumeContext;
use crate::stats::Disk;

/// Whoever asks for metrics does not wait for a driver that hangs.
const TIMEOUT: Duration = Duration::from_secs(2);

/// By the path where a volume is published. A driver that does not answer in time is left out.
pub async fn volume_stats(context: &VolumeContext) -> BTreeMap<PathBuf, Disk> {
    let mut asked = Vec::new();
    for pod in context.node.pods.all() {
        let uid = crate::pod::DesiredPod::new(pod).uid;
        for (dir, record) in pod_records(&context.node.config, &uid).unwrap_or_default() {
            let Some(record) = record.filter(|record| record.is_complete) else { continue };
            let Some(known) = context.csi.drivers.get(&record.driver) else { continue };
            if known.can.has(node::Can::GetVolumeStats) {
                asked.push(ask(known.driver, record.handle, dir.join(PUBLISHED)));
            }
        }
    }
    futures::future::join_all(asked).await.into_iter().flatten().collect()
}

async fn ask(driver: minik8s_csi::Driver, handle: String, path: PathBuf) -> Option<(PathBuf, Disk)> {
    let call = node::GetVolumeStats {
        volume_id: handle,
        volume_path: path.to_string_lossy().into_owned(),
        staging_target_path: String::new(),
    };
    let answer = tokio::time::timeout(TIMEOUT, driver.call(&call)).await.ok()?.ok()?;
    Some((path, disk(&answer)))
}

fn disk(stats: &node::VolumeStats) -> Disk {
    let number = |number: i64| u64::try_from(number).unwrap_or(0);
    let usage = |unit: Unit| stats.usage.iter().find(|usage| usage.unit == unit as i32).copied();
    let (bytes, inodes) = (usage(Unit::Bytes).unwrap_or_default(), usage(Unit::Inodes).unwrap_or_default());
    Disk {
        capacity: number(bytes.total),
        available: number(bytes.available),
        inodes: number(inodes.total),
        inodes_free: number(inodes.available),
    }
}
