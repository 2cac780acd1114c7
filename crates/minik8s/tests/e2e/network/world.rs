//! Two nodes with a web server and a client on each, and a machine beside them that is no node.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use minik8s_kubelet::image::busybox;
use serde_json::Value;

use super::place::Place;
use crate::harness::lab::{Lab, TIMEOUT};

/// Where web servers listen.
pub const WEB: u16 = 8080;
/// Where [`Place::serve_udp`] is used to.
pub const UDP: u16 = 8081;

/// Answers `/cgi-bin/who` with its name and the client's address, `/` with its name.
const SCRIPT: &str = r##"
mkdir -p /tmp/w/cgi-bin
printf '#!/bin/sh\na=${REMOTE_ADDR#*ffff:}\na=${a#[}\necho Content-Type: text/plain\necho\necho "$(hostname) ${a%%]}"\n' >/tmp/w/cgi-bin/who
chmod 755 /tmp/w/cgi-bin/who
hostname >/tmp/w/index.html
exec httpd -f -p 8080 -h /tmp/w
"##;

pub struct World {
    pub lab: Lab,
}

impl World {
    pub fn start() -> World {
        World::in_lab(Lab::up_with_server(2, "--allow-external-ips"))
    }

    /// Web servers and clients on both nodes of the lab.
    pub fn in_lab(lab: Lab) -> World {
        let archive = lab.dir.join("busybox.tar");
        busybox().unwrap().write(std::fs::File::create(&archive).unwrap()).unwrap();
        lab.until("both nodes are ready", || lab.ready() == ["node1", "node2"]);
        lab.run(&["load", archive.to_str().unwrap()]);
        let world = World { lab };
        world.until("the default account", || {
            world.try_kubectl(&["get", "serviceaccount", "default"]).is_ok()
        });
        let pods = ["web-1", "web-2", "client-1", "client-2"].map(|name| {
            let app = name.split('-').next().unwrap();
            pod(name, app, &format!("nodeName: node{}", &name[name.len() - 1..]))
        });
        world.apply(&pods.join("---\n"));
        world.kubectl(&["wait", "pod", "--all", "--for=condition=Ready", "--timeout=180s"]);
        world
    }

    pub fn try_kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        // Requests of `kubectl wait` last as long as what they wait for.
        let output = match arguments[0] {
            "wait" => self.lab.kubectl_without_limit(arguments),
            _ => self.lab.kubectl(arguments),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)),
        }
    }

    #[track_caller]
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.try_kubectl(arguments).unwrap_or_else(|error| panic!("kubectl {arguments:?}: {error}"))
    }

    #[track_caller]
    pub fn apply(&self, objects: &str) {
        let path = self.lab.dir.join("objects.yaml");
        // kubectl takes what begins with a brace for JSON.
        std::fs::write(&path, format!("# objects\n{objects}")).unwrap();
        self.kubectl(&["apply", "-f", path.to_str().unwrap()]);
    }

    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.kubectl(&[arguments, &["-o", "json"]].concat())).unwrap()
    }

    pub fn exec(&self, pod: &str, command: &[&str]) -> Result<String, String> {
        self.try_kubectl(&[&["exec", pod, "--"], command].concat())
    }

    /// The place of a running pod.
    #[track_caller]
    pub fn pod(&self, name: &str) -> Place {
        let pod = self.json(&["get", "pod", name]);
        let address = pod["status"]["podIP"].as_str().unwrap_or_else(|| panic!("{name} has no address"));
        let uid = pod["metadata"]["uid"].as_str().unwrap();
        Place::new(name, address.parse().unwrap(), &namespace_of(uid))
    }

    pub fn node(&self, number: u32) -> Place {
        let name = format!("node{number}");
        Place::new(&name, self.lab.address(number).parse().unwrap(), &self.lab.namespace(&name))
    }

    /// A machine on the nodes' link that is no node.
    pub fn outside(&self) -> Place {
        let address = self.lab.address(244);
        Place::new("outside", address.parse().unwrap(), &self.lab.namespace("lan"))
    }

    /// The API without kubectl, for what is done many times.
    pub fn with_client<T>(&self, work: impl AsyncFnOnce(kube::Client) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let kubeconfig = Kubeconfig::read_from(self.lab.dir.join("admin.kubeconfig")).unwrap();
            let options = KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
            work(kube::Client::try_from(config).unwrap()).await
        })
    }

    pub fn cluster_ip(&self, service: &str) -> String {
        self.cluster_ip_of("default", service)
    }

    pub fn cluster_ip_of(&self, namespace: &str, service: &str) -> String {
        let object = self.json(&["get", "service", service, "-n", namespace]);
        object["spec"]["clusterIP"].as_str().unwrap().to_owned()
    }

    pub fn node_port(&self, service: &str) -> u16 {
        let object = self.json(&["get", "service", service]);
        u16::try_from(object["spec"]["ports"][0]["nodePort"].as_u64().unwrap()).unwrap()
    }

    #[track_caller]
    pub fn until(&self, what: &str, is_so: impl FnMut() -> bool) -> Duration {
        self.lab.until(what, is_so)
    }

    /// Waits until an answer is as wanted; says what came instead.
    #[track_caller]
    pub fn settles(
        &self,
        what: &str,
        mut answer: impl FnMut() -> String,
        wanted: impl Fn(&str) -> bool,
    ) -> Duration {
        let begun = Instant::now();
        loop {
            let last = answer();
            if wanted(&last) {
                return begun.elapsed();
            }
            assert!(begun.elapsed() < TIMEOUT, "{what}: {last}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// kill -9 of a node's minik8s, and its start.
    pub fn restart(&self, node: &str) {
        self.lab.run(&["kill", node]);
        self.lab.run(&["start", node]);
    }

    pub fn both_ready(&self) {
        self.until("both nodes are ready", || self.lab.ready() == ["node1", "node2"]);
    }
}

/// A pod that answers requests with its name, at the port called `http`.
pub fn pod(name: &str, app: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {app}, name: {name}}}}}\n\
         spec:\n  terminationGracePeriodSeconds: 0\n  {spec}\n  containers:\n  {}\n",
        container("")
    )
}

/// Its container; `more` are further fields, indented by four.
pub fn container(more: &str) -> String {
    format!(
        "- name: web\n    image: minik8s.io/busybox:1\n    command: [sh, -c, {}]\n    \
         ports: [{{name: http, containerPort: {WEB}}}]\n    \
         readinessProbe: {{tcpSocket: {{port: http}}, periodSeconds: 1}}\n{more}",
        serde_json::to_string(SCRIPT).unwrap()
    )
}

/// The network namespace of any process in the pod's cgroup.
fn namespace_of(uid: &str) -> PathBuf {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_of_pod = |process: &Path| {
        let groups = std::fs::read_to_string(process.join("cgroup")).unwrap_or_default();
        groups.contains(&format!("/pod{uid}/"))
    };
    let process = processes.filter(|path| path.join("ns/net").exists()).find(|path| is_of_pod(path));
    process.unwrap_or_else(|| panic!("pod {uid} has no process")).join("ns/net")
}
