//! Many requests at once, while instances come, change and are killed: none is lost, and none is executed twice.
//!
//! A ledger outside of the functions counts what was executed, by the request's own number. An answer of 200 means once; a
//! request whose instance or router was killed may have been executed, once at most.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::site::{Site, eventually};
use crate::harness::cluster::{Cluster, block_on};

const LEDGER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: ledger}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: c
    image: minik8s.io/function-python:3.11-7
    command:
    - /usr/bin/python3.11
    - -c
    - |
      import collections, http.server, json, threading
      counts, lock = collections.Counter(), threading.Lock()
      class Handler(http.server.BaseHTTPRequestHandler):
          def do_GET(self):
              with lock:
                  if self.path != '/': counts[self.path[1:]] += 1
                  body = json.dumps(counts if self.path == '/' else {}).encode()
              self.send_response(200)
              self.send_header('content-length', str(len(body)))
              self.end_headers()
              self.wfile.write(body)
          def log_message(self, *_): pass
      class Server(http.server.ThreadingHTTPServer):
          request_queue_size = 1024
      Server(('', 9000), Handler).serve_forever()
    readinessProbe: {tcpSocket: {port: 9000}, periodSeconds: 1}
";

const WORK: &str = "
import os, time, urllib.request
def main(params):
    urllib.request.urlopen('http://%s:9000/%s' % (os.environ['LEDGER'], params['n']), timeout=30).read()
    time.sleep(params.get('sleep', 0.02))
    return {'n': params['n'], 'v': os.environ['VERSION']}
";

/// Numbers of requests, by the status that they were answered with; 0 for those that got no answer.
type Answers = BTreeMap<u16, Vec<usize>>;

struct Load<'a> {
    site: &'a Site,
    next: AtomicUsize,
    stop: AtomicBool,
    answers: Mutex<Answers>,
}

impl Load<'_> {
    fn new(site: &Site) -> Load<'_> {
        Load { site, next: AtomicUsize::new(0), stop: AtomicBool::new(false), answers: Mutex::default() }
    }

    fn one(&self) -> u16 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let answer = self.site.try_call("work", &json!({"n": number}));
        let status = answer.map_or(0, |answer| answer.status);
        self.answers.lock().unwrap().entry(status).or_default().push(number);
        status
    }

    /// Clients that call one after the other while something happens, and until it has had its effect.
    fn during(&self, clients: usize, what: impl FnOnce()) {
        self.stop.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            for _ in 0..clients {
                scope.spawn(|| {
                    while !self.stop.load(Ordering::Relaxed) {
                        if self.one() == 0 {
                            // The router is away.
                            std::thread::sleep(std::time::Duration::from_millis(50));
                        }
                    }
                });
            }
            what();
            self.stop.store(true, Ordering::Relaxed);
        });
    }

    /// How many were answered so; each was executed as often as its answer says it may have been.
    fn check(&self, expected: &[u16]) -> BTreeMap<u16, usize> {
        let counts = self.site.ledger();
        let executed = |number: &usize| counts[number.to_string()].as_u64().unwrap_or(0);
        let answers = self.answers.lock().unwrap();
        for (status, numbers) in answers.iter() {
            assert!(
                expected.contains(status),
                "{status}: {:?} of {}",
                &numbers[..numbers.len().min(5)],
                self.next.load(Ordering::Relaxed)
            );
            for number in numbers {
                let times = executed(number);
                let may = if *status == 200 { times == 1 } else { times <= 1 };
                assert!(may, "request {number}, answered {status}, was executed {times} times");
            }
        }
        answers.iter().map(|(status, numbers)| (*status, numbers.len())).collect()
    }
}

impl Site {
    fn ledger(&self) -> Value {
        let read =
            "import urllib.request;print(urllib.request.urlopen('http://127.0.0.1:9000/').read().decode())";
        let text = self.kubectl(&["exec", "ledger", "--", "/usr/bin/python3.11", "-c", read]);
        serde_json::from_str(&text).unwrap()
    }
}

