//! What a revision waits for whose packages are not there yet. Pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::Backoff;
use minik8s_meta::function::{BUILD_LABEL, DEPENDENCIES_ANNOTATION, FunctionFailure};
use minik8s_runtime::{Action, Plan};
use serde_json::json;

use super::{FAILED, failure_of, inputs, key_of, pod};
use crate::controller::Observed;
use crate::revision::Code;
use crate::status::has_ended;

/// Between a build that failed and the next: doubled each time. Most failures are the user's to mend, others an index's.
const BACKOFF: Backoff = Backoff::millis(15_000, 900_000);

/// What a revision's instances import beside its code.
#[derive(Debug, PartialEq, Eq)]
pub enum Dependencies {
    /// An image, or nothing.
    Ready(Option<String>),
    /// Packages that are to be fetched, by the key of their inputs.
    Missing(String),
}

impl Dependencies {
    /// Of the revision with this hash; the newest one may have no ConfigMap yet.
    pub fn of(seen: &Observed, hash: &str) -> Dependencies {
        match seen.map_of(hash) {
            Some(map) => match (image_of(map), key_of_map(map)) {
                (Some(image), _) => Dependencies::Ready(Some(image)),
                (None, Some(key)) => Dependencies::Missing(key),
                (None, None) => Dependencies::Ready(None),
            },
            None => match inputs(&seen.function.spec) {
                Some(inputs) => Dependencies::Missing(inputs.key),
                None => Dependencies::Ready(None),
            },
        }
    }
}

/// Makes a pod that fetches what is missing, or takes what another revision has; and ends the pods that nobody needs.
pub fn plan(
    seen: &Observed,
    newest: &str,
    dependencies: &Dependencies,
    failure: Option<&FunctionFailure>,
    now: Timestamp,
    plan: &mut Plan,
) {
    let missing = match dependencies {
        Dependencies::Missing(key) => Some(key.as_str()),
        Dependencies::Ready(_) => None,
    };
    let is_over = |pod: &Pod| has_ended(pod) || failure_of(pod).is_some();
    let own = seen.builds.iter().filter(|pod| seen.owns(pod) && pod.metadata.deletion_timestamp.is_none());
    for pod in own.filter(|pod| is_over(pod) || key_of(pod) != missing) {
        plan.act(Action::delete(&**pod));
    }
    // The ConfigMap comes first: it has the code, and it is where the image is written down.
    let (Some(key), Some(map)) = (missing, seen.map_of(newest)) else { return };
    if let Some(image) = seen.maps_alike.iter().find_map(|map| image_of(map)) {
        let patch = json!({"metadata": {"annotations": {DEPENDENCIES_ANNOTATION: image}}});
        plan.act(Action::patch(map, patch));
        return;
    }
    let is_busy = |pod: &&Arc<Pod>| {
        key_of(pod) == Some(key) && pod.metadata.deletion_timestamp.is_none() && !is_over(pod)
    };
    if seen.builds.iter().any(|pod| is_busy(&pod)) {
        return;
    }
    if let Some(next) = failure.and_then(|failure| pause(failure, newest)).filter(|next| *next > now) {
        plan.again_at(next, now);
        return;
    }
    let code = Code::of(Some(map), &seen.function, seen.in_registry);
    let wanted = inputs(&seen.function.spec).filter(|inputs| inputs.key == key && code != Code::Missing);
    let made =
        wanted.and_then(|inputs| pod::pod(&seen.function, newest, &inputs, &code, &seen.build_settings));
    if let Some(pod) = made {
        plan.act(Action::create(&pod));
    }
}

/// When the next build may begin.
fn pause(failure: &FunctionFailure, newest: &str) -> Option<Timestamp> {
    if failure.reason != FAILED || failure.revision != newest {
        return None;
    }
    failure.at.0.checked_add(BACKOFF.after(u32::try_from(failure.count).unwrap_or(0))).ok()
}

fn image_of(map: &ConfigMap) -> Option<String> {
    map.metadata.annotations.as_ref()?.get(DEPENDENCIES_ANNOTATION).cloned()
}

fn key_of_map(map: &ConfigMap) -> Option<String> {
    map.metadata.labels.as_ref()?.get(BUILD_LABEL).cloned()
}
