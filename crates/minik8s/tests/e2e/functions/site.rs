//! One namespace, and what its user does there: commands of the program, and requests to the node's router.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::cluster::{Cluster, TIMEOUT};

const BINARY: &str = env!("CARGO_BIN_EXE_minik8s");

pub struct Site {
    pub namespace: String,
    kubeconfig: PathBuf,
    port: String,
    dir: tempfile::TempDir,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub json: Value,
}

impl Site {
    pub fn new(cluster: &Cluster, namespace: &str) -> Site {
        let site = Site {
            namespace: namespace.to_owned(),
            kubeconfig: cluster.kubeconfig(),
            port: cluster.http_port().to_owned(),
            dir: tempfile::tempdir().unwrap(),
        };
        site.kubectl(&["create", "namespace", namespace]);
        site
    }

    /// The address of the API server.
    pub fn server(&self) -> String {
        let config = std::fs::read_to_string(&self.kubeconfig).unwrap();
        let line = config.lines().find_map(|line| line.trim().strip_prefix("server:"));
        line.unwrap().trim().trim_matches('"').to_owned()
    }

    /// The path of a file with this content.
    pub fn file(&self, name: &str, content: &str) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// `minik8s function …`, which must succeed.
    pub fn run(&self, words: &[&str]) -> String {
        let output = self.command(&[&["function"], words].concat());
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// `minik8s function …`, which must fail; what it says.
    pub fn fails(&self, words: &[&str]) -> String {
        let output = self.command(&[&["function"], words].concat());
        assert!(!output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    pub fn why(&self, function: &str) -> String {
        let output = self.command(&["why", &format!("function/{function}")]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn kubectl(&self, words: &[&str]) -> String {
        let output = self.command(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A command that must fail; what it says.
    pub fn kubectl_fails(&self, words: &[&str]) -> String {
        let output = self.command(words);
        assert!(!output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// An object, or null.
    pub fn get(&self, what: &str) -> Value {
        let output = self.command(&["get", what, "-o", "json"]);
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    pub fn apply(&self, objects: &str) {
        let file = self.file("objects.yaml", objects);
        self.kubectl(&["apply", "-f", &file]);
    }

    /// `minik8s trigger …`, which must succeed.
    pub fn trigger(&self, words: &[&str]) -> String {
        self.kubectl(&[&["trigger"], words].concat())
    }

    /// Whether whoever may edit this namespace may read the functions of another.
    pub fn can_read(&self, namespace: &str) -> String {
        let editor = format!("system:serviceaccount:{}:default", self.namespace);
        let name = format!("editor-{}", self.namespace);
        let account = format!("--serviceaccount={}:default", self.namespace);
        // The second time it is there.
        self.command(&["create", "rolebinding", &name, "--clusterrole=edit", &account]);
        self.until_may("default", "get", "functions.minik8s.io");
        let output =
            self.command(&["auth", "can-i", "get", "functions.minik8s.io", "-n", namespace, "--as", &editor]);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Waits until an account of this namespace has a right that it was just given.
    pub fn until_may(&self, account: &str, verb: &str, what: &str) {
        let who = format!("system:serviceaccount:{}:{account}", self.namespace);
        eventually(&format!("{who} may {verb} {what}"), || {
            self.command(&["auth", "can-i", verb, what, "--as", &who]).status.success()
        });
    }

    /// Names of the function's pods that are not on their way out.
    pub fn pods(&self, function: &str) -> Vec<String> {
        let label = format!("minik8s.io/function={function}");
        let names = self.kubectl(&["get", "pods", "-l", &label, "-o", "name"]);
        names.lines().map(str::to_owned).collect()
    }

    pub fn call(&self, function: &str, body: &Value) -> Answer {
        self.http("127.0.0.1", &format!("/fn/{}/{function}", self.namespace), &body.to_string())
    }

    /// Nothing where the connection ends without an answer.
    pub fn try_call(&self, function: &str, body: &Value) -> Option<Answer> {
        let path = format!("/fn/{}/{function}", self.namespace);
        let headers = [("content-type", "application/json")];
        self.try_post("127.0.0.1", &path, &headers, &body.to_string())
            .ok()
            .filter(|answer| answer.status != 0)
    }

    pub fn http(&self, host: &str, path: &str, body: &str) -> Answer {
        self.post(host, path, &[("content-type", "application/json")], body)
    }

    pub fn post(&self, host: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.try_post(host, path, headers, body).unwrap()
    }

    fn try_post(
        &self,
        host: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> std::io::Result<Answer> {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", self.port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        // A router that refuses what is too large may not read it all.
        let _ = stream.write_all(body.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        let (head, content) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Ok(Answer { status, json: serde_json::from_str(content.trim()).unwrap_or(Value::Null) })
    }

    /// `minik8s function …`; what it prints, whether it succeeds or not.
    pub fn run_or_not(&self, words: &[&str]) -> String {
        let output = self.command(&[&["function"], words].concat());
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// A connection to the node's router.
    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(format!("127.0.0.1:{}", self.port)).unwrap()
    }

    /// `minik8s function logs -f`, until it is dropped.
    pub fn follow(&self, function: &str) -> Follower {
        let path = self.dir.path().join("followed");
        let child = Command::new(BINARY)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(["-n", &self.namespace, "function", "logs", function, "-f"])
            .stdout(std::fs::File::create(&path).unwrap())
            .spawn()
            .unwrap();
        Follower { child, path }
    }

    fn command(&self, words: &[&str]) -> Output {
        let mut command = Command::new(BINARY);
        // Before the words: behind `--` they would be somebody else's.
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        if !words.contains(&"-n") {
            command.args(["-n", &self.namespace]);
        }
        command.args(words).output().unwrap()
    }
}

/// A command that goes on printing.
pub struct Follower {
    child: std::process::Child,
    path: PathBuf,
}

impl Follower {
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.path).unwrap()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until it holds.
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < TIMEOUT, "{what}: not within {TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
