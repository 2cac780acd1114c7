//! Functions where parts of the cluster are away or far: no server, another node's router, another tenant.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::site::{Site, eventually};
use crate::harness::cluster::{Cluster, block_on};
use crate::harness::lab::Lab;

const HELLO: &str = "
import os
def main(params):
    print('said ' + str(params.get('say')))
    return {'at': os.environ['HOSTNAME'], 'n': params.get('n')}
";

/// What has instances goes on, with those that it has; what has none waits, and says why in the end.
#[test]
fn warm_functions_go_on_while_the_server_is_away() {
    // Room for the image of a runtime, packed and unpacked.
    Cluster::builder().node_apart(1024).run(|cluster| {
        let site = Site::new(&cluster, "shop");
        let file = site.file("hello.py", HELLO);
        site.run(&["create", "warm", "--from", &file, "--min", "1"]);
        site.apply(
            "
apiVersion: minik8s.io/v1
kind: Function
metadata: {name: cold}
spec:
  runtime: python3
  code: {source: 'def main(p): return 1'}
  scale: {idleSeconds: 1}
  queue: {seconds: 2}
",
        );
        eventually("both serve", || {
            site.call("warm", &json!({})).status == 200 && site.call("cold", &json!({})).status == 200
        });
        eventually("one is at zero", || site.pods("cold").is_empty());
        let before = site.call("warm", &json!({})).json["at"].clone();
        cluster.crash_server();
        for n in 0..50 {
            let answer = site.call("warm", &json!({"n": n}));
            assert_eq!((answer.status, &answer.json), (200, &json!({"at": before, "n": n})), "{answer:?}");
        }
        let refused = site.call("cold", &json!({}));
        let told = (refused.status, &refused.json["errorType"]);
        assert_eq!(told, (503, &json!("NoControlPlane")), "{refused:?}");
        block_on(cluster.restart_server());
        eventually("the other starts again", || site.call("cold", &json!({})).status == 200);
        assert_eq!(site.call("warm", &json!({})).json["at"], before, "the same instance all the time");
        server_killed_while_calls_wait(&cluster, &site);
    });
}

/// Counts its calls: were one executed twice, another would get a number that there should not be.
const COUNTED: &str = "
apiVersion: minik8s.io/v1
kind: Function
metadata: {name: counted}
spec:
  runtime: python3
  code:
    source: |
      count = 0
      def main(params):
          global count
          count += 1
          return count
  scale: {idleSeconds: 1, max: 1}
  queue: {seconds: 170}
---
apiVersion: minik8s.io/v1
kind: Function
metadata: {name: kept}
spec:
  runtime: python3
  code:
    source: |
      import time
      def main(params):
          time.sleep(3)
          return params
  scale: {idleSeconds: 1, max: 1}
";

