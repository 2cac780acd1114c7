//! Recreate: first everything old goes, to the last pod, then the new comes.

use super::Observed;
use super::limits::replicas;
use super::plan::{Rollout, cleanup, is_complete, size};

pub(super) fn roll(rollout: &mut Rollout<'_>, seen: &Observed) {
    let mut shrunk = false;
    for set in rollout.old.clone() {
        if size(&set) > 0 {
            rollout.resize(&set, 0);
            shrunk = true;
        }
    }
    let old_runs = rollout
        .old
        .iter()
        .any(|set| set.metadata.uid.as_ref().is_some_and(|uid| seen.sets_with_pods.contains(uid)));
    if shrunk || old_runs {
        return;
    }
    let wanted = replicas(rollout.deployment);
    if !rollout.ensure_current(seen, |_| wanted) {
        return;
    }
    if let Some(current) = rollout.current.clone() {
        rollout.resize(&current, wanted);
    }
    if is_complete(rollout) {
        cleanup(rollout);
    }
}
