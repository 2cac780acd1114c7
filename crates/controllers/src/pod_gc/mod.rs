//! Pods that nobody else would remove: on nodes that are gone, deleted on nodes that somebody has declared dead, deleted
//! before they had a node, and finished ones when there are too many.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Action, Caches, Controller, Key, Kind, Plan, Target, Watches, key_of};
use serde_json::json;

use crate::pods;

/// So many finished pods may stay for people to look at.
const MOST_FINISHED: usize = 12_500;
/// By this taint somebody who knows says that a machine is off: nothing of it runs any more.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

pub struct PodGarbage;

/// One pod, or the heap of finished ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    Pod(Key),
    Finished,
}

pub enum Observed {
    Pod {
        pod: Arc<Pod>,
        has_node: bool,
        is_out_of_service: bool,
    },
    /// Those beyond the limit, oldest first.
    Surplus(Vec<Arc<Pod>>),
}

impl Controller for PodGarbage {
    type Key = Subject;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "pod-garbage-collector"
    }

    fn watch(&self, watches: &Watches<Subject>) {
        watches.on_change::<Pod>(|old, new| {
            let Some(pod) = new else { return Vec::new() };
            if pods::is_finished(pod) && !old.is_some_and(pods::is_finished) {
                return vec![Subject::Finished, Subject::Pod(key_of(pod))];
            }
            let moved = old.and_then(pods::node_name) != pods::node_name(pod);
            let looked_at = moved || pods::is_terminating(pod);
            looked_at.then(|| Subject::Pod(key_of(pod))).into_iter().collect()
        });
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Node>(move |old, new| {
            let is_news = match (old, new) {
                (Some(_), None) => true,
                (old, Some(new)) => is_out_of_service(new) && !old.is_some_and(is_out_of_service),
                (None, None) => false,
            };
            let (Some(caches), Some(node), true) = (caches.upgrade(), new.or(old), is_news) else {
                return Vec::new();
            };
            let name = key_of(node).name;
            let left = caches.of::<Pod>().list();
            let left = left.iter().filter(|pod| pods::node_name(pod) == Some(&name));
            left.map(|pod| Subject::Pod(key_of(&**pod))).collect()
        });
    }

    fn observe(&self, caches: &Caches, subject: &Subject) -> Option<Observed> {
        let cache = caches.of::<Pod>();
        match subject {
            Subject::Pod(key) => {
                let pod = cache.get(key)?;
                let name = pods::node_name(&pod).map(|node| Key::new("", node));
                let node = name.as_ref().and_then(|name| caches.of::<Node>().get(name));
                Some(Observed::Pod {
                    has_node: name.is_none() || node.is_some(),
                    is_out_of_service: node.is_some_and(|node| is_out_of_service(&node)),
                    pod,
                })
            }
            Subject::Finished => {
                if cache.len() <= MOST_FINISHED {
                    return None;
                }
                let mut finished = cache.list();
                finished.retain(|pod| pods::is_finished(pod));
                finished.sort_by_key(|pod| pods::created(pod));
                let surplus = finished.len().checked_sub(MOST_FINISHED)?;
                finished.truncate(surplus);
                Some(Observed::Surplus(finished))
            }
        }
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        let mut plan = Plan::default();
        match seen {
            Observed::Surplus(finished) => {
                plan.actions.extend(finished.iter().map(|pod| Action::delete(&**pod).with_grace(0)));
            }
            Observed::Pod { pod, has_node: false, .. } => lost_its_node(pod, &mut plan),
            // Its agent will never confirm it, and volumes wait for that.
            Observed::Pod { pod, is_out_of_service: true, .. } if pods::is_terminating(pod) => {
                if !pods::is_finished(pod) {
                    plan.act(Action::patch_status(
                        &**pod,
                        json!({"phase": "Failed", "reason": "NodeOutOfService"}),
                    ));
                }
                plan.act(Action::delete(&**pod).with_grace(0));
            }
            // Deleted before it went anywhere: no kubelet will ever confirm it.
            Observed::Pod { pod, .. } if pods::is_terminating(pod) && pods::node_name(pod).is_none() => {
                // Whoever holds it by a finalizer waits for its end.
                if pod.metadata.finalizers.is_some() && !pods::is_finished(pod) {
                    plan.act(Action::patch_status(&**pod, json!({"phase": "Failed"})));
                }
                if pod.metadata.deletion_grace_period_seconds != Some(0) {
                    plan.act(Action::delete(&**pod).with_grace(0));
                }
            }
            Observed::Pod { .. } => {}
        }
        plan
    }
}

