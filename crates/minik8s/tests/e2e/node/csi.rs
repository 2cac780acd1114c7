//! Volumes of a CSI driver, on a real node with a real driver (`csi_driver.rs`).

use http::Method;
use serde_json::{Value, json};

use super::csi_driver::Driver;
use super::space::{Space, idle, once};
use super::volume_snapshots;
use crate::harness::cluster::NODE;

const DRIVERS: &str = "/apis/storage.k8s.io/v1/csidrivers";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
pub const SNAPSHOT_CLASSES: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses";
pub const ATTRIBUTES_CLASSES: &str = "/apis/storage.k8s.io/v1/volumeattributesclasses";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

/// A driver that nobody but minik8s calls, its class, and what must go with them.
pub struct Deployed {
    pub driver: Driver,
    _state: tempfile::TempDir,
}

impl Space {
    pub async fn deploy(&self) -> Deployed {
        let name = format!("{}.csi.example", self.name);
        let state = tempfile::tempdir().unwrap();
        let driver = Driver::start(&name, state.path(), &self.cluster.config().data_dir);
        let csi_driver = json!({"metadata": {"name": name, "annotations": {"csi.minik8s.io/controller": "agent"}},
            "spec": {"podInfoOnMount": true, "fsGroupPolicy": "File", "volumeLifecycleModes": ["Persistent", "Ephemeral"],
                "tokenRequests": [{"audience": "vault", "expirationSeconds": 600}]}});
        self.send(Method::POST, DRIVERS, csi_driver).await.unwrap();
        let class = json!({"metadata": {"name": name}, "provisioner": name, "allowVolumeExpansion": true,
            "volumeBindingMode": "WaitForFirstConsumer", "parameters": {"colour": "blue"}});
        self.send(Method::POST, CLASSES, class).await.unwrap();
        let deployed = Deployed { driver, _state: state };
        self.registered(&name).await;
        deployed
    }

    async fn registered(&self, name: &str) {
        self.eventually("registered", async || {
            let drivers = self.drivers_of_node().await;
            drivers.iter().any(|driver| driver["name"] == name && driver["allocatable"]["count"] == 100)
        })
        .await;
    }

    async fn drivers_of_node(&self) -> Vec<Value> {
        let node = self.get(&format!("/apis/storage.k8s.io/v1/csinodes/{NODE}")).await.unwrap_or_default();
        node["spec"]["drivers"].as_array().cloned().unwrap_or_default()
    }

    pub async fn undeploy(&self, deployed: Deployed) {
        let name = deployed.driver.name.clone();
        assert!(deployed.driver.list("volumes").is_empty() && deployed.driver.list("attached").is_empty());
        for path in [DRIVERS, CLASSES] {
            self.send(Method::DELETE, &format!("{path}/{name}"), json!({})).await.unwrap();
        }
        let data_dir = self.cluster.config().data_dir;
        drop(deployed);
        std::fs::remove_file(data_dir.join("plugins_registry").join(format!("{name}-reg.sock"))).unwrap();
        // By its whole name, which may be the end of another's.
        self.eventually("forgotten", async || {
            self.drivers_of_node().await.iter().all(|driver| driver["name"] != name.as_str())
        })
        .await;
    }

    pub fn wish(&self, name: &str, size: &str, mode: &str) -> Value {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": mode,
            "storageClassName": format!("{}.csi.example", self.name), "resources": {"requests": {"storage": size}}}})
    }

    /// The volume of a claim that is bound.
    pub async fn csi_volume(&self, claim: &str) -> Value {
        let path = self.path("persistentvolumeclaims", claim);
        let mut found = Value::Null;
        self.eventually(&format!("{claim} bound"), async || {
            found = self.get(&path).await.unwrap_or_default();
            found["status"]["phase"] == "Bound"
        })
        .await;
        let name = found["spec"]["volumeName"].as_str().unwrap();
        self.get(&format!("/api/v1/persistentvolumes/{name}")).await.unwrap()
    }

    async fn attachments(&self, volume: &str) -> Vec<Value> {
        let all = self.get(ATTACHMENTS).await.unwrap();
        let of_volume = |one: &&Value| one["spec"]["source"]["persistentVolumeName"] == volume;
        all["items"].as_array().into_iter().flatten().filter(of_volume).cloned().collect()
    }

    async fn detached(&self, volume: &str) {
        self.eventually("detached", async || self.attachments(volume).await.is_empty()).await;
    }

    async fn finish(&self, pod: &str) {
        self.delete(pod, 0).await;
        self.deleted(pod).await;
    }

    async fn drop_claim(&self, claim: &str, volume: &str) {
        self.send(Method::DELETE, &self.path("persistentvolumeclaims", claim), json!({})).await.unwrap();
        let path = format!("/api/v1/persistentvolumes/{volume}");
        self.eventually(&format!("{volume} gone"), async || self.get(&path).await.is_none()).await;
    }

    async fn node_status(&self) -> Value {
        self.get(&format!("/api/v1/nodes/{NODE}")).await.unwrap()["status"].clone()
    }
}

