//! The program that looks at files, run as it is, where the kernel tells it nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::PROGRAM;

const SOON: Duration = Duration::from_secs(60);

/// The program over a folder of its own, which is removed with it, and what it posts.
struct Looking {
    folder: TempDir,
    child: Child,
    events: Receiver<Value>,
}

impl Looking {
    /// As in a network file system that other nodes write to.
    fn start() -> Looking {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (sender, events) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if sender.send(accept(stream)).is_err() {
                    return;
                }
            }
        });
        let changes = [
            ("/data", folder.path().to_str().unwrap()),
            ("8080", "0"),
            ("looks, unsettled = is_of_network(ROOT)", "looks, unsettled = True"),
            ("LOOK_AGAIN_SECONDS = 10", "LOOK_AGAIN_SECONDS = 0.1"),
            ("def add_folder(folder):", "def add_folder(folder):\n    return\n\n\ndef hear(folder):"),
        ];
        let program = changes.iter().fold(PROGRAM.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replace(from, to)
        });
        let mut command = Command::new("/usr/bin/python3.11");
        command.args(["-c", &program]).stdout(Stdio::piped()).env("no_proxy", "*");
        for (name, value) in [
            ("PATH", ""),
            ("EVENTS", "Created,Modified,Removed"),
            ("PATTERN", "*"),
            ("SOURCE", "/volume"),
            ("URL", &url),
            ("KEY", "key"),
        ] {
            command.env(format!("FILES_{name}"), value);
        }
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("looking at 0 files"), "{line}");
        Looking { folder, child, events }
    }

    fn next(&self) -> (String, String) {
        let event = self.events.recv_timeout(SOON).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&event["data"]["event"]), text(&event["subject"]))
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The event of one request, which is answered.
fn accept(stream: TcpStream) -> Value {
    let mut reader = BufReader::new(&stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (&stream).write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn changes_that_the_kernel_does_not_tell_are_found_by_looking_again() {
    let looking = Looking::start();
    let below = looking.folder.path().join("below");
    let (aside, file) = (looking.folder.path().with_extension("new"), below.join("a.jpg"));
    // In one step, as it would otherwise be seen between two of them on a busy machine.
    let write = |content: &str| {
        std::fs::write(&aside, content).unwrap();
        std::fs::rename(&aside, &file).unwrap();
    };
    let told = |event: &str| (event.to_owned(), "below/a.jpg".to_owned());
    std::fs::create_dir(&below).unwrap();
    write("1");
    assert_eq!(looking.next(), told("Created"));
    write("1, 2");
    assert_eq!(looking.next(), told("Modified"));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(looking.next(), told("Removed"));
}
