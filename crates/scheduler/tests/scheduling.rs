//! The scheduler as a whole, without IO: events in, effects out.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Pod};
use minik8s_scheduler::snapshot::Usage;
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
            Effect::Deallocate { claim, .. } => {
                format!("deallocate {}", claim.metadata.name.as_deref().unwrap())
            }
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
        let help = match expected {
            "node(s) didn't match pod topology spread constraints" => {
                "No preemption victims found for incoming pod"
            }
            _ => "Preemption is not helpful for scheduling",
        };
        let claim = expected.starts_with("persistentvolumeclaim");
        let counted = if claim { "" } else { "1 " };
        format!(
            "0/1 nodes are available: {counted}{expected}. preemption: 0/1 nodes are available: 1 {help}."
        )
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
    let reason = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";
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
fn spread_counts_what_stays_and_needs_its_domains() {
    let spread = |name: &str, more: Value| {
        let mut constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}});
        merge(&mut constraint, more);
        pod(name, json!({"spec": {"topologySpreadConstraints": [constraint]}}))
    };
    let mut cluster = Cluster::new(Strategy::LeastPods);
    cluster.node("n1", json!({"metadata": {"labels": {"zone": "a"}}}));
    assert_eq!(cluster.place(spread("a", json!({}))), "n1");
    assert_eq!(cluster.place(spread("b", json!({}))), "n1", "a single zone is balanced");
    let two = spread("c", json!({"minDomains": 2}));
    assert!(cluster.place(two.clone()).contains("topology spread constraints"), "a second zone is missing");
    cluster.gone(two);
    cluster.node(
        "n2",
        json!({"metadata": {"labels": {"zone": "b"}},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
    );
    let strict = spread("d", json!({"nodeTaintsPolicy": "Ignore"}));
    let refused = cluster.place(strict.clone());
    assert!(refused.contains("1 node(s) didn't match pod topology spread constraints"), "{refused}");
    cluster.gone(strict);
    let lenient = json!({"nodeTaintsPolicy": "Honor"});
    assert_eq!(cluster.place(spread("e", lenient)), "n1", "the tainted zone takes no part");

    let mut cluster = Cluster::new(Strategy::LeastPods);
    for (node, zone) in [("n1", "a"), ("n2", "b")] {
        cluster.node(node, json!({"metadata": {"labels": {"zone": zone}}}));
    }
    for name in ["x", "y"] {
        let mut leaving = pod(name, json!({"spec": {"nodeName": "n1"}}));
        merge(&mut leaving, json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        cluster.see(leaving);
    }
    assert_eq!(cluster.place(spread("a", json!({}))), "n2", "fewer pods");
    assert_eq!(cluster.place(spread("b", json!({}))), "n1", "those who leave do not count");
    let by_version = |name: &str, version: &str| {
        let mut pod = spread(name, json!({"matchLabelKeys": ["version"]}));
        merge(&mut pod, json!({"metadata": {"labels": {"version": version}}}));
        pod
    };
    for version in ["1", "2"] {
        let mut nodes = [
            cluster.place(by_version(&format!("{version}a"), version)),
            cluster.place(by_version(&format!("{version}b"), version)),
        ];
        nodes.sort();
        assert_eq!(nodes, ["n1", "n2"], "each version is spread by itself");
    }
}

#[test]
fn siblings_are_spread_without_being_asked() {
    let mut cluster = Cluster::new(Strategy::Balanced);
    cluster.node("big", json!({"status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "100"}}}));
    cluster.node("small", json!({}));
    let owned = |name: &str| {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": true});
        pod(name, json!({"metadata": {"ownerReferences": [owner]}}))
    };
    let nodes = [cluster.place(owned("a")), cluster.place(owned("b"))];
    assert_ne!(nodes[0], nodes[1]);
    assert_eq!(cluster.place(pod("alone", json!({}))), "big");
}

#[test]
fn company_must_meet_all_terms_at_once() {
    let mut cluster = Cluster::new(Strategy::LeastPods);
    cluster.node("n1", json!({})).node("n2", json!({})).node("n3", json!({}));
    let with = |labels: Value, node: &str| {
        pod(&format!("on-{node}"), json!({"metadata": {"labels": labels}, "spec": {"nodeName": node}}))
    };
    cluster.see(with(json!({"app": "x", "a": "1"}), "n1"));
    cluster.see(with(json!({"app": "x", "b": "1"}), "n2"));
    cluster.see(with(json!({"app": "x", "a": "1", "b": "1"}), "n3"));
    let term = |key: &str| json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {key: "1"}}});
    let wants = json!({"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term("a"), term("b")]}}}});
    assert_eq!(cluster.place(pod("p", wants)), "n3");
}

#[test]
fn affinity_reaches_into_other_namespaces() {
    let mut cluster = Cluster::new(Strategy::LeastPods);
    cluster.node("n1", json!({})).node("n2", json!({}));
    for (name, team) in [("red", "r"), ("blue", "b")] {
        let namespace = json!({"metadata": {"name": name, "labels": {"team": team}}});
        let namespace = Arc::new(serde_json::from_value(namespace).unwrap());
        cluster.scheduler.handle(Event::Namespace((None, Some(namespace))), cluster.now);
    }
    for (namespace, node) in [("red", "n1"), ("blue", "n2")] {
        cluster.see(pod("db", json!({"metadata": {"namespace": namespace}, "spec": {"nodeName": node}})));
    }
    let near = |name: &str, more: Value| {
        let mut term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}});
        merge(&mut term, more);
        pod(
            name,
            json!({"metadata": {"labels": {"app": "client"}}, "spec": {"affinity": {"podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [term]}}}}),
        )
    };
    assert!(cluster.place(near("own", json!({}))).contains("didn't match pod affinity rules"));
    assert_eq!(cluster.place(near("named", json!({"namespaces": ["blue"]}))), "n2");
    let selected = json!({"namespaceSelector": {"matchLabels": {"team": "r"}}});
    assert_eq!(cluster.place(near("selected", selected)), "n1");
    assert!(cluster.place(near("all", json!({"namespaceSelector": {}}))).starts_with('n'));
}

#[test]
fn volumes_bind_where_they_can_be_reached() {
    let mut cluster = Cluster::new(Strategy::LeastPods);
    for (node, zone) in [("n1", "a"), ("n2", "b")] {
        cluster.node(node, json!({"metadata": {"labels": {"zone": zone}}}));
    }
    let class = json!({"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"});
    cluster
        .scheduler
        .handle(Event::Class((None, Some(Arc::new(serde_json::from_value(class).unwrap())))), cluster.now);
    let claim = |name: &str, mode: &str, volume: &str| {
        let claim = json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"storageClassName": "local",
            "accessModes": [mode], "volumeName": volume, "resources": {"requests": {"storage": "5Gi"}}}});
        Arc::new(serde_json::from_value(claim).unwrap())
    };
    let volume = |name: &str, size: &str, zone: &str| {
        let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]}});
        let volume = json!({"metadata": {"name": name}, "spec": {"storageClassName": "local", "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size}, "nodeAffinity": affinity}});
        Arc::new(serde_json::from_value(volume).unwrap())
    };
    let using = |name: &str, claim: &str| {
        pod(
            name,
            json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}}),
        )
    };
    cluster.scheduler.handle(Event::Claim((None, Some(claim("waits", "ReadWriteOnce", "")))), cluster.now);
    cluster.scheduler.handle(Event::Volume((None, Some(volume("small", "1Gi", "a")))), cluster.now);
    let refused = cluster.place(using("p", "waits"));
    assert!(refused.contains("2 node(s) didn't find available persistent volumes to bind"), "{refused}");
    cluster.scheduler.handle(Event::Volume((None, Some(volume("large", "10Gi", "b")))), cluster.now);
    assert_eq!(cluster.next(), "n2", "retried because a volume came");
    cluster
        .scheduler
        .handle(Event::Claim((None, Some(claim("bound", "ReadWriteOnce", "small")))), cluster.now);
    assert_eq!(cluster.place(using("q", "bound")), "n1");
    cluster
        .scheduler
        .handle(Event::Claim((None, Some(claim("alone", "ReadWriteOncePod", "small")))), cluster.now);
    assert_eq!(cluster.place(using("r", "alone")), "n1");
    assert!(cluster.place(using("s", "alone")).contains("ReadWriteOncePod access mode"));
}

