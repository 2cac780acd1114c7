//! Warm slots on a real node: adopted once, by pods that fit; known again after a crash; gone with the last function.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::site::{Site, eventually};
use crate::harness::cluster::{Cluster, block_on};

const WHO: &str = "
import os, socket

def read(path):
    with open(path) as file:
        return file.read()

def main(params):
    print('called in', os.environ['HOSTNAME'])
    if 'write' in params:
        with open('/tmp/secret', 'w') as file:
            file.write(params['write'])
    return {
        'pod': os.environ['HOSTNAME'], 'host': socket.gethostname(), 'uid': os.getuid(), 'color': os.environ.get('COLOR'),
        'hosts': read('/etc/hosts'), 'resolv': read('/etc/resolv.conf'), 'hostname': read('/etc/hostname').strip(),
        'slot': os.environ.get('FN_SLOT'), 'secret': os.path.exists('/tmp/secret'), 'code': os.access('/fn/code', os.W_OK),
        'token': os.path.exists('/var/run/secrets/kubernetes.io/serviceaccount/token'),
    }
";

/// What is written down of the slots of a node.
fn slots(cluster: &Cluster) -> Vec<Value> {
    let entries = std::fs::read_dir(cluster.config().slots_dir()).into_iter().flatten().flatten();
    let read = |entry: std::fs::DirEntry| std::fs::read(entry.path().join("slot.json")).ok();
    entries.filter_map(read).filter_map(|text| serde_json::from_slice(&text).ok()).collect()
}

fn is_free(slot: &Value) -> bool {
    slot["adoption"].is_null() && slot["container"].as_str().is_some_and(|id| !id.is_empty())
}

fn free(cluster: &Cluster) -> BTreeSet<String> {
    slots(cluster).iter().filter(|slot| is_free(slot)).map(|slot| slot["uid"].to_string()).collect()
}

fn a_slot_waits(cluster: &Cluster) {
    eventually("a slot waits", || !free(cluster).is_empty());
}

/// Whether the pod began in a slot.
fn adopted(site: &Site, pod: &str) -> bool {
    let events = site.get("events");
    let events = events["items"].as_array().cloned().unwrap_or_default();
    events.iter().any(|one| one["reason"] == "SlotAdopted" && one["involvedObject"]["name"] == pod)
}

#[test]
fn functions_begin_in_slots() {
    Cluster::builder().run(|cluster| {
        let site = Site::new(&cluster, "shop");
        assert!(slots(&cluster).is_empty(), "no function, no slot");
        let file = site.file("who.py", WHO);
        // Long enough to look at an instance on a busy machine.
        let idle = ["--idle-seconds", "30"];
        site.run(&[&["create", "who", "--from", &file, "--env", "COLOR=red"], &idle[..]].concat());
        a_slot_waits(&cluster);
        eventually("it is at zero", || site.pods("who").is_empty());
        let (cold, used) = first_call(&cluster, &site);
        used_once(&cluster, &site, &used);
        after_a_crash(&cluster, &site);
        let without = what_does_not_fit(&cluster, &site, &file);
        println!("cold start in a slot: {cold:?}; without: {without:?}");
        node(&cluster, &site);
        for function in ["who", "path", "limited", "js"] {
            site.run(&["delete", function]);
        }
        eventually("the slots go with the last function", || slots(&cluster).is_empty());
    });
}

