//! A pretended node: pods run as soon as it looks at them, and are gone when they are to go.

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::World;
use crate::{Key, key_of};

/// What becomes of pods.
#[derive(Debug, Clone, Copy, Default)]
pub struct Kubelet {
    /// Pods end in this phase as soon as they run (`Succeeded`, `Failed`) instead of staying ready.
    pub ends_in: Option<&'static str>,
}

impl Kubelet {
    /// One change per turn, so that controllers get to see every state in between.
    pub fn actor(self) -> super::Actor {
        Box::new(move |world| {
            let pods = world.cache::<Pod>().list();
            pods.iter().any(|pod| self.act(world, pod))
        })
    }

    fn act(self, world: &mut World, pod: &Pod) -> bool {
        let key = key_of(pod);
        if pod.metadata.deletion_timestamp.is_some() {
            if pod.metadata.finalizers.as_ref().is_some_and(|f| !f.is_empty()) {
                return self.finish_terminating(world, pod, &key);
            }
            world.erase::<Pod>(&key);
            return true;
        }
        let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or("Pending");
        match (phase, self.ends_in) {
            ("Pending", _) => set_pod_phase(world, &key, "Running"),
            ("Running", Some(end)) => set_pod_phase(world, &key, end),
            _ => return false,
        }
        true
    }

    /// A finalizer holds the object, but its containers are gone.
    fn finish_terminating(self, world: &mut World, pod: &Pod, key: &Key) -> bool {
        let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return false;
        }
        set_pod_phase(world, key, "Failed");
        world.change::<Pod>(key, |pod| pod.metadata.deletion_grace_period_seconds = Some(0));
        true
    }
}

/// Sets phase and the Ready condition, and a node if the pod has none.
pub fn set_pod_phase(world: &mut World, key: &Key, phase: &str) {
    let now = world.now();
    world.change::<Pod>(key, |pod| {
        let ready = if phase == "Running" { "True" } else { "False" };
        let spec = pod.spec.get_or_insert_default();
        spec.node_name.get_or_insert_with(|| "node-1".to_owned());
        let status = pod.status.get_or_insert_with(PodStatus::default);
        status.phase = Some(phase.to_owned());
        status.start_time.get_or_insert(Time(now));
        let conditions = status.conditions.get_or_insert_default();
        conditions.retain(|c| c.type_ != "Ready");
        conditions.push(PodCondition {
            type_: "Ready".to_owned(),
            status: ready.to_owned(),
            last_transition_time: Some(Time(now)),
            ..PodCondition::default()
        });
    });
}
