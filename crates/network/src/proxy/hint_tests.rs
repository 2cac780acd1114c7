//! Endpoints that are for some nodes or zones, as `trafficDistribution` makes them.

use minik8s_meta::IpFamily;
use serde_json::{Value, json};

use super::Protocol;
use super::endpoints::Candidates;
use super::place::Place;

/// An endpoint as address, whether it is ready, and its hints: `n:` a node, `z:` a zone.
type Listed<'a> = (&'a str, bool, &'a [&'a str]);

fn check(listed: &[Listed<'_>], zone: Option<&str>, only_local: bool, expected: &[&str]) {
    let endpoint = |(address, ready, hints): &Listed<'_>| {
        let named = |prefix: &str| -> Vec<Value> {
            hints
                .iter()
                .filter_map(|hint| hint.strip_prefix(prefix))
                .map(|name| json!({"name": name}))
                .collect()
        };
        json!({"addresses": [address], "nodeName": "a", "conditions": {"ready": ready},
            "hints": {"forNodes": named("n:"), "forZones": named("z:")}})
    };
    let endpoints: Vec<Value> = listed.iter().map(endpoint).collect();
    let slice = serde_json::from_value(json!({"metadata": {"name": "s"}, "addressType": "IPv4",
        "ports": [{"port": 80, "protocol": "TCP"}], "endpoints": endpoints}));
    let slices = [slice.unwrap()];
    let place = Place { node: "a", zone };
    let found = Candidates::collect(&slices, "", Protocol::Tcp, (place, IpFamily::V4));
    let found: Vec<String> =
        found.usable(only_local).iter().map(|address| address.ip().to_string()).collect();
    assert_eq!(found, expected, "{listed:?} in {zone:?}");
}

#[test]
fn endpoints_of_the_own_zone_are_preferred() {
    let two: &[Listed<'_>] = &[("10.0.0.1", true, &["z:x"]), ("10.0.0.2", true, &["z:y"])];
    check(two, Some("x"), false, &["10.0.0.1"]);
    check(two, Some("y"), false, &["10.0.0.2"]);
    // Nobody is there, or nobody knows where this is.
    check(two, Some("z"), false, &["10.0.0.1", "10.0.0.2"]);
    check(two, None, false, &["10.0.0.1", "10.0.0.2"]);
    // What stays on the node has its own rule.
    check(two, Some("x"), true, &["10.0.0.1", "10.0.0.2"]);
    let shared: &[Listed<'_>] = &[("10.0.0.1", true, &["z:x", "z:y"]), ("10.0.0.2", true, &["z:y"])];
    check(shared, Some("x"), false, &["10.0.0.1"]);
    check(shared, Some("y"), false, &["10.0.0.1", "10.0.0.2"]);
}

#[test]
fn endpoints_of_the_own_node_come_first_and_its_zone_after_them() {
    let all: &[Listed<'_>] = &[
        ("10.0.0.1", true, &["n:a", "z:x"]),
        ("10.0.0.2", true, &["n:b", "z:x"]),
        ("10.0.0.3", true, &["n:c", "z:y"]),
    ];
    check(all, Some("x"), false, &["10.0.0.1"]);
    check(all, None, false, &["10.0.0.1"]);
    check(&all[1..], Some("x"), false, &["10.0.0.2"]);
    check(&all[1..], Some("z"), false, &["10.0.0.2", "10.0.0.3"]);
}

#[test]
fn hints_are_followed_only_if_all_ready_endpoints_have_them() {
    let half: &[Listed<'_>] = &[("10.0.0.1", true, &["z:x"]), ("10.0.0.2", true, &[])];
    check(half, Some("x"), false, &["10.0.0.1", "10.0.0.2"]);
    let unready: &[Listed<'_>] =
        &[("10.0.0.1", true, &["z:x"]), ("10.0.0.2", true, &["z:y"]), ("10.0.0.3", false, &[])];
    check(unready, Some("x"), false, &["10.0.0.1"]);
    // One that is not ready draws nothing to it.
    let lost: &[Listed<'_>] = &[("10.0.0.1", false, &["z:x"]), ("10.0.0.2", true, &["z:y"])];
    check(lost, Some("x"), false, &["10.0.0.2"]);
    check(&[("10.0.0.1", false, &["z:x"])], Some("x"), false, &[]);
}