#[test]
fn nodes_have_only_so_many_volumes_of_a_driver() {
    let mut cluster = Cluster::new(Strategy::LeastPods);
    cluster.node("n1", json!({})).node("n2", json!({}));
    for (node, count) in [("n1", 1), ("n2", 1)] {
        let drivers = json!([{"name": "d", "nodeID": node, "allocatable": {"count": count}}]);
        let csi_node = json!({"metadata": {"name": node}, "spec": {"drivers": drivers}});
        let csi_node = Arc::new(serde_json::from_value(csi_node).unwrap());
        cluster.scheduler.handle(Event::CsiNode((None, Some(csi_node))), cluster.now);
    }
    for name in ["a", "b", "c"] {
        let volume =
            json!({"metadata": {"name": name}, "spec": {"csi": {"driver": "d", "volumeHandle": name}}});
        let volume = Arc::new(serde_json::from_value(volume).unwrap());
        cluster.scheduler.handle(Event::Volume((None, Some(volume))), cluster.now);
        let claim = json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"volumeName": name}});
        let claim = Arc::new(serde_json::from_value(claim).unwrap());
        cluster.scheduler.handle(Event::Claim((None, Some(claim))), cluster.now);
    }
    let using = |name: &str, claim: &str| {
        pod(
            name,
            json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}}),
        )
    };
    let first = cluster.place(using("p", "a"));
    let second = cluster.place(using("q", "b"));
    assert!(first != second && first.starts_with('n') && second.starts_with('n'), "{first} {second}");
    // One that is there already is no further one.
    assert_eq!(cluster.place(using("again", "a")), first);
    let refused = cluster.place(using("r", "c"));
    assert!(refused.contains("2 node(s) exceed max volume count"), "{refused}");
    cluster.gone(using("q", "b"));
    assert_eq!(cluster.next(), second);
}

