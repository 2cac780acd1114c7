//! The controller in a world in memory.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::SignedDuration;
use minik8s_meta::function::{
    CODE_ANNOTATION, Function, FunctionDemand, FunctionDemandSpec, FunctionEndpoints, FunctionInstance,
    FunctionTraffic, REVISION_READY, SPEC_KEY, TRAFFIC,
};
use minik8s_runtime::testing::{Actor, Kubelet, Simulation, World, check_convergence};
use minik8s_runtime::{Action, Controller, Key};
use serde_json::json;

use crate::controller::{FunctionController, Observed};
use crate::revision::Code;
use crate::status;

fn key() -> Key {
    Key::new("ns", "f")
}

fn function(source: &str) -> Function {
    serde_json::from_value(json!({
        "metadata": {"name": "f", "namespace": "ns", "uid": "u", "generation": 1},
        "spec": {"runtime": "python3.11", "code": {"source": source}, "scale": {"max": 5, "idleSeconds": 60}},
    }))
    .unwrap()
}

fn demand(requests: u32, world: &World) -> FunctionDemand {
    FunctionDemand {
        metadata: ObjectMeta {
            name: Some("f.node-1".to_owned()),
            namespace: Some("ns".to_owned()),
            ..ObjectMeta::default()
        },
        spec: FunctionDemandSpec { requests, at: Some(Time(world.now())) },
        ..FunctionDemand::default()
    }
}

fn build(requests: u32) -> Simulation {
    let mut world = World::default();
    world.insert(&function("def main(p): return p"));
    if requests > 0 {
        let demand = demand(requests, &world);
        world.insert(&demand);
    }
    Simulation::new(world).with(FunctionController::default()).with_actor(Kubelet::default().actor())
}

fn live(simulation: &Simulation) -> Vec<Pod> {
    let mut pods = simulation.world.list::<Pod>();
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    pods
}

#[test]
fn function_without_requests_is_proved_once_and_ends_at_zero() {
    check_convergence(
        || build(0),
        |simulation| {
            assert_eq!(live(simulation).len(), 0);
            assert_eq!(simulation.world.list::<ConfigMap>().len(), 1);
            let function: Function = simulation.world.get(&key()).unwrap();
            let ready = status::condition(&function, REVISION_READY).unwrap();
            assert_eq!((ready.status.as_str(), function.status.as_ref().unwrap().revision), ("True", 1));
            let endpoints: FunctionEndpoints = simulation.world.get(&key()).unwrap();
            assert_eq!(endpoints.spec.instances, []);
            assert_eq!(endpoints.spec.problem, None);
        },
    );
}

#[test]
fn function_has_as_many_instances_as_requests_within_its_bounds() {
    for (requests, instances) in [(1, 1), (3, 3), (50, 5)] {
        let mut simulation = build(requests);
        simulation.stop_at(SignedDuration::from_secs(30));
        simulation.settle().unwrap();
        assert_eq!(live(&simulation).len(), instances, "{requests} requests");
    }
}

#[test]
fn function_has_room_to_spare_where_it_asks_for_it() {
    for (requests, instances) in [(1, 1), (8, 1), (9, 2), (16, 2), (17, 3), (500, 5)] {
        let mut world = build(requests).world;
        world.change::<Function>(&key(), |function| {
            function.spec.concurrency = Some(10);
            function.spec.scale.as_mut().unwrap().target_utilization = Some(80);
        });
        let mut simulation =
            Simulation::new(world).with(FunctionController::default()).with_actor(Kubelet::default().actor());
        simulation.stop_at(SignedDuration::from_secs(30));
        simulation.settle().unwrap();
        assert_eq!(live(&simulation).len(), instances, "{requests} requests");
    }
}

/// While there are requests; a revision that is only proved, and one that is idle, have none of it.
#[test]
fn function_has_its_least_instances_while_it_is_called() {
    for (requests, instances) in [(0, 1), (1, 3), (4, 4), (50, 5)] {
        let mut world = World::default();
        let mut function = function("def main(p): return p");
        function.spec.scale.as_mut().unwrap().min_active = Some(3);
        world.insert(&function);
        if requests > 0 {
            let demand = demand(requests, &world);
            world.insert(&demand);
        }
        let mut simulation =
            Simulation::new(world).with(FunctionController::default()).with_actor(Kubelet::default().actor());
        simulation.stop_at(SignedDuration::from_secs(30));
        simulation.settle().unwrap();
        assert_eq!(live(&simulation).len(), instances, "{requests} requests");
    }
}