pub fn mounting(mut spec: Value, claim: &str) -> Value {
    spec["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    spec
}

/// Made, attached, staged, published, grown, measured; and all of it back.
pub async fn volumes_of_a_driver(space: Space) {
    let deployed = space.deploy().await;
    let driver = &deployed.driver;
    space.create("persistentvolumeclaims", space.wish("data", "16Mi", "Filesystem")).await;
    let mut spec = mounting(idle(), "data");
    spec["securityContext"] = json!({"fsGroup": 1234});
    space.pod("first", spec).await;
    space.ready("first").await;
    let script = "echo kept > /data/f; stat -c %g /data";
    assert_eq!(space.kubectl(&["exec", "first", "--", "sh", "-c", script]).await, "1234\n");
    let volume = space.csi_volume("data").await;
    let name = volume["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(volume["spec"]["csi"]["volumeAttributes"], json!({"colour": "blue"}));
    let term = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0];
    assert_eq!(term["values"], json!(["here"]));
    let unique = format!("kubernetes.io/csi/{}^{name}", driver.name);
    let attachments = space.attachments(&name).await;
    assert_eq!(attachments.len(), 1);
    assert_eq!(attachments[0]["status"]["attachmentMetadata"]["attached-as"], json!(name));
    // Others have volumes on this node too.
    let status = space.node_status().await;
    let listed = |list: &Value| list.as_array().into_iter().flatten().any(|one| *one == unique.as_str());
    let attached: Vec<Value> =
        status["volumesAttached"].as_array().into_iter().flatten().map(|one| one["name"].clone()).collect();
    assert!(listed(&attached.into()) && listed(&status["volumesInUse"]), "{status}");
    assert_eq!(
        std::fs::read_to_string(driver.state.join("volumes").join(&name).join("f")).unwrap(),
        "kept\n"
    );
    let line = format!(
        "kubelet_volume_stats_used_bytes{{namespace=\"{}\",persistentvolumeclaim=\"data\"}} 400",
        space.name
    );
    // A page does without a driver that is late.
    space
        .eventually(&line, async || {
            let page = space.kubectl(&["get", "--raw", &format!("/api/v1/nodes/{NODE}/proxy/metrics")]).await;
            page.lines().any(|found| found == line)
        })
        .await;

    // A second pod of the node shares what is staged.
    assert_eq!(space.output("second", mounting(once("cat /data/f"), "data")).await, "kept\n");
    space.finish("second").await;
    space.finish("first").await;
    space.detached(&name).await;
    let status = space.node_status().await;
    assert!(!listed(&status["volumesInUse"]), "{status}");
    let staged = space.cluster.config().plugins_dir().join("kubernetes.io/csi").join(&driver.name);
    assert!(std::fs::read_dir(staged).unwrap().next().is_none(), "nothing stays staged");

    let path = space.path("persistentvolumeclaims", "data");
    let size = json!({"spec": {"resources": {"requests": {"storage": "32Mi"}}}});
    space.send(Method::PATCH, &path, size).await.unwrap();
    space
        .eventually("to be grown", async || {
            let claim = space.get(&path).await.unwrap();
            claim["status"]["conditions"][0]["type"] == "FileSystemResizePending"
        })
        .await;
    assert_eq!(space.output("third", mounting(once("cat /data/f"), "data")).await, "kept\n");
    space
        .eventually("larger", async || {
            let claim = space.get(&path).await.unwrap();
            let status = &claim["status"];
            status["capacity"]["storage"] == "32Mi" && status["conditions"].is_null()
        })
        .await;
    let calls = driver.calls();
    for call in [
        "ControllerExpandVolume ok",
        "NodeExpandVolume ok",
        "NodeUnstageVolume ok",
        "ControllerUnpublishVolume ok",
    ] {
        assert!(calls.lines().any(|line| line == call), "{call} in\n{calls}");
    }
    space.finish("third").await;
    space.drop_claim("data", &name).await;
    space.undeploy(deployed).await;
}

/// The secrets and tokens that a driver is told; once a minute, it is told again, and makes larger what has grown.
pub async fn volumes_of_a_running_pod(space: Space) {
    let deployed = space.deploy().await;
    let driver = &deployed.driver;
    let wishes = json!({"spec": {"requiresRepublish": true, "serviceAccountTokenInSecrets": true}});
    space.send(Method::PATCH, &format!("{DRIVERS}/{}", driver.name), wishes).await.unwrap();
    let mut parameters = json!({});
    for purpose in ["node-stage", "node-publish", "node-expand"] {
        space.secret(purpose, json!({"word": purpose})).await;
        let key = |part: &str| format!("csi.storage.k8s.io/{purpose}-secret-{part}");
        parameters[key("name")] = purpose.into();
        parameters[key("namespace")] = space.name.clone().into();
    }
    let class = format!("{}-secret", driver.name);
    let object = json!({"metadata": {"name": class}, "provisioner": driver.name, "allowVolumeExpansion": true,
        "volumeBindingMode": "WaitForFirstConsumer", "parameters": parameters});
    space.send(Method::POST, CLASSES, object).await.unwrap();
    let mut wish = space.wish("data", "16Mi", "Filesystem");
    wish["spec"]["storageClassName"] = class.clone().into();
    space.create("persistentvolumeclaims", wish).await;
    space.pod("user", mounting(idle(), "data")).await;
    let started = space.ready("user").await;
    let volume = space.csi_volume("data").await["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(driver.secrets("NodeStageVolume", &volume), json!({"word": "node-stage"}));
    let told = driver.secrets("NodePublishVolume", &volume);
    assert_eq!(told["word"], "node-publish");
    let tokens = told["csi.storage.k8s.io/serviceAccount.tokens"].as_str().unwrap();
    let tokens: Value = serde_json::from_str(tokens).unwrap();
    assert_eq!(tokens["vault"]["token"].as_str().unwrap().split('.').count(), 3);

    let published = driver.count("NodePublishVolume");
    let path = space.path("persistentvolumeclaims", "data");
    let size = json!({"spec": {"resources": {"requests": {"storage": "32Mi"}}}});
    space.send(Method::PATCH, &path, size).await.unwrap();
    space
        .eventually("larger while it is used", async || {
            let claim = space.get(&path).await.unwrap();
            let status = &claim["status"];
            status["capacity"]["storage"] == "32Mi" && status["conditions"].is_null()
        })
        .await;
    assert_eq!(driver.secrets("NodeExpandVolume", &volume), json!({"word": "node-expand"}));
    space.eventually("published again", async || driver.count("NodePublishVolume") > published).await;
    let pod = space.get(&space.path("pods", "user")).await.unwrap();
    let containers = |pod: &Value| pod["status"]["containerStatuses"][0]["containerID"].clone();
    assert_eq!(containers(&pod), containers(&started), "it has run all the time");
    space.finish("user").await;
    space.drop_claim("data", &volume).await;
    space.send(Method::DELETE, &format!("{CLASSES}/{class}"), json!({})).await.unwrap();
    space.undeploy(deployed).await;
}

/// Volumes that pods bring along, raw devices, and what cannot be had.
pub async fn other_volumes_of_a_driver(space: Space) {
    let mut deployed = space.deploy().await;
    let name = deployed.driver.name.clone();
    let mut inline = once("cat /data/told");
    inline["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    inline["volumes"] = json!([{"name": "data", "csi": {"driver": name, "volumeAttributes": {"size": "1"}}}]);
    let told: Value = serde_json::from_str(&space.output("inline", inline.clone()).await).unwrap();
    let context = &told["context"];
    assert_eq!(context["csi.storage.k8s.io/pod.name"], "inline");
    assert_eq!(context["csi.storage.k8s.io/serviceAccount.name"], "default");
    assert_eq!(context["size"], "1");
    let tokens = context["csi.storage.k8s.io/serviceAccount.tokens"].as_str().unwrap();
    let tokens: Value = serde_json::from_str(tokens).unwrap();
    assert_eq!(tokens["vault"]["token"].as_str().unwrap().split('.').count(), 3);
    space.finish("inline").await;
    // The pod was over, so that it goes from the API before the node has cleaned up after it.
    space.eventually("unpublished", async || deployed.driver.list("inline").is_empty()).await;

    space.create("persistentvolumeclaims", space.wish("block", "4Mi", "Block")).await;
    let script = "echo raw | dd of=/dev/disk bs=512 count=1 conv=sync 2>/dev/null; head -c 3 /dev/disk; test -b /dev/disk && echo device";
    let mut block = once(script);
    block["containers"][0]["volumeDevices"] = json!([{"name": "data", "devicePath": "/dev/disk"}]);
    block["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "block"}}]);
    assert_eq!(space.output("block", block).await, "rawdevice\n");
    let volume = space.csi_volume("block").await["metadata"]["name"].as_str().unwrap().to_owned();
    space.finish("block").await;
    space.drop_claim("block", &volume).await;

    // A class that the driver refuses, and a driver that is not there, say so.
    let class = json!({"metadata": {"name": format!("{name}-broken")}, "provisioner": name, "parameters": {"broken": "yes"}});
    space.send(Method::POST, CLASSES, class).await.unwrap();
    let mut wish = space.wish("broken", "1Mi", "Filesystem");
    wish["spec"]["storageClassName"] = format!("{name}-broken").into();
    space.create("persistentvolumeclaims", wish).await;
    space.event("broken", "ProvisioningFailed", "this class is broken").await;
    space.send(Method::DELETE, &space.path("persistentvolumeclaims", "broken"), json!({})).await.unwrap();
    let path = space.path("persistentvolumeclaims", "broken");
    space.eventually("broken gone", async || space.get(&path).await.is_none()).await;
    space.send(Method::DELETE, &format!("{CLASSES}/{name}-broken"), json!({})).await.unwrap();
    inline["volumes"][0]["csi"]["driver"] = "nowhere.example".into();
    space.pod("nowhere", inline).await;
    space.event("nowhere", "FailedMount", "not found in the list of registered CSI drivers").await;
    space.finish("nowhere").await;

    // A driver that is started anew is known again, and ends what it began.
    space.create("persistentvolumeclaims", space.wish("data", "1Mi", "Filesystem")).await;
    space.pod("user", mounting(idle(), "data")).await;
    space.ready("user").await;
    let volume = space.csi_volume("data").await["metadata"]["name"].as_str().unwrap().to_owned();
    deployed.driver.kill();
    space.delete("user", 0).await;
    space.event("user", "FailedKillPod", "cannot reach the driver").await;
    let again = Driver::start(&name, &deployed.driver.state, &space.cluster.config().data_dir);
    deployed.driver = again;
    space.deleted("user").await;
    space.drop_claim("data", &volume).await;
    space.undeploy(deployed).await;
}

/// Only calls of the controller service are handed on, and only to drivers that are there.
pub async fn other_calls_are_refused(space: Space) {
    let deployed = space.deploy().await;
    for (at, refused) in [
        (format!("{}/NodeStageVolume", deployed.driver.name), "no call of the controller service"),
        ("none/CreateVolume".to_owned(), "no CSI driver"),
    ] {
        let path = format!("/api/v1/nodes/{NODE}/proxy/csi/{at}");
        let error = space.send(Method::POST, &path, json!({})).await.unwrap_err().to_string();
        assert!(error.contains(refused), "{error}");
    }
    assert!(!deployed.driver.calls().contains("NodeStageVolume"), "the driver has heard nothing");
    space.undeploy(deployed).await;
}

/// minik8s makes them where no csi-snapshotter does, and asks again until they are ready.
pub async fn snapshots_of_a_driver(space: Space) {
    let deployed = space.deploy().await;
    let driver = &deployed.driver;
    let class = json!({"metadata": {"name": driver.name}, "driver": driver.name, "deletionPolicy": "Delete",
        "parameters": {"colour": "red"}});
    space.send(Method::POST, SNAPSHOT_CLASSES, class).await.unwrap();
    space.create("persistentvolumeclaims", space.wish("data", "16Mi", "Filesystem")).await;
    space.output("writer", mounting(once("echo one > /data/f"), "data")).await;
    space.take_snapshot("taken", "data", Some(&driver.name)).await;
    space.snapshot_ready("taken").await;
    assert_eq!(driver.list("snapshots").len(), 1);
    space.output("again", mounting(once("echo two > /data/f"), "data")).await;
    let copy = volume_snapshots::restored("copy", Some(&driver.name), "16Mi", "taken");
    space.create("persistentvolumeclaims", copy).await;
    assert_eq!(space.output("reader", mounting(once("cat /data/f"), "copy")).await, "one\n");
    space.drop_snapshot("taken").await;
    assert!(driver.list("snapshots").is_empty());
    for pod in ["writer", "again", "reader"] {
        space.finish(pod).await;
    }
    for claim in ["data", "copy"] {
        let name = space.csi_volume(claim).await["metadata"]["name"].as_str().unwrap().to_owned();
        space.drop_claim(claim, &name).await;
    }
    space.send(Method::DELETE, &format!("{SNAPSHOT_CLASSES}/{}", driver.name), json!({})).await.unwrap();
    space.undeploy(deployed).await;
}

/// A VolumeAttributesClass sets what the driver can change, at once and later, and stays as long as it is used.
pub async fn attributes_of_volumes(space: Space) {
    let deployed = space.deploy().await;
    let driver = &deployed.driver;
    let name = |word: &str| format!("{}-{word}", space.name);
    let class = |word: &str, driver: &str, parameters: Value| json!({"metadata": {"name": name(word)}, "driverName": driver, "parameters": parameters});
    for object in [
        class("slow", &driver.name, json!({"speed": "slow"})),
        class("fast", &driver.name, json!({"speed": "fast"})),
        class("odd", &driver.name, json!({"colour": "green"})),
        class("other", "other.example", json!({"speed": "fast"})),
    ] {
        space.send(Method::POST, ATTRIBUTES_CLASSES, object).await.unwrap();
    }
    let mut wish = space.wish("data", "1Mi", "Filesystem");
    wish["spec"]["volumeAttributesClassName"] = name("slow").into();
    space.create("persistentvolumeclaims", wish).await;
    space.pod("user", mounting(idle(), "data")).await;
    space.ready("user").await;
    let volume = space.csi_volume("data").await;
    assert_eq!(volume["spec"]["volumeAttributesClassName"], name("slow"));
    let volume = volume["metadata"]["name"].as_str().unwrap().to_owned();
    let speed = || std::fs::read_to_string(driver.state.join("speeds").join(&volume)).unwrap();
    assert_eq!(speed(), "slow");
    let path = space.path("persistentvolumeclaims", "data");
    let change = async |word: &str| {
        let patch = json!({"spec": {"volumeAttributesClassName": name(word)}});
        space.send(Method::PATCH, &path, patch).await.unwrap();
    };
    let status = async |what: &str, seen: &dyn Fn(&Value) -> bool| {
        space.eventually(what, async || seen(&space.get(&path).await.unwrap_or_default()["status"])).await;
    };
    change("fast").await;
    status("fast", &|status| status["currentVolumeAttributesClassName"] == name("fast")).await;
    assert_eq!(speed(), "fast");
    let rows = space.kubectl(&["get", "pvc", "data"]).await;
    assert!(rows.contains(&name("fast")), "{rows}");
    // What cannot be set says why, and nothing is changed.
    change("odd").await;
    status("infeasible", &|status| status["modifyVolumeStatus"]["status"] == "Infeasible").await;
    space.event("data", "VolumeModifyFailed", "there is only speed").await;
    change("other").await;
    space.event("data", "VolumeModifyFailed", "is for the driver other.example").await;
    assert_eq!(speed(), "fast");
    change("slow").await;
    status("slow", &|status| {
        status["currentVolumeAttributesClassName"] == name("slow") && status["modifyVolumeStatus"].is_null()
    })
    .await;
    // One that is used stays until nobody uses it.
    let class = |word: &str| format!("{ATTRIBUTES_CLASSES}/{}", name(word));
    for word in ["slow", "fast", "odd", "other"] {
        space.send(Method::DELETE, &class(word), json!({})).await.unwrap();
    }
    space.eventually("the others are gone", async || space.get(&class("fast")).await.is_none()).await;
    assert!(
        space.get(&class("slow")).await.is_some_and(|one| one["metadata"]["deletionTimestamp"].is_string())
    );
    space.finish("user").await;
    space.drop_claim("data", &volume).await;
    space.eventually("the last is gone", async || space.get(&class("slow")).await.is_none()).await;
    space.undeploy(deployed).await;
}
