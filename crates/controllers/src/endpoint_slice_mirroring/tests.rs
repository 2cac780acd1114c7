use minik8s_runtime::testing::{Simulation, World, check_convergence};
use serde_json::{Value, json};

use super::*;

fn endpoints(change: Value) -> Endpoints {
    let mut object = json!({
        "metadata": {"name": "db", "namespace": "ns", "labels": {"a": "b"}},
        "subsets": [
            {"addresses": [{"ip": "10.0.0.1"}, {"ip": "2001:db8::1"}], "notReadyAddresses": [{"ip": "10.0.0.2"}],
             "ports": [{"name": "sql", "port": 5432}]},
            {"addresses": [{"ip": "10.0.0.3"}], "ports": [{"name": "sql", "port": 5433}]},
        ],
    });
    for (field, value) in change.as_object().unwrap() {
        object[field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn simulate(endpoints: &Endpoints, selector: Value) -> Simulation {
    let mut world = World::default();
    let service = json!({"metadata": {"name": "db", "namespace": "ns"}, "spec": {"selector": selector}});
    world.insert(&serde_json::from_value::<Service>(service).unwrap());
    world.insert(endpoints);
    Simulation::new(world).with(EndpointMirror)
}

/// `family port: address ready`, for every endpoint.
fn shown(world: &World) -> Vec<String> {
    let mut lines = Vec::new();
    for slice in world.list::<EndpointSlice>() {
        let labels = slice.metadata.labels.unwrap_or_default();
        assert_eq!((&*labels[SERVICE_NAME], &*labels[MANAGED_BY], &*labels["a"]), ("db", MANAGER, "b"));
        let port = slice.ports.unwrap()[0].port.unwrap();
        for endpoint in slice.endpoints.unwrap_or_default() {
            let ready = endpoint.conditions.unwrap().ready.unwrap();
            lines.push(format!("{} {port}: {} {ready}", slice.address_type, endpoint.addresses[0]));
        }
    }
    lines.sort();
    lines
}

#[test]
fn endpoints_are_mirrored() {
    check_convergence(
        || simulate(&endpoints(json!({})), Value::Null),
        |simulation| {
            assert_eq!(
                shown(&simulation.world),
                [
                    "IPv4 5432: 10.0.0.1 true",
                    "IPv4 5432: 10.0.0.2 false",
                    "IPv4 5433: 10.0.0.3 true",
                    "IPv6 5432: 2001:db8::1 true",
                ]
            );
        },
    );
}

#[test]
fn changes_and_the_end_are_mirrored() {
    let mut simulation = simulate(&endpoints(json!({})), Value::Null);
    simulation.settle().unwrap();
    let fewer = json!([{"addresses": [{"ip": "10.0.0.9"}], "ports": [{"name": "sql", "port": 5432}]}]);
    let key = Key::new("ns", "db");
    simulation
        .world
        .change::<Endpoints>(&key, |now| now.subsets = endpoints(json!({"subsets": fewer})).subsets);
    simulation.settle().unwrap();
    assert_eq!(shown(&simulation.world), ["IPv4 5432: 10.0.0.9 true"]);
    simulation.world.erase::<Endpoints>(&key);
    simulation.settle().unwrap();
    assert_eq!(shown(&simulation.world), [""; 0]);
}

#[test]
fn others_endpoints_are_left_alone() {
    let skipping = json!({"metadata": {"name": "db", "namespace": "ns", "labels": {SKIP: "true"}}});
    for (change, selector) in [(json!({}), json!({"app": "db"})), (skipping, Value::Null)] {
        let mut simulation = simulate(&endpoints(change), selector);
        simulation.settle().unwrap();
        assert_eq!(simulation.world.list::<EndpointSlice>().len(), 0);
    }
}
