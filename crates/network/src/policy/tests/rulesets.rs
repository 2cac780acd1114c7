//! Tables as nft reads them.

use minik8s_meta::IpFamily;
use serde_json::json;

use super::world::{NODES, cluster, labels, pod, policy, table};
use crate::policy::{Connection, Party, Pod, PolicyTable, Protocol, explain};

fn shop() -> Vec<crate::policy::Policy> {
    vec![
        policy("x", "deny", json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})),
        policy(
            "x",
            "web",
            json!({"podSelector": {"matchLabels": {"pod": "a"}}, "policyTypes": ["Ingress", "Egress"],
                "ingress": [{
                    "from": [{"namespaceSelector": {"matchLabels": {"ns": "y"}}},
                        {"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.128/25"]}}],
                    "ports": [{"port": "serve-80-tcp"}, {"port": 8000, "endPort": 8100, "protocol": "UDP"}],
                }],
                "egress": [
                    {"to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
                        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}],
                        "ports": [{"port": 53, "protocol": "UDP"}]},
                    {"to": [{"podSelector": {"matchLabels": {"pod": "b"}}}], "ports": [{"port": "serve-81-sctp", "protocol": "SCTP"}]},
                ],
            }),
        ),
    ]
}

fn world() -> crate::policy::Cluster {
    let mut world = cluster(shop());
    world.namespaces.insert("kube-system".into(), labels(&[("kubernetes.io/metadata.name", "kube-system")]));
    world
}

#[test]
fn the_whole_table() {
    insta::assert_snapshot!(table(&world(), NODES[0]).ruleset());
}

#[test]
fn table_of_ipv6_has_addresses_and_blocks_of_ipv6_alone() {
    let from = json!([{"podSelector": {}}, {"ipBlock": {"cidr": "10.0.0.0/8"}},
        {"ipBlock": {"cidr": "fd00::/8", "except": ["fd00:1::/32"]}}]);
    let selector = json!({"matchLabels": {"pod": "a"}});
    let web = policy("x", "web", json!({"podSelector": selector, "ingress": [{"from": from}]}));
    let mut table = PolicyTable::new(IpFamily::V6, "t", NODES[0], Some([10, 96, 0, 10].into()));
    let mut both = pod("x", "a");
    both.addresses.push("fd00:244::2".parse().unwrap());
    table.set_pod(both);
    table.set_policy(web);
    table.take_change();
    let rules = table.ruleset().to_string();
    for expected in [
        "table ip6 t\n",
        "{ type ipv6_addr; }",
        "  fd00:244::2 : jump ingress-",
        "ip6 saddr { fd00::/32, fd00:2::-fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff } return",
        "ip6 daddr vmap @ingress",
    ] {
        assert!(rules.contains(expected), "{expected}: {rules}");
    }
    // Neither the pod's other address, nor the other block, nor a resolver of the other family.
    assert!(!rules.contains("10."), "{rules}");
}

#[test]
fn a_change_holds_only_what_differs() {
    let check = |name: &str, edit: &dyn Fn(&mut crate::policy::PolicyTable)| {
        let mut table = table(&world(), NODES[0]);
        edit(&mut table);
        insta::assert_snapshot!(name, table.take_change());
    };
    check("nothing", &|table| table.set_pod(pod("y", "a")));
    check("peer_gone", &|table| table.remove_pod(&("y".into(), "a".into())));
    check("pod_relabelled", &|table| {
        table.set_pod(Pod { labels: labels(&[("pod", "z")]), ..pod("x", "a") });
    });
    check("policy_removed", &|table| table.remove_policy(&("x".into(), "deny".into())));
    check("namespace_relabelled", &|table| table.set_namespace("z", Some(labels(&[("ns", "y")]))));
}

#[test]
fn a_pod_that_starts_has_rules_before_its_status_says_where_it_is() {
    let mut table = table(&world(), NODES[0]);
    let new =
        Pod { name: "new".to_owned(), addresses: Vec::new(), node: NODES[0].to_owned(), ..pod("x", "a") };
    table.set_pod(new.clone());
    table.take_change();
    table.tell_addresses(&new.key(), vec![[10, 244, 9, 9].into()]);
    let change = table.take_change().to_string();
    assert!(
        change.contains("10.244.9.9 : jump ingress-") && change.contains("10.244.9.9 : jump egress-"),
        "{change}"
    );
    // A status that knows nothing of it yet does not take the rules away; its end does.
    table.set_pod(Pod { labels: labels(&[("pod", "a"), ("more", "1")]), ..new.clone() });
    assert_eq!(table.take_change().to_string(), "");
    table.set_pod(Pod { ended: true, ..new });
    assert!(table.take_change().to_string().contains("delete element ip t ingress {\n  10.244.9.9,\n}"));
}

#[test]
fn of_two_pods_with_one_address_the_younger_has_it() {
    let mut table = table(&world(), NODES[0]);
    let old = Pod {
        name: "old".into(),
        addresses: vec![[10, 244, 9, 9].into()],
        node: NODES[0].into(),
        ..pod("x", "c")
    };
    let young = Pod { name: "young".into(), created: 7, ..Pod { namespace: "z".into(), ..old.clone() } };
    table.set_pod(old.clone());
    assert!(table.take_change().to_string().contains("10.244.9.9 : jump ingress-"));
    table.set_pod(young);
    let change = table.take_change().to_string();
    assert!(
        change.contains("delete element ip t ingress {\n  10.244.9.9,\n}") && !change.contains("add"),
        "{change}"
    );
    table.remove_pod(&old.key());
    assert!(!table.take_change().to_string().contains("10.244.9.9"));
}

/// After a restart of the machine, what is remembered of addresses is wrong.
#[test]
fn an_address_that_a_pod_gets_is_its_own() {
    let mut table = table(&world(), NODES[0]);
    let old =
        Pod { name: "old".into(), created: 9, addresses: vec![[10, 244, 9, 9].into()], ..pod("x", "c") };
    let new = Pod { name: "new".into(), addresses: Vec::new(), ..pod("x", "a") };
    table.set_pod(old.clone());
    table.set_pod(new.clone());
    table.take_change();
    table.tell_addresses(&new.key(), old.addresses.clone());
    let change = table.take_change().to_string();
    assert!(change.contains("delete element ip t ingress {\n  10.244.9.9,\n}"), "{change}");
    assert!(change.contains("10.244.9.9 : jump ingress-"), "{change}");
    assert_eq!(table.cluster().pods[&old.key()].addresses, [] as [std::net::IpAddr; 0]);
}

#[test]
fn explanations_name_the_policy_and_what_does_not_match() {
    let world = world();
    let (a, b, y) = (pod("x", "a"), pod("x", "b"), pod("y", "a"));
    let explained = |from, to, port| explain(&world, &Connection { from, to, protocol: Protocol::Tcp, port });
    insta::assert_snapshot!(
        "explained",
        [
            explained(Party::Pod(&y), Party::Pod(&a), 80),
            explained(Party::Pod(&y), Party::Pod(&a), 81),
            explained(Party::Pod(&b), Party::Pod(&a), 81),
            explained(Party::Address([192, 0, 2, 7].into()), Party::Pod(&a), 80),
            explained(Party::OwnNode([192, 0, 2, 1].into()), Party::Pod(&b), 80),
            explained(Party::Pod(&y), Party::Pod(&y), 80),
        ]
        .join("\n")
    );
}