/// Claims are volumes of every instance, also of one with an image of its own; routers hear the runtime by its own name.
#[test]
fn claims_are_volumes_and_aliases_are_runtimes() {
    let claim =
        json!([{"claim": "photos", "path": "/photos"}, {"claim": "old", "path": "/old", "readOnly": true}]);
    for (spec, first) in [
        (json!({"image": "a:1", "volumes": claim}), 0),
        (json!({"runtime": "python", "code": {"source": "x"}, "volumes": claim}), 2),
    ] {
        let mut function = function("x");
        function.spec = serde_json::from_value(spec).unwrap();
        let pod = serde_json::to_value(crate::revision::pod(&function, "hash", &Code::Map)).unwrap();
        let (mounts, volumes) = (&pod["spec"]["containers"][0]["volumeMounts"], &pod["spec"]["volumes"]);
        assert_eq!(mounts[first], json!({"name": "claim-0", "mountPath": "/photos", "readOnly": false}));
        assert_eq!(
            (&mounts[first + 1]["readOnly"], mounts.as_array().unwrap().len()),
            (&json!(true), first + 2)
        );
        let claim = json!({"claimName": "old", "readOnly": true});
        assert_eq!(volumes[first + 1], json!({"name": "claim-1", "persistentVolumeClaim": claim}));
        assert_eq!(pod["spec"]["securityContext"]["fsGroup"], 65_532);
    }
    let mut world = World::default();
    let mut function = function("def main(p): return p");
    function.spec.runtime = Some("python".to_owned());
    world.insert(&function);
    let mut simulation =
        Simulation::new(world).with(FunctionController::default()).with_actor(Kubelet::default().actor());
    simulation.settle().unwrap();
    let endpoints: FunctionEndpoints = simulation.world.get(&key()).unwrap();
    assert_eq!(endpoints.spec.runtime.as_deref(), Some("python3.11"));
}

/// It is a setting of the runtime, and only where it is wanted: other revisions stay what they were.
#[test]
fn cancel_is_told_to_the_runtime_of_a_new_revision() {
    let variable = |function: &Function| {
        let pod = serde_json::to_value(crate::revision::pod(function, "hash", &Code::Map)).unwrap();
        let env = pod["spec"]["containers"][0]["env"].as_array().unwrap().clone();
        env.into_iter().find(|one| one["name"] == "FN_CANCEL").map(|one| one["value"].clone())
    };
    let (before, mut after) = (function("x"), function("x"));
    after.spec.cancel = Some(true);
    assert_eq!((variable(&before), variable(&after)), (None, Some(json!("1"))));
    assert_ne!(crate::revision::hash(&before), crate::revision::hash(&after));
}

/// A function whose first revision serves, changed to code that cannot be imported.
fn broken(requests: u32) -> Simulation {
    let mut simulation = build(0);
    simulation.settle().unwrap();
    let mut world = simulation.world;
    world.change::<Function>(&key(), |function| {
        function.spec.code.as_mut().unwrap().source = Some("import nothing".to_owned());
        function.metadata.generation = Some(2);
    });
    let newest = crate::revision::hash(&world.get::<Function>(&key()).unwrap());
    if requests > 0 {
        let demand = demand(requests, &world);
        world.insert(&demand);
    }
    // Pods of the new revision end as soon as they run.
    let kubelet = Box::new(move |world: &mut World| {
        let pods: Vec<Pod> = world.list();
        for pod in pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
            let is_new = crate::revision::hash_of(&pod.metadata) == newest;
            if phase == "Pending" {
                let next = if is_new { "Failed" } else { "Running" };
                minik8s_runtime::testing::set_pod_phase(world, &minik8s_runtime::key_of(pod), next);
                return true;
            }
        }
        if let Some(pod) = pods.iter().find(|pod| pod.metadata.deletion_timestamp.is_some()) {
            world.erase::<Pod>(&minik8s_runtime::key_of(pod));
            return true;
        }
        false
    });
    Simulation::new(world).with(FunctionController::default()).with_actor(kubelet)
}

