//! The cases of upstream's suite (`test/e2e/network/netpol`), a row each: policies, a port, and who must not reach whom.

use serde_json::{Value, json};

use super::world::{check, cluster, labels, pod, policy};
use crate::policy::{Policy, Protocol};

const TCP: Protocol = Protocol::Tcp;
const UDP: Protocol = Protocol::Udp;
const SCTP: Protocol = Protocol::Sctp;

/// Who, to whom, and whether: `*` is every namespace or pod. The last entry about a pair counts; others connect.
type Expected<'a> = &'a [(&'a str, &'a str, bool)];

fn fits(pattern: &str, namespace: &str, name: &str) -> bool {
    let (ns, pod) = pattern.split_once('/').unwrap();
    [(ns, namespace), (pod, name)].iter().all(|(want, is)| *want == "*" || want == is)
}

#[track_caller]
fn row(what: &str, policies: &[Policy], ports: &[(Protocol, u16)], expected: Expected<'_>) {
    for port in ports {
        check(what, &cluster(policies.to_vec()), *port, |from, to| {
            let about = |(source, target, _): &&(&str, &str, bool)| {
                fits(source, &from.namespace, &from.name) && fits(target, &to.namespace, &to.name)
            };
            expected.iter().rev().find(about).is_none_or(|(.., allowed)| *allowed)
        });
    }
}

/// Of the namespace x.
fn x(spec: Value) -> Policy {
    policy("x", "p", spec)
}

fn on_a(mut spec: Value) -> Policy {
    spec["podSelector"] = json!({"matchLabels": {"pod": "a"}});
    x(spec)
}

fn pods(name: &str) -> Value {
    json!({"podSelector": {"matchLabels": {"pod": name}}})
}

fn namespace(name: &str) -> Value {
    json!({"namespaceSelector": {"matchLabels": {"ns": name}}})
}

fn ns_expression(operator: &str, name: &str) -> Value {
    json!({"matchExpressions": [{"key": "ns", "operator": operator, "values": [name]}]})
}

const P80: &[(Protocol, u16)] = &[(TCP, 80)];
const P81: &[(Protocol, u16)] = &[(TCP, 81)];
const ALL: &[(Protocol, u16)] = &[(TCP, 80), (TCP, 81), (UDP, 80), (SCTP, 81), (TCP, 9)];

