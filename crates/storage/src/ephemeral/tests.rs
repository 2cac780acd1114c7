use minik8s_runtime::testing::{Simulation, World, check_convergence};
use serde_json::json;

use super::*;

fn pod() -> Pod {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": spec});
    serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"containers": [],
        "volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}, {"name": "w", "emptyDir": {}}]}}))
    .unwrap()
}

#[test]
fn pod_gets_the_claim_that_it_describes() {
    let build = || {
        let mut world = World::default();
        world.insert(&pod());
        Simulation::new(world).with(EphemeralVolumes)
    };
    check_convergence(build, |simulation| {
        let claim: PersistentVolumeClaim = simulation.world.get(&Key::new("ns", "p-v")).unwrap();
        assert!(is_controlled_by(&claim.metadata, "u"));
        assert_eq!(claim.metadata.labels.unwrap()["a"], "b");
        assert_eq!(simulation.world.log.len(), 1);
    });
}

#[test]
fn claim_of_somebody_else_is_not_taken() {
    let mut world = World::default();
    let foreign: PersistentVolumeClaim =
        serde_json::from_value(json!({"metadata": {"name": "p-v", "namespace": "ns"}, "spec": {}})).unwrap();
    world.insert(&foreign);
    let pod = Arc::new(world.insert(&pod()));
    let claims = vec![("p-v".to_owned(), Some(Arc::new(foreign)))];
    let plan = EphemeralVolumes.plan(&Observed { pod, claims }, Timestamp::UNIX_EPOCH);
    assert!(plan.actions.is_empty() && plan.events[0].message.contains("not created for this pod"));
}
