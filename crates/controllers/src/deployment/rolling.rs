//! RollingUpdate: the new grows and the old shrinks, never above the surge, never below what must be
//! available.

use super::Observed;
use super::limits::{max_surge, max_unavailable, replicas};
use super::plan::{Rollout, cleanup, is_complete, size};
use super::status::available;

pub(super) fn roll(rollout: &mut Rollout<'_>, seen: &Observed) {
    if !rollout.ensure_current(seen, |rollout| grown_size(rollout, 0)) {
        return;
    }
    let Some(current) = rollout.current.clone() else { return };
    let wanted = replicas(rollout.deployment);
    let have = size(&current);
    let next = if have > wanted { wanted } else { grown_size(rollout, have) };
    // Also when only the annotations are behind.
    rollout.resize(&current, next);
    if next != have {
        return;
    }
    if shrink_old(rollout) {
        return;
    }
    if is_complete(rollout) {
        cleanup(rollout);
    }
}

/// As large as the surge allows, given all other sets.
fn grown_size(rollout: &Rollout<'_>, have: i32) -> i32 {
    let wanted = replicas(rollout.deployment);
    let room = wanted.saturating_add(max_surge(rollout.deployment)).saturating_sub(rollout.total());
    have + room.clamp(0, (wanted - have).max(0))
}

/// True if anything was taken away.
fn shrink_old(rollout: &mut Rollout<'_>) -> bool {
    let old_total: i32 = rollout.old.iter().map(|set| size(set)).sum();
    let Some(current) = rollout.current.clone().filter(|_| old_total > 0) else { return false };
    let needed = replicas(rollout.deployment) - max_unavailable(rollout.deployment);
    let unavailable_new = size(&current) - available(&current);
    let spare = rollout.total() - needed - unavailable_new;
    if spare <= 0 {
        return false;
    }
    let mut sizes: Vec<i32> = rollout.old.iter().map(|set| size(set)).collect();
    let unhealthy = shrink_unhealthy(rollout, &mut sizes, spare);
    let healthy = shrink_healthy(rollout, &mut sizes, needed);
    for (set, to) in rollout.old.clone().iter().zip(sizes) {
        if to != size(set) {
            rollout.resize(set, to);
        }
    }
    unhealthy + healthy > 0
}

/// What does not work anyway goes first.
fn shrink_unhealthy(rollout: &Rollout<'_>, sizes: &mut [i32], spare: i32) -> i32 {
    let mut taken = 0;
    for (set, size) in rollout.old.iter().zip(sizes) {
        let broken = (*size - available(set)).max(0);
        let take = broken.min(spare - taken);
        *size -= take;
        taken += take;
    }
    taken
}

/// As much of the old as is available beyond what is needed.
fn shrink_healthy(rollout: &Rollout<'_>, sizes: &mut [i32], needed: i32) -> i32 {
    // A set that was just made smaller may still count those that it takes away now.
    let available: i32 = rollout.all().map(|set| available(set).min(size(set))).sum();
    let mut surplus = (available - needed).max(0);
    let mut taken = 0;
    for size in sizes {
        let take = (*size).min(surplus);
        *size -= take;
        surplus -= take;
        taken += take;
    }
    taken
}
