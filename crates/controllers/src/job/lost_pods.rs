//! Pods that wait to be counted by a Job that is gone: they are let go.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Action, Caches, Controller, Key, Kind, Plan, Target, Watches, controller_of, key_of};

use super::account::release;
use super::pod;

pub struct LostJobPods;

pub struct Observed {
    pod: Arc<Pod>,
    /// The Job that was its owner; None if it has none.
    owner: Option<Target>,
}

impl Controller for LostJobPods {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "job-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.on::<Pod>(|_, pod| pod::is_tracked(pod).then(|| key_of(pod)).into_iter().collect());
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Job>(move |old, new| {
            let Some((caches, gone)) = caches.upgrade().zip(old.filter(|_| new.is_none())) else {
                return Vec::new();
            };
            let uid = gone.metadata.uid.as_deref().unwrap_or("");
            caches.of::<Pod>().controlled_by(uid).iter().map(|pod| key_of(&**pod)).collect()
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let pod = caches.of::<Pod>().get(key).filter(|pod| pod::is_tracked(pod))?;
        let Some(owner) = controller_of(&pod.metadata).filter(|owner| owner.kind == "Job") else {
            return Some(Observed { pod, owner: None });
        };
        let job = Key::new(&*key.namespace, &*owner.name);
        if caches.of::<Job>().get(&job).is_some_and(|job| job.metadata.uid.as_ref() == Some(&owner.uid)) {
            return None;
        }
        let uid = Some(owner.uid.clone());
        let owner = Target { kind: Kind::of::<Job>(), key: job, uid, resource_version: None };
        Some(Observed { pod, owner: Some(owner) })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        let mut plan = Plan::default();
        // The cache of Jobs may be behind that of pods.
        plan.actions.extend(seen.owner.clone().map(|target| Action::RequireAbsent { target }));
        plan.act(release(&seen.pod));
        plan
    }
}
