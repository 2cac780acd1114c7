use k8s_openapi::api::core::v1::ConfigMap;
use minik8s_runtime::testing::{Simulation, World, check_convergence, set_pod_phase};

use super::*;

fn pod(name: &str, cpu: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    }))
    .unwrap()
}

fn simulate(world: World) -> Simulation {
    let catalog = Arc::new(Catalog::default());
    catalog.update(vec![Kind::of::<ConfigMap>(), Kind::of::<Pod>(), Kind::of::<ResourceQuota>()]);
    Simulation::new(world).with(Quotas::new(catalog))
}

fn cluster(spec: Value) -> World {
    let mut world = World::default();
    let quota = json!({"metadata": {"name": "q", "namespace": "ns"}, "spec": spec});
    world.insert(&serde_json::from_value::<ResourceQuota>(quota).unwrap());
    world.insert(&pod("a", "500m"));
    world.insert(&pod("b", "1"));
    for name in ["x", "y"] {
        let map = json!({"metadata": {"name": name, "namespace": "ns"}});
        world.insert(&serde_json::from_value::<ConfigMap>(map).unwrap());
    }
    world
}

fn used(world: &World) -> Value {
    json!(world.get::<ResourceQuota>(&Key::new("ns", "q")).unwrap().status.unwrap().used)
}

#[test]
fn counts_what_is_there() {
    let hard = json!({"pods": "5", "requests.cpu": "4", "configmaps": "9", "count/configmaps": "9", "count/jobs.batch": "2"});
    let build = || simulate(cluster(json!({"hard": hard})));
    check_convergence(build, |simulation| {
        let expected = json!({"configmaps": "2", "count/configmaps": "2", "count/jobs.batch": "0", "pods": "2", "requests.cpu": "1500m"});
        assert_eq!(used(&simulation.world), expected);
    });
}

#[test]
fn what_goes_or_ends_is_given_back() {
    let mut simulation =
        simulate(cluster(json!({"hard": {"pods": "5", "requests.cpu": "4", "configmaps": "9"}})));
    simulation.settle().unwrap();
    set_pod_phase(&mut simulation.world, &Key::new("ns", "b"), "Succeeded");
    simulation.world.delete::<ConfigMap>(&Key::new("ns", "x"));
    simulation.settle().unwrap();
    assert_eq!(used(&simulation.world), json!({"configmaps": "1", "pods": "1", "requests.cpu": "500m"}));
    simulation.world.delete::<Pod>(&Key::new("ns", "a"));
    simulation.settle().unwrap();
    assert_eq!(used(&simulation.world), json!({"configmaps": "1", "pods": "0", "requests.cpu": "0"}));
}

#[test]
fn scopes_narrow_it() {
    let mut simulation = simulate(cluster(json!({"hard": {"pods": "5"}, "scopes": ["Terminating"]})));
    simulation.settle().unwrap();
    assert_eq!(used(&simulation.world), json!({"pods": "0"}));
}

/// The caches as a watch fills them, one event at a time.
struct Watched {
    caches: Arc<Caches>,
    quotas: Quotas,
}

impl Watched {
    fn new() -> Watched {
        let caches = Caches::detached();
        let quotas = Quotas::new(Arc::new(Catalog::default()));
        quotas.watch(&Watches::new(caches.clone(), Arc::new(|_| {})));
        Watched { caches, quotas }
    }

    fn quota(&self, version: u64, used: Value) {
        let meta =
            json!({"name": "q", "namespace": "ns", "uid": "u", "resourceVersion": version.to_string()});
        let hard = json!({"pods": "5", "services": "5"});
        let quota = json!({"metadata": meta, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}});
        self.caches.of::<ResourceQuota>().apply(serde_json::from_value(quota).unwrap());
    }

    fn pod(&self, name: &str, version: u64) -> Pod {
        let mut pod = pod(name, "1");
        pod.metadata.resource_version = Some(version.to_string());
        pod
    }

    /// What it would write, and whether it waits for something.
    #[track_caller]
    fn check(&self, written: Option<Value>, waits: bool) {
        let seen = self.quotas.observe(&self.caches, &Key::new("ns", "q")).unwrap();
        let plan = self.quotas.plan(&seen, Timestamp::now());
        let used = plan.actions.first().map(|action| format!("{action:?}"));
        let expected = written.map(|used| used.to_string().replace('"', ""));
        let told = seen.used.iter().map(|(name, amount)| format!("{name}:{amount}")).collect::<Vec<_>>();
        assert_eq!(used.is_some(), expected.is_some(), "{told:?}");
        assert!(expected.is_none_or(|expected| expected == format!("{{{}}}", told.join(","))), "{told:?}");
        assert_eq!(plan.again_after.is_some(), waits, "{told:?}");
    }
}

#[test]
fn a_charge_stands_until_its_object_is_seen() {
    let watched = Watched::new();
    let pods = watched.caches.of::<Pod>();
    watched.quota(1, json!({"pods": "0", "services": "0"}));
    pods.replace(Vec::new(), 3);
    watched.caches.of::<Service>().replace(Vec::new(), 3);
    watched.check(None, false);
    // The charge is seen before the pod is.
    watched.quota(5, json!({"pods": "1", "services": "0"}));
    watched.check(None, true);
    pods.apply(watched.pod("a", 5));
    watched.check(None, false);
    // Another kind's charge does not hold up what went of this one.
    watched.quota(8, json!({"pods": "1", "services": "1"}));
    pods.remove(&watched.pod("a", 7));
    watched.check(Some(json!({"pods": "0", "services": "1"})), true);
    // What we wrote ourselves is no charge: the next one that goes need not wait either.
    watched.quota(9, json!({"pods": "0", "services": "1"}));
    watched.check(None, true);
    watched.caches.of::<Service>().advance(8);
    watched.check(Some(json!({"pods": "0", "services": "0"})), false);
}

#[test]
fn of_an_unknown_past_every_charge_may_be_new() {
    let watched = Watched::new();
    watched.quota(6, json!({"pods": "2"}));
    let pods = watched.caches.of::<Pod>();
    pods.replace(vec![watched.pod("a", 2)], 4);
    watched.caches.of::<Service>().replace(Vec::new(), 4);
    watched.check(Some(json!({"pods": "2", "services": "0"})), true);
    pods.apply(watched.pod("b", 6));
    watched.check(Some(json!({"pods": "2", "services": "0"})), false);
}
