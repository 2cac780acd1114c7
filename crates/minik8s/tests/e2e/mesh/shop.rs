//! One namespace with a Service of two versions, and a client whose requests are counted.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::cluster::{Cluster, TIMEOUT};

const BINARY: &str = env!("CARGO_BIN_EXE_minik8s");
const STORE: &str = include_str!("../../../../../examples/bookstore/store.py");
const PYTHON: &str = "/usr/bin/python3.11";

/// Asks over one connection and counts answers by the pod that gave them; until its input ends, if the number is 0.
const CLIENT: &str = r#"
import collections, http.client, json, select, sys, time
seen, words = collections.Counter(), dict(pair.split("=", 1) for pair in sys.argv[2:])
path, method, wanted = words.pop("path", "/reviews/1"), words.pop("method", "GET"), int(sys.argv[1])
connection = http.client.HTTPConnection(words.pop("host", "reviews"), int(words.pop("port", 9080)), timeout=60)
def more():
    if wanted:
        return sum(seen.values()) < wanted
    time.sleep(0.01)
    return not select.select([sys.stdin], [], [], 0)[0]
while more():
    try:
        connection.request(method, path, headers=words)
        answer = connection.getresponse()
        body = answer.read()
        seen[json.loads(body)["pod"] if answer.status == 200 else "failed"] += 1
        if answer.status != 200:
            print(answer.status, body, file=sys.stderr)
    except Exception as error:
        print(repr(error), file=sys.stderr)
        seen["failed"] += 1
        connection.close()
print(json.dumps(seen))
"#;

pub type Counts = BTreeMap<String, u64>;

pub struct Shop {
    namespace: String,
    kubeconfig: PathBuf,
}

/// Requests that go on until somebody wants to know how they went.
pub struct Load(Running);

/// A program that runs in the client.
pub struct Running(Child);