#[test]
fn default_deny_and_allow_all() {
    row("no policy", &[], ALL, &[]);
    row(
        "default-deny-ingress",
        &[x(json!({"podSelector": {}, "policyTypes": ["Ingress"]}))],
        ALL,
        &[("*/*", "x/*", false)],
    );
    row(
        "default-deny-all",
        &[x(json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}))],
        ALL,
        &[("*/*", "x/*", false), ("x/*", "*/*", false)],
    );
    row("allow-all", &[x(json!({"podSelector": {}, "ingress": [{}]}))], ALL, &[]);
    row("deny egress of a pod", &[on_a(json!({"policyTypes": ["Egress"]}))], ALL, &[("x/a", "*/*", false)]);
    row(
        "deny egress of a namespace",
        &[x(json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": []}))],
        P80,
        &[("x/*", "*/*", false)],
    );
    row(
        "deny-all, and all to a",
        &[
            policy("x", "deny", json!({"podSelector": {}, "policyTypes": ["Ingress"]})),
            on_a(json!({"ingress": [{"from": [{"podSelector": {}, "namespaceSelector": {}}]}]})),
        ],
        P80,
        &[("*/*", "x/*", false), ("*/*", "x/a", true)],
    );
}

#[test]
fn selectors_of_pods_and_namespaces() {
    let from = |peers: Value| [on_a(json!({"ingress": [{"from": peers}]}))];
    let not_x = ns_expression("NotIn", "x");
    row("pod selector", &from(json!([pods("b")])), P80, &[("*/*", "x/a", false), ("x/b", "x/a", true)]);
    row("all namespaces", &from(json!([{"namespaceSelector": {}}])), P80, &[]);
    row(
        "another namespace",
        &from(json!([namespace("y")])),
        P80,
        &[("x/*", "x/a", false), ("z/*", "x/a", false)],
    );
    row(
        "pod expression",
        &from(
            json!([{"podSelector": {"matchExpressions": [{"key": "pod", "operator": "In", "values": ["b"]}]}}]),
        ),
        P80,
        &[("*/*", "x/a", false), ("x/b", "x/a", true)],
    );
    row(
        "namespace expression",
        &from(json!([{"namespaceSelector": ns_expression("In", "y")}])),
        P80,
        &[("x/*", "x/a", false), ("z/*", "x/a", false)],
    );
    row(
        "pod selector or namespace selector",
        &from(json!([{"namespaceSelector": not_x}, pods("b")])),
        P80,
        &[("x/*", "x/a", false), ("x/b", "x/a", true)],
    );
    row(
        "pod selector and namespace selector",
        &from(json!([{"namespaceSelector": not_x, "podSelector": {"matchLabels": {"pod": "b"}}}])),
        P80,
        &[("*/*", "x/a", false), ("y/b", "x/a", true), ("z/b", "x/a", true)],
    );
    let b_or_c = json!({"matchExpressions": [{"key": "pod", "operator": "In", "values": ["b", "c"]}]});
    row(
        "several pods of several namespaces",
        &from(json!([{"namespaceSelector": not_x, "podSelector": b_or_c}])),
        P80,
        &[("x/*", "x/a", false), ("y/a", "x/a", false), ("z/a", "x/a", false)],
    );
    row(
        "any of the pod selectors",
        &from(json!([pods("b"), pods("c")])),
        P80,
        &[("*/*", "x/a", false), ("x/b", "x/a", true), ("x/c", "x/a", true)],
    );
    row(
        "a pod of another namespace",
        &from(
            json!([{"namespaceSelector": {"matchLabels": {"ns": "y"}}, "podSelector": {"matchLabels": {"pod": "a"}}}]),
        ),
        P80,
        &[("*/*", "x/a", false), ("y/a", "x/a", true)],
    );
    row(
        "own namespace only",
        &[x(json!({"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]}))],
        P80,
        &[("y/*", "x/*", false), ("z/*", "x/*", false)],
    );
    row(
        "default label of namespaces",
        &from(json!([{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "y"}}}])),
        P80,
        &[("x/*", "x/a", false), ("z/*", "x/a", false)],
    );
    let not_y = json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["y"]}]});
    row(
        "default label of namespaces, egress",
        &[on_a(json!({"policyTypes": ["Egress"], "egress": [{"to": [{"namespaceSelector": not_y}]}]}))],
        P80,
        &[("x/a", "y/*", false)],
    );
}

#[test]
fn ports_by_number_name_range_and_protocol() {
    let from_y = |port: Value| json!({"ingress": [{"from": [namespace("y")], "ports": [port]}]});
    let only_y: Expected<'_> = &[("*/*", "x/a", false), ("y/*", "x/a", true)];
    let nobody: Expected<'_> = &[("*/*", "x/a", false)];
    let on_81 = on_a(from_y(json!({"port": 81})));
    row("port 81 of y", std::slice::from_ref(&on_81), P81, only_y);
    row("port 80 is closed", std::slice::from_ref(&on_81), P80, nobody);
    let mut on_80 = on_a(from_y(json!({"port": 80})));
    on_80.name = "second".to_owned();
    row("stacked policies", &[on_81, on_80], &[(TCP, 80), (TCP, 81)], only_y);
    let named = |name: &str| x(json!({"podSelector": {}, "ingress": [{"ports": [{"port": name}]}]}));
    row("named port", &[named("serve-81-tcp")], P81, &[]);
    row("not the named port", &[named("serve-81-tcp")], P80, &[("*/*", "x/*", false)]);
    row("named port of another protocol", &[named("serve-81-udp")], P81, &[("*/*", "x/*", false)]);
    row("named port of y", &[on_a(from_y(json!({"port": "serve-80-tcp"})))], P80, only_y);
    row("named port of y, another port", &[on_a(from_y(json!({"port": "serve-80-tcp"})))], P81, nobody);
    row("no such port", &[on_a(json!({"ingress": [{"ports": [{"port": "no-such-port"}]}]}))], ALL, nobody);
    let egress = x(
        json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"ports": [{"port": "serve-80-tcp"}]}]}),
    );
    row("egress to a named port", std::slice::from_ref(&egress), P80, &[]);
    row("egress to another port", &[egress], P81, &[("x/*", "*/*", false)]);
    let range =
        |first: u16, last: u16| on_a(json!({"ingress": [{"ports": [{"port": first, "endPort": last}]}]}));
    row("endPort", &[range(80, 81)], &[(TCP, 80), (TCP, 81)], &[]);
    row("below a range", &[range(81, 90)], P80, nobody);
    row("beyond a range", &[range(70, 80)], P81, nobody);
    let by_protocol = on_a(json!({"ingress": [{"ports": [{"protocol": "TCP"}]}]}));
    row("any port of a protocol", std::slice::from_ref(&by_protocol), &[(TCP, 80), (TCP, 9)], &[]);
    row("another protocol", &[by_protocol], &[(UDP, 80), (SCTP, 80)], nobody);
    let deny = policy("x", "deny", json!({"podSelector": {}, "policyTypes": ["Ingress"]}));
    let sctp = on_a(json!({"ingress": [{"ports": [{"port": 81, "protocol": "SCTP"}]}]}));
    row("SCTP is not TCP", &[deny, sctp.clone()], P81, &[("*/*", "x/*", false)]);
    row("SCTP isolates", std::slice::from_ref(&sctp), P80, nobody);
    row("SCTP", &[sctp], &[(SCTP, 81)], &[]);
    let udp = on_a(json!({"ingress": [{"ports": [{"port": 81, "protocol": "UDP"}]}]}));
    row("UDP is not TCP", std::slice::from_ref(&udp), P81, nobody);
    row("UDP", &[udp], &[(UDP, 81)], &[]);
}