#[test]
fn revision_that_fails_leaves_the_one_before_serving() {
    let mut simulation = broken(2);
    simulation.stop_at(SignedDuration::from_secs(20));
    simulation.settle().unwrap();
    let function: Function = simulation.world.get(&key()).unwrap();
    let status = function.status.clone().unwrap();
    assert_eq!((status.revision, status.serving_revision), (2, 1));
    assert_eq!(status::condition(&function, REVISION_READY).unwrap().status, "False");
    let old = status.serving.clone().unwrap();
    let serving =
        live(&simulation).iter().filter(|pod| crate::revision::hash_of(&pod.metadata) == old).count();
    assert_eq!(serving, 2, "also from zero");
    let endpoints: FunctionEndpoints = simulation.world.get(&key()).unwrap();
    assert_eq!(endpoints.spec.problem, None, "whoever calls it is not refused");
    assert!(status.failure.is_some_and(|failure| failure.count > 1), "and it is tried again");
}

#[test]
fn refused_instance_is_told_once_to_user_and_callers() {
    let seen = |function: Function, endpoints: Option<FunctionEndpoints>| Observed {
        function: Arc::new(function),
        pods: Vec::new(),
        maps: Vec::new(),
        in_registry: false,
        builds: Vec::new(),
        maps_alike: Vec::new(),
        build_settings: Default::default(),
        endpoints: endpoints.map(Arc::new),
        demands: Vec::new(),
        url: String::new(),
    };
    let now = "2030-01-01T00:00:10Z".parse().unwrap();
    let plan = FunctionController::default().plan_failure(
        &seen(function("def main(p): return p"), None),
        "pods \"f-1\": exceeded quota",
        now,
    );
    let [
        Action::Update { object, subresource: Some("status"), .. },
        Action::Create { object: endpoints, .. },
    ] = plan.actions.as_slice()
    else {
        panic!("{plan:?}")
    };
    let refused: Function = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(refused.status.as_ref().unwrap().observed_generation, Some(1));
    let endpoints: FunctionEndpoints = serde_json::from_value(endpoints.clone()).unwrap();
    assert!(endpoints.spec.problem.as_ref().is_some_and(|problem| problem.message.contains("quota")));
    // The next try names another pod.
    let again = FunctionController::default().plan_failure(
        &seen(refused, Some(endpoints)),
        "pods \"f-2\": exceeded quota",
        now,
    );
    assert!(again.is_empty(), "no hot loop: {again:?}");
}

/// An older revision gets its part once it is ready, with instances of its own; without traffic it has none.
#[test]
fn traffic_is_split_between_revisions() {
    let mut simulation = build(0);
    simulation.settle().unwrap();
    let mut world = simulation.world;
    let first = world.get::<Function>(&key()).unwrap().status.unwrap().serving.unwrap();
    world.change::<Function>(&key(), |function| {
        function.spec.code.as_mut().unwrap().source = Some("def main(p): return 2".to_owned());
        function.spec.traffic =
            vec![FunctionTraffic { revision: 1, percent: 30 }, FunctionTraffic { revision: 9, percent: 10 }];
        function.metadata.generation = Some(2);
    });
    let demand = demand(5, &world);
    world.insert(&demand);
    let mut simulation =
        Simulation::new(world).with(FunctionController::default()).with_actor(Kubelet::default().actor());
    simulation.stop_at(SignedDuration::from_secs(30));
    simulation.settle().unwrap();
    let of_first =
        live(&simulation).iter().filter(|pod| crate::revision::hash_of(&pod.metadata) == first).count();
    assert_eq!((of_first, live(&simulation).len()), (2, 7), "30 % of five, and five of the newest");
    let function: Function = simulation.world.get(&key()).unwrap();
    let split = status::condition(&function, TRAFFIC).unwrap();
    assert!(split.status == "False" && split.message.starts_with("there is no revision 9"), "{split:?}");
    // The world's pods have no address; those that have get their part.
    let serving = function.status.clone().unwrap().serving;
    let seen = Observed {
        function: Arc::new(function),
        pods: Vec::new(),
        maps: simulation.world.list::<ConfigMap>().into_iter().map(Arc::new).collect(),
        in_registry: false,
        builds: Vec::new(),
        maps_alike: Vec::new(),
        build_settings: Default::default(),
        endpoints: None,
        demands: Vec::new(),
        url: String::new(),
    };
    let splits = crate::traffic::splits(&seen, serving.as_deref());
    let ready = FunctionInstance { ready: true, revision: first.clone(), ..FunctionInstance::default() };
    let (shares, _) = crate::traffic::shares(&seen, &splits, serving.as_deref(), &[ready]);
    let parts: Vec<(bool, u32)> =
        shares.iter().map(|share| (share.revision == first, share.percent)).collect();
    assert_eq!(parts, [(true, 30), (false, 70)]);
    assert_eq!(crate::traffic::shares(&seen, &splits, serving.as_deref(), &[]).0, [], "none is ready");
    let mut world = simulation.world;
    world.change::<Function>(&key(), |function| function.spec.traffic.clear());
    let mut simulation =
        Simulation::new(world).with(FunctionController::default()).with_actor(Kubelet::default().actor());
    simulation.stop_at(SignedDuration::from_secs(30));
    simulation.settle().unwrap();
    assert!(live(&simulation).iter().all(|pod| crate::revision::hash_of(&pod.metadata) != first));
    assert_eq!(simulation.world.get::<FunctionEndpoints>(&key()).unwrap().spec.traffic, []);
}