#[test]
fn pods_are_kept_from_nodes_without_a_driver_that_wants_it() {
    let mut cluster = Cluster::new(Strategy::LeastPods);
    cluster.node("n1", json!({}));
    let driver = json!({"metadata": {"name": "d"}, "spec": {"preventPodSchedulingIfMissing": true}});
    let driver = Arc::new(serde_json::from_value(driver).unwrap());
    cluster.scheduler.handle(Event::CsiDriver((None, Some(driver))), cluster.now);
    let volume = json!({"metadata": {"name": "a"}, "spec": {"csi": {"driver": "d", "volumeHandle": "a"}}});
    let volume = Arc::new(serde_json::from_value(volume).unwrap());
    cluster.scheduler.handle(Event::Volume((None, Some(volume))), cluster.now);
    let claim = json!({"metadata": {"name": "a", "namespace": "default"}, "spec": {"volumeName": "a"}});
    let claim = Arc::new(serde_json::from_value(claim).unwrap());
    cluster.scheduler.handle(Event::Claim((None, Some(claim))), cluster.now);
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}]);
    let refused = cluster.place(pod("p", json!({"spec": {"volumes": volumes}})));
    assert!(refused.contains("1 d CSI driver is not installed on the node"), "{refused}");
    let csi_node = json!({"metadata": {"name": "n1"}, "spec": {"drivers": [{"name": "d", "nodeID": "n1"}]}});
    let csi_node = Arc::new(serde_json::from_value(csi_node).unwrap());
    cluster.scheduler.handle(Event::CsiNode((None, Some(csi_node))), cluster.now);
    assert_eq!(cluster.next(), "n1", "retried because the driver came");
}

#[test]
fn volumes_are_made_where_there_is_room() {
    let mut cluster = Cluster::new(Strategy::LeastPods);
    for (node, zone) in [("n1", "a"), ("n2", "b")] {
        cluster.node(node, json!({"metadata": {"labels": {"zone": zone}}}));
    }
    let class = json!({"metadata": {"name": "fast"}, "provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer"});
    let class = Arc::new(serde_json::from_value(class).unwrap());
    cluster.scheduler.handle(Event::Class((None, Some(class))), cluster.now);
    let driver = json!({"metadata": {"name": "d"}, "spec": {"storageCapacity": true}});
    let driver = Arc::new(serde_json::from_value(driver).unwrap());
    cluster.scheduler.handle(Event::CsiDriver((None, Some(driver))), cluster.now);
    for name in ["p", "q"] {
        let claim = json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"storageClassName": "fast",
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}});
        let claim = Arc::new(serde_json::from_value(claim).unwrap());
        cluster.scheduler.handle(Event::Claim((None, Some(claim))), cluster.now);
    }
    let using = |name: &str| {
        let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": name}}]);
        pod(name, json!({"spec": {"volumes": volumes}}))
    };
    let room = |cluster: &mut Cluster, zone: &str, class: &str, size: &str| {
        let capacity = json!({"metadata": {"name": format!("{zone}-{class}"), "namespace": "kube-system"},
            "storageClassName": class, "capacity": size, "nodeTopology": {"matchLabels": {"zone": zone}}});
        let capacity = Arc::new(serde_json::from_value(capacity).unwrap());
        cluster.scheduler.handle(Event::CsiCapacity((None, Some(capacity))), cluster.now);
    };
    room(&mut cluster, "a", "fast", "1Gi");
    room(&mut cluster, "b", "slow", "100Gi");
    let refused = cluster.place(using("p"));
    assert!(refused.contains("2 node(s) did not have enough free storage"), "{refused}");
    room(&mut cluster, "b", "fast", "10Gi");
    assert_eq!(cluster.next(), "n2", "retried because there is room");
}