#[test]
fn ingress_and_egress_together() {
    let both = on_a(json!({
        "policyTypes": ["Egress", "Ingress"], "ingress": [{"from": [pods("b")]}], "egress": [{"ports": [{"port": 80}]}],
    }));
    row("port 80", std::slice::from_ref(&both), P80, &[("*/*", "x/a", false), ("x/b", "x/a", true)]);
    row("port 81", &[both], P81, &[("*/*", "x/a", false), ("x/a", "*/*", false), ("x/b", "x/a", true)]);
    let to_y_a = json!({"namespaceSelector": {"matchLabels": {"ns": "y"}}, "podSelector": {"matchLabels": {"pod": "a"}}});
    let from_x_a = json!({"namespaceSelector": {"matchLabels": {"ns": "x"}}, "podSelector": {"matchLabels": {"pod": "a"}}});
    let egress = on_a(json!({"policyTypes": ["Egress"], "egress": [{"to": [to_y_a]}]}));
    row(
        "egress to one pod",
        std::slice::from_ref(&egress),
        P80,
        &[("x/a", "*/*", false), ("x/a", "y/a", true)],
    );
    let ingress = |name: &str| {
        policy(
            "y",
            name,
            json!({"podSelector": {"matchLabels": {"pod": name}}, "ingress": [{"from": [from_x_a]}]}),
        )
    };
    row(
        "egress is denied though the server allows it",
        &[egress, ingress("a"), ingress("b")],
        P80,
        &[("x/a", "*/*", false), ("*/*", "y/a", false), ("*/*", "y/b", false), ("x/a", "y/a", true)],
    );
    let only_80 = |direction: &str, kind: &str| {
        policy(
            "x",
            "80",
            json!({"podSelector": {}, "policyTypes": [kind], direction: [{"ports": [{"port": 80}]}]}),
        )
    };
    let all = |direction: &str, kind: &str| {
        policy("x", "all", json!({"podSelector": {}, "policyTypes": [kind], direction: [{}]}))
    };
    row("ingress on 80 only", &[only_80("ingress", "Ingress")], P81, &[("*/*", "x/*", false)]);
    row("ingress, and all", &[only_80("ingress", "Ingress"), all("ingress", "Ingress")], P81, &[]);
    row("egress to 80 only", &[only_80("egress", "Egress")], P81, &[("x/*", "*/*", false)]);
    row("egress, and all", &[only_80("egress", "Egress"), all("egress", "Egress")], P81, &[]);
    let independent = [
        policy(
            "x",
            "out",
            json!({"podSelector": {"matchLabels": {"pod": "a"}}, "policyTypes": ["Egress"], "egress": [{}]}),
        ),
        policy("x", "in", json!({"podSelector": {"matchLabels": {"pod": "a"}}, "policyTypes": ["Ingress"]})),
    ];
    row("independent of each other", &independent, P80, &[("*/*", "x/a", false)]);
}

