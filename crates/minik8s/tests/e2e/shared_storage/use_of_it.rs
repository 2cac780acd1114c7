//! Set up, used and taken away.

use super::world::World;

pub fn mistakes_are_told(world: &World) {
    let check = |arguments: &[&str], expected: &str| {
        let error = world.storage(arguments).unwrap_err();
        assert!(error.contains(expected), "{arguments:?}: {error}");
    };
    check(&["enable", "shared", "--nodes", "none"], "no node \"none\"");
    check(&["enable", "shared", "--nodes", "node2", "--copies", "2"], "give 1 to 1");
    check(&["recover", "shared", "--master", "node2"], "not enabled");
    assert!(world.storage(&["status"]).unwrap().contains("not enabled"));
    assert!(world.storage(&["disable", "shared"]).unwrap().contains("was not enabled"));
}

pub fn enabled(world: &World) {
    let said = world.storage(&["enable", "shared", "--nodes", "node2,node3", "--copies", "2"]).unwrap();
    assert!(said.contains("it is ready"), "{said}");
    let status = world.storage(&["status"]).unwrap();
    eprintln!("{status}");
    assert!(status.starts_with("shared: healthy\n"), "{status}");
    for word in ["node2", "node3", "mfsmaster", "mfsmetalogger", "2 of each piece", "GiB free"] {
        assert!(status.contains(word), "{word}: {status}");
    }
    let error = world.storage(&["recover", "shared", "--master", "node3"]).unwrap_err();
    assert!(error.contains("the master on node2 answers"), "{error}");
    // Every node can mount, also those without data.
    world.lab.until("every node has the driver", || {
        let nodes = world.lab.get(&["csinodes"]);
        nodes.iter().filter(|node| node.to_string().contains("shared.minik8s.io")).count() == 3
    });
    // Passwords are root's alone.
    use std::os::unix::fs::PermissionsExt;
    for node in ["node1", "node2", "node3"] {
        let dir = world.lab.dir.join(node).join("data/shared");
        assert_eq!(std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700, "{node}");
        assert_eq!(
            std::fs::metadata(dir.join("config.json")).unwrap().permissions().mode() & 0o777,
            0o600,
            "{node}"
        );
    }
}

/// A number in one file, counted up from two nodes, each in its turn: none is lost. Locks of files hold between nodes.
pub fn many_nodes_write_at_once(world: &World) {
    world.claim("many", "ReadWriteMany", "64Mi", "");
    world.pod("writer1", "node1", &["many"]);
    world.pod("writer3", "node3", &["many"]);
    world.ready(&["writer1", "writer3"]);
    world.sh("writer1", "echo 0 > /many/n; touch /many/lock");
    let script = "i=0; while [ $i -lt 30 ]; do until mkdir /many/turn 2>/dev/null; do sleep 0.01; done; \
                  n=$(cat /many/n); echo $((n+1)) > /many/n; rmdir /many/turn || exit 1; i=$((i+1)); done; \
                  echo $(hostname) >> /many/log";
    std::thread::scope(|scope| {
        let both = ["writer1", "writer3"].map(|pod| scope.spawn(move || world.try_sh(pod, script)));
        for one in both {
            one.join().unwrap().unwrap();
        }
    });
    assert_eq!(world.sh("writer3", "cat /many/n"), "60\n");
    let log = world.sh("writer1", "cat /many/log");
    assert!(log.contains("writer1") && log.contains("writer3"), "{log}");
    let mounted = |node: &str| {
        let found = world.lab.run(&["exec", node, "cat", "/proc/mounts"]);
        let own = found.lines().find(|line| line.starts_with("mfs") && !line.contains("/root ")).unwrap();
        format!("{}/lock", own.split(' ').nth(1).unwrap())
    };
    let (first, second) = (mounted("node1"), mounted("node3"));
    let (holds, enough) = (world.lab.dir.join("holds"), world.lab.dir.join("enough"));
    let hold = format!(
        "echo > {}; for i in $(seq 600); do [ ! -e {} ] || exit 0; sleep 0.1; done",
        holds.display(),
        enough.display()
    );
    std::thread::scope(|scope| {
        let holder = scope.spawn(|| world.lab.run(&["exec", "node1", "flock", &first, "sh", "-c", &hold]));
        world.lab.until("the lock is held", || holds.exists());
        let tried = world.lab.try_run(&["exec", "node3", "flock", "-n", &second, "true"]);
        let still = !holder.is_finished();
        std::fs::write(&enough, "").unwrap();
        assert!(still && !tried.status.success(), "two nodes have one lock");
        holder.join().unwrap();
    });
    world.lab.until("the lock is free", || {
        world.lab.try_run(&["exec", "node3", "flock", "-n", &second, "true"]).status.success()
    });
    world.end(&["writer1", "writer3"], &["many"]);
}

