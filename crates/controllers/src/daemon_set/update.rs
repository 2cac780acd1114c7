//! From the old template to the new, a few nodes at a time.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;

use super::plan::{Place, Round};
use crate::deployment::portion;
use crate::pods;

/// How many nodes may have both versions at once.
pub(super) fn max_surge(set: &DaemonSet, places: &[Place]) -> i32 {
    let rolling = set.spec.update_strategy.as_ref().and_then(|s| s.rolling_update.as_ref());
    rolling.and_then(|r| r.max_surge.as_ref()).map_or(0, |surge| portion(surge, desired(places), true))
}

fn max_unavailable(set: &DaemonSet, places: &[Place]) -> i32 {
    let rolling = set.spec.update_strategy.as_ref().and_then(|s| s.rolling_update.as_ref());
    match rolling.and_then(|r| r.max_unavailable.as_ref()) {
        Some(value) => portion(value, desired(places), true),
        None => 1,
    }
}

fn desired(places: &[Place]) -> i32 {
    i32::try_from(places.iter().filter(|place| place.should_run).count()).unwrap_or(i32::MAX)
}

pub(super) fn roll(round: &mut Round<'_>) {
    let strategy = round.set.spec.update_strategy.as_ref().and_then(|s| s.type_.as_deref());
    if strategy == Some("OnDelete") {
        return;
    }
    let surge = max_surge(round.set, &round.places);
    let places = std::mem::take(&mut round.places);
    if surge > 0 {
        roll_with_surge(round, &places, surge)
    } else {
        roll_in_place(round, &places)
    }
    round.places = places;
}

/// The active pods of a place: new and old.
fn versions(round: &Round<'_>, place: &Place) -> (Option<Arc<Pod>>, Option<Arc<Pod>>) {
    let active = || place.pods.iter().filter(|pod| pods::is_active(pod));
    let new = active().find(|pod| round.is_current(pod)).cloned();
    let old = active().find(|pod| !round.is_current(pod)).cloned();
    (new, old)
}

fn is_available(round: &Round<'_>, pod: &Pod) -> bool {
    pods::is_available(pod, round.set.spec.min_ready_seconds.unwrap_or(0), round.now)
}

/// The old pod goes, and the next round brings the new one.
fn roll_in_place(round: &mut Round<'_>, places: &[Place]) {
    let mut unavailable = 0;
    let mut broken = Vec::new();
    let mut working = Vec::new();
    for place in places.iter().filter(|place| place.should_run) {
        match versions(round, place) {
            (Some(new), None) if is_available(round, &new) => {}
            (None, Some(old)) if is_available(round, &old) => working.push(old),
            (None, Some(old)) => {
                unavailable += 1;
                broken.push(old);
            }
            _ => unavailable += 1,
        }
    }
    // What does not work cannot be made worse.
    broken.iter().for_each(|pod| round.delete(pod));
    let room = usize::try_from(max_unavailable(round.set, places) - unavailable).unwrap_or(0);
    working.iter().take(room).for_each(|pod| round.delete(pod));
}

/// The new pod comes beside the old one, which goes when the new one is available.
fn roll_with_surge(round: &mut Round<'_>, places: &[Place], surge: i32) {
    let mut surging = 0;
    let mut waiting = Vec::new();
    for place in places {
        match versions(round, place) {
            (Some(new), Some(old)) => {
                surging += 1;
                if is_available(round, &new) || !is_available(round, &old) {
                    round.delete(&old);
                }
            }
            (None, Some(_)) if place.should_run => waiting.push(&place.node),
            _ => {}
        }
    }
    let room = usize::try_from(surge - surging).unwrap_or(0);
    waiting.into_iter().take(room).for_each(|node| round.create_on(node));
}
