//! Persistent volumes: data that outlives pods, on a real node.

use std::path::PathBuf;

use http::Method;
use serde_json::{Value, json};

use super::space::{Space, idle, once};
use crate::harness::cluster::NODE;

/// A claim of the default class.
pub fn claim(name: &str, size: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}})
}

/// The spec with a claim at `/data`.
pub fn with_claim(mut spec: Value, claim: &str) -> Value {
    spec["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    spec
}

/// Its volume knows of the new size. It has it already where the last pod, which is over, had not let it go yet.
pub fn is_growing(claim: &Value, size: &str) -> bool {
    let status = &claim["status"];
    status["conditions"][0]["type"] == "FileSystemResizePending" || status["capacity"]["storage"] == size
}

fn with_template(mut spec: Value, size: &str) -> Value {
    let template = json!({"spec": claim("", size)["spec"]});
    spec["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    spec["volumes"] = json!([{"name": "data", "ephemeral": {"volumeClaimTemplate": template}}]);
    spec
}

impl Space {
    /// Waits for a claim to look as wanted. One that is gone looks like null.
    pub async fn claim_until(&self, name: &str, what: &str, seen: impl Fn(&Value) -> bool) -> Value {
        let path = self.path("persistentvolumeclaims", name);
        let mut last = Value::Null;
        self.eventually(&format!("{name} {what}"), async || {
            last = self.get(&path).await.unwrap_or_default();
            seen(&last)
        })
        .await;
        last
    }

    pub async fn volume_of(&self, claim: &str) -> String {
        let claim = self.claim_until(claim, "bound", |claim| claim["status"]["phase"] == "Bound").await;
        claim["spec"]["volumeName"].as_str().unwrap().to_owned()
    }

    pub async fn delete_claim(&self, name: &str) {
        self.send(Method::DELETE, &self.path("persistentvolumeclaims", name), json!({})).await.unwrap();
    }

    pub async fn volume_gone(&self, volume: &str) {
        let path = format!("/api/v1/persistentvolumes/{volume}");
        self.eventually(&format!("{volume} gone"), async || self.get(&path).await.is_none()).await;
    }

    fn image_dir(&self, volume: &str) -> PathBuf {
        self.cluster.config().volumes_dir().join(volume)
    }

    pub async fn end(&self, pod: &str) {
        self.delete(pod, 0).await;
        self.deleted(pod).await;
    }
}

/// Without choosing anything: a claim waits for its pod, gets a file system of its size on the pod's node, and keeps its
/// data when the pod goes; with the claim, all of it goes.
pub async fn local_volumes(space: Space) {
    space.create("persistentvolumeclaims", claim("data", "32Mi")).await;
    space.event("data", "WaitForFirstConsumer", "waiting for first consumer").await;
    let script = "echo kept > /data/f; dd if=/dev/zero of=/data/big bs=1M count=64 2>&1 | grep -o 'No space left'; rm /data/big; id -u";
    let log = space.output("writer", with_claim(once(script), "data")).await;
    assert_eq!(log, "No space left\n0\n");
    let volume = space.volume_of("data").await;
    let rows = space.kubectl(&["get", "pvc", "data"]).await;
    let words: Vec<&str> = rows.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(words[..6], ["data", "Bound", &volume, "32Mi", "RWO", "local"], "{rows}");
    space.end("writer").await;
    let dir = space.image_dir(&volume);
    let is_mounted = || minik8s_datadir::is_mount_point(&dir.join("mount"));
    space.eventually("unmounted", async || !is_mounted()).await;

    // Another pod, of another user, whose group owns the files.
    let mut spec =
        with_claim(once("cat /data/f; stat -c '%g %a' /data/f; touch /data/mine && echo mine"), "data");
    spec["securityContext"] = json!({"runAsUser": 1000, "fsGroup": 1234});
    assert_eq!(space.output("reader", spec).await, "kept\n1234 664\nmine\n");

    // A claim that is deleted while it is used waits for its pod.
    space.end("reader").await;
    space.pod("user", with_claim(idle(), "data")).await;
    space.ready("user").await;
    space.delete_claim("data").await;
    space
        .claim_until("data", "being deleted", |claim| claim["metadata"]["deletionTimestamp"].is_string())
        .await;
    assert_eq!(space.kubectl(&["exec", "user", "--", "cat", "/data/f"]).await, "kept\n");
    assert!(dir.join("image").exists());
    space.end("user").await;
    space.claim_until("data", "gone", Value::is_null).await;
    space.volume_gone(&volume).await;
    space.eventually("no image", async || !dir.exists()).await;
}

/// Volumes made by hand: bound to the smallest that does, kept when the claim goes.
pub async fn static_volumes(space: Space) {
    let dir = tempfile::tempdir().unwrap();
    let class = format!("{}-by-hand", space.name);
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let volume = |name: &str, size: &str, policy: &str| {
        json!({"metadata": {"name": format!("{}-{name}", space.name)}, "spec": {
            "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "persistentVolumeReclaimPolicy": policy,
            "hostPath": {"path": path(name), "type": "DirectoryOrCreate"}}})
    };
    for (name, size, policy) in
        [("small", "1Mi", "Retain"), ("fit", "5Mi", "Retain"), ("large", "9Mi", "Recycle")]
    {
        space.send(Method::POST, "/api/v1/persistentvolumes", volume(name, size, policy)).await.unwrap();
    }
    let by_hand = |name: &str, size: &str| {
        let mut claim = claim(name, size);
        claim["spec"]["storageClassName"] = class.clone().into();
        claim
    };
    space.create("persistentvolumeclaims", by_hand("data", "2Mi")).await;
    assert_eq!(space.volume_of("data").await, format!("{}-fit", space.name));
    space.create("persistentvolumeclaims", by_hand("huge", "50Mi")).await;
    space.event("huge", "ProvisioningFailed", "not found").await;
    space.event("huge", "ProvisioningFailed", "it has 9Mi only").await;
    space.output("pod", with_claim(once("echo one > /data/f"), "data")).await;
    space.end("pod").await;
    space.delete_claim("data").await;
    let released = |name: &str| format!("/api/v1/persistentvolumes/{}-{name}", space.name);
    let phase = async |name: &str, phase: &str| {
        let path = released(name);
        let seen = async || space.get(&path).await.is_some_and(|volume| volume["status"]["phase"] == phase);
        space.eventually(&format!("{name} {phase}"), seen).await;
    };
    phase("fit", "Released").await;
    assert_eq!(std::fs::read_to_string(path("fit") + "/f").unwrap(), "one\n");
    space.create("persistentvolumeclaims", by_hand("recycled", "8Mi")).await;
    space.volume_of("recycled").await;
    space.delete_claim("recycled").await;
    phase("large", "Failed").await;
    for name in ["small", "fit", "large"] {
        space.send(Method::DELETE, &released(name), json!({})).await.unwrap();
        space.volume_gone(&format!("{}-{name}", space.name)).await;
    }
}

/// A volume that a pod brings along goes with it; a raw device; growth.
pub async fn volumes_of_other_forms(space: Space) {
    let log = space
        .output(
            "pod",
            with_template(once("echo x > /data/f; df -m /data | tail -1 | awk '{print ($2 < 24)}'"), "16Mi"),
        )
        .await;
    assert_eq!(log, "1\n");
    let volume = space.volume_of("pod-data").await;
    space.end("pod").await;
    space.claim_until("pod-data", "gone", Value::is_null).await;
    space.volume_gone(&volume).await;

    let mut block = claim("block", "4Mi");
    block["spec"]["volumeMode"] = "Block".into();
    space.create("persistentvolumeclaims", block).await;
    let mut spec = once(
        "echo raw | dd of=/dev/disk bs=512 count=1 conv=sync 2>/dev/null; head -c 3 /dev/disk; test -b /dev/disk && echo device",
    );
    spec["containers"][0]["volumeDevices"] = json!([{"name": "data", "devicePath": "/dev/disk"}]);
    spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "block"}}]);
    assert_eq!(space.output("block", spec.clone()).await, "rawdevice\n");
    space.end("block").await;
    let volume = space.volume_of("block").await;
    let dir = space.image_dir(&volume);
    let has_let_go = async || std::fs::symlink_metadata(dir.join("device")).is_err();
    space.eventually("its device gone", has_let_go).await;
    let image = std::fs::read(dir.join("image")).unwrap();
    assert_eq!((image.len(), &image[..3]), (4 << 20, &b"raw"[..]));

    space.create("persistentvolumeclaims", claim("growing", "16Mi")).await;
    space.output("first", with_claim(once("echo kept > /data/f"), "growing")).await;
    space.end("first").await;
    let size = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
    let path = space.path("persistentvolumeclaims", "growing");
    space.send(Method::PATCH, &path, size("40Mi")).await.unwrap();
    // Else the pod may be there before the volume knows of its new size, and see it grow.
    space.claim_until("growing", "to be grown", |claim| is_growing(claim, "40Mi")).await;
    let log = space
        .output(
            "second",
            with_claim(once("cat /data/f; df -m /data | tail -1 | awk '{print ($2 > 28)}'"), "growing"),
        )
        .await;
    assert_eq!(log, "kept\n1\n");
    let grown = space
        .claim_until("growing", "larger", |claim| claim["status"]["capacity"]["storage"] == "40Mi")
        .await;
    assert_eq!(grown["status"]["conditions"], Value::Null);
    let refused = space.send(Method::PATCH, &path, size("8Mi")).await.unwrap_err().to_string();
    assert!(refused.contains("can not be less than"), "{refused}");
    space.end("second").await;
    for name in ["growing", "block"] {
        let volume = space.volume_of(name).await;
        space.delete_claim(name).await;
        space.volume_gone(&volume).await;
    }
}