pub fn quota_is_the_size_and_grows(world: &World) {
    world.claim("small", "ReadWriteOnce", "8Mi", "");
    world.pod("filler", "node1", &["small"]);
    world.ready(&["filler"]);
    let shown = world.sh("filler", "df -k /small | tail -1");
    let size: u64 = shown.split_whitespace().rev().nth(4).unwrap().parse().unwrap();
    assert!((7 << 10..=8 << 10).contains(&size), "{shown}");
    let fill = "dd if=/dev/zero of=/small/f bs=1M count=16 2>&1 && sync";
    let full = world.try_sh("filler", fill).unwrap_err();
    assert!(full.contains("uota") || full.contains("No space"), "{full}");
    // To the last piece, as programs do that write little at once.
    let _ = world.try_sh("filler", "dd if=/dev/zero of=/small/g bs=4k count=2048 2>&1; sync");
    world.lab.until("the claim is told", || world.has_event("small", "VolumeFull"));
    let patch = r#"{"spec": {"resources": {"requests": {"storage": "32Mi"}}}}"#;
    world.kubectl(&["patch", "pvc", "small", "--type=merge", "-p", patch]);
    world.lab.until("the claim has grown", || {
        world.object(&["pvc", "small"])["status"]["capacity"]["storage"] == "32Mi"
    });
    world.lab.until("there is room", || world.try_sh("filler", fill).is_ok());
    world.end(&["filler"], &["small"]);
}

pub fn snapshots_and_clones(world: &World) {
    world.claim("data", "ReadWriteMany", "16Mi", "");
    world.pod("first", "node1", &["data"]);
    world.ready(&["first"]);
    world.sh("first", "echo one > /data/f; sync");
    world.apply(
        "apiVersion: snapshot.storage.k8s.io/v1\nkind: VolumeSnapshot\nmetadata: {name: taken}\nspec: {source: \
         {persistentVolumeClaimName: data}}\n",
    );
    world.lab.until("the snapshot is ready", || {
        world.object(&["volumesnapshot", "taken"])["status"]["readyToUse"] == true
    });
    world.sh("first", "echo two > /data/f; sync");
    world.claim(
        "restored",
        "ReadWriteMany",
        "16Mi",
        "  dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: taken}\n",
    );
    world.claim(
        "clone",
        "ReadWriteMany",
        "16Mi",
        "  dataSource: {kind: PersistentVolumeClaim, name: data}\n",
    );
    world.pod("second", "node3", &["restored", "clone"]);
    world.ready(&["second"]);
    assert_eq!(world.sh("second", "cat /restored/f /clone/f"), "one\ntwo\n");
    world.kubectl(&["delete", "volumesnapshot", "taken", "--timeout=180s"]);
    world.lab.until("its content is gone", || world.lab.get(&["volumesnapshotcontents"]).is_empty());
    world.end(&["first", "second"], &["data", "restored", "clone"]);
}

/// Data servers ask nobody who they are: only nodes get there.
pub fn pods_cannot_reach_the_servers(world: &World) {
    world.pod("stranger1", "node1", &[]);
    world.pod("stranger2", "node2", &[]);
    world.ready(&["stranger1", "stranger2"]);
    let master = world.lab.address(2);
    for port in ["9419", "9420", "9421", "9422"] {
        let node =
            ["exec", "node1", "timeout", "20", "bash", "-c", &format!("exec 3<>/dev/tcp/{master}/{port}")];
        assert!(world.lab.try_run(&node).status.success(), "nodes must get to {port}");
        for pod in ["stranger1", "stranger2"] {
            let tried = world.try_sh(pod, &format!("timeout 3 nc {master} {port} </dev/null && echo in"));
            assert!(!tried.unwrap_or_default().contains("in"), "{pod} gets to {port}");
        }
    }
    world.end(&["stranger1", "stranger2"], &[]);
}

pub fn disabled(world: &World) {
    world.claim("left", "ReadWriteMany", "8Mi", "");
    let error = world.storage(&["disable", "shared"]).unwrap_err();
    assert!(error.contains("volumes of it are left: pvc-"), "{error}");
    world.end(&[], &["left"]);
    let said = world.storage(&["disable", "shared"]).unwrap();
    assert!(said.contains("is disabled") && said.contains("its files stay in"), "{said}");
    for node in ["node1", "node3"] {
        world.lab.until("its servers have ended", || {
            let processes = world.lab.run(&["exec", node, "ps", "-e", "-o", "comm="]);
            !processes.lines().any(|line| line.starts_with("mfs"))
        });
        let tables = world.lab.run(&["exec", node, "nft", "list", "tables"]);
        assert!(!tables.contains("minik8s-shared"), "{tables}");
    }
    world.lab.until("no node has the driver", || {
        world.lab.get(&["csinodes"]).iter().all(|node| !node.to_string().contains("shared.minik8s.io"))
    });
}