/// Everything in it is the pod's own, and nothing of the slot's is left.
fn first_call(cluster: &Cluster, site: &Site) -> (Duration, String) {
    a_slot_waits(cluster);
    let before = free(cluster);
    let begun = Instant::now();
    let answer = site.call("who", &json!({"write": "mine"}));
    let took = begun.elapsed();
    assert_eq!(answer.status, 200, "{answer:?}");
    let pod = answer.json["pod"].as_str().unwrap().to_owned();
    eventually("its event", || adopted(site, &pod));
    let told = &answer.json;
    assert_eq!((&told["host"], &told["hostname"]), (&told["pod"], &told["pod"]), "{told}");
    assert_eq!((&told["uid"], &told["color"], &told["slot"]), (&json!(65_532), &json!("red"), &Value::Null));
    assert_eq!(
        (&told["token"], &told["code"], &told["secret"]),
        (&json!(false), &json!(false), &json!(true))
    );
    let object = site.get(&format!("pod/{pod}"));
    let ip = object["status"]["podIP"].as_str().unwrap();
    assert!(told["hosts"].as_str().unwrap().contains(&format!("{ip}\t{pod}")), "{told}");
    assert!(told["resolv"].as_str().unwrap().contains("search shop.svc."), "{told}");
    // The rest of the node takes it for any other pod.
    assert!(site.run(&["logs", "who", "--tail", "5"]).contains(&format!("called in {pod}")));
    let listed = site.kubectl(&[
        "exec",
        &pod,
        "--",
        "/usr/bin/python3.11",
        "-c",
        "import os; print(os.listdir('/fn/code'))",
    ]);
    assert!(listed.contains("main.py"), "{listed}");
    let created = object["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
    let started = &object["status"]["containerStatuses"][0]["state"]["running"]["startedAt"];
    assert!(started.as_str().unwrap() >= created.as_str(), "{started} {created}");
    let adopted: Vec<Value> =
        slots(cluster).into_iter().filter(|slot| slot["adoption"]["name"] == *pod).collect();
    assert_eq!(adopted.len(), 1);
    assert!(before.contains(&adopted[0]["uid"].to_string()), "{before:?}");
    (took, adopted[0]["uid"].as_str().unwrap().to_owned())
}

/// A slot dies with its pod; the next instance, whoever's it is, finds nothing of the one before.
fn used_once(cluster: &Cluster, site: &Site, used: &str) {
    eventually("the instance is gone", || site.pods("who").is_empty());
    eventually("its slot is gone", || !slots(cluster).iter().any(|slot| slot["uid"] == *used));
    let cgroup = format!("/sys/fs/cgroup/memory{}/{}", cluster.config().cgroup_root(), used);
    assert!(!std::path::Path::new(&cgroup).exists(), "{cgroup}");
    a_slot_waits(cluster);
    let answer = site.call("who", &json!({}));
    assert_eq!((answer.status, &answer.json["secret"]), (200, &json!(false)), "{answer:?}");
}

/// kill -9: what waits waits on, what was adopted stays its pod's, and both go on.
fn after_a_crash(cluster: &Cluster, site: &Site) {
    site.run(&["update", "who", "--idle-seconds", "300"]);
    let pod = site.call("who", &json!({})).json["pod"].clone();
    a_slot_waits(cluster);
    let before = free(cluster);
    cluster.crash_server();
    block_on(cluster.restart_server());
    eventually("the same instance answers", || {
        site.try_call("who", &json!({})).is_some_and(|answer| answer.json["pod"] == pod)
    });
    assert!(!free(cluster).is_disjoint(&before), "slots of before are there still");
    let object = site.get(&format!("pod/{}", pod.as_str().unwrap()));
    assert_eq!(object["status"]["containerStatuses"][0]["restartCount"], 0);
    let held = site.kubectl(&["logs", pod.as_str().unwrap(), "--tail", "1"]);
    assert!(held.contains("called in"), "{held}");
    site.run(&["update", "who", "--idle-seconds", "1"]);
    eventually("it is at zero again", || site.pods("who").is_empty());
    let answer = site.call("who", &json!({}));
    let pod = answer.json["pod"].as_str().unwrap().to_owned();
    eventually("a slot of before was adopted", || adopted(site, &pod));
}

/// What an interpreter reads when it starts cannot be told later; limits can.
fn what_does_not_fit(cluster: &Cluster, site: &Site, file: &str) -> Duration {
    let idle = ["--idle-seconds", "1"];
    site.run(&[&["create", "path", "--from", file, "--env", "PYTHONOPTIMIZE=0"], &idle[..]].concat());
    eventually("it is at zero", || site.pods("path").is_empty());
    a_slot_waits(cluster);
    let begun = Instant::now();
    let answer = site.call("path", &json!({}));
    let took = begun.elapsed();
    assert_eq!((answer.status, &answer.json["host"]), (200, &answer.json["pod"]), "{answer:?}");
    assert_eq!(answer.json["secret"], json!(false));
    site.apply(LIMITED);
    site.kubectl(&["wait", "function/limited", "--for=condition=RevisionReady", "--timeout=120s"]);
    eventually("it is at zero", || site.pods("limited").is_empty());
    a_slot_waits(cluster);
    let pod = site.call("limited", &json!({})).json["pod"].as_str().unwrap().to_owned();
    eventually("it began in a slot", || adopted(site, &pod));
    let slot = slots(cluster).into_iter().find(|slot| slot["adoption"]["name"] == *pod).unwrap();
    let dir =
        format!("/sys/fs/cgroup/memory{}/{}", cluster.config().cgroup_root(), slot["uid"].as_str().unwrap());
    for dir in [dir.clone(), format!("{dir}/{}", slot["container"].as_str().unwrap())] {
        let limit = std::fs::read_to_string(format!("{dir}/memory.limit_in_bytes")).unwrap();
        assert_eq!(limit.trim(), (96 << 20).to_string(), "{dir}");
    }
    took
}

fn node(cluster: &Cluster, site: &Site) {
    let file = site.file(
        "index.js",
        "exports.main = (p) => ({ x: p.x, at: process.env.HOSTNAME, c: process.env.COLOR });",
    );
    site.run(&["create", "js", "--from", &file, "--env", "COLOR=blue", "--idle-seconds", "1"]);
    eventually("a slot of its runtime waits", || {
        slots(cluster).iter().any(|slot| is_free(slot) && slot["image"].to_string().contains("nodejs"))
    });
    eventually("it is at zero", || site.pods("js").is_empty());
    let answer = site.call("js", &json!({"x": 3}));
    assert_eq!((&answer.json["x"], &answer.json["c"]), (&json!(3), &json!("blue")), "{answer:?}");
    let pod = answer.json["at"].as_str().unwrap().to_owned();
    eventually("it began in a slot", || adopted(site, &pod));
}

const LIMITED: &str = "
apiVersion: minik8s.io/v1
kind: Function
metadata: {name: limited}
spec:
  runtime: python3.11
  code:
    source: |
      import os
      def main(params):
          return {'pod': os.environ['HOSTNAME']}
  resources: {limits: {memory: 96Mi}}
  scale: {idleSeconds: 30}
";
