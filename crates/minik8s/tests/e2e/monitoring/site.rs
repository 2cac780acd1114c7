//! The cluster of a test, as its administrator uses it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::cluster::{Cluster, TIMEOUT};

const BINARY: &str = env!("CARGO_BIN_EXE_minik8s");

pub struct Site {
    pub cluster: Arc<Cluster>,
    kubeconfig: PathBuf,
}

impl Site {
    pub fn new(cluster: &Arc<Cluster>) -> Site {
        Site { cluster: cluster.clone(), kubeconfig: cluster.kubeconfig() }
    }

    pub fn data_dir(&self) -> &str {
        self.cluster.dir.to_str().unwrap()
    }

    /// The program, which must succeed; what it says.
    pub fn run(&self, words: &[&str]) -> String {
        let output = self.command(words, "");
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// However it ends; all that it says.
    pub fn output(&self, words: &[&str]) -> String {
        let output = self.command(words, "");
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }

    pub fn apply(&self, manifest: &str) {
        let output = self.command(&["apply", "-f", "-"], manifest);
        assert!(output.status.success(), "{output:?}");
    }

    /// One that must be refused; what is said.
    pub fn apply_refused(&self, manifest: &str) -> String {
        let output = self.command(&["apply", "-f", "-"], manifest);
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// What the engine answers, through the API server; nothing where it does not.
    pub fn query(&self, query: &str) -> Vec<Value> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let path = format!(
            "/api/v1/namespaces/monitoring/services/prometheus:9090/proxy/api/v1/query?query={encoded}"
        );
        let output = self.command(&["get", "--raw", &path], "");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        assert_ne!(answer["status"], "error", "{query}: {answer}");
        answer["data"]["result"].as_array().cloned().unwrap_or_default()
    }

    /// The same once there is something: what is scraped late has no value for a moment.
    pub fn until_found(&self, query: &str) -> Vec<Value> {
        let mut found = Vec::new();
        self.eventually(query, || {
            found = self.query(query);
            !found.is_empty()
        });
        found
    }

    /// A request that no route matches; the router counts it all the same.
    pub fn get_from_router(&self) {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", self.cluster.http_port())).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: nobody.example\r\nconnection: close\r\n\r\n").unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }

    pub fn eventually(&self, what: &str, holds: impl FnMut() -> bool) {
        self.eventually_told(holds, what);
    }

    pub fn eventually_told(&self, mut holds: impl FnMut() -> bool, what: &str) {
        let begun = Instant::now();
        while !holds() {
            if begun.elapsed() > TIMEOUT {
                let targets = self.query("up");
                panic!("{what}: not within {TIMEOUT:?}; targets: {targets:#?}");
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    fn command(&self, words: &[&str], input: &str) -> Output {
        let mut command = Command::new(BINARY);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // One that reads no input closes the pipe.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }
}
