use minik8s_runtime::testing::{Simulation, World, check_convergence};
use serde_json::{Value, json};

use super::*;

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

struct Range {
    name: &'static str,
    cidrs: &'static [&'static str],
    is_going: bool,
}

/// Which ranges are left, and the status of their condition; in every order of events.
fn check(ranges: &[Range], addresses: &[&str], expected: &[(&str, &str)]) {
    let build = || {
        let mut world = World::default();
        for Range { name, cidrs, is_going } in ranges {
            let (deleted, finalizers) = match is_going {
                true => (json!("2030-01-01T00:00:00Z"), json!([FINALIZER])),
                false => (Value::Null, Value::Null),
            };
            let range = json!({"metadata": {"name": name, "deletionTimestamp": deleted, "finalizers": finalizers},
                "spec": {"cidrs": cidrs}});
            world.insert(&serde_json::from_value::<ServiceCIDR>(range).unwrap());
        }
        for address in addresses {
            let parent = json!({"resource": "services", "namespace": "ns", "name": "s"});
            let taken = json!({"metadata": {"name": address}, "spec": {"parentRef": parent}});
            world.insert(&serde_json::from_value::<IPAddress>(taken).unwrap());
        }
        Simulation::new(world).with(ServiceRanges)
    };
    check_convergence(build, |simulation| {
        let ranges: Vec<ServiceCIDR> = simulation.world.list();
        let mut found: Vec<(String, String)> = ranges
            .iter()
            .map(|range| {
                let held = range.metadata.finalizers.as_deref().unwrap_or_default();
                assert_eq!(held, [FINALIZER]);
                let conditions =
                    range.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap();
                let [ready] = conditions else { panic!("one condition: {conditions:?}") };
                assert_eq!(ready.type_, "Ready");
                (range.metadata.name.clone().unwrap(), ready.status.clone())
            })
            .collect();
        found.sort();
        let expected: Vec<(String, String)> =
            expected.iter().map(|(name, status)| ((*name).to_owned(), (*status).to_owned())).collect();
        assert_eq!(found, expected);
    });
}

const FIRST: Range = Range { name: "first", cidrs: &["10.96.0.0/16", "fd00::/112"], is_going: false };
const GOING: Range = Range { name: "going", cidrs: &["10.200.0.0/24"], is_going: true };

#[test]
fn range_is_protected_and_ready() {
    check(&[FIRST], &["10.96.0.1"], &[("first", "True")]);
}

#[test]
fn range_goes_when_no_address_needs_it() {
    check(&[FIRST, GOING], &["10.96.0.1", "fd00::1"], &[("first", "True")]);
    check(&[GOING], &[], &[]);
}

#[test]
fn range_with_an_address_stays_and_says_so() {
    check(&[FIRST, GOING], &["10.200.0.9"], &[("first", "True"), ("going", "False")]);
}

#[test]
fn range_goes_when_another_has_its_addresses() {
    let wider = Range { name: "wider", cidrs: &["10.200.0.0/16"], is_going: false };
    check(&[GOING, wider], &["10.200.0.9"], &[("wider", "True")]);
    let also_going = Range { name: "also", cidrs: &["10.200.0.0/16"], is_going: true };
    check(&[GOING, also_going], &["10.200.0.9"], &[("also", "False"), ("going", "False")]);
}