#[test]
fn local_volumes_are_made_where_the_disk_has_room() {
    let mut cluster = Cluster::new(Strategy::LeastPods);
    cluster.node("n1", json!({})).node("n2", json!({}));
    let class = json!({"metadata": {"name": "kept"}, "provisioner": "local.minik8s.io",
        "volumeBindingMode": "WaitForFirstConsumer"});
    let class = Arc::new(serde_json::from_value(class).unwrap());
    cluster.scheduler.handle(Event::Class((None, Some(class))), cluster.now);
    for name in ["p", "q", "r"] {
        let claim = json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"storageClassName": "kept",
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}}});
        let claim = Arc::new(serde_json::from_value(claim).unwrap());
        cluster.scheduler.handle(Event::Claim((None, Some(claim))), cluster.now);
    }
    let using = |name: &str| {
        let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": name}}]);
        pod(name, json!({"spec": {"volumes": volumes}}))
    };
    // Whatever the class is called, and only where agents tell it.
    let room = |cluster: &mut Cluster, namespace: &str, node: &str, size: &str| {
        let capacity = json!({"metadata": {"name": format!("local.minik8s.io.{node}"), "namespace": namespace},
            "storageClassName": "local", "capacity": size, "nodeTopology": {}});
        let capacity = Arc::new(serde_json::from_value(capacity).unwrap());
        cluster.scheduler.handle(Event::CsiCapacity((None, Some(capacity))), cluster.now);
    };
    room(&mut cluster, "kube-system", "n1", "1Gi");
    room(&mut cluster, "kube-system", "n2", "1Gi");
    room(&mut cluster, "default", "n1", "100Gi");
    let refused = cluster.place(using("p"));
    assert!(refused.contains("2 node(s) did not have enough free storage"), "{refused}");
    room(&mut cluster, "kube-system", "n2", "6Gi");
    assert_eq!(cluster.next(), "n2", "retried because there is room");
    assert_eq!(cluster.place(using("q")), "n2", "thin images may promise more than there is");
    let gone = json!({"metadata": {"name": "local.minik8s.io.n1", "namespace": "kube-system"}, "storageClassName": "local"});
    let gone = Arc::new(serde_json::from_value(gone).unwrap());
    cluster.scheduler.handle(Event::CsiCapacity((Some(gone), None)), cluster.now);
    assert_eq!(cluster.place(using("r")), "n1", "a node that tells nothing is tried");
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
    let shown = cluster.place(polite);
    assert!(
        shown.ends_with("2 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."),
        "{shown}"
    );
}

fn prioritised(name: &str, cpu: &str, priority: i32, change: Value) -> Value {
    let mut pod = asking(name, cpu);
    merge(&mut pod, json!({"spec": {"priority": priority}}));
    merge(&mut pod, change);
    pod
}

#[test]
fn a_pod_waits_for_those_who_leave_for_it() {
    let mut cluster = Cluster::new(Strategy::Balanced);
    cluster.node("n1", json!({})).node("n2", json!({}));
    let on = |node: &str| json!({"spec": {"nodeName": node}});
    cluster.see(prioritised("a", "3", 1, on("n1")));
    cluster.see(prioritised("b", "3", 2, on("n2")));
    assert_eq!(cluster.place(prioritised("urgent", "3", 10, json!({}))), "evict a; nominated n1");
    let leaving = prioritised(
        "a",
        "3",
        1,
        json!({
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"nodeName": "n1"},
        }),
    );
    cluster.see(leaving.clone());
    cluster.node("n3", json!({"status": {"allocatable": {"cpu": "1"}}}));
    assert_eq!(cluster.next(), "nominated n1", "nobody else has to go while one is leaving");
    assert!(cluster.place(asking("thief", "2")).contains("Insufficient cpu"));
    let more_urgent = prioritised("more-urgent", "3", 20, json!({}));
    assert_eq!(
        cluster.place(more_urgent),
        "nominated n1",
        "the room that becomes free goes to the most important"
    );
    cluster.gone(leaving);
    assert_eq!(cluster.next(), "n1");
    assert_eq!(cluster.next(), "evict b; nominated n2", "and the less important looks elsewhere");
}

