use std::collections::HashSet;

use serde_json::{Value, json};

use super::*;

fn written(write: StateMetrics, objects: Value) -> String {
    let mut page = Page::default();
    write(objects.as_array().unwrap(), &mut page);
    page.finish()
}

fn check(write: StateMetrics, objects: Value, lines: &[&str]) {
    let page = written(write, objects);
    for line in lines {
        assert!(page.lines().any(|found| found == *line), "{line} is not in\n{page}");
    }
}

#[test]
fn pods() {
    let pod = json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "creationTimestamp": "1970-01-01T00:01:00Z",
            "ownerReferences": [{"kind": "ReplicaSet", "name": "rs", "controller": true}]},
        "spec": {"nodeName": "n", "restartPolicy": "Always", "containers": [{"name": "c", "resources": {
            "requests": {"cpu": "250m", "memory": "1Mi"}, "limits": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "hostIP": "1.2.3.4",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "c", "ready": true, "restartCount": 3, "image": "i", "imageID": "d",
                "containerID": "x", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"reason": "OOMKilled"}}}]},
    });
    check(
        super::pods::pods,
        json!([pod]),
        &[
            "kube_pod_info{namespace=\"ns\",pod=\"p\",uid=\"u\",host_ip=\"1.2.3.4\",pod_ip=\"10.0.0.1\",node=\"n\",created_by_kind=\"ReplicaSet\",created_by_name=\"rs\",priority_class=\"\",host_network=\"false\"} 1",
            "kube_pod_created{namespace=\"ns\",pod=\"p\"} 60",
            "kube_pod_status_phase{namespace=\"ns\",pod=\"p\",phase=\"Running\"} 1",
            "kube_pod_status_phase{namespace=\"ns\",pod=\"p\",phase=\"Failed\"} 0",
            "kube_pod_status_ready{namespace=\"ns\",pod=\"p\",condition=\"true\"} 1",
            "kube_pod_container_status_restarts_total{namespace=\"ns\",pod=\"p\",container=\"c\"} 3",
            "kube_pod_container_status_ready{namespace=\"ns\",pod=\"p\",container=\"c\"} 1",
            "kube_pod_container_status_waiting{namespace=\"ns\",pod=\"p\",container=\"c\"} 1",
            "kube_pod_container_status_running{namespace=\"ns\",pod=\"p\",container=\"c\"} 0",
            "kube_pod_container_status_waiting_reason{namespace=\"ns\",pod=\"p\",container=\"c\",reason=\"CrashLoopBackOff\"} 1",
            "kube_pod_container_status_last_terminated_reason{namespace=\"ns\",pod=\"p\",container=\"c\",reason=\"OOMKilled\"} 1",
            "kube_pod_container_resource_requests{namespace=\"ns\",pod=\"p\",container=\"c\",node=\"n\",resource=\"cpu\",unit=\"core\"} 0.25",
            "kube_pod_container_resource_requests{namespace=\"ns\",pod=\"p\",container=\"c\",node=\"n\",resource=\"memory\",unit=\"byte\"} 1048576",
            "kube_pod_container_resource_limits{namespace=\"ns\",pod=\"p\",container=\"c\",node=\"n\",resource=\"nvidia_com_gpu\",unit=\"integer\"} 1",
        ],
    );
}

#[test]
fn others() {
    let meta = json!({"name": "x", "namespace": "ns", "generation": 2});
    check(
        workloads::deployments,
        json!([{"metadata": meta, "spec": {"replicas": 3}, "status": {"replicas": 2,
            "conditions": [{"type": "Available", "status": "False"}]}}]),
        &[
            "kube_deployment_spec_replicas{namespace=\"ns\",deployment=\"x\"} 3",
            "kube_deployment_status_replicas{namespace=\"ns\",deployment=\"x\"} 2",
            "kube_deployment_status_replicas_ready{namespace=\"ns\",deployment=\"x\"} 0",
            "kube_deployment_metadata_generation{namespace=\"ns\",deployment=\"x\"} 2",
            "kube_deployment_status_condition{namespace=\"ns\",deployment=\"x\",condition=\"Available\",status=\"false\"} 1",
        ],
    );
    check(
        workloads::autoscalers,
        json!([{"metadata": meta, "spec": {"maxReplicas": 9, "scaleTargetRef": {"kind": "Deployment"}, "metrics": [
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}}]),
        &[
            "kube_horizontalpodautoscaler_spec_max_replicas{namespace=\"ns\",horizontalpodautoscaler=\"x\"} 9",
            "kube_horizontalpodautoscaler_spec_target_metric{namespace=\"ns\",horizontalpodautoscaler=\"x\",metric_name=\"cpu\",metric_target_type=\"utilization\"} 50",
        ],
    );
    check(
        cluster::nodes,
        json!([{"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "2", "memory": "1Ki"},
            "conditions": [{"type": "Ready", "status": "True"}]}}]),
        &[
            "kube_node_status_capacity{node=\"n\",resource=\"cpu\",unit=\"core\"} 2",
            "kube_node_status_capacity{node=\"n\",resource=\"memory\",unit=\"byte\"} 1024",
            "kube_node_status_condition{node=\"n\",condition=\"Ready\",status=\"true\"} 1",
            "kube_node_spec_unschedulable{node=\"n\"} 0",
        ],
    );
    check(
        cluster::namespaces,
        json!([{"metadata": {"name": "a"}, "status": {"phase": "Active"}}]),
        &["kube_namespace_status_phase{namespace=\"a\",phase=\"Active\"} 1"],
    );
    check(
        storage::claims,
        json!([{"metadata": meta, "spec": {"resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Bound"}}]),
        &[
            "kube_persistentvolumeclaim_resource_requests_storage_bytes{namespace=\"ns\",persistentvolumeclaim=\"x\"} 1073741824",
            "kube_persistentvolumeclaim_status_phase{namespace=\"ns\",persistentvolumeclaim=\"x\",phase=\"Bound\"} 1",
        ],
    );
}

/// Each family is announced once, whatever odd objects there are.
#[test]
fn families_are_unique() {
    let odd = json!([{}, {"metadata": 1, "spec": [], "status": "x"}, null]);
    let mut seen = HashSet::new();
    for (_, _, plural, write) in KINDS {
        for line in written(*write, odd.clone()).lines().filter(|line| line.starts_with("# TYPE")) {
            assert!(seen.insert(line.split(' ').nth(2).unwrap().to_owned()), "{plural}: {line}");
        }
    }
    assert!(seen.len() > 80, "{}", seen.len());
}
