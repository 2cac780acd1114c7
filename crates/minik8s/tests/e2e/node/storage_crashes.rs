//! kill -9 of server, agent and containerd at each step in the life of a volume of the class `local`: made, grown,
//! snapshotted, restored, removed. None is lost, doubled, or left behind.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use minik8s_datadir::is_mount_point;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::space::{Space, once};
use super::storage::{claim, is_growing, with_claim};
use super::volume_snapshots::restored;
use crate::harness::cluster::Cluster;

/// Whether a step has come, as the disk tells it.
type Step<'a> = &'a dyn Fn() -> bool;

const SNAPSHOT: &str = "taken";
const COPY: &str = "copy";

fn entries(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

pub async fn crashes(cluster: Arc<Cluster>) {
    let space = Space::new(cluster, "crashes").await;
    let config = space.cluster.config();
    let (volumes, snapshots) = (config.volumes_dir(), config.volume_snapshots_dir());
    let images = || entries(&volumes);
    let has_image = |dir: &PathBuf| dir.join("image").exists();
    let making: [(&str, Step<'_>); 4] = [
        ("directory", &|| !images().is_empty()),
        ("image", &|| images().iter().any(has_image)),
        ("mounted", &|| images().iter().any(|dir| is_mount_point(&dir.join("mount")))),
        ("written", &|| images().iter().any(|dir| dir.join("mount/f").exists())),
    ];
    let is_long = |dir: &PathBuf| dir.join("image").metadata().is_ok_and(|image| image.len() == 24 << 20);
    let grown = || images().iter().any(is_long);
    let changing: [Change<'_>; 4] = [
        Change::Growth(&grown),
        Change::Snapshot(&|| !entries(&snapshots).is_empty()),
        Change::Snapshot(&|| entries(&snapshots).iter().any(has_image)),
        Change::Copy(&|| images().iter().filter(|dir| dir.is_dir()).count() == 2),
    ];
    let removing: [Step<'_>; 4] = [
        &|| true,
        &|| !images().iter().any(|dir| is_mount_point(&dir.join("mount"))),
        &|| !images().iter().any(has_image),
        &|| images().is_empty(),
    ];
    for (((name, made), change), removed) in making.into_iter().zip(changing).zip(removing) {
        space.create("persistentvolumeclaims", claim(name, "16Mi")).await;
        // As long as a busy machine needs to see that it is there.
        let mut spec = with_claim(once("echo x >> /data/f; cat /data/f; sleep 0.5"), name);
        spec["restartPolicy"] = "OnFailure".into();
        space.pod(name, spec).await;
        space.crash_when(made).await;
        space.phase(name, "Succeeded").await;
        // It may have been so before the crash, and the agent not be there again.
        let mut log = String::new();
        space
            .eventually("its log", async || {
                let said = space.try_kubectl(&["logs", name]).await;
                log = said.out;
                said.code == 0
            })
            .await;
        assert!(log.lines().all(|line| line == "x") && !log.is_empty(), "{name}: {log}");
        let volume = space.volume_of(name).await;
        let own: Vec<_> = images().into_iter().filter(|path| path.is_dir()).collect();
        assert_eq!(own, [volumes.join(&volume)], "{name}: there is one volume");
        space.end(name).await;
        change.carry_out(&space, name, &snapshots).await;
        let again = format!("{name}-again");
        let log = space.output(&again, with_claim(once("cat /data/f"), name)).await;
        assert!(log.starts_with("x\n"), "{name}: {log}");
        space.delete(&again, 0).await;
        space.delete_claim(name).await;
        space.crash_when(removed).await;
        space.claim_until(name, "gone", Value::is_null).await;
        space.volume_gone(&volume).await;
        space.eventually("nothing left", async || images().is_empty()).await;
    }
}

/// What is done to a volume, and when minik8s is killed meanwhile.
enum Change<'a> {
    Growth(Step<'a>),
    Snapshot(Step<'a>),
    Copy(Step<'a>),
}

impl Change<'_> {
    async fn carry_out(&self, space: &Space, claim: &str, snapshots: &Path) {
        match self {
            Change::Growth(step) => {
                let size = json!({"spec": {"resources": {"requests": {"storage": "24Mi"}}}});
                let path = space.path("persistentvolumeclaims", claim);
                space.send(Method::PATCH, &path, size).await.unwrap();
                // Else the pod may be there before the volume knows of its new size, and none comes after it.
                space.claim_until(claim, "to be grown", |claim| is_growing(claim, "24Mi")).await;
                // Its next pod makes it larger, and must find it whole.
                space
                    .pod("grower", with_claim(once("df -m /data | tail -1 | awk '{print ($2 > 18)}'"), claim))
                    .await;
                space.crash_when(*step).await;
                space.phase("grower", "Succeeded").await;
                let is_larger = |claim: &Value| claim["status"]["capacity"]["storage"] == "24Mi";
                space.claim_until(claim, "larger", is_larger).await;
                space.end("grower").await;
            }
            Change::Snapshot(step) => {
                space.take_snapshot(SNAPSHOT, claim, None).await;
                space.crash_when(*step).await;
                space.snapshot_ready(SNAPSHOT).await;
                assert_eq!(entries(snapshots).len(), 1, "there is one snapshot");
                space.drop_snapshot(SNAPSHOT).await;
                space.eventually("no snapshot left", async || entries(snapshots).is_empty()).await;
            }
            Change::Copy(step) => {
                space.take_snapshot(SNAPSHOT, claim, None).await;
                space.snapshot_ready(SNAPSHOT).await;
                space.create("persistentvolumeclaims", restored(COPY, None, "16Mi", SNAPSHOT)).await;
                space.crash_when(*step).await;
                let log = space.output(COPY, with_claim(once("cat /data/f"), COPY)).await;
                assert!(log.starts_with("x\n"), "{log}");
                space.end(COPY).await;
                let volume = space.volume_of(COPY).await;
                space.delete_claim(COPY).await;
                space.volume_gone(&volume).await;
                space.send(Method::DELETE, &space.snapshot_path(SNAPSHOT), json!({})).await.unwrap();
                space.crash_when(&|| entries(snapshots).is_empty()).await;
                space.snapshot_until(SNAPSHOT, "gone", Value::is_null).await;
            }
        }
    }
}

impl Space {
    /// Kills minik8s and containerd as soon as something is so, and starts them again.
    pub async fn crash_when(&self, seen: &dyn Fn() -> bool) {
        let begun = Instant::now();
        while !seen() {
            assert!(begun.elapsed() < crate::harness::cluster::TIMEOUT, "{}: the step never came", self.name);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.cluster.crash_server();
        if let Some(pid) = self.containerd() {
            kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        }
        self.cluster.restart_server().await;
    }

    /// The process, if it runs: one that was killed a moment ago may not have been started again.
    fn containerd(&self) -> Option<i32> {
        let pid = std::fs::read_to_string(self.cluster.config().containerd_dir().join("pid")).unwrap();
        let pid = pid.split(' ').next()?.parse::<i32>().ok()?;
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        command.starts_with(b"containerd\0").then_some(pid)
    }
}
