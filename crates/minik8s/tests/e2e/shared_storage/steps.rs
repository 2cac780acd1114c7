//! kill -9 of the file system's master, of the agent beside it, and of the server with the agent of the node where pods
//! are, all at once at each step in the life of volumes. Data servers, mounts and containerd are not killed here.

use std::path::PathBuf;

use super::loss::pids;
use super::world::World;

/// Provisioned, mounted, grown, snapshotted, cloned and deleted, each while all of these die: none is orphaned or doubled, and
/// what was written is there.
pub fn killed_processes_orphan_no_volume(world: &World) {
    let lab = &world.lab;
    world.ask_for_claim("walked", "ReadWriteMany", "8Mi", "");
    kill_all(world);
    world.bound("walked");
    world.pod("walker", "node1", &["walked"]);
    kill_all(world);
    world.ready(&["walker"]);
    world.sh("walker", "echo one > /walked/f; sync");
    let patch = r#"{"spec": {"resources": {"requests": {"storage": "16Mi"}}}}"#;
    world.kubectl(&["patch", "pvc", "walked", "--type=merge", "-p", patch]);
    kill_all(world);
    lab.until("the claim has grown", || {
        world.object(&["pvc", "walked"])["status"]["capacity"]["storage"] == "16Mi"
    });
    world.apply(
        "apiVersion: snapshot.storage.k8s.io/v1\nkind: VolumeSnapshot\nmetadata: {name: walk}\nspec: {source: \
         {persistentVolumeClaimName: walked}}\n",
    );
    kill_all(world);
    lab.until("the snapshot is ready", || {
        world.object(&["volumesnapshot", "walk"])["status"]["readyToUse"] == true
    });
    let source = "  dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: walk}\n";
    world.ask_for_claim("copied", "ReadWriteMany", "16Mi", source);
    kill_all(world);
    world.bound("copied");
    world.pod("reader", "node3", &["copied"]);
    world.ready(&["reader"]);
    assert_eq!(world.sh("reader", "cat /copied/f"), "one\n");
    assert_eq!(contents(world), ["snapshots: 1", "volumes: 2"]);
    world.kubectl(&["delete", "volumesnapshot", "walk", "--wait=false"]);
    kill_all(world);
    lab.until("the snapshot is gone", || are_gone(world, "volumesnapshotcontents"));
    world.kubectl(&["delete", "pod", "walker", "reader", "--wait=false"]);
    world.kubectl(&["delete", "pvc", "walked", "copied", "--wait=false"]);
    kill_all(world);
    lab.until("the volumes are gone", || are_gone(world, "pv"));
    lab.until("nothing is attached", || are_gone(world, "volumeattachments"));
    assert_eq!(contents(world), ["snapshots: 0", "volumes: 0"]);
}

/// The master with the agent that would start it again, and the server with the agent of the pods' node, by which volumes
/// are made. All come back.
fn kill_all(world: &World) {
    world.lab.until("the master runs", || !pids(world, "node2", "mfsmaster").is_empty());
    world.lab.run(&["kill", "node1"]);
    world.lab.run(&["kill", "node2"]);
    for pid in pids(world, "node2", "mfsmaster") {
        // One that starts has a parent that is about to end.
        world.lab.try_run(&["exec", "node2", "kill", "-9", &pid]);
    }
    world.lab.run(&["start", "node2"]);
    // Before it ends, it may wait for a file of the volumes, and so for the master.
    world.lab.until("the killed server has ended", || pids(world, "node1", "minik8s").is_empty());
    world.lab.run(&["start", "node1"]);
    world.lab.until("the server answers", || world.try_kubectl(&["get", "--raw", "/readyz"]).is_ok());
}

/// Not taken for gone where nobody answers.
fn are_gone(world: &World, kind: &str) -> bool {
    world.try_kubectl(&["get", kind, "-o", "name"]).is_ok_and(|said| said.trim().is_empty())
}

/// How many directories are in those of the file system, also half made ones.
fn contents(world: &World) -> Vec<String> {
    let shared = world.lab.dir.join("node1/data/shared");
    let setups = std::fs::read_dir(&shared).unwrap().flatten().map(|entry| entry.path());
    let configs: Vec<PathBuf> =
        setups.map(|dir| dir.join("client/mfsmount.cfg")).filter(|file| file.exists()).collect();
    let script = format!(
        "d=$(mktemp -d); mfsmount -c {} -S / $d >/dev/null && for part in snapshots volumes; do \
         echo $part: $(ls -A $d/$part | wc -l); done; umount $d && rmdir $d",
        configs[0].display()
    );
    let said = world.lab.run(&["exec", "node1", "sh", "-c", &script]);
    said.lines().map(str::to_owned).collect()
}
