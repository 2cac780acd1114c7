//! Waits for devices that are made ready only after they were chosen (`bindingConditions`), as those of a fabric are: the
//! pod goes to its node when all of them are.
//!
//! Whoever makes them ready tells so in the claim's status. One that says it will not be ready, or that takes too long, is
//! not insisted on: the claim gives its devices back, and the pod is tried again.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::resource::v1::{AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim};
use minik8s_runtime::{Cache, Caches, key_of};
use tokio::sync::watch;

use crate::devices::Reservation;

/// As long as Kubernetes waits.
const TIMEOUT: Duration = Duration::from_secs(600);

#[derive(Clone)]
pub struct ReadyDevices {
    cache: Arc<Cache<ResourceClaim>>,
    changes: watch::Receiver<u64>,
}

/// How far the devices of a claim are.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    Ready,
    Waiting,
    Failed(String),
}

impl ReadyDevices {
    pub fn follow(caches: &Caches) -> Self {
        let cache = caches.of::<ResourceClaim>();
        let (told, changes) = watch::channel(0);
        cache.listen(Box::new(move |_, _| told.send_modify(|count| *count += 1)));
        ReadyDevices { cache, changes }
    }

    /// Whether any of them has to be waited for at all.
    pub fn concern(reservations: &[Reservation]) -> bool {
        reservations.iter().any(|reservation| {
            let known = reservation.claim.status.as_ref().and_then(|status| status.allocation.as_ref());
            let allocation = reservation.allocation.as_ref().or(known);
            let devices = allocation.and_then(|allocation| allocation.devices.as_ref());
            devices.into_iter().flat_map(|devices| devices.results.iter().flatten()).any(is_conditional)
        })
    }

    /// Until all are ready; else why not.
    pub async fn wait(mut self, reservations: &[Reservation]) -> Result<(), String> {
        let all = async {
            loop {
                self.changes.mark_unchanged();
                let seen = |reservation: &Reservation| {
                    let now = self.cache.get(&key_of(&*reservation.claim));
                    // What was just written may not be in the cache yet.
                    now.map_or(Progress::Waiting, |now| progress(&now, &reservation.claim))
                };
                let mut is_waiting = false;
                for one in reservations.iter().map(seen) {
                    match one {
                        Progress::Ready => {}
                        Progress::Waiting => is_waiting = true,
                        Progress::Failed(why) => return Err(why),
                    }
                }
                if !is_waiting {
                    return Ok(());
                }
                if self.changes.changed().await.is_err() {
                    return Err("the scheduler stops".to_owned());
                }
            }
        };
        let in_time = tokio::time::timeout(TIMEOUT, all).await;
        in_time.unwrap_or_else(|_| Err(format!("devices were not ready within {} s", TIMEOUT.as_secs())))
    }
}

fn is_conditional(result: &DeviceRequestAllocationResult) -> bool {
    result.binding_conditions.as_ref().is_some_and(|conditions| !conditions.is_empty())
}

fn progress(now: &ResourceClaim, known: &ResourceClaim) -> Progress {
    let name = known.metadata.name.as_deref().unwrap_or_default();
    if now.metadata.uid != known.metadata.uid || now.metadata.deletion_timestamp.is_some() {
        return Progress::Failed(format!("resourceclaim {name} is gone"));
    }
    let status = now.status.as_ref();
    let Some(allocation) = status.and_then(|status| status.allocation.as_ref()) else {
        return Progress::Waiting;
    };
    let told = status.and_then(|status| status.devices.as_deref()).unwrap_or_default();
    let results = allocation.devices.iter().flat_map(|devices| devices.results.iter().flatten());
    let mut is_waiting = false;
    for result in results.filter(|result| is_conditional(result)) {
        let of_device = told.iter().find(|device| is_of(device, result));
        let is_true = |kind: &String| {
            let mut conditions = of_device.iter().flat_map(|device| device.conditions.iter().flatten());
            conditions.any(|condition| condition.type_ == *kind && condition.status == "True")
        };
        let mut failures = result.binding_failure_conditions.iter().flatten();
        if let Some(failed) = failures.find(|kind| is_true(kind)) {
            return Progress::Failed(format!("device {} of resourceclaim {name}: {failed}", result.device));
        }
        is_waiting |= !result.binding_conditions.iter().flatten().all(is_true);
    }
    if is_waiting { Progress::Waiting } else { Progress::Ready }
}

fn is_of(device: &AllocatedDeviceStatus, result: &DeviceRequestAllocationResult) -> bool {
    (&device.driver, &device.pool, &device.device, &device.share_id)
        == (&result.driver, &result.pool, &result.device, &result.share_id)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(uid: &str, conditions: &[(&str, &str)]) -> ResourceClaim {
        let names = json!({"driver": "d", "pool": "p", "device": "a"});
        let with = |more: Value| {
            let mut all = names.as_object().unwrap().clone();
            all.extend(more.as_object().unwrap().clone());
            Value::Object(all)
        };
        let result = with(json!({"request": "r", "bindingConditions": ["Attached", "Tested"],
            "bindingFailureConditions": ["Broken"]}));
        let plain = json!({"request": "s", "driver": "d", "pool": "p", "device": "b"});
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(kind, status)| {
                json!({"type": kind, "status": status, "reason": "r", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .collect();
        let status = json!({"allocation": {"devices": {"results": [result, plain]}},
            "devices": [with(json!({"conditions": conditions}))]});
        let claim = json!({"metadata": {"name": "c", "uid": uid}, "spec": {}, "status": status});
        serde_json::from_value(claim).unwrap()
    }

    #[test]
    fn devices_are_waited_for_until_ready_or_broken() {
        let known = claim("u", &[]);
        let check = |now: ResourceClaim, expected: Progress| assert_eq!(progress(&now, &known), expected);
        check(claim("u", &[]), Progress::Waiting);
        check(claim("u", &[("Attached", "True")]), Progress::Waiting);
        check(claim("u", &[("Attached", "True"), ("Tested", "False")]), Progress::Waiting);
        check(claim("u", &[("Attached", "True"), ("Tested", "True"), ("Broken", "False")]), Progress::Ready);
        let broken = "device a of resourceclaim c: Broken".to_owned();
        check(claim("u", &[("Attached", "True"), ("Broken", "True")]), Progress::Failed(broken));
        check(claim("v", &[]), Progress::Failed("resourceclaim c is gone".to_owned()));
        // The cache shows it as it was before the devices were given.
        let mut before = claim("u", &[]);
        before.status = None;
        check(before, Progress::Waiting);
    }

    #[test]
    fn only_conditional_devices_concern_anybody() {
        let reservation = |claim: ResourceClaim| Reservation { claim: Arc::new(claim), allocation: None };
        assert!(ReadyDevices::concern(&[reservation(claim("u", &[]))]));
        let mut plain = claim("u", &[]);
        let results = plain.status.as_mut().unwrap().allocation.as_mut().unwrap().devices.as_mut().unwrap();
        results.results.as_mut().unwrap().remove(0);
        assert!(!ReadyDevices::concern(&[reservation(plain)]));
    }
}
