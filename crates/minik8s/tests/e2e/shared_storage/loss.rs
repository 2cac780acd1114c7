//! Servers that are killed and machines that are lost.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::world::World;

/// Until nothing is degraded: copies that are missing are made in the background, at most once in a minute.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(240);

/// A writer goes on while every server is killed, one after another, and with them the agents, that of the writer's node
/// too: they come back by themselves, no write fails, and every line is there. While one of both data servers is away,
/// writing goes on.
pub fn killed_servers_fail_no_write(world: &World) {
    world.claim("log", "ReadWriteMany", "32Mi", "");
    world.pod("writer", "node1", &["log"]);
    world.ready(&["writer"]);
    world.sh(
        "writer",
        "(i=0; while [ ! -e /tmp/stop ]; do echo $i >> /log/lines || echo failed >> /tmp/failed; i=$((i+1)); \
         echo $i > /tmp/written; sleep 0.05; done; touch /tmp/stopped) >/dev/null 2>&1 &",
    );
    // A stream that breaks says nothing about the volume: it is asked again.
    let written = || {
        let said = world.try_sh("writer", "cat /tmp/written").unwrap_or_default();
        said.trim().parse::<u64>().unwrap_or(0)
    };
    world.lab.until("lines are written", || written() > 3);
    for (node, program) in [("node3", "mfschunkserver"), ("node2", "mfsmaster"), ("node2", "mfschunkserver")]
    {
        let before = pids(world, node, program);
        world.lab.run(&["kill", node]);
        world.lab.run(&["exec", node, "kill", "-9", &before[0]]);
        // The other has all data as long as nothing else was killed.
        if node == "node3" {
            let then = written();
            world.lab.until("lines are written without it", || written() > then + 100);
            assert!(pids(world, node, program).is_empty(), "it must be away all the while");
        }
        world.lab.run(&["start", node]);
        world.lab.until(&format!("{program} runs again on {node}"), || {
            let now = pids(world, node, program);
            !now.is_empty() && now != before
        });
        let then = written();
        world.lab.until("lines are written again", || written() > then + 3);
    }
    mounts_outlive_the_agent(world);
    let then = written();
    world.lab.until("lines are written after it", || written() > then + 3);
    let begun = Instant::now();
    let mut said = String::new();
    while !said.starts_with("shared: healthy") {
        assert!(begun.elapsed() < WHOLE_TIMEOUT, "not whole in time: {said}");
        std::thread::sleep(Duration::from_millis(500));
        said = world.storage(&["status"]).unwrap_or_default();
    }
    world.sh("writer", "touch /tmp/stop");
    world.lab.until("the writer has ended", || world.try_sh("writer", "test -e /tmp/stopped").is_ok());
    assert!(world.try_sh("writer", "cat /tmp/failed").is_err(), "a write failed");
    let mut last = 0;
    world.lab.until("the writer says how many", || {
        last = written();
        last > 0
    });
    let said = world.sh("writer", "cat /log/lines");
    let lines: Vec<u64> = said.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(lines, (0..last).collect::<Vec<_>>());
    world.end(&["writer"], &["log"]);
}

/// On the writer's node, whose agent is the server's process.
fn mounts_outlive_the_agent(world: &World) {
    let mounts = || world.lab.run(&["exec", "node1", "pgrep", "-a", "-x", "mfsmount"]);
    let of_volume = |all: &str| {
        let own = all.lines().filter(|line| line.contains("globalmount"));
        own.map(str::to_owned).collect::<Vec<_>>()
    };
    let before = of_volume(&mounts());
    assert_eq!(before.len(), 1, "{before:?}");
    world.lab.run(&["kill", "node1"]);
    world.lab.run(&["start", "node1"]);
    world.lab.until("all nodes are ready", || world.lab.ready() == ["node1", "node2", "node3"]);
    assert_eq!(of_volume(&mounts()), before);
}

/// The process behind a mount is killed under a pod: the pod is told, and its next container has the volume again.
pub fn mount_that_died_comes_back(world: &World) {
    world.claim("held", "ReadWriteMany", "8Mi", "");
    world.pod("holder", "node1", &["held"]);
    world.ready(&["holder"]);
    world.sh("holder", "echo kept > /held/f; sync");
    for pid in pids(world, "node1", "mfsmount") {
        world.lab.run(&["exec", "node1", "kill", "-9", &pid]);
    }
    world.lab.until("nobody is behind the mount", || world.try_sh("holder", "cat /held/f").is_err());
    // The agent looks once a minute, and when the pod's labels or annotations change.
    let mut looks = 0;
    world.lab.until("the pod is told", || {
        looks += 1;
        world.kubectl(&["annotate", "pod", "holder", "--overwrite", &format!("look={looks}")]);
        world.has_event("holder", "VolumeConditionAbnormal")
    });
    for pid in pids(world, "node1", "sleep") {
        world.lab.try_run(&["exec", "node1", "kill", "-9", &pid]);
    }
    world.lab.until("the next container has the volume", || {
        world.try_sh("holder", "cat /held/f").is_ok_and(|said| said == "kept\n")
    });
    world.end(&["holder"], &["held"]);
}

pub fn pids(world: &World, node: &str, program: &str) -> Vec<String> {
    let listed = world.lab.run(&["exec", node, "ps", "-e", "-o", "pid=,comm="]);
    let own = listed.lines().filter_map(|line| line.trim().split_once(' '));
    own.filter(|(_, name)| name.trim() == program).map(|(pid, _)| pid.to_owned()).collect()
}

