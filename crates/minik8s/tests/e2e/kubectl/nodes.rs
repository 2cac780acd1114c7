//! Nodes, made by hand: what an administrator does to them.

use super::case;
use crate::harness::Kubectl;

case![taints_and_cordons, a_node_file];

fn taints_and_cordons(k: &Kubectl) {
    let node = k.unique("node");
    k.run_with(&format!("apiVersion: v1\nkind: Node\nmetadata: {{name: {node}, labels: {{node-role.kubernetes.io/worker: ''}}}}\n"), "create -f -");
    k.run(&format!("taint node {node} disk=slow:NoSchedule")).says(&format!("node/{node} tainted"));
    k.fail(&format!("taint node {node} disk=fast:NoSchedule")).says("already has disk taint");
    k.run(&format!("taint node {node} disk=fast:NoSchedule --overwrite")).says("modified");
    k.run(&format!("get node {node} -o jsonpath='{{.spec.taints[?(@.key==\"disk\")]}}'")).says("fast");
    k.run(&format!("taint node {node} disk-")).says("untainted");
    k.run(&format!("cordon {node}")).says(&format!("node/{node} cordoned"));
    let line = k.run(&format!("get node {node}"));
    assert_eq!(line.header(), ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]);
    line.says("SchedulingDisabled").says("worker");
    k.run(&format!("cordon {node}")).says("already cordoned");
    k.run(&format!("uncordon {node}")).says(&format!("node/{node} uncordoned"));
    k.run(&format!("label node {node} zone=a")).says("labeled");
    k.run("get nodes -l zone=a -o name").says(&node);
    k.run(&format!("patch node {node} --subresource=status --type=merge \
        -p '{{\"status\":{{\"capacity\":{{\"cpu\":\"4\",\"memory\":\"8Gi\"}},\"addresses\":[{{\"type\":\"InternalIP\",\"address\":\"192.0.2.7\"}}]}}}}'"));
    k.run(&format!("get node {node} -o wide")).says("192.0.2.7");
    k.run(&format!("describe node {node}")).says("Unschedulable:      false").says("8Gi");
    k.run(&format!("drain {node} --ignore-daemonsets")).says("drained");
    k.run(&format!("delete node {node}")).says("deleted");
}

/// The file that `minik8s agent --node-config` takes.
fn a_node_file(k: &Kubectl) {
    let node = k.unique("node");
    let file = format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: {node}, labels: {{zone: b}}}}\n\
         spec: {{taints: [{{key: gpu, value: 'yes', effect: NoSchedule}}]}}\n\
         status: {{capacity: {{cpu: '3', example.com/gpu: '2'}}}}\n"
    );
    k.run_with(&file, "apply -f -").says(&format!("node/{node} created"));
    let told = k.run(&format!("describe node {node}"));
    told.says("zone=b").says("gpu=yes:NoSchedule").says("example.com/gpu");
    k.run_with(&file.replace("zone: b", "zone: c"), "apply -f -").says("configured");
    k.run(&format!("get node {node} -o jsonpath='{{.metadata.labels.zone}}'")).says("c");
    k.run(&format!("delete node {node}")).says("deleted");
}
