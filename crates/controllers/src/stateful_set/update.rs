//! From the old revision to the new, from the highest ordinal down.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::identity::revision_of;
use super::plan::Round;
use crate::deployment::portion;
use crate::history::name;
use crate::pods;

fn is_on_delete(round: &Round<'_>) -> bool {
    let strategy = round.set.spec.update_strategy.as_ref();
    strategy.is_some_and(|strategy| strategy.type_.as_deref() == Some("OnDelete"))
}

pub(super) fn rolls(round: &Round<'_>) -> bool {
    !is_on_delete(round)
}

/// The first ordinal that is updated.
fn partition(round: &Round<'_>) -> i32 {
    let rolling = round.set.spec.update_strategy.as_ref().and_then(|s| s.rolling_update.as_ref());
    let partition = rolling.and_then(|r| r.partition).unwrap_or(0).max(0);
    round.ordinals().start.saturating_add(partition)
}

/// Whether the pod of an ordinal is to be of the old revision.
pub(super) fn stays_behind(round: &Round<'_>, ordinal: i32) -> bool {
    !is_on_delete(round) && ordinal < partition(round)
}

pub(super) fn roll(round: &mut Round<'_>) {
    if is_on_delete(round) {
        return;
    }
    let newest = name(&round.newest).to_owned();
    let from = partition(round);
    let pods: Vec<(i32, Arc<Pod>)> =
        round.pods.range(round.ordinals()).rev().map(|(ordinal, pod)| (*ordinal, pod.clone())).collect();
    let at_once = max_unavailable(round);
    let mut unavailable = 0;
    for (ordinal, pod) in pods {
        if ordinal < from || unavailable >= at_once {
            return;
        }
        let is_outdated = revision_of(&pod) != Some(&newest);
        if is_outdated && !pods::is_terminating(&pod) {
            round.delete(&pod);
            unavailable += 1;
        } else if !round.is_healthy(&pod) {
            unavailable += 1;
        }
    }
}

fn max_unavailable(round: &Round<'_>) -> i32 {
    let rolling = round.set.spec.update_strategy.as_ref().and_then(|s| s.rolling_update.as_ref());
    let total = round.set.spec.replicas.unwrap_or(1);
    rolling.and_then(|r| r.max_unavailable.as_ref()).map_or(1, |most| portion(most, total, true)).max(1)
}
