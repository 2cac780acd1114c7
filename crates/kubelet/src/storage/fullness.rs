//! Tells of volumes on which writing fails, or soon will: one that is full, a thin image on a disk that is nearly full, a file
//! system in which the kernel has found errors. The claim gets an event that says what to do. Nothing is changed.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1 as core;
use kube::Api;
use minik8s_meta::volume_fullness::{is_full, is_roomy};

use super::capacity::disk_of_images;
use super::keeper::subject;
use super::loop_device::file_system_errors;
use crate::Config;
use crate::context::VolumeContext;
use crate::events::Severity;
use crate::stats::{ClaimSample, Disk, claim_samples};

/// A volume of which something else is wrong than its fullness, in the word of CSI's monitor of volumes' health.
pub(super) const ABNORMAL: &str = "VolumeConditionAbnormal";
/// A disk with less than this part of it free is nearly full.
const NEARLY_FULL: u64 = 20;

/// Never returns.
pub async fn watch_fullness(context: &VolumeContext) {
    let mut told = Told::default();
    let mut looks = tokio::time::interval(context.node.config.housekeeping.interval);
    loop {
        looks.tick().await;
        let samples = claim_samples(context).await.into_iter();
        let seen: Vec<Seen> = samples.map(|(of, sample)| look(&context.node.config, of, sample)).collect();
        for (one, problem) in told.news(&seen) {
            tell(context, one, problem).await;
        }
    }
}

/// A volume that pods use, and what it is on.
#[derive(Debug, Clone)]
struct Seen {
    namespace: String,
    sample: ClaimSample,
    /// The disk that a thin image takes its room from.
    below: Option<Disk>,
    /// Of its file system.
    errors: u64,
}

fn look(config: &Config, namespace: String, sample: ClaimSample) -> Seen {
    let is_thin = sample.path.starts_with(config.volumes_dir());
    let is_ours = is_thin || sample.path.starts_with(config.disks_dir());
    let errors = if is_ours { file_system_errors(&sample.path) } else { 0 };
    Seen { namespace, sample, below: is_thin.then(|| disk_of_images(config)), errors }
}

async fn tell(context: &VolumeContext, seen: &Seen, problem: Problem) {
    let claims: Api<core::PersistentVolumeClaim> = Api::namespaced(context.client.clone(), &seen.namespace);
    if let Ok(Some(claim)) = claims.get_opt(&seen.sample.claim).await {
        let words = problem.words(seen);
        context.recorder.record(subject(&claim), Severity::Warning, problem.reason(), &words);
    }
}

/// What can be wrong with a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Problem {
    Full,
    DiskFull,
    Errors,
}

const PROBLEMS: [Problem; 3] = [Problem::Full, Problem::DiskFull, Problem::Errors];

impl Problem {
    fn is_there(self, seen: &Seen) -> bool {
        let disk = &seen.sample.disk;
        match self {
            Problem::Full => is_full(disk.available, disk.capacity) || has_no_inode(disk),
            // As long as the disk has what the volume may still take, the volume is full before.
            Problem::DiskFull => seen.below.is_some_and(|below| {
                below.available < below.capacity / NEARLY_FULL && below.available < disk.available
            }),
            Problem::Errors => seen.errors > 0,
        }
    }

    /// Whether it is news when it is there the next time.
    fn is_over(self, seen: &Seen) -> bool {
        let disk = &seen.sample.disk;
        match self {
            Problem::Full => is_roomy(disk.available, disk.capacity) && !has_no_inode(disk),
            Problem::DiskFull => seen.below.is_none_or(|below| is_roomy(below.available, below.capacity)),
            Problem::Errors => seen.errors == 0,
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Problem::Full => "VolumeFull",
            Problem::DiskFull | Problem::Errors => ABNORMAL,
        }
    }

    fn words(self, seen: &Seen) -> String {
        let disk = &seen.sample.disk;
        match self {
            Problem::Full => {
                let what = match is_full(disk.available, disk.capacity) {
                    true => format!("{} of its {} bytes are free", disk.available, disk.capacity),
                    false => "it cannot have more files (no inode is free)".to_owned(),
                };
                format!(
                    "the volume is full: {what}; raise the claim's spec.resources.requests.storage, or delete files"
                )
            }
            Problem::DiskFull => format!(
                "the disk of the volume's node is nearly full: {} bytes are free, of {} that the volume may still take. \
                 When it is full, writes fail and the file system takes no more: make room on the node's disk",
                seen.below.map_or(0, |below| below.available),
                disk.available
            ),
            Problem::Errors => format!(
                "the kernel has found {} errors in the volume's file system, which may take no writes any more: see the \
                 node's kernel log, make room if its disk is full, then delete the pods that use the claim; the file \
                 system is repaired before the next one starts",
                seen.errors
            ),
        }
    }
}

