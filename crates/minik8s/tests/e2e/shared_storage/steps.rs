//! kill -9 of the master, and of the agent beside it, at each step in the life of volumes.

use std::path::PathBuf;

use super::loss::pids;
use super::world::World;

/// Provisioned, mounted, grown, snapshotted, cloned and deleted, each while the master dies: none is orphaned or doubled, and
/// what was written is there.
pub fn killed_servers_orphan_no_volume(world: &World) {
    let lab = &world.lab;
    world.ask_for_claim("walked", "ReadWriteMany", "8Mi", "");
    kill_master(world);
    world.bound("walked");
    world.pod("walker", "node1", &["walked"]);
    kill_master(world);
    world.ready(&["walker"]);
    world.sh("walker", "echo one > /walked/f; sync");
    let patch = r#"{"spec": {"resources": {"requests": {"storage": "16Mi"}}}}"#;
    world.kubectl(&["patch", "pvc", "walked", "--type=merge", "-p", patch]);
    kill_master(world);
    lab.until("the claim has grown", || {
        world.object(&["pvc", "walked"])["status"]["capacity"]["storage"] == "16Mi"
    });
    world.apply(
        "apiVersion: snapshot.storage.k8s.io/v1\nkind: VolumeSnapshot\nmetadata: {name: walk}\nspec: {source: \
         {persistentVolumeClaimName: walked}}\n",
    );
    kill_master(world);
    lab.until("the snapshot is ready", || {
        world.object(&["volumesnapshot", "walk"])["status"]["readyToUse"] == true
    });
    let source = "  dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: walk}\n";
    world.ask_for_claim("copied", "ReadWriteMany", "16Mi", source);
    kill_master(world);
    world.bound("copied");
    world.pod("reader", "node3", &["copied"]);
    world.ready(&["reader"]);
    assert_eq!(world.sh("reader", "cat /copied/f"), "one\n");
    assert_eq!(contents(world), ["snapshots: 1", "volumes: 2"]);
    world.kubectl(&["delete", "volumesnapshot", "walk", "--wait=false"]);
    kill_master(world);
    lab.until("the snapshot is gone", || world.lab.get(&["volumesnapshotcontents"]).is_empty());
    world.kubectl(&["delete", "pod", "walker", "reader", "--wait=false"]);
    world.kubectl(&["delete", "pvc", "walked", "copied", "--wait=false"]);
    kill_master(world);
    lab.until("the volumes are gone", || world.lab.get(&["pv"]).is_empty());
    lab.until("nothing is attached", || world.lab.get(&["volumeattachments"]).is_empty());
    assert_eq!(contents(world), ["snapshots: 0", "volumes: 0"]);
}

/// And the agent that would start it again; both come back.
fn kill_master(world: &World) {
    world.lab.until("the master runs", || !pids(world, "node2", "mfsmaster").is_empty());
    world.lab.run(&["kill", "node2"]);
    for pid in pids(world, "node2", "mfsmaster") {
        world.lab.run(&["exec", "node2", "kill", "-9", &pid]);
    }
    world.lab.run(&["start", "node2"]);
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
