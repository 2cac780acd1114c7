//! The scheduler as a whole, without IO: events in, effects out.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Pod};
use minik8s_scheduler::{Effect, Event, Scheduler, Strategy};
use serde_json::{Value, json};

struct Cluster {
    scheduler: Scheduler,
    now: Instant,
}

impl Cluster {
    fn new(strategy: Strategy) -> Self {
        Cluster { scheduler: Scheduler::new("default-scheduler", strategy, 1), now: Instant::now() }
    }

    fn node(&mut self, name: &str, change: Value) -> &mut Self {
        let mut node = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "spec": {},
            "status": {
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        merge(&mut node, change);
        let node: Node = serde_json::from_value(node).unwrap();
        self.scheduler.handle(Event::Node((None, Some(Arc::new(node)))), self.now);
        self
    }

    fn see(&mut self, pod: Value) -> Option<Effect> {
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.scheduler.handle(Event::Pod((None, Some(Arc::new(pod)))), self.now)
    }

    fn gone(&mut self, pod: Value) {
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.scheduler.handle(Event::Pod((Some(Arc::new(pod)), None)), self.now);
    }

    /// What happens with the pod: the node, or the explanation with those who must go.
    fn place(&mut self, pod: Value) -> String {
        self.see(pod);
        self.next()
    }

    fn next(&mut self) -> String {
        self.now += Duration::from_secs(30);
        let effects = self.scheduler.step(self.now).unwrap_or_default();
        let shown = effects.iter().map(|effect| match effect {
            Effect::Bind { node, .. } => node.clone(),
            Effect::Explain { message, nominate: None, .. } => message.clone(),
            Effect::Explain { nominate: Some(node), .. } => format!("nominated {node}"),
            Effect::Evict { victim, .. } => format!("evict {}", victim.key.name),
            Effect::Gated(_) => "gated".to_owned(),
        });
        shown.collect::<Vec<_>>().join("; ")
    }
}

fn merge(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch,
    }
}

fn pod(name: &str, change: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    });
    merge(&mut pod, change);
    pod
}

fn asking(name: &str, cpu: &str) -> Value {
    let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    pod(name, json!({"spec": {"containers": [container]}}))
}

/// One pod, one node per change: which nodes refuse it and in which words.
fn check_refusal(node: Value, pod_change: Value, expected: &str) {
    let mut cluster = Cluster::new(Strategy::Balanced);
    cluster.node("n1", node);
    let outcome = cluster.place(pod("p", pod_change));
    let expected = if expected.is_empty() {
        "n1".to_owned()
    } else {
        format!("0/1 nodes are available: 1 {expected}. preemption: no victims found that would make room.")
    };
    assert_eq!(outcome, expected);
}

#[test]
fn filters_refuse_in_known_words() {
    let none = || json!({});
    check_refusal(none(), none(), "");
    check_refusal(json!({"spec": {"unschedulable": true}}), none(), "node(s) were unschedulable");
    let taint = || json!({"spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}});
    check_refusal(taint(), none(), "node(s) had untolerated taint {a: b}");
    check_refusal(taint(), json!({"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}), "");
    let unready = json!({"status": {"conditions": []}});
    check_refusal(unready, none(), "node(s) had untolerated taint {node.kubernetes.io/not-ready: }");
    let selector = || json!({"spec": {"nodeSelector": {"disk": "ssd"}}});
    check_refusal(none(), selector(), "node(s) didn't match Pod's node affinity/selector");
    check_refusal(json!({"metadata": {"labels": {"disk": "ssd"}}}), selector(), "");
    let full = json!({"status": {"allocatable": {"pods": "0"}}});
    check_refusal(full, none(), "Too many pods");
    let gpu =
        json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"example.com/gpu": "1"}}}]}});
    check_refusal(none(), gpu, "Insufficient example.com/gpu");
    let claim = json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}});
    check_refusal(none(), claim, "persistentvolumeclaim \"data\" not found");
    let with_others = json!({"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "other"}}},
    ]}}}});
    check_refusal(none(), with_others, "node(s) didn't match pod affinity rules");
    let spread = json!({"spec": {"topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
         "labelSelector": {"matchLabels": {"app": "web"}}},
    ]}});
    check_refusal(
        none(),
        spread,
        "node(s) didn't match pod topology spread constraints (missing required label)",
    );
}

