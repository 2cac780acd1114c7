//! How full volumes of drivers are, and whether they are in order, as the drivers say. Nothing is mended here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use minik8s_csi::node::{self, Unit};

use super::Registered;
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
    let stats = stats(&driver, &handle, &path).await.filter(|stats| !stats.usage.is_empty())?;
    Some((path, disk(&stats)))
}

/// What a driver says is wrong with a volume that it has published, if it looks and answers in time.
pub async fn abnormal_condition(registered: &Registered, handle: &str, path: &Path) -> Option<String> {
    let can = |can: node::Can| registered.can.has(can);
    if !can(node::Can::GetVolumeStats) || !can(node::Can::VolumeCondition) {
        return None;
    }
    abnormal(stats(&registered.driver, handle, path).await?)
}

fn abnormal(stats: node::VolumeStats) -> Option<String> {
    stats.volume_condition.filter(|condition| condition.abnormal).map(|condition| condition.message)
}

async fn stats(driver: &minik8s_csi::Driver, handle: &str, path: &Path) -> Option<node::VolumeStats> {
    let call = node::GetVolumeStats {
        volume_id: handle.to_owned(),
        volume_path: path.to_string_lossy().into_owned(),
        staging_target_path: String::new(),
    };
    tokio::time::timeout(TIMEOUT, driver.call(&call)).await.ok()?.ok()
}

fn disk(stats: &node::VolumeStats) -> Disk {
    let number = |number: i64| u64::try_from(number).unwrap_or(0);
    let usage = |unit: Unit| stats.usage.iter().find(|usage| usage.unit == unit as i32).copied();
    let (bytes, inodes) = (usage(Unit::Bytes).unwrap_or_default(), usage(Unit::Inodes).unwrap_or_default());
    // A driver need not tell more than the total.
    let free = |usage: node::VolumeUsage| match (usage.available, usage.used) {
        (0, 0) => number(usage.total),
        (available, _) => number(available),
    };
    Disk {
        capacity: number(bytes.total),
        available: free(bytes),
        inodes: number(inodes.total),
        inodes_free: free(inodes),
    }
}

#[cfg(test)]
mod tests {
    use minik8s_csi::node::{VolumeCondition, VolumeStats, VolumeUsage};

    use super::*;

    #[test]
    fn volume_of_which_only_the_size_is_told_is_not_full() {
        let check = |available: i64, used: i64, expected: u64| {
            let usage = vec![VolumeUsage { available, total: 100, used, unit: Unit::Bytes as i32 }];
            let found = disk(&VolumeStats { usage, volume_condition: None });
            assert_eq!((found.capacity, found.available, found.inodes_free), (100, expected, 0));
        };
        check(0, 0, 100);
        check(0, 100, 0);
        check(0, 95, 0);
        check(30, 70, 30);
    }

    #[test]
    fn volume_is_abnormal_only_where_its_driver_says_so() {
        let check = |condition: Option<bool>, expected: Option<&str>| {
            let volume_condition =
                condition.map(|abnormal| VolumeCondition { abnormal, message: "why".to_owned() });
            let found = abnormal(VolumeStats { usage: Vec::new(), volume_condition });
            assert_eq!(found.as_deref(), expected, "{condition:?}");
        };
        check(None, None);
        check(Some(false), None);
        check(Some(true), Some("why"));
    }
}
