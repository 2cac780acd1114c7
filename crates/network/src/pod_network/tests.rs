//! Which node is reached how, and the commands that lead there.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::*;

fn node(name: &str, address: &str, pods: &str) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"podCIDR": pods, "podCIDRs": [pods]},
        "status": {"addresses": [
            {"type": "Hostname", "address": name},
            {"type": "InternalIP", "address": address},
        ]},
    }))
    .unwrap()
}

fn me(backend: Backend) -> Me {
    Me {
        name: "a".to_owned(),
        address: [192, 0, 2, 1].into(),
        uplink: Uplink { device: "eth0".to_owned(), network: "192.0.2.0/24".parse().unwrap(), mtu: 1500 },
        cluster: "10.244.0.0/16".parse().unwrap(),
        backend,
        tunnel: "mkx-0badcafe".to_owned(),
    }
}

/// This node, one on its link and one far away.
fn three() -> Vec<Peer> {
    peers(&[
        node("a", "192.0.2.1", "10.244.0.0/24"),
        node("b", "192.0.2.2", "10.244.1.0/24"),
        node("c", "198.51.100.3", "10.244.2.0/24"),
    ])
}

#[test]
fn how_nodes_are_reached() {
    let check = |backend: Backend, expected: &[&str], problems: &[&str]| {
        let plan = plan(&three(), &me(backend));
        let shown =
            |(pods, route): (&ipnet::Ipv4Net, &Route)| format!("{pods} {} {}", route.via, route.device);
        assert_eq!(plan.links.routes.iter().map(shown).collect::<Vec<_>>(), expected, "{backend:?}");
        assert_eq!(plan.problems.values().collect::<Vec<_>>(), problems, "{backend:?}");
        let tunnelled = plan.links.routes.values().filter(|route| route.device != "eth0").count();
        assert_eq!(plan.links.vxlan.is_some(), tunnelled > 0);
        assert_eq!((plan.links.forwarding.len(), plan.links.neighbours.len()), (tunnelled, tunnelled));
    };
    let direct = "10.244.1.0/24 192.0.2.2 eth0";
    let far = "10.244.2.0/24 10.244.2.0 mkx-0badcafe";
    check(Backend::Auto, &[direct, far], &[]);
    check(Backend::Vxlan, &["10.244.1.0/24 10.244.1.0 mkx-0badcafe", far], &[]);
    check(
        Backend::HostGw,
        &[direct],
        &["its address 198.51.100.3 is not on this node's link eth0 (192.0.2.0/24): \
           use --network-backend vxlan"],
    );
}

#[test]
fn nodes_that_are_not_believed() {
    let check = |address: &str, pods: &str, problem: &str| {
        let mut nodes = three();
        nodes.extend(peers(&[node("d", address, pods)]));
        let plan = plan(&nodes, &me(Backend::Auto));
        let found = plan.problems.get("d").map(String::as_str).unwrap_or_default();
        assert_eq!(found, problem, "{address} {pods}");
        assert_eq!(plan.links.routes.len(), 2, "{address} {pods}");
    };
    check("192.0.2.4", "0.0.0.0/0", "its pod range 0.0.0.0/0 is not part of the cluster's 10.244.0.0/16");
    check("192.0.2.4", "10.244.0.0/24", "its pod range 10.244.0.0/24 is another node's, too");
    check("192.0.2.4", "10.244.1.128/25", "its pod range 10.244.1.128/25 is another node's, too");
    check("192.0.2.1", "10.244.9.0/24", "it claims this node's address 192.0.2.1");
    // No range or no address yet: nothing to say.
    check("192.0.2.4", "", "");
    check("somewhere", "10.244.9.0/24", "");
}

#[test]
fn a_node_without_a_range_has_no_links() {
    let others: Vec<Peer> = three().into_iter().skip(1).collect();
    assert_eq!(plan(&others, &me(Backend::Auto)), Plan::default());
}

#[test]
fn only_what_differs_is_changed() {
    let owner = Owner::of("0badcafe");
    let wanted = |peers: &[Peer], backend| plan(peers, &me(backend)).links;
    let check = |name: &str, seen: &Links, wanted: &Links| {
        let Changes { device, forwarding, routes } = changes(seen, wanted, &owner);
        insta::assert_snapshot!(name, format!("{device}--\n{forwarding}--\n{routes}"));
        assert!(changes(wanted, wanted, &owner).is_empty());
    };
    let all = three();
    let now = wanted(&all, Backend::Auto);
    check("first", &Links::default(), &now);
    check("left", &now, &wanted(&all[..2], Backend::Auto));
    check("backend", &now, &wanted(&all, Backend::Vxlan));
    let mut moved = all.clone();
    moved[2].address = Ipv4Addr::new(198, 51, 100, 4);
    check("moved", &now, &wanted(&moved, Backend::Auto));
}

#[test]
fn the_size_of_pods_packets() {
    assert_eq!(pod_mtu(1500, Backend::HostGw), 1500);
    assert_eq!(pod_mtu(1500, Backend::Auto), 1450);
    assert_eq!(pod_mtu(9001, Backend::Vxlan), 8951);
}
