//! What cannot start says why, in Kubernetes' words, and starts when the cause is gone.

use http::Method;
use minik8s_kubelet::image::{BUSYBOX, busybox};
use serde_json::{Value, json};

use super::space::{Space, condition, idle, once, shell, state};
use crate::harness::cluster::load_image;

pub async fn missing_images(space: Space) {
    let image = |image: &str, policy: &str| {
        let mut spec = idle();
        spec["containers"][0]["image"] = image.into();
        spec["containers"][0]["imagePullPolicy"] = policy.into();
        spec
    };
    let later = format!("localhost:1/{}:1", space.name);
    space.pod("absent", image(&later, "IfNotPresent")).await;
    space.pod("never", image("minik8s.io/nothing:1", "Never")).await;
    space.pod("invalid", image("Not A Name", "IfNotPresent")).await;
    space.waiting("never", "ErrImageNeverPull").await;
    space.waiting("invalid", "InvalidImageName").await;
    space.event("absent", "Failed", "Failed to pull image").await;
    let pod = space.waiting("absent", "ImagePullBackOff").await;
    let message = state(&pod)["waiting"]["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("Back-off pulling image \"{later}\"")), "{message}");
    assert_eq!(pod["status"]["phase"], "Pending");
    let logs = space.try_kubectl(&["logs", "absent"]).await;
    assert!(logs.code != 0 && logs.err.contains("waiting to start"), "{logs:?}");
    load_image(&space.cluster.dir, "later.tar", busybox().unwrap().named(&later));
    let pod = space.ready("absent").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    // An image can be replaced in a running pod.
    space.kubectl(&["set", "image", "pod/absent", &format!("main={BUSYBOX}")]).await;
    let replaced = |pod: &Value| {
        pod["status"]["containerStatuses"][0]["restartCount"] == 1 && state(pod)["running"].is_object()
    };
    let pod = space.until("absent", "replaced", replaced).await;
    assert_eq!(pod["spec"]["containers"][0]["image"], BUSYBOX);
}

pub async fn a_missing_command(space: Space) {
    space.pod("command", json!({"containers": [{"name": "main", "command": ["/not/there"]}]})).await;
    let mut spec = once("true");
    spec["containers"][0]["workingDir"] = "/made/on/demand".into();
    spec["containers"][0]["command"] = json!(["pwd"]);
    assert_eq!(space.output("directory", spec).await, "/made/on/demand\n");
    let last = |pod: &Value| pod["status"]["containerStatuses"][0]["lastState"]["terminated"].clone();
    let pod = space.until("command", "StartError", |pod| last(pod)["reason"] == "StartError").await;
    assert_eq!(last(&pod)["exitCode"], 128);
    assert!(
        last(&pod)["message"].as_str().unwrap().contains("no such file or directory"),
        "{:#}",
        last(&pod)
    );
    let reason = state(&pod)["waiting"]["reason"].as_str().unwrap_or_default().to_owned();
    assert!(["RunContainerError", "CrashLoopBackOff"].contains(&reason.as_str()), "{reason}");
    space.event("command", "Failed", "no such file or directory").await;
}

pub async fn missing_objects(space: Space) {
    let mut main = shell("main", "test $V = v && sleep 1000");
    main["env"] = json!([{"name": "V", "valueFrom": {"configMapKeyRef": {"name": "later", "key": "k"}}}]);
    let mut all = shell("main", "test $k = v && sleep 1000");
    all["envFrom"] = json!([{"secretRef": {"name": "later"}}]);
    space.pod("key", json!({"containers": [main]})).await;
    space.pod("all", json!({"containers": [all]})).await;
    let pod = space.waiting("key", "CreateContainerConfigError").await;
    assert_eq!(state(&pod)["waiting"]["message"], "configmap \"later\" not found");
    let pod = space.waiting("all", "CreateContainerConfigError").await;
    assert_eq!(state(&pod)["waiting"]["message"], "secret \"later\" not found");
    space.config_map("later", json!({"other": "v"})).await;
    space.secret("later", json!({"k": "v"})).await;
    space.ready("all").await;
    let says = |pod: &Value| {
        state(pod)["waiting"]["message"]
            .as_str()
            .is_some_and(|m| m.contains("couldn't find key k in ConfigMap"))
    };
    space.until("key", "another complaint", says).await;
    space.change("configmaps", "later", json!({"data": {"k": "v"}})).await;
    space.ready("key").await;
}

pub async fn missing_volumes(space: Space) {
    let mut spec = idle();
    spec["volumes"] = json!([{"name": "s", "secret": {"secretName": "later"}}]);
    space.pod("pod", spec).await;
    space.event("pod", "FailedMount", "MountVolume.SetUp failed for volume \"s\"").await;
    space.waiting("pod", "ContainerCreating").await;
    space.secret("later", json!({"k": "v"})).await;
    let pod = space.ready("pod").await;
    assert_eq!((&pod["status"]["reason"], &pod["status"]["message"]), (&Value::Null, &Value::Null));
}

/// A pod that is deleted before it ran has failed: its Job can count it, ends, and lets its namespace go.
pub async fn a_job_whose_pod_never_started(space: Space) {
    let ignored =
        json!({"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
    let mut template = once("true");
    template["containers"][0]["image"] = "localhost:1/nothing:1".into();
    let spec =
        json!({"backoffLimit": 0, "podFailurePolicy": {"rules": [ignored]}, "template": {"spec": template}});
    let jobs = format!("/apis/batch/v1/namespaces/{}/jobs", space.name);
    space.send(Method::POST, &jobs, json!({"metadata": {"name": "job"}, "spec": spec})).await.unwrap();
    let mut name = String::new();
    space
        .eventually("a pod that cannot pull its image", async || {
            let pods = space.get(&space.path("pods", "")).await.unwrap_or_default();
            name = pods["items"][0]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            !state(&pods["items"][0])["waiting"]["reason"].is_null() && !name.is_empty()
        })
        .await;
    space.delete(&name, 1).await;
    space.deleted(&name).await;
    space
        .eventually("a Job that has failed", async || {
            let job = space.get(&format!("{jobs}/job")).await.unwrap_or_default();
            condition(&job, "Failed")["status"] == "True" && job["status"]["failed"] == 1
        })
        .await;
    let namespace = format!("/api/v1/namespaces/{}", space.name);
    space.send(Method::DELETE, &namespace, Value::Null).await.unwrap();
    space.eventually("gone", async || space.get(&namespace).await.is_none()).await;
}
