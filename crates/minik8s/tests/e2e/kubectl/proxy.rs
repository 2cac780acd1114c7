//! `kubectl proxy`: the API without TLS and without a password, for tools on the same machine. And what else leaves the
//! program: a dump of the cluster, and commands of others.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::case;
use crate::harness::Kubectl;

case![port_zero, socket, dump, plugins];

/// Ended with the test.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn proxy(k: &Kubectl, flag: &str) -> Proxy {
    let mut command = k.command();
    command.args(["proxy", flag]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    Proxy(command.spawn().expect("kubectl starts"))
}

fn asks_for_versions(mut stream: impl Read + Write) {
    stream.write_all(b"GET /api HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains("200 OK") && answer.contains(r#""versions":["v1"]"#), "{answer}");
}

fn port_zero(k: &Kubectl) {
    let mut proxy = proxy(k, "--port=0");
    let mut line = String::new();
    BufReader::new(proxy.0.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("Starting to serve on ").unwrap_or_else(|| panic!("{line}"));
    asks_for_versions(TcpStream::connect(address).expect("a connection"));
}

fn socket(k: &Kubectl) {
    let path = k.dir().join("proxy.sock");
    let _proxy = proxy(k, &format!("--unix-socket={}", path.display()));
    let begun = Instant::now();
    let stream = loop {
        match UnixStream::connect(&path) {
            Ok(stream) => break stream,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(60), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    asks_for_versions(stream);
}

fn dump(k: &Kubectl) {
    k.run("create configmap settings");
    let dir = k.dir().join("dump");
    k.run(&format!("cluster-info dump --namespaces={} --output-directory={}", k.namespace, dir.display()))
        .says("Cluster info dumped to");
    for name in [
        "nodes.json".to_owned(),
        format!("{}/pods.json", k.namespace),
        format!("{}/events.json", k.namespace),
    ] {
        let text = std::fs::read(dir.join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let list: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        // Go makes a null of an empty list that came in protobuf.
        let items = list.get("items");
        assert!(items.is_some_and(|items| items.is_array() || items.is_null()), "{name}: {list}");
    }
}

/// A program on PATH adds a command, and gets what follows its name.
fn plugins(k: &Kubectl) {
    let dir = k.dir().join("plugins");
    std::fs::create_dir_all(&dir).expect("a directory");
    let program = dir.join("kubectl-greet");
    std::fs::write(&program, "#!/bin/sh\necho greets \"$@\"\n").expect("a file");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let with_path = |arguments: &[&str]| {
        let path = format!("{}:{}", dir.display(), std::env::var("PATH").expect("a path"));
        let mut command = std::process::Command::new(k.program());
        let output = command.env("PATH", path).args(arguments).output().expect("it runs");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(with_path(&["greet", "you", "--loudly"]), "greets you --loudly\n");
    assert!(with_path(&["plugin", "list"]).contains(&program.display().to_string()));
}
