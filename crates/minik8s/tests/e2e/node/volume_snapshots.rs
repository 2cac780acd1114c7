//! VolumeSnapshots of the class `local` and of a CSI driver, on a real node.

use http::Method;
use serde_json::{Value, json};

use super::space::{Space, idle, once};

pub const GROUP: &str = "snapshot.storage.k8s.io";

fn claim(name: &str, class: Option<&str>, size: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "resources": {"requests": {"storage": size}}}})
}

pub fn restored(name: &str, class: Option<&str>, size: &str, snapshot: &str) -> Value {
    let mut claim = claim(name, class, size);
    claim["spec"]["dataSource"] = json!({"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": snapshot});
    claim
}

pub fn mounting(mut spec: Value, claim: &str) -> Value {
    spec["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    spec
}

impl Space {
    pub fn snapshot_path(&self, name: &str) -> String {
        format!("/apis/{GROUP}/v1/namespaces/{}/volumesnapshots/{name}", self.name)
    }

    pub async fn take_snapshot(&self, name: &str, claim: &str, class: Option<&str>) {
        let path = self.snapshot_path("");
        let object = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "VolumeSnapshot", "metadata": {"name": name},
            "spec": {"source": {"persistentVolumeClaimName": claim}, "volumeSnapshotClassName": class}});
        self.send(Method::POST, path.trim_end_matches('/'), object).await.unwrap();
    }

    pub async fn snapshot_until(&self, name: &str, what: &str, seen: impl Fn(&Value) -> bool) -> Value {
        let path = self.snapshot_path(name);
        let mut last = Value::Null;
        self.eventually(&format!("snapshot {name} {what}"), async || {
            last = self.get(&path).await.unwrap_or_default();
            seen(&last)
        })
        .await;
        last
    }

    /// Its content's name.
    pub async fn snapshot_ready(&self, name: &str) -> String {
        let ready = self.snapshot_until(name, "ready", |one| one["status"]["readyToUse"] == true).await;
        ready["status"]["boundVolumeSnapshotContentName"].as_str().unwrap().to_owned()
    }

    pub async fn drop_snapshot(&self, name: &str) {
        self.send(Method::DELETE, &self.snapshot_path(name), json!({})).await.unwrap();
        self.snapshot_until(name, "gone", Value::is_null).await;
    }

    async fn drop_claims(&self, names: &[&str]) {
        for name in names {
            let path = self.path("persistentvolumeclaims", name);
            let volume = self.get(&path).await.unwrap()["spec"]["volumeName"].as_str().map(str::to_owned);
            self.send(Method::DELETE, &path, json!({})).await.unwrap();
            let path = format!("/api/v1/persistentvolumes/{}", volume.unwrap());
            self.eventually(&format!("the volume of {name} gone"), async || self.get(&path).await.is_none())
                .await;
        }
    }
}

/// A snapshot keeps what was there, a claim starts with it, and it outlives the claim that it was made of.
pub async fn snapshots(space: Space) {
    space.create("persistentvolumeclaims", claim("first", None, "16Mi")).await;
    space.pod("first", mounting(idle(), "first")).await;
    space.ready("first").await;
    space.kubectl(&["exec", "first", "--", "sh", "-c", "echo one > /data/f; sync"]).await;
    space.take_snapshot("taken", "first", None).await;
    let content = space.snapshot_ready("taken").await;
    space.kubectl(&["exec", "first", "--", "sh", "-c", "echo two > /data/f; sync"]).await;
    let shown = space.kubectl(&["get", "volumesnapshots,volumesnapshotclasses"]).await;
    assert!(shown.contains("READYTOUSE") && shown.contains("16Mi") && shown.contains(&content), "{shown}");
    let small = restored("small", None, "8Mi", "taken");
    space.create("persistentvolumeclaims", small).await;
    space.claim_event("small", "ask for as much").await;
    // Its place is where the snapshot is: it waits for no pod, and its source may go at once.
    space.create("persistentvolumeclaims", restored("copy", None, "24Mi", "taken")).await;
    let path = space.path("persistentvolumeclaims", "copy");
    let bound = async || space.get(&path).await.unwrap_or_default()["status"]["phase"] == "Bound";
    space.eventually("copy bound", bound).await;
    space.send(Method::DELETE, &space.path("persistentvolumeclaims", "small"), json!({})).await.unwrap();
    space.delete("first", 0).await;
    space.deleted("first").await;
    space.drop_claims(&["first"]).await;
    space.drop_snapshot("taken").await;
    let path = format!("/apis/{GROUP}/v1/volumesnapshotcontents/{content}");
    space.eventually("content gone", async || space.get(&path).await.is_none()).await;
    let kept = space.cluster.config().volume_snapshots_dir();
    let is_kept = |uid: &str| {
        std::fs::read_dir(&kept)
            .into_iter()
            .flatten()
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().contains(uid))
    };
    assert!(!is_kept(content.trim_start_matches("snapcontent-")), "the image of the snapshot is still there");
    let log = space.output("reader", mounting(once("cat /data/f; df /data | tail -1"), "copy")).await;
    assert!(log.starts_with("one\n"), "{log}");
    space.delete("reader", 0).await;
    space.deleted("reader").await;
    space.drop_claims(&["copy"]).await;
}

/// What cannot be had says so, and a claim waits for its snapshot.
pub async fn snapshots_that_cannot_be_made(space: Space) {
    space.take_snapshot("of-nothing", "none", None).await;
    let told = |one: &Value| one["status"]["error"]["message"].as_str().unwrap_or_default().contains("none");
    space.snapshot_until("of-nothing", "refused", told).await;
    space.create("persistentvolumeclaims", restored("waits", None, "16Mi", "of-nothing")).await;
    space.pod("waits", mounting(idle(), "waits")).await;
    space.claim_event("waits", "not there, or not ready").await;
    let both = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "VolumeSnapshot", "metadata": {"name": "both"},
        "spec": {"source": {"persistentVolumeClaimName": "a", "volumeSnapshotContentName": "b"}}});
    let path = space.snapshot_path("");
    let error = space.send(Method::POST, path.trim_end_matches('/'), both).await.unwrap_err().to_string();
    assert!(error.contains("must specify exactly one of"), "{error}");
    space.delete("waits", 0).await;
    space.deleted("waits").await;
    space.send(Method::DELETE, &space.path("persistentvolumeclaims", "waits"), json!({})).await.unwrap();
    space.drop_snapshot("of-nothing").await;
}

impl Space {
    /// Something was said of a claim.
    async fn claim_event(&self, claim: &str, text: &str) {
        let path =
            format!("/api/v1/namespaces/{}/events?fieldSelector=involvedObject.name={claim}", self.name);
        self.eventually(&format!("an event of {claim} with {text:?}"), async || {
            let events = self.get(&path).await.unwrap_or_default();
            let all = events["items"].as_array().cloned().unwrap_or_default();
            all.iter().any(|event| event["message"].as_str().unwrap_or_default().contains(text))
        })
        .await;
    }
}
