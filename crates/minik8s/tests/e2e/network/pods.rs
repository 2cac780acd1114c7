//! Pods and nodes reach pods, wherever they run, by addresses that stay.

use std::collections::BTreeSet;

use super::place::Place;
use super::world::{UDP, WEB, World, pod};

/// What is left of an Ethernet packet for pods: VXLAN takes 50 bytes.
const MTU: usize = 1450;
/// Of IP and UDP.
const HEADERS: usize = 28;

pub fn pods_reach_pods(world: &mut World) {
    everybody_reaches(world);
    let route = links(world, "route");
    assert!(
        route.contains(&format!("via {} dev eth0", world.lab.address(2))),
        "plain routes on one link: {route}"
    );
    // What somebody else takes away is put back.
    let range = world.json(&["get", "node", "node2"])["spec"]["podCIDR"].as_str().unwrap().to_owned();
    world.lab.run(&["exec", "node1", "ip", "route", "del", &range]);
    let took = world.until("the route is back", || links(world, "route").contains(&range));
    eprintln!("a deleted route: back after {took:?}");
}

/// Pods reach pods by their own addresses, with packets as large as they may be; nodes reach pods.
pub fn everybody_reaches(world: &World) {
    let pods = ["web-1", "web-2", "client-1", "client-2"].map(|name| world.pod(name));
    let _servers = [pods[0].serve_udp(UDP), pods[1].serve_udp(UDP)];
    for to in &pods[..2] {
        for from in &pods {
            let seen = format!("{} {}", to.name, from.address);
            assert_eq!(from.ask(&to.address.to_string(), WEB), seen, "{} → {}", from.name, to.name);
            let largest = MTU - HEADERS;
            let answer = from.send(&to.address.to_string(), UDP, largest);
            assert_eq!(answer, format!("{seen} {largest}"), "{} → {}", from.name, to.name);
        }
        for from in [world.node(1), world.node(2)] {
            let answers =
                [from.ask(&to.address.to_string(), WEB), from.send(&to.address.to_string(), UDP, 1)];
            assert!(answers.iter().all(|answer| answer.starts_with(&to.name)), "{}: {answers:?}", from.name);
        }
    }
    for from in &pods {
        let link = world.exec(&from.name, &["ip", "link", "show", "eth0"]).unwrap();
        assert!(link.contains(&format!("mtu {MTU} ")), "{link}");
    }
}

fn links(world: &World, what: &str) -> String {
    world.lab.run(&["exec", "node1", "ip", what, "show"])
}

/// Over the tunnel everything is as it is over routes, and nodes change from one to the other while pods run.
pub fn pods_reach_pods_through_a_tunnel(world: &mut World) {
    let before = addresses(world);
    world.lab.set_flags("--network-backend vxlan");
    for node in ["node1", "node2"] {
        world.restart(node);
    }
    world.both_ready();
    world.until("node1 leads packets into the tunnel", || {
        links(world, "route").contains("dev mkx-") && !links(world, "route").contains("proto 77 metric 0")
    });
    let (client, web) = (world.pod("client-1"), world.pod("web-2"));
    world.settles(
        "a pod through the tunnel",
        || client.ask(&web.address.to_string(), WEB),
        |a| a.starts_with("web-2 "),
    );
    everybody_reaches(world);
    assert_eq!(addresses(world), before);
    let tunnel = links(world, "link");
    let line = tunnel.lines().find(|line| line.contains(": mkx-")).unwrap_or_default();
    assert!(line.contains(&format!("mtu {MTU} ")), "{tunnel}");
}

/// Name and address of every pod with a network of its own.
fn addresses(world: &World) -> BTreeSet<(String, String)> {
    let pods = world.json(&["get", "pods"]);
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let pods = pods["items"].as_array().unwrap().iter();
    pods.map(|pod| (text(&pod["metadata"]["name"]), text(&pod["status"]["podIP"]))).collect()
}

pub fn addresses_stay(world: &mut World) {
    let before = addresses(world);
    world.restart("node2");
    world.both_ready();
    let new = ["new-1", "new-2"].map(|name| pod(name, "new", "nodeName: node2"));
    world.apply(&new.join("---\n"));
    world.kubectl(&["wait", "pod", "-l", "app=new", "--for=condition=Ready", "--timeout=180s"]);
    let after = addresses(world);
    assert!(after.is_superset(&before), "{before:?} {after:?}");
    let distinct: BTreeSet<&String> = after.iter().map(|(_, address)| address).collect();
    assert_eq!(distinct.len(), after.len(), "{after:?}");
    let reached: Vec<Place> = ["new-1", "new-2"].iter().map(|name| world.pod(name)).collect();
    let client = world.pod("client-1");
    for to in reached {
        assert!(client.ask(&to.address.to_string(), WEB).starts_with(&to.name));
    }
    world.kubectl(&["delete", "pod", "new-1", "new-2"]);
}