/// MariaDB in a StatefulSet, as in the example, with a volume of the class `shared`. Its node is lost with half of the
/// data; declared dead, the pod and its volume move, and every row that was acknowledged is there.
pub fn database_moves_when_its_node_is_lost(world: &World) {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/database");
    let archive = world.lab.dir.join("mariadb.tar");
    assert!(Command::new(example.join("image")).arg(&archive).status().unwrap().success());
    world.lab.run(&["load", archive.to_str().unwrap()]);
    std::fs::remove_file(archive).unwrap();
    let manifest = std::fs::read_to_string(example.join("database.yaml")).unwrap();
    let claim = "accessModes: [ReadWriteOnce]\n";
    assert!(manifest.contains(claim));
    let manifest = manifest.replace(claim, &format!("{claim}        storageClassName: shared\n"));
    // First where half of the data is, later anywhere.
    world.kubectl(&["cordon", "node1", "node2"]);
    world.apply(&manifest);
    world.lab.until("the database is ready on node3", || is_ready_on(world, "node3"));
    world.kubectl(&["uncordon", "node1"]);
    let sql = |text: &str| {
        world.try_kubectl(&[
            "exec",
            "db-0",
            "-c",
            "mariadb",
            "--",
            "mariadb",
            "--no-defaults",
            "-S",
            "/tmp/db.sock",
            "-N",
            "-B",
            "-e",
            text,
        ])
    };
    sql("create database shop; create table shop.orders (id int primary key auto_increment, what text) engine=InnoDB").unwrap();
    let mut acknowledged = 0;
    for i in 0..20 {
        acknowledged += u64::from(sql(&format!("insert into shop.orders (what) values ('{i}')")).is_ok());
    }
    assert_eq!(acknowledged, 20);
    world.lab.run(&["crash", "node3"]);
    world.lab.until("node3 is called dead", || world.lab.ready() == ["node1", "node2"]);
    // Nobody has said that it does not write any more: the volume stays with it.
    std::thread::sleep(Duration::from_secs(5));
    let attachments = world.lab.get(&["volumeattachments"]);
    assert!(attachments.iter().all(|one| one["spec"]["nodeName"] == "node3"), "{attachments:?}");
    let begun = Instant::now();
    world.kubectl(&["taint", "node", "node3", "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"]);
    world.lab.until("the database is ready on node1", || is_ready_on(world, "node1"));
    eprintln!("the database moved in {:?}", begun.elapsed());
    assert_eq!(sql("select count(*) from shop.orders").unwrap(), "20\n");
    let checked = sql("check table shop.orders").unwrap();
    assert_eq!(checked.trim().split('\t').next_back(), Some("OK"), "{checked}");
    let status = world.storage(&["status"]).unwrap();
    assert!(status.starts_with("shared: degraded"), "{status}");
    world.lab.run(&["reboot", "node3"]);
    world.lab.until("node3 is back", || world.lab.ready() == ["node1", "node2", "node3"]);
    world.kubectl(&["taint", "node", "node3", "node.kubernetes.io/out-of-service-"]);
    world.kubectl(&["uncordon", "node2"]);
    // Old copies are made anew in the background, which takes minutes; the servers are back at once.
    world.lab.until("its servers are back", || {
        let status = world.storage(&["status"]).unwrap_or_default();
        !status.is_empty() && !status.contains("is down") && !status.contains("does not answer")
    });
    world.kubectl(&["delete", "statefulset", "db", "--timeout=180s"]);
    world.lab.until("its volume is gone", || world.lab.get(&["pv"]).is_empty());
}

fn is_ready_on(world: &World, node: &str) -> bool {
    let pod = world.object(&["pod", "db-0"]);
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    pod["spec"]["nodeName"] == node
        && pod["metadata"]["deletionTimestamp"].is_null()
        && conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// The master's machine is lost for good: the other one becomes master with what it has logged.
pub fn master_is_recovered_from_its_log(world: &World) {
    world.claim("kept", "ReadWriteMany", "16Mi", "");
    world.pod("before", "node1", &["kept"]);
    world.ready(&["before"]);
    world.sh("before", "echo precious > /kept/f; sync");
    world.lab.until("node3 has the metadata", || {
        let setups =
            std::fs::read_dir(world.lab.dir.join("node3/data/shared")).into_iter().flatten().flatten();
        setups.into_iter().any(|one| one.path().join("metalogger/data/metadata_ml.mfs.back").exists())
    });
    world.lab.run(&["crash", "node2"]);
    world.lab.until("node2 is called dead", || world.lab.ready() == ["node1", "node3"]);
    let status = world.storage(&["status"]).unwrap();
    assert!(status.contains("recover shared --master"), "{status}");
    let said = world.storage(&["recover", "shared", "--master", "node3"]).unwrap();
    assert!(said.contains("it is ready"), "{said}");
    world.kubectl(&["delete", "pod", "before", "--timeout=180s"]);
    world.pod("after", "node1", &["kept"]);
    world.ready(&["after"]);
    assert_eq!(world.sh("after", "cat /kept/f"), "precious\n");
    world.end(&["after"], &["kept"]);
    // The old one comes back, logs for the new one, and never again begins with what it knew.
    world.lab.run(&["reboot", "node2"]);
    world.lab.until("node2 logs for the new master", || {
        let status = world.storage(&["status"]).unwrap_or_default();
        let own = status.lines().find(|line| line.trim_start().starts_with("node2"));
        own.is_some_and(|line| line.contains("mfsmetalogger") && !line.contains("is down"))
    });
    let setups = std::fs::read_dir(world.lab.dir.join("node2/data/shared")).unwrap().flatten();
    let masters: Vec<_> =
        setups.map(|setup| setup.path().join("master")).filter(|path| path.exists()).collect();
    assert_eq!(masters.len(), 1, "{masters:?}");
    assert!(masters[0].join("data.old-1").is_dir() && !masters[0].join("data").exists());
}
