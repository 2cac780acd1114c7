//! kill -9 of server, agent and containerd at each step in the life of a volume of a CSI driver.

use std::path::PathBuf;

use http::Method;
use serde_json::{Value, json};

use super::csi::{ATTRIBUTES_CLASSES, SNAPSHOT_CLASSES, mounting};
use super::csi_driver::Driver;
use super::space::{Space, idle, once};

/// Made, attached, staged, published, grown, modified, snapshotted, and all of it back: no volume is orphaned, doubled, or
/// left attached or mounted.
pub async fn crashes(cluster: std::sync::Arc<crate::harness::cluster::Cluster>) {
    let space = Space::new(cluster, "csi-crashes").await;
    let deployed = space.deploy().await;
    let driver = &deployed.driver;
    let pods = space.cluster.config().pods_dir();
    let published = || {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        mounts.lines().any(|line| line.contains(pods.to_str().unwrap()) && line.contains("/csi/"))
    };
    let staged = || staged_records(&space).next().is_some();
    let making: [(&str, &dyn Fn() -> bool); 4] = [
        ("made", &|| !driver.list("volumes").is_empty()),
        ("attached", &|| !driver.list("attached").is_empty()),
        ("staged", &staged),
        ("published", &published),
    ];
    let removing: [&dyn Fn() -> bool; 4] =
        [&|| !published(), &|| !staged(), &|| driver.list("attached").is_empty(), &|| {
            driver.list("volumes").is_empty()
        }];
    let classes = [
        (
            SNAPSHOT_CLASSES,
            json!({"metadata": {"name": driver.name}, "driver": driver.name,
            "deletionPolicy": "Delete", "parameters": {"colour": "red"}}),
        ),
        (
            ATTRIBUTES_CLASSES,
            json!({"metadata": {"name": driver.name}, "driverName": driver.name,
            "parameters": {"speed": "fast"}}),
        ),
    ];
    for (path, class) in classes.clone() {
        space.send(Method::POST, path, class).await.unwrap();
    }
    let changing = [Change::Growth, Change::Attributes, Change::Snapshot, Change::SnapshotDeletion];
    for (((name, made), change), removed) in making.into_iter().zip(changing).zip(removing) {
        space.create("persistentvolumeclaims", space.wish(name, "1Mi", "Filesystem")).await;
        // As long as a busy machine needs to see that it is there.
        let mut spec = mounting(once("echo x >> /data/f; cat /data/f; sleep 0.5"), name);
        spec["restartPolicy"] = "OnFailure".into();
        space.pod(name, spec).await;
        space.crash_when(made).await;
        space.phase(name, "Succeeded").await;
        let volume = space.csi_volume(name).await["metadata"]["name"].as_str().unwrap().to_owned();
        assert_eq!(driver.list("volumes"), std::slice::from_ref(&volume), "{name}: there is one volume");
        change.carry_out(&space, driver, name, &volume).await;
        space.send(Method::DELETE, &space.path("persistentvolumeclaims", name), json!({})).await.unwrap();
        space.delete(name, 0).await;
        space.crash_when(removed).await;
        let path = format!("/api/v1/persistentvolumes/{volume}");
        space.eventually(&format!("{volume} gone"), async || space.get(&path).await.is_none()).await;
        assert!(driver.list("volumes").is_empty() && driver.list("attached").is_empty(), "{name}");
        space.eventually("nothing staged", async || !staged() && !published()).await;
    }
    // A claim that goes while its volume is made leaves none.
    space.create("persistentvolumeclaims", space.wish("brief", "1Mi", "Filesystem")).await;
    space.pod("brief", mounting(idle(), "brief")).await;
    space.crash_when(&|| !driver.list("volumes").is_empty()).await;
    space.delete("brief", 0).await;
    space.send(Method::DELETE, &space.path("persistentvolumeclaims", "brief"), json!({})).await.unwrap();
    // As long as the claim is there, its volume may be made once more, to be deleted by its name.
    space.claim_until("brief", "gone", Value::is_null).await;
    space.eventually("no volume", async || driver.list("volumes").is_empty()).await;
    space.deleted("brief").await;
    for (path, _) in classes {
        space.send(Method::DELETE, &format!("{path}/{}", driver.name), json!({})).await.unwrap();
    }
    space.undeploy(deployed).await;
}

/// What a driver is asked of a volume that there is, and killed meanwhile.
enum Change {
    Growth,
    Attributes,
    Snapshot,
    SnapshotDeletion,
}

impl Change {
    async fn carry_out(self, space: &Space, driver: &Driver, claim: &str, volume: &str) {
        let path = space.path("persistentvolumeclaims", claim);
        let told =
            |part: &str| std::fs::read_to_string(driver.state.join(part).join(volume)).unwrap_or_default();
        match self {
            Change::Growth => {
                let size = json!({"spec": {"resources": {"requests": {"storage": "2Mi"}}}});
                space.send(Method::PATCH, &path, size).await.unwrap();
                space.crash_when(&|| told("sizes") == "2097152").await;
                let path = format!("/api/v1/persistentvolumes/{volume}");
                let grown = async || space.get(&path).await.unwrap()["spec"]["capacity"]["storage"] == "2Mi";
                space.eventually("grown", grown).await;
            }
            Change::Attributes => {
                let class = json!({"spec": {"volumeAttributesClassName": driver.name}});
                space.send(Method::PATCH, &path, class).await.unwrap();
                space.crash_when(&|| told("speeds") == "fast").await;
                let is_so = async || {
                    let claim = space.get(&path).await.unwrap();
                    claim["status"]["currentVolumeAttributesClassName"] == driver.name.as_str()
                };
                space.eventually("modified", is_so).await;
            }
            Change::Snapshot | Change::SnapshotDeletion => {
                space.take_snapshot("taken", claim, Some(&driver.name)).await;
                if matches!(self, Change::Snapshot) {
                    space.crash_when(&|| !driver.list("snapshots").is_empty()).await;
                }
                space.snapshot_ready("taken").await;
                assert_eq!(driver.list("snapshots").len(), 1, "there is one snapshot");
                space.send(Method::DELETE, &space.snapshot_path("taken"), json!({})).await.unwrap();
                if matches!(self, Change::SnapshotDeletion) {
                    space.crash_when(&|| driver.list("snapshots").is_empty()).await;
                }
                space.snapshot_until("taken", "gone", Value::is_null).await;
                space.eventually("no snapshot left", async || driver.list("snapshots").is_empty()).await;
            }
        }
    }
}

fn staged_records(space: &Space) -> impl Iterator<Item = PathBuf> {
    let all = space.cluster.config().plugins_dir().join("kubernetes.io/csi");
    let drivers = std::fs::read_dir(all).into_iter().flatten().flatten();
    drivers
        .flat_map(|driver| std::fs::read_dir(driver.path()).into_iter().flatten().flatten())
        .map(|dir| dir.path())
}