#[test]
fn node_affinity_operators() {
    let check = |operator: &str, values: &[&str], fits: bool| {
        let expression = json!({"key": "n", "operator": operator, "values": values});
        let affinity = json!({"spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]},
        }}}});
        let expected = if fits { "" } else { "node(s) didn't match Pod's node affinity/selector" };
        check_refusal(json!({"metadata": {"labels": {"n": "5"}}}), affinity, expected);
    };
    check("In", &["4", "5"], true);
    check("NotIn", &["5"], false);
    check("Exists", &[], true);
    check("DoesNotExist", &[], false);
    check("Gt", &["4"], true);
    check("Gt", &["5"], false);
    check("Lt", &["6"], true);
}

#[test]
fn resources_are_counted_and_given_back() {
    let mut cluster = Cluster::new(Strategy::Balanced);
    cluster.node("n1", json!({}));
    assert_eq!(cluster.place(asking("a", "3")), "n1");
    let reason =
        "0/1 nodes are available: 1 Insufficient cpu. preemption: no victims found that would make room.";
    assert_eq!(cluster.place(asking("b", "2")), reason);
    assert_eq!(cluster.next(), "", "nothing has changed");
    cluster.gone(asking("a", "3"));
    assert_eq!(cluster.next(), "n1", "retried because something relevant changed");
}

#[test]
fn a_failed_binding_gives_the_place_back() {
    let mut cluster = Cluster::new(Strategy::Balanced);
    cluster.node("n1", json!({}));
    cluster.see(asking("a", "3"));
    let effects = cluster.scheduler.step(cluster.now).unwrap();
    let Some(Effect::Bind { pod, .. }) = effects.into_iter().next() else { panic!("not bound") };
    cluster.scheduler.handle(Event::Bound { pod, done: false }, cluster.now);
    assert_eq!(cluster.place(asking("b", "3")), "n1", "a waits for its back-off");
}

#[test]
fn anti_affinity_works_both_ways() {
    let mut cluster = Cluster::new(Strategy::Balanced);
    cluster.node("n1", json!({})).node("n2", json!({}));
    let apart = |name: &str| {
        pod(
            name,
            json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}},
            ]}}}}),
        )
    };
    let first = cluster.place(apart("a"));
    let second = cluster.place(apart("b"));
    assert_ne!(first, second);
    let third = cluster.place(apart("c"));
    assert!(third.contains("2 node(s) didn't match pod anti-affinity rules"), "{third}");
    let plain = cluster.place(pod("d", json!({})));
    assert!(plain.contains("2 node(s) didn't satisfy existing pods anti-affinity rules"), "{plain}");
    assert!(cluster.place(pod("e", json!({"metadata": {"labels": {"app": "db"}}}))).starts_with('n'));
}

#[test]
fn affinity_brings_pods_together() {
    let mut cluster = Cluster::new(Strategy::LeastPods);
    cluster.node("n1", json!({})).node("n2", json!({})).node("n3", json!({}));
    let together = |name: &str| {
        pod(
            name,
            json!({"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}},
            ]}}}}),
        )
    };
    let first = cluster.place(together("a"));
    assert!(first.starts_with('n'), "the first of a group may go anywhere: {first}");
    for name in ["b", "c", "d"] {
        assert_eq!(cluster.place(together(name)), first);
    }
}

#[test]
fn topology_spread_keeps_the_skew() {
    let mut cluster = Cluster::new(Strategy::MostPods);
    for (name, zone) in [("n1", "a"), ("n2", "a"), ("n3", "b")] {
        cluster.node(name, json!({"metadata": {"labels": {"zone": zone}}}));
    }
    let spread = |name: &str| {
        pod(
            name,
            json!({"spec": {"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                 "labelSelector": {"matchLabels": {"app": "web"}}},
            ]}}),
        )
    };
    let mut zones: BTreeMap<bool, usize> = BTreeMap::new();
    for i in 0..6 {
        let node = cluster.place(spread(&format!("p{i}")));
        *zones.entry(node == "n3").or_default() += 1;
    }
    assert_eq!(zones, BTreeMap::from([(false, 3), (true, 3)]));
}

#[test]
fn host_ports_collide() {
    let mut cluster = Cluster::new(Strategy::Balanced);
    cluster.node("n1", json!({}));
    let with_port = |name: &str, port: i32, ip: &str| {
        let ports = json!([{"containerPort": 80, "hostPort": port, "hostIP": ip}]);
        pod(name, json!({"spec": {"containers": [{"name": "c", "ports": ports}]}}))
    };
    assert_eq!(cluster.place(with_port("a", 80, "10.0.0.1")), "n1");
    assert_eq!(cluster.place(with_port("b", 80, "10.0.0.2")), "n1");
    assert!(cluster.place(with_port("c", 80, "")).contains("didn't have free ports"));
    assert_eq!(cluster.place(with_port("d", 81, "")), "n1");
}

