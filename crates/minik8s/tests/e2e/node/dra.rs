//! Devices that pods claim (`resource.k8s.io`), on a real node with a real driver (`dra_driver.rs`).

use http::Method;
use minik8s_kubelet::image::BUSYBOX;
use serde_json::{Value, json};

use super::dra_driver::Driver;
use super::space::{IDLE, Space, said, shell};
use crate::harness::cluster::NODE;

const RESOURCE: &str = "/apis/resource.k8s.io/v1";

impl Space {
    fn claim_path(&self, resource: &str, name: &str) -> String {
        format!("{RESOURCE}/namespaces/{}/{resource}/{name}", self.name)
    }

    async fn make(&self, resource: &str, name: &str, spec: Value) {
        let path = format!("{RESOURCE}/namespaces/{}/{resource}", self.name);
        self.send(Method::POST, &path, json!({"metadata": {"name": name}, "spec": spec})).await.unwrap();
    }

    /// A driver with two devices on the node, and a class of them.
    async fn deploy_devices(&self, state: &std::path::Path) -> Driver {
        let name = format!("{}.dra.example", self.name);
        // Writes the kubeconfig that the driver has, too.
        drop(self.command("true"));
        let kubeconfig = self.cluster.dir.join(format!("{}.kubeconfig", self.name));
        let driver = Driver::start(&name, state, &self.cluster.config().data_dir, &kubeconfig);
        let devices: Vec<Value> = (0..2)
            .map(|at| json!({"name": format!("gpu-{at}"), "attributes": {"index": {"int": at}}}))
            .collect();
        let spec = json!({"driver": name, "nodeName": NODE, "devices": devices,
            "pool": {"name": NODE, "generation": 1, "resourceSliceCount": 1}});
        let slice = json!({"metadata": {"name": name}, "spec": spec});
        self.send(Method::POST, &format!("{RESOURCE}/resourceslices"), slice).await.unwrap();
        driver
    }

    fn one_device(&self) -> Value {
        let class = format!("{}.dra.example", self.name);
        json!({"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": class}}]}})
    }

    /// A pod whose first container has what it claims; the second does not.
    fn claiming(&self, script: &str, claim: Value) -> Value {
        let mut main = shell("main", script);
        main["resources"] = json!({"claims": [{"name": "gpu"}]});
        let mut entry = json!({"name": "gpu"});
        entry.as_object_mut().unwrap().extend(claim.as_object().unwrap().clone());
        json!({"containers": [main, shell("beside", &format!("[ ! -e /dev/claimed ] && {{ {IDLE}; }}"))],
            "resourceClaims": [entry], "terminationGracePeriodSeconds": 1})
    }

    async fn made_claim(&self, pod: &str) -> String {
        let pod = self.get(&self.path("pods", pod)).await.unwrap();
        pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"].as_str().unwrap().to_owned()
    }
}