/// Each pod of a StatefulSet has a volume of its own, and finds it again.
pub async fn volumes_of_a_stateful_set(space: Space) {
    let mut template = with_claim(idle(), "unused");
    template["containers"][0]["command"] =
        json!(["sh", "-c", "echo started >> /data/starts; trap 'exit 0' TERM; sleep 1000 & wait"]);
    template["containers"][0]["image"] = minik8s_kubelet::image::BUSYBOX.into();
    template["volumes"] = Value::Null;
    let mut claims = claim("data", "16Mi");
    claims["metadata"] = json!({"name": "data"});
    let set = json!({"metadata": {"name": "db"}, "spec": {"serviceName": "db", "replicas": 2,
        "selector": {"matchLabels": {"app": "db"}},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": template},
        "volumeClaimTemplates": [claims]}});
    let sets = format!("/apis/apps/v1/namespaces/{}/statefulsets", space.name);
    space.send(Method::POST, &sets, set).await.unwrap();
    space.ready("db-0").await;
    let second = space.ready("db-1").await;
    space.delete("db-1", 0).await;
    space
        .until("db-1", "made again", |pod| {
            pod["metadata"]["uid"] != second["metadata"]["uid"] && super::space::is_ready(pod)
        })
        .await;
    assert_eq!(space.kubectl(&["exec", "db-1", "--", "cat", "/data/starts"]).await, "started\nstarted\n");
    assert_eq!(space.kubectl(&["exec", "db-0", "--", "cat", "/data/starts"]).await, "started\n");
    assert_ne!(space.volume_of("data-db-0").await, space.volume_of("data-db-1").await);
    let volume = space.volume_of("data-db-1").await;
    space.send(Method::DELETE, &format!("{sets}/db"), json!({})).await.unwrap();
    space.claim_until("data-db-1", "gone", Value::is_null).await;
    space.volume_gone(&volume).await;
}