fn has_no_inode(disk: &Disk) -> bool {
    disk.inodes > 0 && disk.inodes_free == 0
}

/// Namespaces, claims, and what was told of them. It is told again only after it was over.
#[derive(Default)]
struct Told(BTreeSet<(String, String, Problem)>);

impl Told {
    /// What has begun. Volumes that nobody measures any more are forgotten.
    fn news<'a>(&mut self, seen: &'a [Seen]) -> Vec<(&'a Seen, Problem)> {
        let key = |one: &Seen, problem: Problem| (one.namespace.clone(), one.sample.claim.clone(), problem);
        let all: Vec<(&Seen, Problem)> =
            seen.iter().flat_map(|one| PROBLEMS.map(|problem| (one, problem))).collect();
        let stay = all.iter().filter(|(one, problem)| !problem.is_over(one));
        let stay: BTreeSet<_> =
            stay.map(|(one, problem)| key(one, *problem)).filter(|key| self.0.contains(key)).collect();
        self.0 = stay;
        let begins =
            |(one, problem): &(&Seen, Problem)| problem.is_there(one) && self.0.insert(key(one, *problem));
        all.into_iter().filter(begins).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(disk: Disk, below: Option<u64>, errors: u64) -> Seen {
        let sample =
            ClaimSample { volume: "v".to_owned(), claim: "c".to_owned(), path: "/v/mount".into(), disk };
        let below = below.map(|available| Disk {
            capacity: 1000 << 20,
            available: available << 20,
            inodes: 10,
            inodes_free: 5,
        });
        Seen { namespace: "ns".to_owned(), sample, below, errors }
    }

    fn roomy() -> Disk {
        Disk { capacity: 1000 << 20, available: 500 << 20, inodes: 10, inodes_free: 5 }
    }

    fn problems(told: &mut Told, seen: Seen) -> Vec<Problem> {
        told.news(&[seen]).into_iter().map(|(_, problem)| problem).collect()
    }

    #[test]
    fn full_volume_is_told_of_once_until_it_had_room() {
        let mut told = Told::default();
        let mut check = |available: u64, inodes_free: u64, expected: usize| {
            let disk = Disk { capacity: 1000 << 20, available: available << 20, inodes: 10, inodes_free };
            let news = problems(&mut told, seen(disk, None, 0));
            assert_eq!(news, vec![Problem::Full; expected], "{available} {inodes_free}");
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
    fn full_disk_below_a_thin_image_is_told_of_once_until_it_had_room() {
        let mut told = Told::default();
        let mut check = |available: u64, expected: usize| {
            let news = problems(&mut told, seen(roomy(), Some(available), 0));
            assert_eq!(news, vec![Problem::DiskFull; expected], "{available}");
        };
        check(600, 0);
        check(50, 0);
        check(49, 1);
        check(0, 0);
        check(90, 0);
        check(40, 0);
        check(100, 0);
        check(40, 1);
        // The volume is full before its disk is.
        let small = Disk { capacity: 40 << 20, available: 30 << 20, inodes: 10, inodes_free: 5 };
        assert_eq!(problems(&mut Told::default(), seen(small, Some(31), 0)), []);
        assert_eq!(problems(&mut Told::default(), seen(small, Some(29), 0)), [Problem::DiskFull]);
    }

    #[test]
    fn file_system_with_errors_is_told_of_once_until_it_is_repaired() {
        let mut told = Told::default();
        for (errors, expected) in [(0, 0), (1, 1), (5, 0), (0, 0), (2, 1)] {
            let news = problems(&mut told, seen(roomy(), Some(600), errors));
            assert_eq!(news, vec![Problem::Errors; expected], "{errors}");
        }
    }

    #[test]
    fn each_problem_is_told_in_words_of_its_own() {
        let all = seen(Disk { available: 0, ..roomy() }, Some(3), 7);
        let check = |problem: Problem, reason: &str, words: &str| {
            assert_eq!(problem.reason(), reason);
            assert!(problem.words(&all).contains(words), "{}", problem.words(&all));
        };
        check(Problem::Full, "VolumeFull", "raise the claim's spec.resources.requests.storage");
        check(Problem::DiskFull, ABNORMAL, "nearly full: 3145728 bytes are free");
        check(Problem::Errors, ABNORMAL, "7 errors");
    }

    #[test]
    fn volume_without_a_size_is_never_full() {
        let disk = Disk { capacity: 0, available: 0, inodes: 0, inodes_free: 0 };
        assert_eq!(problems(&mut Told::default(), seen(disk, None, 0)), []);
    }
}
