//! Which node is reached how, and the commands that lead there.

use k8s_openapi::api::core::v1::Node;
use minik8s_meta::IpFamily;
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

fn uplink(address: &str) -> Uplink {
    let network: ipnet::IpNet = address.parse().unwrap();
    Uplink { device: "eth0".to_owned(), address: network.addr(), network: network.trunc(), mtu: 1500 }
}

fn me(backend: Backend) -> Me {
    Me {
        name: "a".to_owned(),
        uplinks: vec![uplink("192.0.2.1/24")],
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
        let shown = |(pods, route): (&ipnet::IpNet, &Route)| format!("{pods} {} {}", route.via, route.device);
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
    moved[2].addresses = vec![[198, 51, 100, 4].into()];
    check("moved", &now, &wanted(&moved, Backend::Auto));
}

#[test]
fn the_size_of_pods_packets() {
    let (v4, v6) = (IpFamily::V4, IpFamily::V6);
    assert_eq!(pod_mtu(1500, v4, Backend::HostGw), 1500);
    assert_eq!(pod_mtu(1500, v4, Backend::Auto), 1450);
    assert_eq!(pod_mtu(9001, v4, Backend::Vxlan), 8951);
    assert_eq!(pod_mtu(1500, v6, Backend::Auto), 1430);
}

/// A node of both families: addresses and ranges, separated by commas, in the node's order.
fn dual(name: &str, addresses: &str, pods: &str) -> Node {
    let mut node = node(name, "", "");
    let spec = node.spec.as_mut().unwrap();
    let ranges: Vec<String> = pods.split(',').map(str::to_owned).collect();
    (spec.pod_cidr, spec.pod_cidrs) = (ranges.first().cloned(), Some(ranges));
    let internal = addresses.split(',').map(|address| json!({"type": "InternalIP", "address": address}));
    let status = json!({"addresses": internal.collect::<Vec<_>>()});
    node.status = serde_json::from_value(status).unwrap();
    node
}

#[test]
fn pods_of_both_families_are_reached() {
    let check = |nodes: &[Node], uplinks: &[&str], (cluster, backend): (&str, Backend), expected: &[&str]| {
        let me = Me {
            uplinks: uplinks.iter().map(|address| uplink(address)).collect(),
            cluster: cluster.parse().unwrap(),
            ..me(backend)
        };
        let plan = plan(&peers(nodes), &me);
        let routes = plan.links.routes.iter();
        let mut found: Vec<String> =
            routes.map(|(pods, route)| format!("{pods} {} {}", route.via, route.device)).collect();
        let tunnels = plan.links.forwarding.values().map(|address| format!("tunnel to {address}"));
        found.extend(tunnels.chain(plan.problems.into_values()));
        assert_eq!(found, expected, "{nodes:?}");
    };
    let cluster = "10.244.0.0/16,fd00:244::/56";
    let own = |addresses: &str| dual("a", addresses, "10.244.0.0/24,fd00:244::/64");
    let other = |addresses: &str| dual("b", addresses, "10.244.1.0/24,fd00:244:0:1::/64");
    let both = [own("192.0.2.1,2001:db8::1"), other("192.0.2.2,2001:db8::2")];
    let (links, far) = (["192.0.2.1/24", "2001:db8::1/64"], ["192.0.2.1/32", "2001:db8::1/128"]);
    let direct = ["10.244.1.0/24 192.0.2.2 eth0", "fd00:244:0:1::/64 2001:db8::2 eth0"];
    check(&both, &links, (cluster, Backend::Auto), &direct);
    check(&both, &links, (cluster, Backend::HostGw), &direct);
    let tunnelled =
        ["10.244.1.0/24 10.244.1.0 mkx-0badcafe", "fd00:244:0:1::/64 fd00:244:0:1:: mkx-0badcafe"];
    let [one, two] = tunnelled;
    check(&both, &far, (cluster, Backend::Auto), &[one, two, "tunnel to 192.0.2.2"]);
    let primary_v6 = "fd00:244::/56,10.244.0.0/16";
    check(&both, &links, (primary_v6, Backend::Vxlan), &[one, two, "tunnel to 2001:db8::2"]);
    // Nodes of IPv4 alone carry pods' IPv6 in their tunnel.
    let v4 = [own("192.0.2.1"), other("192.0.2.2")];
    check(&v4, &links[..1], (primary_v6, Backend::Auto), &[direct[0], two, "tunnel to 192.0.2.2"]);
    let missing = "it and this node do not both have an IPv6 address: use --network-backend vxlan";
    check(&v4, &links[..1], (cluster, Backend::HostGw), &[direct[0], missing]);
    // One node without IPv4: all meet in IPv6.
    let mixed = [own("192.0.2.1,2001:db8::1"), other("2001:db8::2")];
    check(&mixed, &far, (cluster, Backend::Auto), &[one, two, "tunnel to 2001:db8::2"]);
}

#[test]
fn tunnel_of_ipv6_is_made() {
    let nodes = [dual("a", "2001:db8::1", "fd00:244::/64"), dual("b", "2001:db8::2", "fd00:244:0:1::/64")];
    let me = Me {
        uplinks: vec![uplink("2001:db8::1/128")],
        cluster: "fd00:244::/56".parse().unwrap(),
        ..me(Backend::Auto)
    };
    let wanted = plan(&peers(&nodes), &me).links;
    let Changes { device, forwarding, routes } = changes(&Links::default(), &wanted, &Owner::of("0badcafe"));
    insta::assert_snapshot!("ipv6", format!("{device}--\n{forwarding}--\n{routes}"));
}
