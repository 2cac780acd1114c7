//! Pods that the node refuses although they are bound to it, and what their controllers make of it.

use std::time::Duration;

use http::Method;
use minik8s_kubelet::image::BUSYBOX;
use serde_json::{Value, json};

use super::space::{Space, idle};
use crate::harness::cluster::NODE;
use crate::harness::ranges::Number;

/// Those from here on, which nobody else on the machine takes.
const PORTS: u16 = 18_100;

fn on_the_node(extra: Value) -> Value {
    let mut spec = idle();
    spec["nodeName"] = NODE.into();
    spec["containers"][0]["image"] = BUSYBOX.into();
    spec["terminationGracePeriodSeconds"] = 1.into();
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    spec
}

fn with_port(port: u16) -> Value {
    let mut spec = on_the_node(json!({}));
    spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": port}]);
    spec
}

async fn set(space: &Space, kind: &str, spec: Value) {
    let labels = json!({"set": kind});
    let replicas = json!({"replicas": 1, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": spec}});
    let path = format!("/apis/apps/v1/namespaces/{}/{kind}", space.name);
    space.send(Method::POST, &path, json!({"metadata": {"name": "set"}, "spec": replicas})).await.unwrap();
}

/// A StatefulSet's pod gets its port when the one that held it is gone.
pub async fn rejected_pods_come_back(space: Space) {
    let number = Number::claim("host-port", 500);
    let port = PORTS + u16::try_from(number.value).unwrap();
    space.pod("holder", with_port(port)).await;
    space.ready("holder").await;
    set(&space, "statefulsets", with_port(port)).await;
    let refused = space.until("set-0", "refused", |pod| pod["status"]["reason"] == "NodePorts").await;
    assert_eq!(refused["status"]["phase"], "Failed");
    let message = refused["status"]["message"].as_str().unwrap();
    assert!(message.starts_with("Pod was rejected: Predicate NodePorts failed: "), "{message}");
    space.event("set-0", "NodePorts", "didn't have free ports").await;
    space.delete("holder", 1).await;
    let pod = space.ready("set-0").await;
    assert_ne!(pod["metadata"]["uid"], refused["metadata"]["uid"]);
}

/// What is refused again and again is not made again at once.
pub async fn rejected_pods_are_replaced_with_pauses(space: Space) {
    let nowhere = json!({"nodeSelector": {"example.com/none": "such"}});
    set(&space, "replicasets", on_the_node(nowhere)).await;
    let refused = async || {
        let pods = space.get(&space.path("pods", "")).await.unwrap_or_default();
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        pods.iter().filter(|pod| pod["status"]["reason"] == "NodeAffinity").count()
    };
    space.eventually("three of them", async || refused().await >= 3).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let count = refused().await;
    assert!(count <= 4, "{count} pods: nobody waits between them");
}