/// The server alone is killed while calls run, wait for a first instance, and are kept for later: none is lost, and none
/// that somebody waits for is executed twice.
fn server_killed_while_calls_wait(cluster: &Cluster, site: &Site) {
    site.apply(COUNTED);
    for function in ["function/counted", "function/kept"] {
        site.kubectl(&["wait", function, "--for=condition=RevisionReady", "--timeout=180s"]);
    }
    eventually("both are at zero", || site.pods("counted").is_empty() && site.pods("kept").is_empty());
    let over = AtomicBool::new(false);
    let (statuses, counts, later) = std::thread::scope(|scope| {
        let _over = SetAtEnd(&over);
        let load = || {
            let mut statuses = BTreeSet::new();
            while !over.load(Ordering::Relaxed) {
                statuses.insert(site.try_call("warm", &json!({})).map_or(0, |answer| answer.status));
            }
            statuses
        };
        let running = [scope.spawn(load), scope.spawn(load)];
        let cold = || scope.spawn(move || site.call("counted", &json!({})));
        let later = site.run(&["invoke", "kept", "--async", "-d", r#"{"said": "before"}"#]);
        let mut waiting = vec![cold(), cold(), cold(), cold()];
        cluster.crash_server();
        waiting.extend([cold(), cold(), cold(), cold()]);
        block_on(cluster.restart_server());
        let counts: Vec<_> = waiting.into_iter().map(|call| call.join().unwrap()).collect();
        over.store(true, Ordering::Relaxed);
        (running.map(|load| load.join().unwrap()), counts, later)
    });
    assert_eq!(statuses, [BTreeSet::from([200]), BTreeSet::from([200])], "warm calls");
    let counted: BTreeSet<_> = counts.iter().filter_map(|answer| answer.json.as_u64()).collect();
    assert_eq!(counted, (1..=8).collect::<BTreeSet<u64>>(), "{counts:?}");
    let result = site.run(&["result", later.trim(), "--wait"]);
    assert!(result.contains("\"said\": \"before\""), "{result}");
}

/// Threads of a scope that has failed would be waited for for ever.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a tenant's function prints is that tenant's to read, while it runs and when it is gone; and following sees
/// instances that come later.
#[test]
fn logs_of_functions_are_their_tenants_alone() {
    Cluster::builder().flags(&["--log-retention", "1h,64MiB"]).run(|cluster| {
        let (one, two) = (Site::new(&cluster, "one"), Site::new(&cluster, "two"));
        let file = one.file("hello.py", HELLO);
        for site in [&one, &two] {
            site.run(&["create", "hello", "--from", &file, "--idle-seconds", "10"]);
            assert_eq!(site.can_read(&site.namespace), "yes");
        }
        let follower = one.follow("hello");
        let answer = one.call("hello", &json!({"say": "secret of one"}));
        assert_eq!(answer.status, 200, "{answer:?}");
        let pod = format!("pod/{}", answer.json["at"].as_str().unwrap());
        eventually("it is followed", || follower.said().contains("said secret of one"));
        let editor = "system:serviceaccount:two:default";
        let refused = two.kubectl_fails(&["logs", &pod, "-n", "one", "--as", editor]);
        assert!(refused.contains("forbidden") || refused.contains("cannot"), "{refused}");
        let path = "/apis/logs.minik8s.io/v1/namespaces/one/logs?ended=true";
        let refused = two.kubectl_fails(&["get", "--raw", path, "--as", editor]);
        assert!(!refused.contains("secret of one"), "{refused}");
        eventually("it is at zero", || one.pods("hello").is_empty());
        // The node writes them down when the pod is gone.
        eventually("the log has outlived its instance", || {
            one.run_or_not(&["logs", "hello"]).contains("said secret of one")
        });
        assert!(!two.run_or_not(&["logs", "hello"]).contains("secret of one"));
        let refused = two.kubectl_fails(&["get", "--raw", path, "--as", editor]);
        assert!(!refused.contains("secret of one"), "{refused}");
        // Another instance, the same follower.
        assert_eq!(one.call("hello", &json!({"say": "more"})).status, 200);
        eventually("the next instance is followed too", || follower.said().contains("said more"));
        assert!(!one.pods("hello").contains(&pod), "it is another");
    });
}

/// Two nodes, one instance that takes one request at a time: both routers send to it, the instance is the judge, and all
/// that come are answered once.
#[test]
fn routers_of_two_nodes_share_an_instance() {
    let lab = Lab::up(2);
    lab.until("both nodes are ready", || lab.ready().len() == 2);
    let kubeconfig = lab.dir.join("admin.kubeconfig");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("one.py");
    let code = "import time\ncount = 0\ndef main(p):\n global count\n count += 1\n time.sleep(0.02)\n return count\n";
    std::fs::write(&file, code).unwrap();
    let made = Command::new(crate::harness::program::BINARY)
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .args(["function", "create", "one", "--max", "1", "--idle-seconds", "300", "--from"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    for node in ["node1", "node2"] {
        lab.until("its router knows the function", || call(&lab, node, 1) == [200]);
    }
    let counted = 2 + 2 * 40;
    let (first, second) = std::thread::scope(|scope| {
        let lab = &lab;
        let one = scope.spawn(move || call(lab, "node1", 40));
        let two = scope.spawn(move || call(lab, "node2", 40));
        (one.join().unwrap(), two.join().unwrap())
    });
    assert!(first.iter().chain(&second).all(|status| *status == 200), "{first:?} {second:?}");
    // Those that found it busy were sent again, and none of them was executed then.
    let last: usize = read(&lab, "node1", &format!("{OPENER}print(opener.open(URL).read().decode())"))
        .trim()
        .parse()
        .unwrap();
    assert_eq!(last, counted + 1, "as many were executed as were answered, and this one");
}

/// Past whatever proxy the machine has.
const OPENER: &str = "
import urllib.error, urllib.request
URL = 'http://127.0.0.1/fn/default/one'
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
";

/// Four clients at once on one node; the statuses of all their calls.
fn call(lab: &Lab, node: &str, calls: usize) -> Vec<u16> {
    let program = format!(
        "{OPENER}
import concurrent.futures
def one(_):
    try:
        return opener.open(URL, timeout=60).status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print(' '.join(map(str, pool.map(one, range({calls})))))
"
    );
    let said = read(lab, node, &program);
    said.split_whitespace().filter_map(|status| status.parse().ok()).collect()
}

/// What a program says that runs on a node.
fn read(lab: &Lab, node: &str, program: &str) -> String {
    let namespace = format!("--net={}", lab.namespace(node).display());
    let output =
        Command::new("nsenter").args([&namespace, "/usr/bin/python3", "-c", program]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
