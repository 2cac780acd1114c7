//! `scripts/lab` with names of the test's own, and kubectl's view as JSON.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::ranges::Number;

/// Long enough for a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(180);

pub struct Lab {
    name: String,
    net: String,
    /// For server and agents alike.
    flags: String,
    /// For the server alone.
    server_flags: String,
    pub dir: PathBuf,
    environment: Vec<(String, String)>,
    _temporary: tempfile::TempDir,
    _number: Number,
}

impl Lab {
    /// Nodes 1 to `nodes`, of which the first is the server.
    pub fn up(nodes: u32) -> Lab {
        Lab::up_with(nodes, &[])
    }

    /// The same with more that the script is told.
    pub fn up_with(nodes: u32, environment: &[(&str, &str)]) -> Lab {
        let mut lab = Lab::new();
        lab.environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        lab.run(&["up", &nodes.to_string()]);
        lab
    }

    /// The same with more flags for the server.
    pub fn up_with_server(nodes: u32, flags: &str) -> Lab {
        let mut lab = Lab::new();
        lab.server_flags = flags.to_owned();
        lab.run(&["up", &nodes.to_string()]);
        lab
    }

    /// The same with both.
    pub fn up_on(nodes: u32, flags: &str, environment: &[(&str, &str)]) -> Lab {
        let mut lab = Lab::new();
        lab.server_flags = flags.to_owned();
        lab.environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        lab.run(&["up", &nodes.to_string()]);
        lab
    }

    fn new() -> Lab {
        let number = Number::claim("lab", 12 * 256);
        let temporary = tempfile::tempdir().unwrap();
        Lab {
            name: format!("l{:x}", number.value),
            // Away from the ranges of pods and Services.
            net: format!("172.{}.{}", 18 + number.value / 256, number.value % 256),
            // Sockets below it must have short paths.
            dir: temporary.path().join("lab"),
            flags: String::new(),
            server_flags: String::new(),
            environment: Vec::new(),
            _temporary: temporary,
            _number: number,
        }
    }

    /// What every minik8s that is started from now on is told.
    pub fn set_flags(&mut self, flags: &str) {
        self.flags = flags.to_owned();
    }

    /// The network namespace of a node, or of the switch between them (`lan`).
    pub fn namespace(&self, of: &str) -> PathBuf {
        PathBuf::from(format!("/run/netns/{}-{of}", self.name))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// `scripts/lab …`, which must succeed.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.try_run(arguments);
        assert!(output.status.success(), "lab {arguments:?}: {}{}", text(&output.stderr), self.logs());
        text(&output.stdout)
    }

    pub fn try_run(&self, arguments: &[&str]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/lab");
        Command::new(script)
            .args(arguments)
            .env("MINIK8S", binary())
            .env("LAB_NAME", &self.name)
            .env("LAB_NET", &self.net)
            .env("LAB_DIR", &self.dir)
            .env("LAB_SERVER_FLAGS", format!("--node-grace 3 {} {}", self.server_flags, self.flags))
            .env("LAB_AGENT_FLAGS", &self.flags)
            .env("MINIK8S_LOG", "info,access=debug")
            .env("NO_COLOR", "1")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap()
    }

    pub fn address(&self, node: u32) -> String {
        format!("{}.{}", self.net, 10 + node)
    }

    /// Its IPv6 address, as the script makes it.
    pub fn address_v6(&self, node: u32) -> String {
        let numbers: Vec<u8> = self.net.split('.').map(|number| number.parse().unwrap()).collect();
        let [a, b, c] = numbers[..] else { panic!("{} is no network", self.net) };
        format!("fd6d:6b38:{a:02x}{b:02x}:{c:x}::{}", 10 + node)
    }

    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        self.kubectl_without_limit(&[&["--request-timeout=10s"], arguments].concat())
    }

    /// For commands that wait for something.
    pub fn kubectl_without_limit(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(self.dir.join("admin.kubeconfig"));
        command.args(arguments).output().unwrap()
    }

    /// The items of `kubectl get …`; none while the server is away.
    pub fn get(&self, what: &[&str]) -> Vec<Value> {
        let output = self.kubectl(&[&["get", "-o", "json"], what].concat());
        let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until it is so; the time it took.
    #[track_caller]
    pub fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
        let begun = Instant::now();
        while !is_so() {
            if begun.elapsed() > TIMEOUT {
                let seen = text(&self.kubectl(&["get", "nodes,pods", "-A", "-o", "wide"]).stdout);
                panic!("not in time: {what}\n{seen}{}", self.logs());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        begun.elapsed()
    }

    /// The names of the nodes that are ready.
    pub fn ready(&self) -> Vec<String> {
        let is_ready = |node: &&Value| {
            let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
        };
        let nodes = self.get(&["nodes"]);
        nodes
            .iter()
            .filter(is_ready)
            .map(|node| node["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    pub fn log(&self, node: &str) -> String {
        std::fs::read_to_string(self.dir.join(node).join("minik8s.log")).unwrap_or_default()
    }

    /// Copies what the nodes said into that directory.
    pub fn keep_logs(&self, directory: &Path) {
        std::fs::create_dir_all(directory).unwrap();
        for node in ["node1", "node2", "node3"] {
            std::fs::write(directory.join(format!("{node}.log")), self.log(node)).unwrap();
        }
    }

    fn logs(&self) -> String {
        let last = |node: &str| {
            let log = self.log(node);
            let lines: Vec<&str> = log.lines().collect();
            format!("\n{node}:\n{}", lines[lines.len().saturating_sub(200)..].join("\n"))
        };
        ["node1", "node2", "node3"].map(last).concat()
    }

    /// What is left of the lab on this machine.
    pub fn traces(&self) -> Vec<String> {
        let namespaces = text(&Command::new("ip").args(["netns", "list"]).output().unwrap().stdout);
        let links = text(&Command::new("ip").args(["-br", "link"]).output().unwrap().stdout);
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        let lines = namespaces.lines().chain(links.lines()).chain(mounts.lines());
        let prefix = format!("{}-", self.name);
        let dir = self.dir.to_str().unwrap();
        lines.filter(|line| line.starts_with(&prefix) || line.contains(dir)).map(str::to_owned).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // A second `down` finds nothing to do.
        if self.dir.exists() {
            self.run(&["down"]);
        }
    }
}

/// The program: the environment may name one, and Cargo tells tests where it is.
fn binary() -> String {
    let cargo = || option_env!("CARGO_BIN_EXE_minik8s").map(str::to_owned);
    std::env::var("MINIK8S").ok().or_else(cargo).expect("MINIK8S names the program")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
