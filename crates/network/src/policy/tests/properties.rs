//! Whatever policies say: rules mean what the evaluator says, and rules that were changed step by step are those that
//! would have been made at once.

use std::collections::BTreeMap;
use std::net::IpAddr;

use minik8s_meta::IpFamily;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{NODES, cluster, labels, passes, pod, policy, table};
use crate::policy::{
    Cluster, Connection, Direction, Labels, Party, Pod, Policy, PolicyTable, Protocol, evaluate,
};

fn any_labels() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    prop::sample::subsequence(vec![("pod", "a"), ("tier", "web"), ("env", "test")], 0..=3)
}

fn any_selector() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        prop::sample::select(vec!["a", "b", "c"]).prop_map(|name| json!({"matchLabels": {"pod": name}})),
        Just(json!({"matchLabels": {"tier": "web"}})),
        Just(json!({"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]})),
        Just(json!({"matchExpressions": [{"key": "pod", "operator": "NotIn", "values": ["a"]}]})),
    ]
}

fn any_namespaces() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        prop::sample::select(vec!["x", "y"]).prop_map(|name| json!({"matchLabels": {"ns": name}})),
        Just(json!({"matchExpressions": [{"key": "ns", "operator": "NotIn", "values": ["x"]}]})),
    ]
}

fn any_peer() -> impl Strategy<Value = Value> {
    let block = (0..3u8, prop::sample::select(vec![8, 16, 23, 24, 31, 32])).prop_flat_map(|(row, length)| {
        let inside = prop::collection::vec((0..2u8, 0..8u8), 0..3);
        inside.prop_map(move |except| {
            let except: Vec<String> =
                except.iter().map(|(third, last)| format!("10.244.{third}.{last}/32")).collect();
            json!({"ipBlock": {"cidr": format!("10.244.{row}.2/{length}"), "except": except}})
        })
    });
    prop_oneof![
        any_selector().prop_map(|pods| json!({"podSelector": pods})),
        any_namespaces().prop_map(|spaces| json!({"namespaceSelector": spaces})),
        (any_namespaces(), any_selector())
            .prop_map(|(spaces, pods)| json!({"namespaceSelector": spaces, "podSelector": pods})),
        block,
        Just(json!({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.244.0.0/24"]}})),
    ]
}

fn any_port() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"protocol": "UDP"})),
        Just(json!({"port": 80})),
        Just(json!({"port": 79, "endPort": 81, "protocol": "SCTP"})),
        Just(json!({"port": "serve-81-tcp"})),
        Just(json!({"port": "serve-80-udp", "protocol": "UDP"})),
        Just(json!({"port": "nothing"})),
    ]
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let rules = |word: &'static str| {
        let rule = (prop::collection::vec(any_peer(), 0..3), prop::collection::vec(any_port(), 0..3))
            .prop_map(move |(peers, ports)| json!({word: peers, "ports": ports}));
        prop::collection::vec(rule, 0..3)
    };
    let types = prop::sample::subsequence(vec!["Ingress", "Egress"], 1..=2);
    let place = (prop::sample::select(vec!["x", "y"]), 0..3u8);
    (place, any_selector(), rules("from"), rules("to"), types).prop_map(
        |((namespace, number), pods, ingress, egress, types)| {
            let spec =
                json!({"podSelector": pods, "ingress": ingress, "egress": egress, "policyTypes": types});
            policy(namespace, &number.to_string(), spec)
        },
    )
}

