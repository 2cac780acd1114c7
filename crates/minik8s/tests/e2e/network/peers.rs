//! Nodes that come, move and go: routes to their pods follow.

use std::process::Command;
use std::time::Duration;

use super::dns::{A, Answer, over_udp};
use super::names;
use super::place::Place;
use super::pods::everybody_reaches;
use super::world::{WEB, World};

/// Where the second node goes when it moves, and the router there.
const FAR: &str = "198.18.77.12";
const FAR_ROUTER: &str = "198.18.77.254";
/// What a node must not take longer for.
const A_SECOND: Duration = Duration::from_secs(1);

/// What this node's routes to pods elsewhere are.
fn routes(node: &Place) -> String {
    node.inside(|| {
        let output = Command::new("ip").args(["route", "show", "proto", "77"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    })
}

/// Commands of `ip`, one a line.
fn ip(place: &Place, lines: &str) {
    place.inside(|| {
        for line in lines.lines().map(str::trim) {
            let status = Command::new("ip").args(line.split_whitespace()).status().unwrap();
            assert!(status.success(), "{}: ip {line}", place.name);
        }
    });
}

/// A node joins, moves twice, the second time to another link, and leaves: both others know the way within a second.
pub fn nodes_come_and_go(world: &mut World) {
    let nodes = [world.node(1), world.node(2)];
    let mut took = Vec::new();
    let mut follows = |what: &str, is_so: &dyn Fn(&str) -> bool| {
        // Waiting for one node is waiting for the other: both began at the same time.
        let waits = nodes.each_ref().map(|node| world.settles(what, || routes(node), |routes| is_so(routes)));
        took.push(waits.into_iter().sum::<Duration>());
    };
    let address = |address: &str| {
        let patch =
            format!(r#"{{"status":{{"addresses":[{{"type":"InternalIP","address":"{address}"}}]}}}}"#);
        world.kubectl(&["patch", "node", "guest", "--subresource=status", "--type=merge", "-p", &patch]);
    };
    world.apply("{apiVersion: v1, kind: Node, metadata: {name: guest}, spec: {unschedulable: true}}");
    let mut range = String::new();
    world.until("pods' addresses for the new node", || {
        range =
            world.json(&["get", "node", "guest"])["spec"]["podCIDR"].as_str().unwrap_or_default().to_owned();
        !range.is_empty()
    });
    let (first, second) = (world.lab.address(201), world.lab.address(202));
    for place in [&first, &second] {
        address(place);
        let route = format!("{range} via {place} dev eth0");
        follows("a plain route to a node on the link", &|routes| routes.contains(&route));
    }
    address("198.51.100.77");
    let tunnelled = format!("{range} via {} dev mkx-", range.split('/').next().unwrap());
    follows("a tunnel to a node on another link", &|routes| routes.contains(&tunnelled));
    world.kubectl(&["delete", "node", "guest"]);
    follows("no way to a node that is gone", &|routes| !routes.contains(&range));
    eprintln!("routes follow a node that joins, moves, moves away, leaves: after {took:?}");
    // This machine may be busy: it is enough that it can be done.
    assert!(took.iter().min() < Some(&A_SECOND), "{took:?}");
}

/// The second node moves to another link, behind a router, and back: the tunnel is chosen by itself, pods keep their
/// addresses, and everything works that worked before.
pub fn a_node_on_another_link(world: &mut World) {
    let (router, node) = (world.outside(), world.node(2));
    let (near, near_router) = (world.lab.address(2), world.lab.address(244));
    let range = world.json(&["get", "node", "node2"])["spec"]["podCIDR"].as_str().unwrap().to_owned();
    ip(&router, &format!("link set dev node2 nomaster\naddress add {FAR_ROUTER}/24 dev node2"));
    router.inside(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
    ip(
        &node,
        &format!("address flush dev eth0\naddress add {FAR}/24 dev eth0\nroute add default via {FAR_ROUTER}"),
    );
    moved(world, FAR);
    let tunnelled = format!("{range} via {} dev mkx-", range.split('/').next().unwrap());
    world.settles("the tunnel", || routes(&world.node(1)), |routes| routes.contains(&tunnelled));
    works(world, FAR);
    ip(&router, &format!("address delete {FAR_ROUTER}/24 dev node2\nlink set dev node2 master br0"));
    ip(
        &node,
        &format!(
            "address flush dev eth0\naddress add {near}/24 dev eth0\nroute add default via {near_router}"
        ),
    );
    moved(world, &near);
    let plain = format!("{range} via {near} dev eth0");
    world.settles("a plain route", || routes(&world.node(1)), |routes| routes.contains(&plain));
    works(world, &near);
    assert!(!routes(&world.node(1)).contains("mkx-"), "{}", routes(&world.node(1)));
}

/// An agent takes the address that it finds when it starts.
fn moved(world: &World, to: &str) {
    world.restart("node2");
    world.until("the node's new address", || {
        world.lab.get(&["nodes"]).iter().any(|node| {
            node["status"]["addresses"]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one["type"] == "InternalIP" && one["address"] == *to))
        })
    });
    world.both_ready();
}

fn works(world: &World, address: &str) {
    let (one, two) = (world.pod("client-1"), world.pod("client-2"));
    for (from, to) in [(&one, world.pod("web-2")), (&two, world.pod("web-1"))] {
        let expected = format!("{} {}", to.name, from.address);
        world.settles(
            "pods of the other node",
            || from.ask(&to.address.to_string(), WEB),
            |answer| answer == expected,
        );
    }
    // The API server shows its way to the node's own port, too.
    world.settles(
        "commands in pods of the node",
        || world.exec("client-2", &["true"]).err().unwrap_or_default(),
        str::is_empty,
    );
    everybody_reaches(world);
    let (web, server) = (world.cluster_ip("web"), names::server(world));
    for client in [&one, &two] {
        let answer = over_udp(client, server, "web.default.svc.cluster.local", A);
        assert_eq!(answer, Answer::is(0, &[&format!("A {web}")]), "{}", client.name);
    }
    let port = world.node_port("web");
    assert!(one.ask(address, port).starts_with("web-"), "the node's port at its new address");
}
