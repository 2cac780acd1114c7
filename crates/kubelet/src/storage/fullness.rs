//! Tells of volumes that are full: their pods hear `No space left on device` or `Disk quota exceeded`, and the claim gets an
//! event that says what to do. Nothing is changed.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1 as core;
use kube::Api;
use minik8s_meta::volume_fullness::{is_full, is_roomy};

use super::keeper::subject;
use crate::context::VolumeContext;
use crate::events::Severity;
use crate::stats::{ClaimSample, Disk, claim_samples};

const REASON: &str = "VolumeFull";

/// Never returns.
pub async fn watch_fullness(context: &VolumeContext) {
    let mut full = FullVolumes::default();
    let mut looks = tokio::time::interval(context.node.config.housekeeping.interval);
    loop {
        looks.tick().await;
        for (namespace, sample) in full.news(claim_samples(context).await) {
            tell(context, &namespace, &sample).await;
        }
    }
}

async fn tell(context: &VolumeContext, namespace: &str, sample: &ClaimSample) {
    let claims: Api<core::PersistentVolumeClaim> = Api::namespaced(context.client.clone(), namespace);
    if let Ok(Some(claim)) = claims.get_opt(&sample.claim).await {
        context.recorder.record(subject(&claim), Severity::Warning, REASON, &words(&sample.disk));
    }
}

fn words(disk: &Disk) -> String {
    let what = match is_full(disk.available, disk.capacity) {
        true => format!("{} of its {} bytes are free", disk.available, disk.capacity),
        false => "it cannot have more files (no inode is free)".to_owned(),
    };
    format!("the volume is full: {what}; raise the claim's spec.resources.requests.storage, or delete files")
}

/// The claims that were told of. One is told of again only after it had room.
#[derive(Default)]
struct FullVolumes(BTreeSet<(String, String)>);

impl FullVolumes {
    /// Those that have become full. Those that nobody measures any more are forgotten.
    fn news(&mut self, seen: Vec<(String, ClaimSample)>) -> Vec<(String, ClaimSample)> {
        let key = |(namespace, sample): &(String, ClaimSample)| (namespace.clone(), sample.claim.clone());
        let stay = seen.iter().filter(|one| !has_room_again(&one.1.disk)).map(key);
        let stay: BTreeSet<_> = stay.filter(|one| self.0.contains(one)).collect();
        self.0 = stay;
        seen.into_iter().filter(|one| is_out_of_room(&one.1.disk) && self.0.insert(key(one))).collect()
    }
}

fn is_out_of_room(disk: &Disk) -> bool {
    is_full(disk.available, disk.capacity) || has_no_inode(disk)
}

fn has_room_again(disk: &Disk) -> bool {
    is_roomy(disk.available, disk.capacity) && !has_no_inode(disk)
}

fn has_no_inode(disk: &Disk) -> bool {
    disk.inodes > 0 && disk.inodes_free == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_volume_is_told_of_once_until_it_had_room() {
        let mut full = FullVolumes::default();
        let mut check = |available: u64, inodes_free: u64, expected: usize| {
            let disk = Disk { capacity: 1000 << 20, available: available << 20, inodes: 10, inodes_free };
            let sample = ClaimSample { volume: "v".to_owned(), claim: "c".to_owned(), disk };
            let news = full.news(vec![("ns".to_owned(), sample)]);
            assert_eq!(news.len(), expected, "{available} {inodes_free}");
        };
        check(500, 5, 0);
        check(9, 5, 1);
        check(0, 5, 0);
        // A little was deleted, and written again.
        check(60, 5, 0);
        check(5, 5, 0);
        check(160, 5, 0);
        check(5, 5, 1);
        check(900, 5, 0);
        check(900, 0, 1);
    }

    #[test]
    fn volume_without_a_size_is_never_full() {
        let disk = Disk { capacity: 0, available: 0, inodes: 0, inodes_free: 0 };
        assert!(!is_out_of_room(&disk));
    }
}