/// Bad wishes are answered with what is wrong.
pub async fn claims_that_cannot_be_served(space: Space) {
    let check = async |name: &str, change: Value, reason: &str, message: &str| {
        let mut wish = claim(name, "1Mi");
        wish["spec"].as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        space.create("persistentvolumeclaims", wish).await;
        space.event(name, reason, message).await;
    };
    check("no-class", json!({"storageClassName": "none"}), "ProvisioningFailed", "\"none\" not found").await;
    check("empty-class", json!({"storageClassName": ""}), "FailedBinding", "no storage class is set").await;
    check("no-volume", json!({"storageClassName": "", "volumeName": "nope"}), "FailedBinding", "not there")
        .await;
    let many = json!({"accessModes": ["ReadWriteMany"]});
    check("many", many, "WaitForFirstConsumer", "first consumer").await;
    space.pod("many", with_claim(once("true"), "many")).await;
    space.event("many", "ProvisioningFailed", "ReadWriteMany is not possible").await;
    // A volume that does not fit on the node's disk is not made, and its pod waits for room.
    let told = format!(
        "/apis/storage.k8s.io/v1/namespaces/kube-system/csistoragecapacities/local.minik8s.io.{NODE}"
    );
    space.eventually("the node to tell its room", async || space.get(&told).await.is_some()).await;
    check("huge", json!({"resources": {"requests": {"storage": "8000Ti"}}}), "WaitForFirstConsumer", "")
        .await;
    space.pod("huge", with_claim(once("true"), "huge")).await;
    space.event("huge", "FailedScheduling", "node(s) did not have enough free storage").await;
    let (pod, claim) = (space.path("pods", "huge"), space.path("persistentvolumeclaims", "huge"));
    assert_eq!(space.get(&pod).await.unwrap()["spec"]["nodeName"], Value::Null);
    assert_eq!(space.get(&claim).await.unwrap()["spec"]["volumeName"], Value::Null);
    let why = async |object: &str| {
        let why = space.command(env!("CARGO_BIN_EXE_minik8s")).args(["why", object]).output().await.unwrap();
        String::from_utf8_lossy(&why.stdout).into_owned()
    };
    let said = why("pod/huge").await;
    assert!(said.contains("did not have enough free storage") && said.contains("ask for less"), "{said}");
    space.end("huge").await;
    space.delete_claim("huge").await;
    space.claim_until("huge", "gone", Value::is_null).await;
    let said = why("pvc/no-class").await;
    assert!(said.contains("none") && said.contains("not found"), "{said}");
}

