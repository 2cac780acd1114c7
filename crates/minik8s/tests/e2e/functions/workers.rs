//! The workers of one instance, and what it finds beside its code, by `minik8s function dev`: without a cluster. Needs no
//! root.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::forms::Dev;

const SOON: Duration = Duration::from_secs(60);

/// One says which process it is when it has worked for half of its time, and goes on for too long; the other ends when that
/// process has.
const SIBLINGS: &str = "
import os, time
def main(params):
    mark = os.environ['MARK']
    if params.get('late'):
        time.sleep(5)
        with open(mark + '.new', 'w') as file:
            file.write(str(os.getpid()))
        os.rename(mark + '.new', mark)
        time.sleep(300)
    if params.get('sibling'):
        with open(mark) as file:
            late = file.read()
        while os.path.exists('/proc/' + late):
            time.sleep(0.05)
    return os.getppid()
";

#[test]
fn worker_over_its_time_is_killed_and_its_sibling_lives() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("late");
    let mark_variable = format!("MARK={}", mark.display());
    let env = [mark_variable.as_str(), "FN_CONCURRENCY=2", "FN_TIMEOUT=10"];
    let dev = Dev::of(&[("main.py", SIBLINGS)], &env);
    let first = dev.post("{}");
    assert_eq!(first.status, 200, "{first:?}");
    let late = send(dev.port, r#"{"late": true}"#);
    until("the first has worked for half of its time", || mark.exists());
    let sibling = send(dev.port, r#"{"sibling": true}"#);
    let (late, sibling) = (answer(late), answer(sibling));
    assert!(late.starts_with("HTTP/1.1 504 ") && late.contains("\"errorType\": \"Timeout\""), "{late}");
    assert!(sibling.starts_with("HTTP/1.1 200 "), "{sibling}");
    assert!(sibling.ends_with(&format!("\r\n\r\n{}", first.body)), "of another front: {sibling}");
    assert_eq!(dev.post("{}").body, first.body, "the instance has stayed");
}

/// A thread that never gives way is ended, too.
#[test]
fn node_busy_loop_over_its_time_is_ended_alone() {
    let code = "exports.main = (params) => { while (params.busy); return process.pid; };";
    let dev = Dev::of(&[("main.js", code)], &["FN_TIMEOUT=10"]);
    let first = dev.post("{}");
    assert_eq!(first.status, 200, "{first:?}");
    let late = dev.post(r#"{"busy": true}"#);
    assert!(late.status == 504 && late.body.contains("Timeout"), "{late:?}");
    until("another thread has taken its place", || dev.post("{}").status == 200);
    assert_eq!(dev.post("{}").body, first.body, "the instance has stayed");
}

/// Its only worker is free long before the call's time is over.
#[test]
fn cancelled_call_whose_caller_has_gone_is_ended() {
    let python = "
import os, time
def main(params):
    if params.get('wait'):
        open(os.environ['MARK'], 'w').close()
        time.sleep(300)
    return 'free'
";
    let node = "
exports.main = (params) => {
  if (!params.wait) return 'free';
  require('fs').writeFileSync(process.env.MARK, '');
  return new Promise((done) => setTimeout(done, 300000));
};
";
    for (file, code) in [("main.py", python), ("main.js", node)] {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("begun");
        let mark_variable = format!("MARK={}", mark.display());
        let dev = Dev::of(&[(file, code)], &[&mark_variable, "FN_CANCEL=1", "FN_TIMEOUT=300"]);
        assert_eq!(dev.post("{}").body, "free", "{file}");
        let caller = send(dev.port, r#"{"wait": true}"#);
        until("the call has begun", || mark.exists());
        assert_eq!(dev.post("{}").status, 503, "{file}: it is busy");
        drop(caller);
        dev.says("Cancelled: the caller has gone");
        until("its place is free", || dev.post("{}").status == 200);
    }
}

/// What is vendored is found before anything is fetched.
#[test]
fn vendored_packages_are_imported() {
    for files in [
        [
            ("main.py", "import greet\ndef main(params): return greet.WORD"),
            ("vendor/greet/__init__.py", "from greet.word import WORD"),
            ("vendor/greet/word.py", "WORD = 'vendored'"),
        ],
        [
            ("main.js", "const greet = require('greet');\nexports.main = () => greet.word;"),
            ("node_modules/greet/package.json", r#"{"name": "greet", "main": "lib.js"}"#),
            ("node_modules/greet/lib.js", "exports.word = 'vendored';"),
        ],
    ] {
        let answer = Dev::of(&files, &[]).post("{}");
        assert_eq!((answer.status, answer.body.as_str()), (200, "vendored"), "{answer:?}");
    }
}

/// A call whose answer is not waited for.
fn send(port: u16, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let head = "POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n";
    stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
    stream
}

fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < SOON, "{what}: not within {SOON:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
