use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
use minik8s_runtime::testing::{Kubelet, Simulation, World, check_convergence};
use serde_json::json;

use super::*;

fn world(finalizers: &[&str]) -> World {
    let mut world = World::default();
    let namespace = json!({
        "metadata": {"name": "doomed", "deletionTimestamp": "2030-01-01T00:00:00Z", "finalizers": ["test/keep"]},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    });
    world.insert(&serde_json::from_value::<Namespace>(namespace).unwrap());
    for name in ["a", "b"] {
        let map = json!({"metadata": {"name": name, "namespace": "doomed", "finalizers": finalizers}});
        world.insert(&serde_json::from_value::<ConfigMap>(map).unwrap());
    }
    let pod = json!({"metadata": {"name": "p", "namespace": "doomed"}, "spec": {"containers": [], "nodeName": "n"}});
    world.insert(&serde_json::from_value::<Pod>(pod).unwrap());
    let event = json!({"metadata": {"name": "e", "namespace": "doomed"}, "involvedObject": {}});
    world.insert(&serde_json::from_value::<Event>(event).unwrap());
    let other = json!({"metadata": {"name": "other", "namespace": "other"}});
    world.insert(&serde_json::from_value::<ConfigMap>(other).unwrap());
    world
}

fn simulate(world: World) -> Simulation {
    let catalog = Catalog::default();
    catalog.update(vec![
        Kind::of::<ConfigMap>(),
        Kind::of::<Pod>(),
        Kind::of::<Event>(),
        Kind::of::<Namespace>(),
    ]);
    Simulation::new(world).with(Namespaces::new(Arc::new(catalog))).with_actor(Kubelet::default().actor())
}

#[test]
fn everything_inside_goes_and_then_the_namespace() {
    check_convergence(
        || simulate(world(&[])),
        |simulation| {
            let world = &simulation.world;
            assert_eq!(world.list::<Namespace>().len(), 0);
            assert_eq!((world.list::<Pod>().len(), world.list::<Event>().len()), (0, 0));
            let maps: Vec<ConfigMap> = world.list();
            assert_eq!(maps.len(), 1, "other namespaces are left alone");
        },
    );
}

#[test]
fn what_blocks_it_is_told() {
    check_convergence(
        || simulate(world(&["example.com/hold"])),
        |simulation| {
            let namespace: Namespace = simulation.world.get(&Key::new("", "doomed")).unwrap();
            let status = namespace.status.unwrap();
            assert_eq!(status.phase.as_deref(), Some("Terminating"));
            let message = |kind: &str| {
                let found =
                    status.conditions.iter().flatten().find(|c| c.type_ == kind && c.status == "True");
                found.and_then(|c| c.message.clone()).unwrap_or_default()
            };
            assert_eq!(
                message("NamespaceContentRemaining"),
                "Some resources are remaining: configmaps. has 2 resource instances"
            );
            assert_eq!(
                message("NamespaceFinalizersRemaining"),
                "Some content in the namespace has finalizers remaining: example.com/hold in 2 resource instances"
            );
        },
    );
}