#[test]
fn requests_are_neither_lost_nor_executed_twice() {
    Cluster::builder().run(|cluster| {
        let site = Site::new(&cluster, "load");
        site.apply(LEDGER);
        site.kubectl(&["wait", "pod/ledger", "--for=condition=Ready", "--timeout=180s"]);
        let ledger = site.get("pod/ledger")["status"]["podIP"].as_str().unwrap().to_owned();
        let work = site.file("work.py", WORK);
        let env = format!("LEDGER={ledger}");
        let settings =
            ["--env", &env, "--env", "VERSION=1", "--concurrency", "8", "--max", "4", "--idle-seconds", "3"];
        site.run(&[&["create", "work", "--from", &work], &settings[..]].concat());
        eventually("it is at zero", || site.pods("work").is_empty());
        let load = Load::new(&site);
        from_zero_in_one_step(&load);
        rolling_update(&load);
        println!("without a fault: {:?}", load.check(&[200]));
        instance_killed(&load);
        println!("instances killed: {:?}", load.check(&[200, 502]));
        agent_killed(&load, &cluster);
        println!("agent killed: {:?}", load.check(&[200, 502, 0]));
    });
}

/// 64 connections at once where there is no instance: all are answered.
fn from_zero_in_one_step(load: &Load<'_>) {
    let barrier = Arc::new(std::sync::Barrier::new(64));
    std::thread::scope(|scope| {
        for _ in 0..64 {
            let barrier = barrier.clone();
            scope.spawn(move || {
                barrier.wait();
                for _ in 0..3 {
                    assert_eq!(load.one(), 200);
                }
            });
        }
    });
    assert_eq!(load.check(&[200]), BTreeMap::from([(200, 192)]));
}

fn rolling_update(load: &Load<'_>) {
    load.during(8, || {
        let told = load.site.run(&["update", "work", "--env", "VERSION=2"]);
        assert!(told.contains("revision 2 serves"), "{told}");
        eventually("the instances before are gone", || {
            let pods = load.site.get("pods");
            let pods = pods["items"].as_array().cloned().unwrap_or_default();
            let of = |pod: &Value, version: &str| {
                pod["spec"]["containers"][0]["env"]
                    .to_string()
                    .contains(&format!("\"VERSION\",\"value\":\"{version}\""))
            };
            !pods.iter().any(|pod| of(pod, "1")) && pods.iter().any(|pod| of(pod, "2"))
        });
    });
}

/// As the kernel does it when memory is out: the first process of an instance, and with it all others.
fn instance_killed(load: &Load<'_>) {
    load.during(8, || {
        for _ in 0..3 {
            eventually("there is an instance", || first_process(load.site).is_some());
            let Some((pod, process)) = first_process(load.site) else { continue };
            nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGKILL).unwrap();
            eventually("others have taken its place", || {
                let pods = load.site.pods("work");
                !pods.is_empty() && !pods.contains(&pod)
            });
        }
    });
}

/// Of some instance, with the pod's name as kubectl prints it.
fn first_process(site: &Site) -> Option<(String, nix::unistd::Pid)> {
    let processes: Vec<_> =
        std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).map(|entry| entry.path()).collect();
    site.pods("work").into_iter().find_map(|pod| {
        let host = pod.rsplit('/').next()?;
        let process = processes.iter().find(|process| {
            // Not by its environment, which an instance that began in a slot was told later.
            let name = std::fs::read_to_string(process.join("root/etc/hostname")).unwrap_or_default();
            let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
            let is_first = status.lines().any(|line| {
                line.starts_with("NSpid:") && line.split_whitespace().count() > 2 && line.ends_with("\t1")
            });
            is_first && name.trim() == host
        })?;
        let number = process.file_name()?.to_str()?.parse().ok()?;
        Some((pod, nix::unistd::Pid::from_raw(number)))
    })
}

/// The node's router goes with it, its instances stay.
fn agent_killed(load: &Load<'_>, cluster: &Cluster) {
    let before = load.next.load(Ordering::Relaxed);
    load.during(8, || {
        // Kept, and begun at most, when its router ends with the control plane.
        let later = load.site.run(&["invoke", "work", "--async", "-d", r#"{"n": "later", "sleep": 5}"#]);
        cluster.crash_server();
        block_on(cluster.restart_server());
        let after = load.next.load(Ordering::Relaxed);
        eventually("calls are answered again", || {
            let answers = load.answers.lock().unwrap();
            answers.get(&200).is_some_and(|numbers| numbers.iter().any(|number| *number > after))
        });
        let result = load.site.run(&["result", later.trim(), "--wait"]);
        assert!(result.contains("later"), "{result}");
    });
    assert!(load.next.load(Ordering::Relaxed) > before);
}
