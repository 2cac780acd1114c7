//! A change of the number alone: shared out over the sets of a roll in progress in proportion to their size.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;

use super::limits::{max_surge, replicas};
use super::plan::{Rollout, size};
use super::revision::{DESIRED, MAX};
use super::status::available;

/// Whether some set was last sized for another number.
pub(super) fn is_scaling(rollout: &Rollout<'_>) -> bool {
    let wanted = replicas(rollout.deployment);
    rollout
        .all()
        .filter(|set| size(set) > 0)
        .any(|set| annotation(set, DESIRED).is_some_and(|desired| desired != wanted))
}

pub(super) fn scale(rollout: &mut Rollout<'_>) {
    let wanted = replicas(rollout.deployment);
    if let Some(only) = active_or_latest(rollout) {
        rollout.resize(&only, wanted);
        return;
    }
    if rollout.current.as_ref().is_some_and(|current| is_saturated(current, wanted)) {
        for set in rollout.old.clone() {
            if size(&set) > 0 {
                rollout.resize(&set, 0);
            }
        }
        return;
    }
    if !super::is_recreate(rollout.deployment) {
        share_out(rollout);
    }
}

/// The only set with pods; without any, the one that would get them.
fn active_or_latest(rollout: &Rollout<'_>) -> Option<Arc<ReplicaSet>> {
    let active: Vec<&Arc<ReplicaSet>> = rollout.all().filter(|set| size(set) > 0).collect();
    match active.as_slice() {
        [] => rollout.current.clone().or_else(|| rollout.old.last().cloned()),
        [only] => Some((*only).clone()),
        _ => None,
    }
}

fn is_saturated(current: &ReplicaSet, wanted: i32) -> bool {
    size(current) == wanted && annotation(current, DESIRED) == Some(wanted) && available(current) == wanted
}

fn share_out(rollout: &mut Rollout<'_>) {
    let wanted = replicas(rollout.deployment);
    let most = if wanted > 0 { wanted.saturating_add(max_surge(rollout.deployment)) } else { 0 };
    let mut active: Vec<Arc<ReplicaSet>> = rollout.all().filter(|set| size(set) > 0).cloned().collect();
    let to_add = most - active.iter().map(|set| size(set)).sum::<i32>();
    // The largest first; among equals the newer gains and the older loses.
    let created = |set: &ReplicaSet| set.metadata.creation_timestamp.as_ref().map(|t| t.0);
    active.sort_by(|a, b| {
        let by_age = created(a).cmp(&created(b));
        size(b).cmp(&size(a)).then(if to_add > 0 { by_age.reverse() } else { by_age })
    });
    let mut added = 0;
    let mut sizes = Vec::new();
    for set in &active {
        let part = proportion(rollout, set, most, to_add, added);
        sizes.push(size(set) + part);
        added += part;
    }
    // What rounding left over goes to the largest.
    if let Some(first) = sizes.first_mut() {
        *first += to_add - added;
    }
    for (set, to) in active.iter().zip(sizes) {
        rollout.resize(set, to.max(0));
    }
}

fn proportion(rollout: &Rollout<'_>, set: &ReplicaSet, most: i32, to_add: i32, added: i32) -> i32 {
    if to_add == 0 || to_add == added {
        return 0;
    }
    let have = size(set);
    let fraction = if replicas(rollout.deployment) == 0 {
        -have
    } else {
        let status = rollout.deployment.status.as_ref().and_then(|status| status.replicas).unwrap_or(0);
        let before = annotation(set, MAX).filter(|max| *max > 0).unwrap_or(status.max(1));
        let share = f64::from(have) * f64::from(most) / f64::from(before);
        // Within i32: `have` and `most` are, and `before` is at least one.
        #[allow(clippy::cast_possible_truncation)]
        let share = share.round() as i32;
        share.saturating_sub(have)
    };
    let allowed = to_add - added;
    if to_add > 0 { fraction.min(allowed).max(0) } else { fraction.max(allowed).min(0) }
}

fn annotation(set: &ReplicaSet, key: &str) -> Option<i32> {
    set.metadata.annotations.as_ref()?.get(key)?.parse().ok()
}