#[test]
fn higher_priority_makes_room_with_least_harm() {
    let mut cluster = Cluster::new(Strategy::Balanced);
    cluster.node("n1", json!({})).node("n2", json!({}));
    let of = |name: &str, priority: i32, node: &str| {
        let mut pod = asking(name, "3");
        merge(&mut pod, json!({"spec": {"priority": priority, "nodeName": node}}));
        pod
    };
    cluster.see(of("low", 1, "n1"));
    cluster.see(of("middle", 5, "n2"));
    let mut urgent = asking("urgent", "3");
    merge(&mut urgent, json!({"spec": {"priority": 10}}));
    assert_eq!(cluster.place(urgent), "evict low; nominated n1");
    cluster.gone(of("low", 1, "n1"));
    let thief = cluster.place(asking("thief", "3"));
    assert_eq!(thief, "n1", "the pod that room was made for goes first");
    assert!(cluster.next().contains("Insufficient cpu"), "and the thief finds no room");
    let mut polite = asking("polite", "3");
    merge(&mut polite, json!({"spec": {"priority": 9, "preemptionPolicy": "Never"}}));
    assert!(cluster.place(polite).contains("Insufficient cpu"));
}

#[test]
fn gates_hold_and_other_schedulers_are_left_alone() {
    let mut cluster = Cluster::new(Strategy::Balanced);
    cluster.node("n1", json!({}));
    let gated = pod("a", json!({"spec": {"schedulingGates": [{"name": "g"}]}}));
    assert!(matches!(cluster.see(gated), Some(Effect::Gated(_))));
    assert_eq!(cluster.next(), "");
    assert_eq!(cluster.place(pod("a", json!({}))), "n1");
    assert_eq!(cluster.place(pod("b", json!({"spec": {"schedulerName": "mine"}}))), "");
}

#[test]
fn strategies_choose_as_they_say() {
    let place_six = |strategy: Strategy| -> Vec<String> {
        let mut cluster = Cluster::new(strategy);
        cluster.node("n1", json!({})).node("n2", json!({})).node("n3", json!({}));
        (0..6).map(|i| cluster.place(asking(&format!("p{i}"), "100m"))).collect()
    };
    let spread = |nodes: &[String]| {
        let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
        nodes.iter().for_each(|node| *counts.entry(node).or_default() += 1);
        counts.values().copied().collect::<Vec<_>>()
    };
    assert_eq!(place_six(Strategy::RoundRobin), ["n1", "n2", "n3", "n1", "n2", "n3"]);
    for strategy in [Strategy::Balanced, Strategy::LeastPods, Strategy::LeastCpu, Strategy::LeastMemory] {
        assert_eq!(spread(&place_six(strategy)), [2, 2, 2], "{strategy}");
    }
    for strategy in [Strategy::MostPods, Strategy::Binpack] {
        assert_eq!(spread(&place_six(strategy)), [6], "{strategy}");
    }
    assert!(place_six(Strategy::Random).iter().all(|node| node.starts_with('n')));
}

#[test]
fn a_pod_may_choose_its_strategy() {
    let mut cluster = Cluster::new(Strategy::Binpack);
    cluster.node("n1", json!({})).node("n2", json!({}));
    let first = cluster.place(pod("a", json!({})));
    let annotated = pod("b", json!({"metadata": {"annotations": {"minik8s.io/strategy": "least-pods"}}}));
    assert_ne!(cluster.place(annotated), first);
    let wrong = pod("c", json!({"metadata": {"annotations": {"minik8s.io/strategy": "nonsense"}}}));
    assert!(cluster.place(wrong).starts_with('n'));
}

#[test]
fn the_cluster_strategy_changes_at_run_time() {
    let mut cluster = Cluster::new(Strategy::Balanced);
    cluster.node("n1", json!({})).node("n2", json!({}));
    let settings = json!({
        "metadata": {"namespace": "kube-system", "name": "minik8s-cluster"},
        "data": {"scheduler.strategy": "binpack"},
    });
    let settings = Arc::new(serde_json::from_value(settings).unwrap());
    cluster.scheduler.handle(Event::Settings((None, Some(settings))), cluster.now);
    let nodes: Vec<String> = (0..4).map(|i| cluster.place(pod(&format!("p{i}"), json!({})))).collect();
    assert!(nodes.windows(2).all(|pair| pair[0] == pair[1]), "{nodes:?}");
}

#[test]
fn pods_seen_before_their_node_count() {
    let mut cluster = Cluster::new(Strategy::Balanced);
    let mut early = asking("early", "4");
    merge(&mut early, json!({"spec": {"nodeName": "n1"}}));
    cluster.see(early);
    cluster.node("n1", json!({}));
    assert!(cluster.place(asking("late", "1")).contains("Insufficient cpu"));
}