/// The whole life of claims: from templates and shared, too few devices, and a driver that fails, dies and comes back.
pub async fn claimed_devices(space: Space) {
    let state = tempfile::tempdir().unwrap();
    let driver = space.deploy_devices(state.path()).await;
    let name = driver.name.clone();
    // The example: its class, its template, and a pod that sees its device.
    let example = include_str!("../../../../../examples/gpu/claim.yaml");
    let example = example.replace("gpu.example.com", &name).replace("busybox:1", BUSYBOX);
    let applied = space.kubectl_with_input(&["apply", "-f", "-"], example.as_bytes()).await;
    assert_eq!(applied.code, 0, "{applied:?}");
    space.phase("claims-a-gpu", "Succeeded").await;
    assert_eq!(space.kubectl(&["logs", "claims-a-gpu"]).await, "gpu-0\n");
    space.make("resourceclaims", "shared", space.one_device()).await;
    let template = json!({"resourceClaimTemplateName": "one"});
    let shared = json!({"resourceClaimName": "shared"});

    // A claim made for the pod: its device is in the container that wants it, and in no other.
    let check = format!(
        "test -c /dev/claimed/gpu-0 && [ $CLAIMED_gpu_0 = yes ] && id -G | grep 4711 && {{ {IDLE}; }}"
    );
    space.pod("first", space.claiming(&check, template.clone())).await;
    space.ready("first").await;
    let made = space.made_claim("first").await;
    assert_eq!(driver.heard("NodePrepareResources", &made), 1);
    let told = driver.hook_heard("gpu-0");
    assert!(told["status"].is_string() && told["bundle"].is_string(), "the device's hook ran: {told}");
    let shown = space.kubectl(&["get", "resourceclaims", &made]).await;
    assert!(shown.contains("allocated,reserved"), "{shown}");

    // Pods that share a claim share its device.
    let check = format!("test -c /dev/claimed/gpu-1 && {{ {IDLE}; }}");
    for pod in ["sharing-a", "sharing-b"] {
        space.pod(pod, space.claiming(&check, shared.clone())).await;
        space.ready(pod).await;
    }
    assert_eq!(driver.heard("NodePrepareResources", "shared"), 1, "prepared once for both");

    // There are no more, and that is told.
    space.pod("third", space.claiming(IDLE, template)).await;
    space.event("third", "FailedScheduling", "0 of 2 that match are free").await;
    let why =
        said(space.command(env!("CARGO_BIN_EXE_minik8s")).args(["why", "pod/third"]).output().await.unwrap());
    assert!(why.out.contains("request gpu") && why.out.contains("give devices of class"), "{why:?}");

    // A claim in use cannot go; what is over gives its device back.
    space.send(Method::DELETE, &space.claim_path("resourceclaims", "shared"), json!({})).await.unwrap();
    space.delete("first", 1).await;
    space.deleted("first").await;
    space.ready("third").await;
    assert_eq!(driver.heard("NodeUnprepareResources", &made), 1);
    space
        .eventually("the claim of the first pod is gone", async || {
            space.get(&space.claim_path("resourceclaims", &made)).await.is_none()
        })
        .await;
    assert!(space.get(&space.claim_path("resourceclaims", "shared")).await.is_some(), "two pods use it");
    for pod in ["sharing-a", "sharing-b"] {
        space.delete(pod, 1).await;
        space.deleted(pod).await;
    }
    assert_eq!(driver.heard("NodeUnprepareResources", "shared"), 1, "once, after the last");
    space
        .eventually("the shared claim is gone", async || {
            space.get(&space.claim_path("resourceclaims", "shared")).await.is_none()
        })
        .await;

    // A driver that refuses, and one that was killed while its pod ran.
    driver.set_broken(true);
    space.make("resourceclaims", "again", space.one_device()).await;
    space.pod("again", space.claiming(IDLE, json!({"resourceClaimName": "again"}))).await;
    space.event("again", "FailedPrepareDynamicResources", "the device is on fire").await;
    driver.set_broken(false);
    space.ready("again").await;
    drop(driver);
    let kubeconfig = space.cluster.dir.join(format!("{}.kubeconfig", space.name));
    let driver = Driver::start(&name, state.path(), &space.cluster.config().data_dir, &kubeconfig);
    for pod in ["again", "third"] {
        space.delete(pod, 1).await;
        space.deleted(pod).await;
    }
    assert_eq!(driver.heard("NodeUnprepareResources", "again"), 1);
    space
        .eventually("the devices are free", async || {
            let claim = space.get(&space.claim_path("resourceclaims", "again")).await.unwrap();
            claim["status"]["allocation"].is_null() && claim["status"]["reservedFor"].is_null()
        })
        .await;
    devices_made_ready_for_a_pod(&space, &name).await;
    for path in ["deviceclasses", "resourceslices"] {
        space.send(Method::DELETE, &format!("{RESOURCE}/{path}/{name}"), json!({})).await.unwrap();
    }
}

/// A device that is made ready only after it was chosen (`bindingConditions`): the pod is bound when it is, and tried again
/// when it cannot be.
async fn devices_made_ready_for_a_pod(space: &Space, driver: &str) {
    let device = json!({"name": "gpu-0", "attributes": {"index": {"int": 0}}, "bindsToNode": true,
        "bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]});
    let spec = json!({"pool": {"generation": 2}, "devices": [device]});
    let slice = format!("{RESOURCE}/resourceslices/{driver}");
    space.send(Method::PATCH, &slice, json!({"spec": spec})).await.unwrap();
    let claim = space.claim_path("resourceclaims", "again");
    let tell = async |kind: &str| {
        let condition = json!({"type": kind, "status": "True", "reason": "Test", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let told = json!([{"driver": driver, "pool": NODE, "device": "gpu-0", "conditions": [condition]}]);
        let status = json!({"status": {"devices": told}});
        space.send(Method::PATCH, &format!("{claim}/status"), status).await.unwrap();
    };
    let chosen = async || {
        space
            .eventually("the device is chosen", async || {
                let claim = space.get(&claim).await.unwrap();
                claim["status"]["allocation"]["devices"]["results"][0]["bindingConditions"]
                    == json!(["Attached"])
            })
            .await;
    };
    space.pod("attached", space.claiming(IDLE, json!({"resourceClaimName": "again"}))).await;
    chosen().await;
    let pod = space.get(&space.path("pods", "attached")).await.unwrap();
    assert!(pod["spec"]["nodeName"].is_null(), "it waits for its device");
    tell("Broken").await;
    space.event("attached", "FailedScheduling", "device gpu-0 of resourceclaim again: Broken").await;
    space
        .eventually("the device goes back, and is chosen again", async || {
            let claim = space.get(&claim).await.unwrap();
            claim["status"]["allocation"].is_object() && claim["status"]["devices"].is_null()
        })
        .await;
    tell("Attached").await;
    space.ready("attached").await;
    space.delete("attached", 1).await;
    space.deleted("attached").await;
}
