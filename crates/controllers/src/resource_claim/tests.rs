use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use minik8s_runtime::Key;
use minik8s_runtime::testing::{Simulation, World, check_convergence, set_pod_phase};
use serde_json::{Value, json};

use super::{ClaimUsers, FINALIZER, POD_CLAIM_NAME, PodClaims};

fn pod(entry: Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"containers": [], "resourceClaims": [entry]}}))
    .unwrap()
}

fn from_template() -> Pod {
    pod(json!({"name": "gpu", "resourceClaimTemplateName": "t"}))
}

fn template() -> ResourceClaimTemplate {
    let spec = json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}});
    let spec = json!({"metadata": {"labels": {"a": "b"}}, "spec": spec});
    serde_json::from_value(json!({"metadata": {"name": "t", "namespace": "ns"}, "spec": spec})).unwrap()
}

fn claim(reserved: Value) -> ResourceClaim {
    let allocation = json!({"devices": {"results": []}});
    serde_json::from_value(json!({"metadata": {"name": "c", "namespace": "ns", "finalizers": [FINALIZER]},
        "spec": {}, "status": {"allocation": allocation, "reservedFor": reserved}}))
    .unwrap()
}

fn user(name: &str) -> Value {
    json!({"resource": "pods", "name": name, "uid": name})
}

fn simulation(world: World) -> Simulation {
    Simulation::new(world).with(PodClaims).with(ClaimUsers)
}

#[test]
fn pod_gets_the_claim_that_its_template_describes_once() {
    let build = || {
        let mut world = World::default();
        world.insert(&from_template());
        world.insert(&template());
        simulation(world)
    };
    check_convergence(build, |simulation| {
        let claims: Vec<ResourceClaim> = simulation.world.list();
        assert_eq!(claims.len(), 1);
        let meta = &claims[0].metadata;
        assert_eq!(meta.annotations.as_ref().unwrap()[POD_CLAIM_NAME], "gpu");
        assert_eq!(meta.labels.as_ref().unwrap()["a"], "b");
        assert_eq!(meta.owner_references.as_ref().unwrap()[0].uid, "u");
        let pod: Pod = simulation.world.get(&Key::new("ns", "p")).unwrap();
        let told = pod.status.unwrap().resource_claim_statuses.unwrap();
        assert_eq!((told[0].name.as_str(), told[0].resource_claim_name.clone()), ("gpu", meta.name.clone()));
    });
}

#[test]
fn claim_of_a_pod_that_is_over_goes() {
    let build = || {
        let mut world = World::default();
        world.insert(&from_template());
        world.insert(&template());
        let mut simulation = simulation(world);
        simulation.settle().unwrap();
        let key = Key::new("ns", "p");
        let made = simulation.world.list::<ResourceClaim>()[0].metadata.name.clone().unwrap();
        simulation.world.change::<ResourceClaim>(&Key::new("ns", &*made), |claim| {
            let reserved =
                json!({"allocation": {}, "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]});
            claim.status = Some(serde_json::from_value(reserved).unwrap());
            claim.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        });
        set_pod_phase(&mut simulation.world, &key, "Succeeded");
        simulation
    };
    check_convergence(build, |simulation| assert_eq!(simulation.world.list::<ResourceClaim>().len(), 0));
}

#[test]
fn devices_are_free_when_the_last_user_is_gone() {
    let build = || {
        let mut world = World::default();
        world.insert(&claim(json!([user("gone"), user("over")])));
        let mut over = pod(json!({"name": "gpu", "resourceClaimName": "c"}));
        over.metadata.name = Some("over".to_owned());
        over.metadata.uid = Some("over".to_owned());
        world.insert(&over);
        set_pod_phase(&mut world, &Key::new("ns", "over"), "Failed");
        simulation(world)
    };
    check_convergence(build, |simulation| {
        let claim: ResourceClaim = simulation.world.get(&Key::new("ns", "c")).unwrap();
        let status = claim.status.unwrap_or_default();
        assert!(status.allocation.is_none() && status.reserved_for.is_none(), "{status:?}");
    });
}

#[test]
fn devices_stay_with_a_user_that_runs() {
    let build = || {
        let mut world = World::default();
        world.insert(&claim(json!([user("gone"), user("p")])));
        let mut running = pod(json!({"name": "gpu", "resourceClaimName": "c"}));
        running.metadata.uid = Some("p".to_owned());
        world.insert(&running);
        let mut simulation = simulation(world);
        simulation.world.delete::<ResourceClaim>(&Key::new("ns", "c"));
        simulation
    };
    check_convergence(build, |simulation| {
        let claim: ResourceClaim = simulation.world.get(&Key::new("ns", "c")).unwrap();
        let status = claim.status.unwrap();
        assert!(status.allocation.is_some(), "it is deleted, and stays for its user");
        assert_eq!(status.reserved_for.unwrap().len(), 1);
    });
}

#[test]
fn pod_that_nobody_scheduled_is_among_the_users() {
    let build = || {
        let mut world = World::default();
        world.insert(&claim(json!([])));
        let mut bound = pod(json!({"name": "gpu", "resourceClaimName": "c"}));
        bound.spec.as_mut().unwrap().node_name = Some("n".to_owned());
        world.insert(&bound);
        simulation(world)
    };
    check_convergence(build, |simulation| {
        let claim: ResourceClaim = simulation.world.get(&Key::new("ns", "c")).unwrap();
        assert_eq!(claim.status.unwrap().reserved_for.unwrap()[0].uid, "u");
    });
}

#[test]
fn missing_template_is_told() {
    let mut world = World::default();
    world.insert(&from_template());
    let mut simulation = simulation(world);
    simulation.settle().unwrap();
    assert_eq!(simulation.world.list::<ResourceClaim>().len(), 0);
    simulation.world.insert(&template());
    simulation.settle().unwrap();
    assert_eq!(simulation.world.list::<ResourceClaim>().len(), 1, "it may come later");
}