#[derive(Debug, Clone)]
enum Step {
    Policy(Policy),
    NoPolicy(&'static str, u8),
    Pod(Pod),
    NoPod(&'static str, &'static str),
    Namespace(&'static str, Option<Labels>),
    Told(&'static str, &'static str, u8),
}

fn any_step() -> impl Strategy<Value = Step> {
    let space = || prop::sample::select(vec!["x", "y", "z"]);
    let name = || prop::sample::select(vec!["a", "b", "c"]);
    let changed = (space(), name(), any_labels(), any::<[bool; 3]>(), 0..9u8).prop_map(
        |(space, name, more, [host_network, ended, moves], last)| {
            let mut pod = pod(space, name);
            pod.labels.extend(labels(&more));
            pod.host_network = host_network && more.is_empty();
            pod.ended = ended && more.len() == 1;
            if moves {
                pod.addresses = vec![IpAddr::from([10, 244, 0, last + 2])];
            }
            Step::Pod(pod)
        },
    );
    prop_oneof![
        3 => any_policy().prop_map(Step::Policy),
        1 => (prop::sample::select(vec!["x", "y"]), 0..3u8).prop_map(|(space, number)| Step::NoPolicy(space, number)),
        3 => changed,
        1 => (space(), name()).prop_map(|(space, name)| Step::NoPod(space, name)),
        1 => (space(), prop::option::of(any_labels())).prop_map(|(space, more)| {
            Step::Namespace(space, more.map(|more| labels(&[&more[..], &[("ns", space)]].concat())))
        }),
        1 => (space(), name(), 0..9u8).prop_map(|(space, name, last)| Step::Told(space, name, last + 2)),
    ]
}

fn take(table: &mut PolicyTable, step: &Step) {
    let key = |space: &str, name: &str| (space.to_owned(), name.to_owned());
    match step {
        Step::Policy(policy) => table.set_policy(policy.clone()),
        Step::NoPolicy(space, number) => table.remove_policy(&key(space, &number.to_string())),
        Step::Pod(pod) => table.set_pod(pod.clone()),
        Step::NoPod(space, name) => table.remove_pod(&key(space, name)),
        Step::Namespace(name, labels) => table.set_namespace(name, labels.clone()),
        Step::Told(space, name, last) => {
            table.tell_addresses(&key(space, name), vec![IpAddr::from([10, 244, 0, *last])]);
        }
    }
}

fn all_at_once(cluster: &Cluster) -> BTreeMap<String, PolicyTable> {
    NODES.iter().map(|node| ((*node).to_owned(), table(cluster, node))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn rules_mean_what_policies_say(policies in prop::collection::vec(any_policy(), 0..5)) {
        let cluster = cluster(policies);
        let tables = all_at_once(&cluster);
        let outside: [IpAddr; 2] = [[192, 0, 2, 1].into(), [10, 244, 1, 77].into()];
        for port in [(Protocol::Tcp, 80), (Protocol::Tcp, 81), (Protocol::Udp, 80), (Protocol::Sctp, 79)] {
            let connect = |from, to| {
                let connection = Connection { from, to, protocol: port.0, port: port.1 };
                evaluate(&cluster, &connection).is_allowed()
            };
            for from in cluster.pods.values() {
                for to in cluster.pods.values() {
                    let expected = connect(Party::Pod(from), Party::Pod(to));
                    prop_assert_eq!(passes(&tables, from, to, port), expected, "{:?} {:?} {:?}", from, to, port);
                }
                for address in outside {
                    let own = from.addresses[0];
                    let table = &tables[&from.node];
                    let sent = table.lets_pass(Direction::Egress, (own, address), port);
                    prop_assert_eq!(sent, connect(Party::Pod(from), Party::Address(address)));
                    let got = table.lets_pass(Direction::Ingress, (own, address), port);
                    prop_assert_eq!(got, connect(Party::Address(address), Party::Pod(from)));
                }
            }
        }
    }

    #[test]
    fn step_by_step_is_the_same_as_at_once(steps in prop::collection::vec(any_step(), 1..14)) {
        let mut table = table(&cluster(Vec::new()), NODES[0]);
        let mut rules = table.ruleset();
        for step in &steps {
            take(&mut table, step);
            table.take_change().apply(&mut rules);
            prop_assert_eq!(&rules, &table.ruleset(), "after {:?}", step);
            prop_assert!(!table.has_changed());
            let mut anew = PolicyTable::new(IpFamily::V4, "t", NODES[0], Some([10, 96, 0, 10].into()));
            let cluster = table.cluster();
            cluster.pods.values().for_each(|pod| anew.set_pod(pod.clone()));
            cluster.namespaces.iter().for_each(|(name, own)| anew.set_namespace(name, Some(own.clone())));
            cluster.policies.values().for_each(|policy| anew.set_policy(policy.clone()));
            anew.take_change();
            prop_assert_eq!(&rules, &anew.ruleset(), "after {:?}", step);
        }
    }
}