/// What the code imports is mounted where its runtime looks for it, and nowhere else.
#[test]
fn dependencies_are_a_volume_of_every_instance() {
    for (runtime, path) in [("python3.11", "/fn/dependencies"), ("nodejs", "/node_modules")] {
        let mut function = function("x");
        function.spec.runtime = Some(runtime.to_owned());
        let mounted = |function: &Function| {
            let pod = serde_json::to_value(crate::revision::pod(function, "hash", &Code::Map)).unwrap();
            let mount = pod["spec"]["containers"][0]["volumeMounts"][2]["mountPath"].clone();
            (mount, pod["spec"]["volumes"][2]["image"]["reference"].clone())
        };
        assert_eq!(mounted(&function), (json!(null), json!(null)));
        let before = crate::revision::hash(&function);
        function.spec.dependencies = Some("registry.minik8s.local/ns/f:1".to_owned());
        assert_eq!(mounted(&function), (json!(path), json!("registry.minik8s.local/ns/f:1")));
        assert_ne!(crate::revision::hash(&function), before, "others make a new revision");
    }
}

/// What the server that leads does with code that waits in a ConfigMap.
fn registry() -> Actor {
    Box::new(|world: &mut World| {
        let maps: Vec<ConfigMap> = world.list();
        let Some(map) = maps.iter().find(|map| crate::revision::waits(map)) else { return false };
        world.change::<ConfigMap>(&minik8s_runtime::key_of(map), |map| {
            map.data.as_mut().unwrap().retain(|key, _| key == SPEC_KEY);
            (map.binary_data, map.immutable) = (None, Some(true));
            let annotations = map.metadata.annotations.get_or_insert_default();
            annotations.insert(CODE_ANNOTATION.to_owned(), CODE_IMAGE.to_owned());
        });
        true
    })
}

const CODE_IMAGE: &str = "registry.minik8s.local/ns/function-code.f@sha256:00";

#[test]
fn instances_start_once_their_code_is_in_the_registry() {
    let build = || {
        let mut world = World::default();
        world.insert(&function("def main(p): return p"));
        Simulation::new(world)
            .with(FunctionController { in_registry: true })
            .with_actor(Kubelet::default().actor())
            .with_actor(registry())
    };
    check_convergence(build, |simulation| {
        let function: Function = simulation.world.get(&key()).unwrap();
        assert_eq!(status::condition(&function, REVISION_READY).unwrap().status, "True");
    });
    let mut simulation = build();
    simulation.stop_at(SignedDuration::from_secs(5));
    simulation.settle().unwrap();
    let pods: Vec<_> = live(&simulation).iter().map(|pod| serde_json::to_value(pod).unwrap()).collect();
    let [pod] = pods.as_slice() else { panic!("{pods:?}") };
    assert_eq!(pod["spec"]["volumes"][0]["image"]["reference"], CODE_IMAGE);
    assert_eq!(pod["spec"]["containers"][0]["volumeMounts"][0]["mountPath"], "/fn/code");
    // Without anybody who puts it there, nothing starts, and the code is not lost.
    let mut world = World::default();
    world.insert(&function("def main(p): return p"));
    let mut simulation = Simulation::new(world).with(FunctionController { in_registry: true });
    simulation.settle().unwrap();
    assert!(live(&simulation).is_empty());
    let maps = simulation.world.list::<ConfigMap>();
    assert_eq!(crate::revision::code_file(&maps[0]), Some(("main.py", &b"def main(p): return p"[..])));
}