#[test]
fn blocks_of_addresses() {
    let to = |blocks: Value| [on_a(json!({"policyTypes": ["Egress"], "egress": [{"to": blocks}]}))];
    // y/b is 10.244.1.3, x/b is 10.244.0.3.
    row(
        "a block of one address",
        &to(json!([{"ipBlock": {"cidr": "10.244.1.3/32"}}])),
        P80,
        &[("x/a", "*/*", false), ("x/a", "y/b", true)],
    );
    let but_b = json!({"ipBlock": {"cidr": "10.244.0.0/24", "except": ["10.244.0.3/32"]}});
    row(
        "except",
        &to(json!([but_b])),
        P80,
        &[("x/a", "y/*", false), ("x/a", "z/*", false), ("x/a", "x/b", false)],
    );
    row(
        "one block allows what another excepts",
        &to(json!([but_b, {"ipBlock": {"cidr": "10.244.0.3/32"}}])),
        P80,
        &[("x/a", "y/*", false), ("x/a", "z/*", false)],
    );
    row("all addresses", &to(json!([{"ipBlock": {"cidr": "0.0.0.0/0"}}])), ALL, &[]);
    row(
        "no address of this family",
        &to(json!([{"ipBlock": {"cidr": "::/0"}}])),
        P80,
        &[("x/a", "*/*", false)],
    );
    row(
        "named port within a block",
        &[on_a(
            json!({"policyTypes": ["Egress"], "egress": [{"to": [{"ipBlock": {"cidr": "10.244.1.0/24"}}], "ports": [{"port": "serve-80-tcp"}]}]}),
        )],
        P80,
        &[("x/a", "*/*", false), ("x/a", "y/*", true)],
    );
}

#[test]
fn changed_labels_change_who_connects() {
    let isolated = policy(
        "x",
        "p",
        json!({"podSelector": {"matchLabels": {"target": "isolated"}}, "policyTypes": ["Ingress"]}),
    );
    let mut world = cluster(vec![isolated]);
    check("nobody has the label", &world, (TCP, 80), |_, _| true);
    let mut a = pod("x", "a");
    a.labels.insert("target".to_owned(), "isolated".to_owned());
    world.pods.insert(a.key(), a);
    check("a has it", &world, (TCP, 80), |_, to| to.key() != ("x".into(), "a".into()));
    let mut world = cluster(vec![on_a(
        json!({"ingress": [{"from": [{"namespaceSelector": {"matchLabels": {"ns2": "updated"}}}]}]}),
    )]);
    let is_a = |to: &crate::policy::Pod| to.key() == ("x".into(), "a".into());
    check("no namespace has the label", &world, (TCP, 80), |_, to| !is_a(to));
    world.namespaces.insert("y".to_owned(), labels(&[("ns2", "updated")]));
    check("y has it", &world, (TCP, 80), |from, to| !is_a(to) || from.namespace == "y");
}

#[test]
fn pods_of_the_hosts_network_are_their_node() {
    let peers = json!([{"namespaceSelector": {}}]);
    let mut world = cluster(vec![on_a(json!({"ingress": [{"from": peers}]}))]);
    let mut host = pod("x", "b");
    host.host_network = true;
    world.pods.insert(host.key(), host);
    check("a selector does not mean them", &world, (TCP, 80), |from, to| {
        from.name != "b" || from.namespace != "x" || to.key() != ("x".into(), "a".into())
    });
    world.policies =
        cluster(vec![x(json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}))]).policies;
    check("a policy does not isolate them", &world, (TCP, 80), |from, to| {
        (from.namespace != "x" || from.host_network) && (to.namespace != "x" || to.host_network)
    });
}

#[test]
fn what_cannot_be_read_opens_nothing() {
    let bad = |rule: Value| on_a(json!({"ingress": [rule]}));
    for rule in [
        json!({"from": [{}]}),
        json!({"from": [{"ipBlock": {"cidr": "everywhere"}}]}),
        json!({"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["x"]}}]}),
        json!({"from": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]}),
        json!({"from": [{"podSelector": {"matchExpressions": [{"key": "pod", "operator": "Like"}]}}]}),
        json!({"ports": [{"port": 80, "protocol": "ICMP"}]}),
        json!({"ports": [{"port": 90, "endPort": 80}]}),
        json!({"ports": [{"port": 70000}]}),
        json!({"ports": [{"endPort": 80}]}),
    ] {
        row(&rule.to_string(), &[bad(rule)], P80, &[("*/*", "x/a", false)]);
    }
    let selector = json!({"matchExpressions": [{"key": "pod", "operator": "Like"}]});
    row("pod selector", &[x(json!({"podSelector": selector}))], P80, &[("*/*", "x/*", false)]);
}