impl Shop {
    /// Returns when all pods are ready.
    pub fn open(cluster: &Cluster, namespace: &str) -> Shop {
        let shop = Shop { namespace: namespace.to_owned(), kubeconfig: cluster.kubeconfig() };
        shop.kubectl(&["create", "namespace", namespace]);
        shop.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "store"},
            "data": {"store.py": STORE}}));
        shop.apply(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "reviews"},
            "spec": {"selector": {"app": "reviews"}, "ports": [{"name": "http", "port": 9080}]}}));
        for (version, replicas) in [("v1", 2), ("v2", 1)] {
            shop.apply(&deployment(version, replicas));
            shop.apply(
                &json!({"apiVersion": "minik8s.io/v1", "kind": "Subset", "metadata": {"name": version},
                "spec": {"selector": {"matchLabels": {"version": version}}}}),
            );
        }
        let python = |words: &[&str]| {
            let command = [&[PYTHON], words].concat();
            json!({"name": "main", "image": "minik8s.io/function-python:3.11-7", "command": command})
        };
        let idle = "import signal; signal.signal(15, lambda *_: exit(0)); signal.pause()";
        let pod = |name: &str, labels: Value, host: bool| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels},
                "spec": {"terminationGracePeriodSeconds": 5, "hostNetwork": host, "containers": [python(&["-c", idle])]}})
        };
        shop.apply(&pod("client", json!({}), false));
        shop.apply(&pod("outside", json!({"minik8s.io/mesh": "disabled"}), false));
        shop.apply(&pod("host", json!({}), true));
        for version in ["v1", "v2"] {
            shop.kubectl(&["rollout", "status", &format!("deployment/reviews-{version}"), "--timeout=180s"]);
        }
        shop.kubectl(&["wait", "pod/client", "pod/outside", "--for=condition=Ready", "--timeout=180s"]);
        shop
    }

    /// Sets the subsets of the VirtualService and waits until every proxy routes by them.
    pub fn route(&self, subsets: &Value) {
        self.try_route(subsets).unwrap();
        self.kubectl(&["wait", "virtualservice/reviews", "--for=condition=Programmed", "--timeout=120s"]);
    }

    pub fn try_route(&self, subsets: &Value) -> Result<(), String> {
        let output = self.feed(&json!({"apiVersion": "minik8s.io/v1", "kind": "VirtualService",
            "metadata": {"name": "reviews"}, "spec": {"serviceRef": "reviews", "port": 9080, "subsets": subsets}}));
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8(output.stderr).unwrap()),
        }
    }

    /// How often each pod has answered. Words are `header=value`, or `path=/…`, `method=…`, `host=…`, `port=…`.
    pub fn ask(&self, number: u32, words: &[&str]) -> Counts {
        self.ask_as("client", number, words)
    }

    /// The same from another pod.
    pub fn ask_as(&self, pod: &str, number: u32, words: &[&str]) -> Counts {
        serde_json::from_str(&self.run(pod, CLIENT, &[&[&*number.to_string()], words].concat())).unwrap()
    }

    /// What a program of Python says that runs in a pod.
    pub fn run(&self, pod: &str, program: &str, words: &[&str]) -> String {
        let command = ["exec", pod, "-c", "main", "--", PYTHON, "-c", program];
        self.kubectl(&[&command[..], words].concat()).trim().to_owned()
    }

    /// The same where it may fail.
    pub fn try_run(&self, pod: &str, program: &str, words: &[&str]) -> Option<String> {
        let command = ["exec", pod, "-c", "main", "--", PYTHON, "-c", program];
        let output = self.command(&[&command[..], words].concat()).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    /// Waits until a user has a right to pods that was just given.
    pub fn until_may(&self, user: &str, verb: &str) {
        self.until(&format!("{user} may {verb} pods"), || {
            self.command(&["auth", "can-i", verb, "pods", "--as", user]).output().unwrap().status.success()
        });
    }

    pub fn python(&self, name: &str, program: &str) -> Value {
        json!({"name": name, "image": "minik8s.io/function-python:3.11-7", "command": [PYTHON, "-c", program]})
    }

    pub fn versions(&self, counts: &Counts) -> String {
        let mut versions: BTreeMap<&str, u64> = BTreeMap::new();
        for (pod, count) in counts {
            let version = pod.strip_prefix("reviews-").and_then(|rest| rest.split('-').next()).unwrap_or(pod);
            *versions.entry(version).or_default() += count;
        }
        let each: Vec<String> =
            versions.iter().map(|(version, count)| format!("{version}={count}")).collect();
        each.join(" ")
    }

    /// Words as for `ask`, and `host=SERVICE`.
    pub fn load(&self, words: &[&str]) -> Load {
        Load(self.begin(CLIENT, &[&["0"], words].concat()))
    }

    /// A program of Python in the client, until it is told to end.
    pub fn begin(&self, program: &str, words: &[&str]) -> Running {
        // Not through the API server, which is to be killed: by the node's own container runtime.
        let child = Command::new("nsenter")
            .arg(format!("--target={}", self.client_pid()))
            .args(["--mount", "--net", "--uts", "--", PYTHON, "-c", program])
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Running(child.unwrap())
    }

    pub fn scale(&self, deployment: &str, replicas: u32) {
        let name = format!("deployment/{deployment}");
        self.kubectl(&["scale", &name, &format!("--replicas={replicas}")]);
        self.kubectl(&["rollout", "status", &name, "--timeout=180s"]);
    }

    /// `/proc/PID/status` of the client's proxy.
    pub fn proxy_status(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/status", self.pid("minik8s-proxy"))).unwrap()
    }

    fn client_pid(&self) -> u32 {
        self.pid("main")
    }

    /// The first process of one of the client's containers.
    pub fn pid(&self, container: &str) -> u32 {
        *self.pids("client", container).first().unwrap()
    }

    /// The processes of one of a pod's containers, found by its cgroup.
    pub fn pids(&self, pod: &str, container: &str) -> Vec<u32> {
        let pod = self.get("pod", pod);
        let statuses = ["containerStatuses", "initContainerStatuses"];
        let all = statuses.iter().flat_map(|list| pod["status"][*list].as_array().into_iter().flatten());
        let status = all.into_iter().find(|status| status["name"] == container).unwrap().clone();
        let id = status["containerID"].as_str().unwrap().split("//").nth(1).unwrap().to_owned();
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_of = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.contains(&id))
        };
        let mut found: Vec<u32> = pids.filter(is_of).collect();
        found.sort_unstable();
        found
    }

    pub fn get(&self, kind: &str, name: &str) -> Value {
        serde_json::from_str(&self.kubectl(&["get", kind, name, "-o", "json"])).unwrap()
    }

    /// A pod of a Deployment.
    pub fn pod_of(&self, deployment: &str) -> String {
        let names = self.kubectl(&["get", "pods", "-o", "name"]);
        let mut names = names.lines().filter_map(|name| name.strip_prefix("pod/"));
        names.find(|name| name.starts_with(deployment)).unwrap().to_owned()
    }

    /// Waits until a RollingUpdate is over, and gives its status.
    pub fn rolled(&self, name: &str) -> Value {
        let begun = Instant::now();
        loop {
            let status = self.get("rollingupdate", name)["status"].clone();
            if matches!(status["phase"].as_str(), Some("Done" | "Aborted")) {
                return status;
            }
            assert!(begun.elapsed() < TIMEOUT, "{status}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until the VirtualService says that something is missing.
    pub fn condition(&self, kind: &str) -> Value {
        let begun = Instant::now();
        loop {
            let object = self.get("virtualservice", "reviews");
            let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found = conditions.into_iter().find(|one| one["type"] == kind && one["status"] == "False");
            if let Some(found) = found {
                return found;
            }
            assert!(begun.elapsed() < TIMEOUT, "{kind} stays true");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub fn kubectl(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Why an object is not taken.
    pub fn refused(&self, object: &Value) -> String {
        let output = self.feed(object);
        assert!(!output.status.success(), "{object}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    pub fn apply(&self, object: &Value) {
        let output = self.feed(object);
        assert!(output.status.success(), "{object}: {output:?}");
    }

    /// Of a namespace that the object says.
    pub fn apply_anywhere(&self, object: &Value) {
        let namespace = object["metadata"]["namespace"].as_str().unwrap().to_owned();
        self.of(namespace).apply(object);
    }

    /// Another namespace of the same cluster.
    pub fn of(&self, namespace: String) -> Shop {
        Shop { namespace, kubeconfig: self.kubeconfig.clone() }
    }

    fn feed(&self, object: &Value) -> Output {
        let mut command = self.command(&["apply", "-f", "-"]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(object.to_string().as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// What a command that fails says.
    pub fn fails(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        assert!(!output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.args(["--kubeconfig", self.kubeconfig.to_str().unwrap(), "-n", &self.namespace]).args(words);
        command
    }
}

impl Load {
    /// What came of the requests, and what the client said.
    pub fn end(self) -> (Counts, String) {
        let (found, said) = self.0.end();
        println!("the client under load: {said}");
        (serde_json::from_str(&found).unwrap(), said)
    }
}

impl Running {
    /// What it has found, and what it said besides.
    pub fn end(mut self) -> (String, String) {
        self.0.stdin.take().unwrap().write_all(b"enough\n").unwrap();
        let output = self.0.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    }
}

/// The spec of a pod that answers as that version.
pub fn pod_spec(version: &str) -> Value {
    let env = |name: &str, value: &str| json!({"name": name, "value": value});
    json!({
        "terminationGracePeriodSeconds": 5,
        "volumes": [{"name": "store", "configMap": {"name": "store"}}],
        "containers": [{
            "name": "store",
            "image": "minik8s.io/function-python:3.11-7",
            "command": [PYTHON, "/store/store.py"],
            // Without the stars of another service.
            "env": [env("ROLE", "reviews"), env("VERSION", &format!("{version}-plain"))],
            "readinessProbe": {"tcpSocket": {"port": 9080}, "periodSeconds": 1},
            "volumeMounts": [{"name": "store", "mountPath": "/store"}],
        }],
    })
}

fn deployment(version: &str, replicas: u32) -> Value {
    let labels = json!({"app": "reviews", "version": version});
    let template = json!({"metadata": {"labels": labels}, "spec": pod_spec(version)});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": format!("reviews-{version}")},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}})
}