/// A node that is ready after all is not taken at that word.
fn is_out_of_service(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_ready = conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True");
    !is_ready && taints.into_iter().any(|taint| taint.key == OUT_OF_SERVICE)
}

fn lost_its_node(pod: &Pod, plan: &mut Plan) {
    let Some(node) = pods::node_name(pod) else { return };
    // The cache of nodes may be behind that of pods.
    let key = Key::new("", node);
    let target = Target { kind: Kind::of::<Node>(), key, uid: None, resource_version: None };
    plan.act(Action::RequireAbsent { target });
    if !pods::is_finished(pod) {
        plan.act(Action::patch_status(pod, json!({"phase": "Failed", "reason": "NodeLost"})));
    }
    plan.act(Action::delete(pod).with_grace(0));
}

#[cfg(test)]
mod tests {
    use minik8s_runtime::testing::{Simulation, World, check_convergence};

    use super::*;

    fn pod(name: &str, node: Option<&str>, deleted: bool) -> Pod {
        let deletion = deleted.then_some("2030-01-01T00:00:00Z");
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "ns", "deletionTimestamp": deletion,
                "deletionGracePeriodSeconds": deleted.then_some(30)},
            "spec": {"containers": [], "nodeName": node},
        }))
        .unwrap()
    }

    #[test]
    fn only_lost_pods_go() {
        let build = || {
            let mut world = World::default();
            let node = json!({"metadata": {"name": "here"}});
            world.insert(&serde_json::from_value::<Node>(node).unwrap());
            world.insert(&pod("fine", Some("here"), false));
            world.insert(&pod("terminating", Some("here"), true));
            world.insert(&pod("waiting", None, false));
            world.insert(&pod("nowhere", None, true));
            world.insert(&pod("lost", Some("gone"), false));
            world.insert(&pod("lost-terminating", Some("gone"), true));
            Simulation::new(world).with(PodGarbage)
        };
        check_convergence(build, |simulation| {
            let pods: Vec<_> =
                simulation.world.list::<Pod>().into_iter().map(|p| p.metadata.name.unwrap()).collect();
            assert_eq!(pods, ["fine", "terminating", "waiting"]);
        });
    }

    #[test]
    fn pods_deleted_on_a_node_out_of_service_go() {
        let check = |ready: &str, taint: &str, expected: &[&str]| {
            let build = || {
                let mut world = World::default();
                let node = json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": taint, "effect": "NoExecute"}]},
                    "status": {"conditions": [{"type": "Ready", "status": ready}]}});
                world.insert(&serde_json::from_value::<Node>(node).unwrap());
                world.insert(&pod("deleted", Some("n"), true));
                world.insert(&pod("tolerates", Some("n"), false));
                Simulation::new(world).with(PodGarbage)
            };
            check_convergence(build, |simulation| {
                let pods: Vec<_> =
                    simulation.world.list::<Pod>().into_iter().map(|p| p.metadata.name.unwrap()).collect();
                assert_eq!(pods, expected, "{ready} {taint}");
            });
        };
        check("Unknown", OUT_OF_SERVICE, &["tolerates"]);
        check("Unknown", "node.kubernetes.io/unreachable", &["deleted", "tolerates"]);
        check("True", OUT_OF_SERVICE, &["deleted", "tolerates"]);
    }

    #[test]
    fn a_node_that_goes_takes_its_pods() {
        let mut world = World::default();
        let node = json!({"metadata": {"name": "n"}});
        world.insert(&serde_json::from_value::<Node>(node).unwrap());
        world.insert(&pod("p", Some("n"), false));
        let mut simulation = Simulation::new(world).with(PodGarbage);
        simulation.settle().unwrap();
        assert_eq!(simulation.world.list::<Pod>().len(), 1);
        simulation.world.delete::<Node>(&Key::new("", "n"));
        simulation.settle().unwrap();
        assert_eq!(simulation.world.list::<Pod>().len(), 0);
    }
}