/// A claim that starts with the content of another; the metrics of volumes.
pub async fn copies_and_metrics(space: Space) {
    space.create("persistentvolumeclaims", claim("first", "16Mi")).await;
    space.pod("first", with_claim(idle(), "first")).await;
    space.ready("first").await;
    space
        .kubectl(&[
            "exec",
            "first",
            "--",
            "sh",
            "-c",
            "echo one > /data/f; dd if=/dev/zero of=/data/big bs=1M count=4 2>/dev/null; sync",
        ])
        .await;
    let mut copy = claim("copy", "24Mi");
    copy["spec"]["dataSource"] = json!({"kind": "PersistentVolumeClaim", "name": "first"});
    space.create("persistentvolumeclaims", copy).await;
    let log = space.output("copy", with_claim(once("cat /data/f; echo two > /data/f"), "copy")).await;
    assert_eq!(log, "one\n");
    assert_eq!(space.kubectl(&["exec", "first", "--", "cat", "/data/f"]).await, "one\n");
    let page = space.kubectl(&["get", "--raw", &format!("/api/v1/nodes/{NODE}/proxy/metrics")]).await;
    let line = format!(
        "kubelet_volume_stats_used_bytes{{namespace=\"{}\",persistentvolumeclaim=\"first\"}} ",
        space.name
    );
    let used = page
        .lines()
        .find_map(|found| found.strip_prefix(&line))
        .unwrap_or_else(|| panic!("{line} in\n{page}"));
    assert!(used.parse::<f64>().unwrap() >= f64::from(4 << 20), "{used}");
    // One that is full says so, to whoever looks at the claim and at the cluster.
    let fill = "dd if=/dev/zero of=/data/big bs=1M count=64 2>/dev/null; sync";
    space.kubectl(&["exec", "first", "--", "sh", "-c", fill]).await;
    space.event("first", "VolumeFull", "raise the claim's spec.resources.requests.storage").await;
    let status = space.command(env!("CARGO_BIN_EXE_minik8s")).args(["status"]).output().await.unwrap();
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    let own = format!("{}/first ", space.name);
    assert!(said.contains("Volumes\n") && said.contains(&own), "{said}");
    // And one whose image somebody has removed says what can still be done.
    let image = space.image_dir(&space.volume_of("first").await).join("image");
    std::fs::remove_file(image).unwrap();
    space.event("first", "VolumeConditionAbnormal", "copy the data out of the pod").await;
    for name in ["first", "copy"] {
        space.end(name).await;
        let volume = space.volume_of(name).await;
        space.delete_claim(name).await;
        space.volume_gone(&volume).await;
    }
}