#[test]
fn the_more_important_looks_through_a_reservation() {
    let mut cluster = Cluster::new(Strategy::Balanced);
    cluster.node("n1", json!({}));
    let victim = prioritised("victim", "3", 1, json!({"spec": {"nodeName": "n1"}}));
    cluster.see(victim.clone());
    assert_eq!(cluster.place(prioritised("urgent", "3", 10, json!({}))), "evict victim; nominated n1");
    cluster.see(prioritised("most-urgent", "3", 20, json!({})));
    cluster.gone(victim);
    assert_eq!(cluster.next(), "n1");
    assert!(cluster.next().contains("Insufficient cpu"), "the less important has lost its place");
}

#[test]
fn a_nomination_outlives_the_scheduler() {
    let mut cluster = Cluster::new(Strategy::Balanced);
    cluster.node("n1", json!({}));
    let leaving = prioritised(
        "old",
        "3",
        1,
        json!({
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"nodeName": "n1"},
        }),
    );
    cluster.see(leaving.clone());
    cluster.see(prioritised("urgent", "3", 10, json!({"status": {"nominatedNodeName": "n1"}})));
    assert_eq!(cluster.next(), "nominated n1");
    cluster.gone(leaving);
    assert_eq!(cluster.place(asking("thief", "3")), "n1", "urgent goes first");
}

#[test]
fn budgets_are_respected_where_that_is_possible() {
    let mut cluster = Cluster::new(Strategy::Balanced);
    cluster.node("n1", json!({})).node("n2", json!({}));
    let on =
        |node: &str, app: &str| json!({"metadata": {"labels": {"app": app}}, "spec": {"nodeName": node}});
    cluster.see(prioritised("guarded", "3", 1, on("n1", "db")));
    cluster.see(prioritised("free", "3", 5, on("n2", "web")));
    let budget = json!({
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
    });
    let budget = Arc::new(serde_json::from_value(budget).unwrap());
    cluster.scheduler.handle(Event::Budget((None, Some(budget))), cluster.now);
    let urgent = prioritised("urgent", "3", 10, json!({}));
    assert_eq!(cluster.place(urgent), "evict free; nominated n2", "though it is the more important");
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

/// Of three equal nodes the one that really uses least is chosen, until what was placed there makes up for it; a pod
/// counts by its request until it had time to show in the metrics.
#[test]
fn measured_use_decides() {
    let usage = |cpu_millis: i64| Some(Usage { cpu_millis, memory_bytes: 1 << 30 });
    let measure = |cluster: &mut Cluster, cpu: [i64; 3]| {
        let metrics = ["n1", "n2", "n3"].iter().zip(cpu).map(|(node, cpu)| ((*node).to_owned(), usage(cpu)));
        cluster.scheduler.handle(Event::Measured(metrics.collect()), cluster.now);
    };
    let mut cluster = Cluster::new(Strategy::LeastCpu);
    cluster.node("n1", json!({})).node("n2", json!({})).node("n3", json!({}));
    measure(&mut cluster, [3000, 1000, 2500]);
    let nodes: Vec<String> = (0..5).map(|i| cluster.place(asking(&format!("p{i}"), "600m"))).collect();
    assert_eq!(nodes, ["n2", "n2", "n2", "n3", "n2"], "a burst does not pile up on one node");
    // They started, and are idle.
    for _ in 0..5 {
        measure(&mut cluster, [3000, 1100, 2500]);
    }
    assert_eq!(cluster.place(asking("late", "600m")), "n2");
    // One that is not measured cannot be compared: requests decide.
    cluster.scheduler.handle(Event::Measured(vec![("n1".to_owned(), None)]), cluster.now);
    assert_eq!(cluster.place(asking("later", "600m")), "n1");
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
