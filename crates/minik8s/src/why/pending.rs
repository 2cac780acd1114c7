//! Why no node has taken a pod. Pure: (pod, snapshot) → text.

use std::fmt::Write;

use minik8s_scheduler::snapshot::{PodInfo, Snapshot};
use minik8s_scheduler::{NodeObstacles, diagnose, nearest};

/// Clusters with more nodes than this are shown by their nearest ones.
const MOST_NODES: usize = 20;

pub fn explain(pod: &PodInfo, snapshot: &Snapshot) -> String {
    let mut text = format!("Pod {} is Pending: ", pod.key);
    if let Some(held) = held_back(pod) {
        text.push_str(&held);
        text.push('\n');
        return text;
    }
    let nodes = diagnose(pod, snapshot);
    if nodes.is_empty() {
        text.push_str("the cluster has no nodes. Start one: `minik8s server` without --no-agent.\n");
        return text;
    }
    let fitting: Vec<&str> =
        nodes.iter().filter(|node| node.obstacles.is_empty()).map(|node| node.node.as_str()).collect();
    if let Some(first) = fitting.first() {
        let count = fitting.len();
        let _ = writeln!(
            text,
            "it fits on {count} of {} nodes now ({first}{}); the scheduler binds it at its next try.",
            nodes.len(),
            if count > 1 { ", ..." } else { "" },
        );
        return text;
    }
    if let Some(general) = nodes.iter().flat_map(|node| &node.obstacles).find(|o| o.everywhere) {
        let _ = writeln!(text, "{}.", general.reasons.join(", "));
        let _ = writeln!(text, "\nSmallest change: {}", general.remedy);
        return text;
    }
    let _ = writeln!(text, "none of {} nodes takes it.\n", nodes.len());
    text.push_str(&table(&nodes));
    if let Some(nearest) = nearest(&nodes) {
        let remedies: Vec<&str> = nearest.obstacles.iter().map(|o| o.remedy.as_str()).collect();
        let _ = writeln!(text, "\nSmallest change, for node {}: {}", nearest.node, remedies.join("; and "));
    }
    text
}

/// What keeps a pod away from all nodes before any of them is looked at.
fn held_back(pod: &PodInfo) -> Option<String> {
    let spec = pod.spec()?;
    if pod.is_leaving() {
        return Some("it is being deleted.".to_owned());
    }
    let gates: Vec<&str> = spec.scheduling_gates.iter().flatten().map(|gate| gate.name.as_str()).collect();
    if !gates.is_empty() {
        return Some(format!(
            "it waits for its scheduling gates ({}); whoever set them removes them from spec.schedulingGates.",
            gates.join(", ")
        ));
    }
    let scheduler = spec.scheduler_name.as_deref().filter(|name| *name != "default-scheduler")?;
    Some(format!(
        "it is left to the scheduler {scheduler:?}, which is not minik8s' own; run that one, or remove spec.schedulerName."
    ))
}

fn table(nodes: &[NodeObstacles]) -> String {
    let rows: Vec<[&str; 3]> = nodes
        .iter()
        .take(MOST_NODES)
        .flat_map(|node| {
            node.obstacles.iter().enumerate().map(|(i, obstacle)| {
                let name = if i == 0 { node.node.as_str() } else { "" };
                [name, obstacle.reasons.first().map_or("", String::as_str), obstacle.remedy.as_str()]
            })
        })
        .collect();
    let header = ["NODE", "WHY NOT", "WHAT WOULD HELP"];
    let width = |i: usize| rows.iter().chain([&header]).map(|row| row[i].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let mut text = String::new();
    for [node, reason, remedy] in [header].iter().chain(&rows) {
        let _ = writeln!(text, "{node:first$}  {reason:second$}  {remedy}");
    }
    if nodes.len() > MOST_NODES {
        let _ = writeln!(text, "and {} more nodes", nodes.len() - MOST_NODES);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn snapshot(nodes: &[(&str, Value)]) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (name, spec) in nodes {
            let node = json!({
                "metadata": {"name": name},
                "spec": spec,
                "status": {
                    "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            });
            snapshot.set_node(Arc::new(serde_json::from_value(node).unwrap()));
        }
        snapshot
    }

    fn check(nodes: &[(&str, Value)], spec: Value, expected: &str) {
        let mut pod = json!({
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3500m", "memory": "1Gi"}}}]},
        });
        pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let mut cluster = snapshot(nodes);
        let other = json!({
            "metadata": {"name": "other", "namespace": "default"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        });
        let info = |pod: Value| PodInfo::new(Arc::new(serde_json::from_value(pod).unwrap()));
        cluster.place(info(other), "small");
        assert_eq!(explain(&info(pod), &cluster), expected);
    }

    #[test]
    fn node_by_node_with_the_smallest_change() {
        let nodes = [
            ("cordoned", json!({"unschedulable": true})),
            ("small", json!({})),
            ("tainted", json!({"taints": [{"key": "gpu", "value": "only", "effect": "NoSchedule"}]})),
        ];
        let expected = "\
Pod default/web is Pending: none of 3 nodes takes it.

NODE      WHY NOT                                    WHAT WOULD HELP
cordoned  node(s) were unschedulable                 let the node take pods again: kubectl uncordon cordoned
small     Insufficient cpu                           request 500m less cpu (3500m wanted, 3 of 4 free)
tainted   node(s) had untolerated taint {gpu: only}  add a toleration of gpu=only:NoSchedule

Smallest change, for node cordoned: let the node take pods again: kubectl uncordon cordoned
";
        check(&nodes, json!({}), expected);
    }

    #[test]
    fn several_obstacles_on_one_node() {
        let expected = "\
Pod default/web is Pending: none of 1 nodes takes it.

NODE   WHY NOT                                            WHAT WOULD HELP
small  node(s) didn't match Pod's node affinity/selector  label the node: kubectl label node small disk=ssd --overwrite
       Insufficient cpu                                   request 500m less cpu (3500m wanted, 3 of 4 free)

Smallest change, for node small: label the node: kubectl label node small disk=ssd --overwrite; and \
request 500m less cpu (3500m wanted, 3 of 4 free)
";
        check(&[("small", json!({}))], json!({"nodeSelector": {"disk": "ssd"}}), expected);
    }

    #[test]
    fn what_is_not_a_matter_of_nodes() {
        let one = [("free", json!({}))];
        check(
            &[],
            json!({}),
            "Pod default/web is Pending: the cluster has no nodes. Start one: `minik8s server` without --no-agent.\n",
        );
        check(
            &one,
            json!({}),
            "Pod default/web is Pending: it fits on 1 of 1 nodes now (free); the scheduler binds it at its next try.\n",
        );
        check(
            &one,
            json!({"schedulingGates": [{"name": "a.io/x"}]}),
            "Pod default/web is Pending: it waits for its scheduling gates (a.io/x); whoever set them removes them from spec.schedulingGates.\n",
        );
        check(
            &one,
            json!({"schedulerName": "mine"}),
            "Pod default/web is Pending: it is left to the scheduler \"mine\", which is not minik8s' own; run that one, or remove spec.schedulerName.\n",
        );
        check(
            &one,
            json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}),
            "Pod default/web is Pending: persistentvolumeclaim \"data\" not found.\n\nSmallest change: create the PersistentVolumeClaim data\n",
        );
    }
}
