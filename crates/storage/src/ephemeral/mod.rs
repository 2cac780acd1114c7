//! Generic ephemeral volumes: a pod that describes a claim of its own gets it, named after pod and volume, and takes it
//! along when it goes (the garbage collector does that).
//!
//! A claim of that name that is not the pod's is never used: the pod waits, and is told.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Volume};
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{
    Action, Caches, Controller, EventRecord, Key, Plan, Watches, is_controlled_by, key_of, owner_reference,
};

pub struct EphemeralVolumes;

pub struct Observed {
    pod: Arc<Pod>,
    claims: Vec<(String, Option<Arc<PersistentVolumeClaim>>)>,
}

impl Controller for EphemeralVolumes {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "ephemeral-volume-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.on_change::<Pod>(|old, new| {
            let is_new = old.is_none();
            new.filter(|pod| is_new && volumes(pod).next().is_some()).map(key_of).into_iter().collect()
        });
        watches.owned::<PersistentVolumeClaim, Pod>();
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let pod = caches.of::<Pod>().get(key)?;
        let claims = caches.of::<PersistentVolumeClaim>();
        let claim = |volume: &Volume| {
            let name = format!("{}-{}", key.name, volume.name);
            let known = claims.get(&Key::new(&*key.namespace, &*name));
            (name, known)
        };
        let claims = volumes(&pod).map(claim).collect();
        Some(Observed { pod, claims })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let pod = &*seen.pod;
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if pod.metadata.deletion_timestamp.is_some() || matches!(phase, Some("Succeeded" | "Failed")) {
            return plan;
        }
        for (volume, (name, known)) in volumes(pod).zip(&seen.claims) {
            match known {
                None => plan.act(Action::create(&claim(pod, volume, name))),
                Some(known)
                    if !is_controlled_by(&known.metadata, pod.metadata.uid.as_deref().unwrap_or("")) =>
                {
                    let message = format!("PVC {name} was not created for this pod (pod is not owner)");
                    plan.event(EventRecord::warning(pod, "EphemeralVolumeCreationFailed", message));
                }
                Some(_) => {}
            }
        }
        plan
    }
}

fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    let all = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    all.filter(|volume| volume.ephemeral.as_ref().is_some_and(|e| e.volume_claim_template.is_some()))
}

fn claim(pod: &Pod, volume: &Volume, name: &str) -> PersistentVolumeClaim {
    let template = volume.ephemeral.as_ref().and_then(|source| source.volume_claim_template.clone());
    let template = template.unwrap_or_default();
    let mut claim = PersistentVolumeClaim { spec: Some(template.spec), ..PersistentVolumeClaim::default() };
    let described = template.metadata.unwrap_or_default();
    claim.metadata.labels = described.labels;
    claim.metadata.annotations = described.annotations;
    claim.metadata.name = Some(name.to_owned());
    claim.metadata.namespace = pod.metadata.namespace.clone();
    claim.metadata.owner_references = Some(vec![owner_reference(pod)]);
    claim
}
