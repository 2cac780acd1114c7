//! What a MeshPolicy says of itself: which of the proxies that it is about enforce it. It compiles nothing: proxies follow
//! policies by their agents, and go on while nobody writes this.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::mesh::{MeshAck, PROGRAMMED, ProxyCounts};
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches, key_of};

use super::{MeshPolicy, MeshPolicyStatus, PodView, is_about, revision};
use crate::ack_name;
use crate::controller::{counts, is_ready, proxies, proxy};
use crate::status;

pub struct MeshPolicyController;

pub struct Observed {
    policy: Arc<MeshPolicy>,
    /// Of all nodes.
    acks: Vec<Arc<MeshAck>>,
    /// Pods that it is about whose proxies run: namespace and name, and the node. Nodes without one say nothing of it.
    proxies: Vec<(String, String)>,
}

impl Controller for MeshPolicyController {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "mesh-policy-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<MeshPolicy>();
        watches.on::<MeshAck>(|_, ack| {
            let namespace = ack.metadata.namespace.as_deref().unwrap_or_default();
            let owners = ack.metadata.owner_references.iter().flatten();
            let policies = owners.filter(|owner| owner.kind == "MeshPolicy");
            policies.map(|owner| Key::new(namespace, owner.name.as_str())).collect()
        });
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Pod>(move |old, new| {
            // Labels say whom a policy is about.
            let seen =
                |pod: Option<&Pod>| pod.and_then(|pod| Some((proxy(pod)?, pod.metadata.labels.clone())));
            let changed = seen(old) != seen(new);
            caches.upgrade().filter(|_| changed).map(|caches| everyone(&caches)).unwrap_or_default()
        });
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Node>(move |old, new| {
            let changed = old.map(is_ready) != new.map(is_ready);
            caches.upgrade().filter(|_| changed).map(|caches| everyone(&caches)).unwrap_or_default()
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let policy = caches.of::<MeshPolicy>().get(key)?;
        let mut acks = caches.of::<MeshAck>().in_namespace(&key.namespace);
        let name = ack_name::of_policy(policy.metadata.uid.as_deref().unwrap_or_default());
        let is_of = |ack: &MeshAck| ack_name::parts(ack).is_some_and(|(of, _)| of == name);
        acks.retain(|ack| is_of(ack) && counts(caches, ack));
        let pods = caches.of::<Pod>();
        let mut proxies = proxies(caches);
        proxies.retain(|(pod, _)| {
            let key = pod.split_once('/').map(|(namespace, name)| Key::new(namespace, name));
            key.and_then(|key| pods.get(&key)).is_some_and(|pod| is_about(&policy, &view(&pod)))
        });
        Some(Observed { policy, acks, proxies })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let policy = &*seen.policy;
        if policy.metadata.deletion_timestamp.is_some() {
            return plan;
        }
        let acks = seen.acks.iter().filter_map(|ack| Some((ack_name::parts(ack)?.1, &ack.spec)));
        let proxies = status::proxies(&seen.proxies, acks, &revision(policy));
        let known = policy.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let generation = policy.metadata.generation;
        let programmed = status::condition(known, PROGRAMMED, said(&proxies), generation, now);
        let status =
            MeshPolicyStatus { observed_generation: generation, proxies, conditions: vec![programmed] };
        plan.status(policy, MeshPolicy { status: Some(status), ..policy.clone() });
        plan
    }
}

/// Status, reason and message.
fn said(proxies: &ProxyCounts) -> (&'static str, &'static str, &'static str) {
    match (proxies.applied == proxies.total, proxies.total) {
        (true, 0) => ("True", "Programmed", "no proxy runs in a pod that it is about"),
        (true, _) => ("True", "Programmed", ""),
        (false, _) => ("False", "Waiting", "not all proxies enforce it yet"),
    }
}

fn view(pod: &Pod) -> PodView {
    PodView {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        labels: pod.metadata.labels.clone().unwrap_or_default(),
    }
}

fn everyone(caches: &Caches) -> Vec<Key> {
    caches.of::<MeshPolicy>().list().iter().map(|policy| key_of(&**policy)).collect()
}

#[cfg(test)]
mod tests {
    use minik8s_meta::mesh::{SIDECAR, SIDECAR_IMAGE};
    use minik8s_runtime::testing::{Simulation, World, check_convergence};
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn from<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn pod(name: &str, app: &str, node: &str) -> Pod {
        from(json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {"app": app}},
            "spec": {"nodeName": node, "containers": [],
                "initContainers": [{"name": SIDECAR, "image": SIDECAR_IMAGE}]},
            "status": {"initContainerStatuses": [{"name": SIDECAR, "image": SIDECAR_IMAGE, "imageID": "",
                "ready": true, "restartCount": 0, "started": true, "state": {"running": {}}}]}}))
    }

    fn ack(node: &str, revision: &str, waiting: &[&str]) -> MeshAck {
        let name = format!("meshpolicy-u.{node}");
        from(json!({"metadata": {"name": name, "namespace": "ns", "ownerReferences": [
            {"apiVersion": "minik8s.io/v1", "kind": "MeshPolicy", "name": "p", "uid": "u"}]},
            "spec": {"revision": revision, "waiting": waiting}}))
    }

    /// A policy about two pods of three, one on each node.
    fn build() -> Simulation {
        let mut world = World::default();
        world.insert(&pod("a", "web", "n.1"));
        world.insert(&pod("b", "web", "n.2"));
        world.insert(&pod("c", "other", "n.2"));
        world.insert::<MeshPolicy>(&from(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "generation": 1},
            "spec": {"mtls": "Strict", "selector": {"matchLabels": {"app": "web"}}}})));
        Simulation::new(world).with(MeshPolicyController)
    }

    fn told(simulation: &Simulation) -> String {
        let policy: MeshPolicy = simulation.world.get(&Key::new("ns", "p")).unwrap();
        let status = policy.status.unwrap();
        let waiting: Vec<&str> = status.proxies.waiting_for.iter().map(|one| one.pod.as_str()).collect();
        let condition = &status.conditions[0];
        assert_eq!(condition.type_, PROGRAMMED);
        assert_eq!(status.observed_generation, policy.metadata.generation);
        let (applied, total) = (status.proxies.applied, status.proxies.total);
        format!("{} {applied}/{total} {}", condition.status, waiting.join(","))
    }

    #[test]
    fn policy_is_programmed_when_the_proxies_that_it_is_about_enforce_it() {
        check_convergence(build, |simulation| assert_eq!(told(simulation), "False 0/2 ns/a,ns/b"));
        let mut simulation = build();
        let mut after = |ack: &MeshAck, expected: &str| {
            let key = key_of(ack);
            match simulation.world.get::<MeshAck>(&key) {
                Some(_) => simulation.world.change::<MeshAck>(&key, |known| known.spec = ack.spec.clone()),
                None => drop(simulation.world.insert(ack)),
            }
            simulation.settle().unwrap();
            assert_eq!(told(&simulation), expected);
        };
        after(&ack("n.1", "1", &[]), "False 1/2 ns/b");
        after(&ack("n.2", "0", &[]), "False 1/2 ns/b");
        after(&ack("n.2", "1", &["ns/b"]), "False 1/2 ns/b");
        after(&ack("n.2", "1", &["ns/c"]), "True 2/2 ");
        simulation.world.change::<MeshPolicy>(&Key::new("ns", "p"), |policy| {
            policy.spec.mtls = Some("Permissive".into())
        });
        simulation.settle().unwrap();
        assert_eq!(told(&simulation), "False 0/2 ns/a,ns/b", "of another generation");
    }

    /// Which acknowledge nothing that is not about their pods.
    #[test]
    fn policy_does_not_wait_for_nodes_without_a_proxy_that_it_is_about() {
        let mut simulation = build();
        simulation.world.change::<Pod>(&Key::new("ns", "b"), |pod| {
            pod.metadata.labels = Some([("app".to_owned(), "other".to_owned())].into());
        });
        simulation.settle().unwrap();
        assert_eq!(told(&simulation), "False 0/1 ns/a");
        simulation.world.insert(&ack("n.1", "1", &[]));
        simulation.settle().unwrap();
        assert_eq!(told(&simulation), "True 1/1 ");
    }

    /// A VirtualService may be called as a policy's uid.
    #[test]
    fn word_about_a_virtual_service_is_not_taken_for_the_policys() {
        let mut simulation = build();
        for node in ["n.1", "n.2"] {
            let name = format!("{}.{node}", ack_name::of_route("u", ""));
            let metadata = json!({"name": name, "namespace": "ns"});
            let ack = json!({"metadata": metadata, "spec": {"revision": "1"}});
            simulation.world.insert::<MeshAck>(&from(ack));
        }
        simulation.settle().unwrap();
        assert_eq!(told(&simulation), "False 0/2 ns/a,ns/b");
    }

    #[test]
    fn policy_about_nobody_is_programmed() {
        let mut simulation = build();
        simulation.world.change::<MeshPolicy>(&Key::new("ns", "p"), |policy| {
            policy.spec.selector = Some(from(json!({"matchLabels": {"app": "nobody"}})));
        });
        simulation.settle().unwrap();
        assert_eq!(told(&simulation), "True 0/0 ");
    }
}
