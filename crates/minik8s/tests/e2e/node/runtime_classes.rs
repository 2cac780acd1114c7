//! Pods that say how they want to be run.

use http::Method;
use serde_json::{Value, json};

use super::resources::limit;
use super::space::{IDLE, Space, idle, shell};

const CLASSES: &str = "/apis/node.k8s.io/v1/runtimeclasses";

pub async fn runtime_classes(space: Space) {
    let class = async |name: &str, handler: &str, more: Value| {
        let mut class = json!({"metadata": {"name": name}, "handler": handler});
        class.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        space.send(Method::POST, CLASSES, class).await.unwrap();
    };
    let with = |class: &str, mut spec: Value| {
        spec["runtimeClassName"] = class.into();
        spec
    };
    let own = |class: &str| format!("{}-{class}", space.name);
    class(&own("plain"), "runc", json!({})).await;
    class(&own("heavy"), "runc", json!({"overhead": {"podFixed": {"cpu": "10m", "memory": "4Mi"}}})).await;
    class(&own("strange"), "nobodys-handler", json!({})).await;

    space.pod("plain", with(&own("plain"), idle())).await;
    let mut main = shell("main", IDLE);
    main["resources"] = json!({"limits": {"cpu": "100m", "memory": "16Mi"}});
    space.pod("heavy", with(&own("heavy"), json!({"containers": [main]}))).await;
    space.pod("strange", with(&own("strange"), idle())).await;
    space.ready("plain").await;
    let pod = space.ready("heavy").await;
    assert_eq!(pod["spec"]["overhead"], json!({"cpu": "10m", "memory": "4Mi"}));
    let memory =
        |of_container| limit(&space, &pod, of_container, ("memory", "memory.limit_in_bytes"), "memory.max");
    assert_eq!(memory(true), (16_u64 << 20).to_string());
    assert_eq!(memory(false), (20_u64 << 20).to_string(), "the pod has the overhead besides");

    // Scheduled, as the class exists; the node knows no such handler and says so.
    space.event("strange", "FailedCreatePodSandBox", "nobodys-handler").await;
    let pod = space.get(&space.path("pods", "strange")).await.unwrap();
    assert_eq!(
        (&pod["status"]["phase"], &pod["spec"]["nodeName"]),
        (&json!("Pending"), &json!(crate::harness::cluster::NODE))
    );

    let refused = async |class: &str| {
        let pod = json!({"metadata": {"name": "late"}, "spec": with(class, idle())});
        let refused = space.send(Method::POST, &space.path("pods", ""), pod).await.unwrap_err().to_string();
        assert!(refused.contains(&format!("pod rejected: RuntimeClass \"{class}\" not found")), "{refused}");
    };
    refused(&own("never")).await;
    space.send(Method::DELETE, &format!("{CLASSES}/{}", own("plain")), Value::Null).await.unwrap();
    refused(&own("plain")).await;
}
