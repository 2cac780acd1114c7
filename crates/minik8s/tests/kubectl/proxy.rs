//! `kubectl proxy`: the API without TLS and without a password, for tools on the same machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::chapter;
use crate::harness::Kubectl;

chapter![only kubectl: port_zero, socket];

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
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(20), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    asks_for_versions(stream);
}
