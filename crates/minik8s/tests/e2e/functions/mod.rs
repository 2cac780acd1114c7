//! Functions on a real node: the minik8s binary, containerd, and runtimes made of the machine's own packages.

mod apart;
mod archives;
mod dependencies;
mod forms;
mod load;
mod local_registry;
mod nats;
mod openwhisk;
mod registry;
mod site;
mod slots;
mod streams;
mod tenants;
mod triggers;
mod workers;

use serde_json::{Value, json};
use site::{Site, eventually};
use std::time::{Duration, Instant};

use crate::harness::cluster::Cluster;

const HELLO: &str = "
import os, time

def main(params):
    print('called')
    if params.get('boom'):
        raise ValueError('no such thing')
    if params.get('die'):
        os._exit(3)
    time.sleep(params.get('sleep', 0))
    secrets = os.path.exists('/var/run/secrets/kubernetes.io')
    return {'hello': params.get('name'), 'at': os.environ['HOSTNAME'], 'secrets': secrets, 'uid': os.getuid()}
";

/// Made, called, failing, at zero, called again, changed, broken, gone back, deleted.
#[test]
fn function_lives_from_its_file_to_its_end() {
    Cluster::builder().run(|cluster| {
        let site = Site::new(&cluster, "shop");
        let file = site.file("hello.py", HELLO);
        let settings = ["--idle-seconds", "4", "--max", "3", "--runtime", "python3"];
        let made = site.run(&[&["create", "hello", "--from", &file], &settings[..]].concat());
        assert!(made.contains("revision 1 serves at http://hello.shop.fn.cluster.local"), "{made}");
        let answer = site.call("hello", &json!({"name": "you"}));
        assert_eq!((answer.status, &answer.json["hello"]), (200, &json!("you")), "{answer:?}");
        assert_eq!((&answer.json["secrets"], &answer.json["uid"]), (&json!(false), &json!(65_532)));
        assert!(site.run(&["invoke", "hello", "-d", r#"{"name": 5}"#]).contains("\"hello\": 5"));
        let params = site.file("params.yaml", "name: from a file\n");
        assert!(site.run(&["trigger", "hello", "-f", &params]).contains("from a file"));
        by_its_name(&site);
        failures(&site);
        from_zero(&site);
        many(&site);
        detached(&site);
        revisions(&site);
        assert!(site.run(&["list"]).contains("hello"));
        assert!(site.run(&["logs", "hello", "--tail", "5"]).contains("called"));
        split(&site);
        site.run(&["delete", "hello"]);
        eventually("its pods end", || site.pods("hello").is_empty());
        eventually("its route ends", || site.call("hello", &json!({})).status == 404);
    });
}

fn by_its_name(site: &Site) {
    let host = "hello.shop.fn.cluster.local";
    let answer = site.http(host, "/any/path", r#"{"name": "by host"}"#);
    assert_eq!((answer.status, &answer.json["hello"]), (200, &json!("by host")));
    assert_eq!(site.http("x", "/fn/shop/nobody", "{}").status, 404);
    assert_eq!(site.http("x", "/fn/shop", "{}").status, 404);
    let large = format!("\"{}\"", "x".repeat(7 << 20));
    assert_eq!(site.http(host, "/", &large).status, 413);
}

fn failures(site: &Site) {
    let answer = site.call("hello", &json!({"boom": true}));
    assert_eq!(answer.status, 500);
    assert_eq!(
        (&answer.json["errorType"], &answer.json["errorMessage"]),
        (&json!("ValueError"), &json!("no such thing"))
    );
    assert!(answer.json["trace"].to_string().contains("main.py"), "{answer:?}");
    let told = site.fails(&["invoke", "hello", "-d", r#"{"boom": true}"#]);
    assert!(told.contains("ValueError (500): no such thing"), "{told}");
    assert_eq!(site.call("hello", &json!({"die": true})).json["errorType"], "WorkerDied");
    assert_eq!(site.call("hello", &json!({})).status, 200, "a worker that died is replaced");
    assert!(site.fails(&["invoke", "nobody"]).contains("there is no function nobody in namespace shop"));
    let bad = site.file("bad.zip", "PK not a zip");
    assert!(
        site.fails(&["create", "bad", "--from", &bad, "--runtime", "nodejs"])
            .contains("bad.zip cannot be used")
    );
    assert!(site.fails(&["create", "bad", "--from", &bad, "--runtime", "cobol"]).contains("cannot be used"));
    let file = site.file("hello.py", HELLO);
    let unknown = site.fails(&["create", "bad", "--from", &file, "--runtime", "cobol"]);
    assert!(unknown.contains("python3.11"), "{unknown}");
}

/// After its idle time there is no pod; the next request waits for one, and is answered.
fn from_zero(site: &Site) {
    eventually("the function is at zero", || site.pods("hello").is_empty());
    let why = site.why("hello");
    assert!(why.contains("the first request starts an instance"), "{why}");
    let begun = Instant::now();
    let answer = site.call("hello", &json!({"name": "again"}));
    assert_eq!(answer.status, 200, "{answer:?}");
    println!("cold start: {:?}", begun.elapsed());
    let begun = Instant::now();
    for _ in 0..20 {
        assert_eq!(site.call("hello", &json!({})).status, 200);
    }
    println!("warm call: {:?}", begun.elapsed() / 20);
    calls_are_told(site);
}

/// The newest first; the one that began at zero waited for its instance.
fn calls_are_told(site: &Site) {
    let told = site.run(&["calls", "hello"]);
    let mut lines = told.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let warm = lines.next().unwrap_or_default();
    assert_eq!(warm[1..4], ["POST", "200", "warm"], "{told}");
    let cold = lines.find(|line| line[3] == "cold").unwrap_or_else(|| panic!("{told}"));
    let (took, waited): (f64, f64) = (cold[4].parse().unwrap(), cold[5].parse().unwrap());
    assert!(took >= waited && waited > 0.0 && cold[6] == "1", "{told}");
}

/// More requests than one instance takes: all are answered, by several instances and no more than allowed.
fn many(site: &Site) {
    let calls: Vec<_> = std::thread::scope(|scope| {
        let call = || site.call("hello", &json!({"sleep": 2}));
        let threads: Vec<_> = (0..9).map(|_| scope.spawn(call)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(calls.iter().all(|answer| answer.status == 200), "{calls:?}");
    let at: std::collections::BTreeSet<_> =
        calls.iter().map(|answer| answer.json["at"].to_string()).collect();
    assert!((2..=3).contains(&at.len()), "{at:?}");
}

/// A call that nobody waits for has a result later; one that fails is tried again and told to another function.
fn detached(site: &Site) {
    let id = site.run(&["invoke", "hello", "--async", "-d", r#"{"name": "later"}"#]);
    let result = site.run(&["result", id.trim(), "--wait"]);
    assert!(result.contains("\"hello\": \"later\""), "{result}");
    let id = site.run(&["invoke", "hello", "--async", "-d", r#"{"boom": true}"#]);
    let told = site.fails(&["result", id.trim(), "--wait"]);
    assert!(told.contains("failed after 3 attempts with code 500") && told.contains("ValueError"), "{told}");
    assert!(site.fails(&["result", "nothing"]).contains("there is no call nothing"));
}

/// A revision that cannot be imported never serves; one that can takes over; and back.
fn revisions(site: &Site) {
    let broken = site.file("broken.py", "import nothing_like_this\n");
    let told = site.fails(&["update", "hello", "--from", &broken]);
    assert!(told.contains("revision 2 does not start") && told.contains("nothing_like_this"), "{told}");
    assert_eq!(site.call("hello", &json!({"name": "old"})).json["hello"], "old");
    let second = site.file("second.py", "def run(x, y): return x + y\n");
    assert!(site.run(&["update", "hello", "--from", &second]).contains("revision 3 serves"));
    assert_eq!(site.call("hello", &json!({"x": 3, "y": 4})).json, json!(7));
    assert!(site.run(&["describe", "hello"]).contains("3 serves, 3 is the newest"));
    assert!(site.run(&["rollback", "hello", "--to", "1"]).contains("revision 1 serves"));
    assert_eq!(site.call("hello", &json!({"name": "back"})).json["hello"], "back");
}

/// Two revisions at once, each with its part.
fn split(site: &Site) {
    let first = site.file("first.py", "def main(p): return 1\n");
    let second = site.file("second.py", "def main(p): return 2\n");
    site.run(&["create", "split", "--from", &first]);
    site.run(&["update", "split", "--from", &second, "--traffic", "1=25"]);
    let ones = || (0..20).filter(|_| site.call("split", &json!({})).json == json!(1)).count();
    eventually("both revisions answer", || ones() > 0);
    // Of a revision that is just ready, some of the twenty before may have been counted.
    eventually("a quarter goes to the first", || ones() == 5);
    site.run(&["update", "split", "--traffic", "newest"]);
    eventually("all go to the newest", || ones() == 0);
    assert!(site.fails(&["update", "split", "--traffic", "most"]).contains("REVISION=PERCENT"));
    site.run(&["delete", "split"]);
}

/// Each namespace has its own; queues are bounded; handlers too slow are ended alone; Node speaks too.
#[test]
fn functions_are_bounded_and_apart() {
    Cluster::builder().run(|cluster| {
        let (one, two) = (Site::new(&cluster, "one"), Site::new(&cluster, "two"));
        let file = one.file(
            "index.js",
            "exports.handler = async (event) => ({ sum: event.a + event.b, ns: process.env.FN_NAMESPACE });",
        );
        for site in [&one, &two] {
            site.run(&["create", "sum", "--from", &file]);
            let answer = site.call("sum", &json!({"a": 2, "b": 3}));
            assert_eq!(answer.json, json!({"sum": 5, "ns": site.namespace}), "{answer:?}");
        }
        // What runs as a function has no credentials, and its namespace's owner reads no other's code.
        let (mine, others) = (one.can_read("one"), one.can_read("two"));
        assert_eq!((mine.as_str(), others.as_str()), ("yes", "no"));
        let calls =
            |namespace: &str| format!("/apis/minik8s.io/v1/namespaces/{namespace}/functions/sum/calls");
        let editor = "system:serviceaccount:one:default";
        let told: Value =
            serde_json::from_str(&one.kubectl(&["get", "--raw", &calls("one"), "--as", editor])).unwrap();
        assert_eq!((&told["items"][0]["method"], &told["items"][0]["status"]), (&json!("POST"), &json!(200)));
        let refused = one.kubectl_fails(&["get", "--raw", &calls("two"), "--as", editor]);
        assert!(refused.contains("functions/calls") && refused.contains("\"two\""), "{refused}");
        tenants::read_nothing_of_each_other(&cluster, &one, &two);
        let slow = one.file("slow.yaml", SLOW);
        one.kubectl(&["apply", "-f", &slow]);
        one.kubectl(&["wait", "function/slow", "--for=condition=RevisionReady", "--timeout=180s"]);
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let call = || one.call("slow", &json!({"seconds": 4})).status;
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(call)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let count = |status: u16| statuses.iter().filter(|one| **one == status).count();
        assert!(count(200) >= 1 && count(429) >= 3 && count(200) + count(429) == 6, "{statuses:?}");
        let begun = Instant::now();
        let late = one.call("slow", &json!({"seconds": 150}));
        assert_eq!((late.status, &late.json["errorType"]), (504, &json!("Timeout")), "{late:?}");
        assert!(begun.elapsed() < Duration::from_secs(90), "{:?}", begun.elapsed());
        assert_eq!(one.call("slow", &json!({"seconds": 0})).status, 200, "only that worker was ended");
        dependencies::are_fetched_by_pods(&one);
        an_image_of_its_own(&cluster, &one);
        dependencies::go_with_their_functions(&one);
        archives::larger_than_a_function(&one);
        // A quota that leaves no room is the reason that callers hear.
        two.kubectl(&["create", "quota", "none", "--hard=pods=0"]);
        let told = two.fails(&["create", "late", "--from", &file]);
        assert!(told.contains("quota"), "{told}");
        let refused = two.call("late", &json!({}));
        assert!(
            refused.status == 503 && refused.json["errorMessage"].to_string().contains("quota"),
            "{refused:?}"
        );
    });
}

/// A program of the user's on top of a runtime: built on the node, and called like any function.
fn an_image_of_its_own(cluster: &Cluster, site: &Site) {
    let program = site.file("server.py", SERVER);
    let dir = cluster.dir.to_str().unwrap();
    let built = site.kubectl(&[
        "image",
        "build",
        &program,
        "--base",
        "minik8s.io/function-python:3.11-7",
        "--tag",
        "own.example/server:1",
        "--entrypoint",
        "/usr/bin/python3.11,/app/server.py",
        "--env",
        "WHO=me",
        "--data-dir",
        dir,
    ]);
    assert!(built.contains("built own.example/server:1"), "{built}");
    site.run(&["create", "own", "--image", "own.example/server:1"]);
    assert_eq!(site.call("own", &json!({})).json, json!("me"));
    of_a_dockerfile(site, dir);
}

/// The same by a Dockerfile; what nobody uses goes, what a pod uses stays.
fn of_a_dockerfile(site: &Site, dir: &str) {
    let program = site.file("server.py", SERVER);
    let folder = std::path::Path::new(&program).parent().unwrap().to_str().unwrap().to_owned();
    let base =
        "FROM minik8s.io/function-python:3.11-7\nWORKDIR /srv\nCOPY server.py app/main.py\nENV WHO=docker\n";
    site.file("Dockerfile", &format!("{base}RUN true\n"));
    let build = ["image", "build", &folder, "--tag", "own.example/file:1", "--data-dir", dir];
    let told = site.kubectl_fails(&build);
    assert!(told.contains("Dockerfile: line 5: RUN needs a builder"), "{told}");
    site.file("Dockerfile", &format!("{base}ENTRYPOINT [\"/usr/bin/python3.11\", \"/srv/app/main.py\"]\n"));
    assert!(site.kubectl(&build).contains("built own.example/file:1"));
    site.run(&["create", "file", "--image", "own.example/file:1"]);
    assert_eq!(site.call("file", &json!({})).json, json!("docker"));
    let unused =
        ["image", "build", &folder, "--tag", "own.example/unused:1", "--env", "X=1", "--data-dir", dir];
    site.kubectl(&unused);
    let pruned = site.kubectl(&["image", "prune", "--data-dir", dir]);
    assert!(pruned.contains("removed own.example/unused:1") && !pruned.contains("file:1"), "{pruned}");
    let listed = site.kubectl(&["image", "list", "--data-dir", dir]);
    assert!(listed.contains("own.example/file:1") && !listed.contains("unused"), "{listed}");
    let told = site.kubectl_fails(&["image", "pull", "127.0.0.1:1/nothing:1", "--data-dir", dir]);
    assert!(told.contains("cannot pull 127.0.0.1:1/nothing:1"), "{told}");
}

const SLOW: &str = "
apiVersion: minik8s.io/v1
kind: Function
metadata: {name: slow}
spec:
  runtime: python3.11
  code:
    source: |
      import time
      def main(params):
          time.sleep(params['seconds'])
          return 'done'
  timeoutSeconds: 12
  scale: {max: 1}
  queue: {max: 1}
";

const SERVER: &str = "
import http.server, json, os

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers['content-length']))
        body = json.dumps(os.environ['WHO']).encode()
        self.send_response(200)
        self.send_header('content-length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.HTTPServer(('', int(os.environ['PORT'])), Handler).serve_forever()
";
