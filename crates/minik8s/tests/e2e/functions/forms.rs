//! Every form of a handler and of a result, by `minik8s function dev`: the runtimes as instances have them, on this machine
//! and without a cluster. Needs no root.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::harness::program::{BINARY, free_port};

const TIMEOUT: Duration = Duration::from_secs(60);
/// Interpreters that start at once.
const AT_ONCE: usize = 4;
const BODY: &str = r#"{"x": 1, "y": 2}"#;

/// A file's name and its code; the status, the content type and the body of the answer.
type Case = (&'static str, &'static str, u16, &'static str, &'static str);

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

const PYTHON: &[Case] = &[
    ("main.py", "def main(params): return params", 200, JSON, r#"{"x": 1, "y": 2}"#),
    ("main.py", "def run(x, y): return x + y", 200, JSON, "3"),
    ("main.py", "def main(y, **rest): return [y, rest]", 200, JSON, r#"[2, {"x": 1}]"#),
    (
        "main.py",
        "def my_function(event, context): return [event['x'], context.path]",
        200,
        JSON,
        r#"[1, "/a"]"#,
    ),
    ("handler.py", "async def handler(event): return event['x']", 200, JSON, "1"),
    ("only.py", "def whatever(params): return 'text'", 200, TEXT, "text"),
    ("main.py", "def main(): return b'bytes'", 200, "application/octet-stream", "bytes"),
    (
        "main.py",
        "def main(p): return {'statusCode': 201, 'headers': {'content-type': 'a/b'}, 'body': 'c'}",
        201,
        "a/b",
        "c",
    ),
    ("main.py", "def main(p): return {'statusCode': 201, 'body': {'d': 1}}", 201, JSON, r#"{"d": 1}"#),
    (
        "main.py",
        "def main(p): return {'statusCode': 200, 'body': 'aGk=', 'isBase64Encoded': True}",
        200,
        "",
        "hi",
    ),
    ("main.py", "def main(p):\n yield 'a'\n yield {'b': 1}\n yield b'c'", 200, TEXT, "a{\"b\": 1}\nc"),
    ("main.py", "async def main(p):\n yield 'a'\n yield 'b'", 200, TEXT, "ab"),
    (
        "main.py",
        "def main(p): return {'statusCode': 200, 'headers': {'content-type': 'text/event-stream'}, \
         'body': (f'data: {n}\\n\\n' for n in range(2))}",
        200,
        "text/event-stream",
        "data: 0\n\ndata: 1\n\n",
    ),
    (
        "main.py",
        "def app(environ, start_response):\n start_response('202 Accepted', [('content-type', 'a/b')])\n \
         yield environ['PATH_INFO'].encode()\n yield environ['wsgi.input'].read()",
        202,
        "a/b",
        r#"/a{"x": 1, "y": 2}"#,
    ),
    (
        "app.py",
        "class App:\n def __call__(self, environ, start_response):\n  \
         start_response('200 OK', [('content-type', 'a/b'), ('content-length', '2')])\n  return [b'o', b'k']\napp = App()",
        200,
        "a/b",
        "ok",
    ),
    (
        "main.py",
        "async def app(scope, receive, send):\n got = await receive()\n \
         await send({'type': 'http.response.start', 'status': 203, 'headers': [(b'content-type', b'a/b')]})\n \
         await send({'type': 'http.response.body', 'body': got['body'], 'more_body': True})\n \
         await send({'type': 'http.response.body', 'body': b'!'})",
        203,
        "a/b",
        r#"{"x": 1, "y": 2}!"#,
    ),
    ("main.py", "def main(p): raise KeyError('no')", 500, JSON, "\"errorType\": \"KeyError\""),
    ("main.py", "def main(p):\n raise KeyError('no')\n yield 1", 500, JSON, "\"errorType\": \"KeyError\""),
    ("main.py", "import sys\ndef main(p): sys.exit(3)", 500, JSON, "SystemExit"),
];

const NODE: &[Case] = &[
    ("main.js", "exports.main = (params) => params", 200, JSON, r#"{"x":1,"y":2}"#),
    ("main.js", "exports.main = (x, y) => x + y", 200, JSON, "3"),
    (
        "index.js",
        "exports.handler = async (event, context) => [event.x, context.path]",
        200,
        JSON,
        r#"[1,"/a"]"#,
    ),
    ("main.js", "exports.handler = (event, context, done) => done(null, event.x)", 200, JSON, "1"),
    ("main.js", "function main(params) { return {n: params.x} }", 200, JSON, r#"{"n":1}"#),
    ("main.mjs", "export default async function (params) { return {n: params.x} }", 200, JSON, r#"{"n":1}"#),
    ("main.js", "exports.main = () => 'text'", 200, TEXT, "text"),
    ("main.js", "exports.main = () => Buffer.from('bytes')", 200, "application/octet-stream", "bytes"),
    (
        "main.js",
        "exports.main = () => ({statusCode: 201, headers: {'content-type': 'a/b'}, body: 'c'})",
        201,
        "a/b",
        "c",
    ),
    ("main.js", "exports.main = function* () { yield 'a'; yield {b: 1} }", 200, TEXT, "a{\"b\":1}\n"),
    (
        "main.js",
        "exports.main = () => ({statusCode: 200, headers: {'content-type': 'text/event-stream'}, \
         body: require('stream').Readable.from(['data: 0\\n\\n', 'data: 1\\n\\n'])})",
        200,
        "text/event-stream",
        "data: 0\n\ndata: 1\n\n",
    ),
    (
        "main.js",
        "exports.main = async () => { throw new RangeError('no') }",
        500,
        JSON,
        "\"errorType\":\"RangeError\"",
    ),
    ("main.js", "exports.main = async function* () { throw new RangeError('no') }", 500, JSON, "RangeError"),
];

/// Code that cannot be run, and what is said of it first.
const BROKEN: &[(&str, &str, &str)] = &[
    ("main.py", "def main(p):\n    return (\n", "main.py:2:12: SyntaxError: '(' was never closed"),
    ("main.py", "x = 1\nimport nothing_like_this\n", "main.py:2:1: ModuleNotFoundError"),
    ("main.py", "x = 1\n", "main.py has no function main, handler, run, app"),
    ("main.js", "exports.main = (p) => {\n  return (;\n}", "main.js:2:11: SyntaxError: Unexpected token ';'"),
    (
        "main.mjs",
        "export const main = (p) => {\n  return (;\n}",
        "main.mjs:2:11: SyntaxError: Unexpected token ';'",
    ),
    ("main.js", "const x = 1;\nnobody();\n", "main.js:2:1: ReferenceError: nobody is not defined"),
    ("main.js", "exports.other = 5\n", "main.js exports no function main, handler, run"),
];

#[test]
fn handlers_and_results_have_all_their_forms() {
    let cases = Mutex::new(PYTHON.iter().chain(NODE));
    in_parallel(|| {
        while let Some((file, code, status, kind, body)) = { cases.lock().unwrap().next() } {
            let dev = Dev::start(file, code);
            let answer = dev.post(BODY);
            assert_eq!((answer.status, answer.kind.as_str()), (*status, *kind), "{code}: {answer:?}");
            match status {
                500 => assert!(answer.body.contains(body), "{code}: {answer:?}"),
                _ => assert_eq!(answer.body, *body, "{code}"),
            }
            assert_eq!(dev.post(BODY).status, *status, "{code}, once more");
        }
    });
}

#[test]
fn broken_code_is_told_with_line_and_column() {
    let cases = Mutex::new(BROKEN.iter());
    in_parallel(|| {
        while let Some((file, code, expected)) = { cases.lock().unwrap().next() } {
            Dev::start(file, code).says(expected);
        }
    });
}

/// A change of the file is a new start, of good code and of bad.
#[test]
fn dev_runs_code_anew_when_it_changes() {
    let dev = Dev::start("main.py", "def main(p): return 1\n");
    assert_eq!(dev.post("").body, "1");
    std::fs::write(dev.dir.path().join("main.py"), "def main(p:\n").unwrap();
    dev.says("main.py:1:9: SyntaxError");
    std::fs::write(dev.dir.path().join("main.py"), "def main(p): return 2\n").unwrap();
    dev.says("changed: starting anew");
    assert_eq!(dev.post("").body, "2");
}

fn in_parallel(work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(&work)).collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

#[derive(Debug, Default)]
pub struct Answer {
    pub status: u16,
    kind: String,
    pub body: String,
}

/// `minik8s function dev` of a folder.
pub struct Dev {
    child: Child,
    pub port: u16,
    lines: Receiver<String>,
    dir: tempfile::TempDir,
}

impl Dev {
    fn start(file: &str, code: &str) -> Dev {
        Dev::of(&[(file, code)], &[])
    }

    /// With variables of the form NAME=VALUE.
    pub fn of(files: &[(&str, &str)], env: &[&str]) -> Dev {
        let dir = tempfile::tempdir().unwrap();
        for (file, code) in files {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, code).unwrap();
        }
        let port = free_port();
        let mut command = command(dir.path(), port);
        command.args(env.iter().flat_map(|variable| ["--env", variable]));
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let said = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            // Until the other side has gone.
            for line in said.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Dev { child, port, lines, dir }
    }

    /// Waits for a line with this text.
    pub fn says(&self, expected: &str) {
        let (begun, mut before) = (Instant::now(), Vec::new());
        while begun.elapsed() < TIMEOUT {
            let Ok(line) = self.lines.recv_timeout(TIMEOUT) else { break };
            if line.contains(expected) {
                return;
            }
            before.push(line);
        }
        panic!("not said: {expected}; but: {before:#?}");
    }

    /// Once it listens.
    pub fn post(&self, body: &str) -> Answer {
        let begun = Instant::now();
        while begun.elapsed() < TIMEOUT {
            match self.try_post(body) {
                Ok(answer) if answer.status != 0 => return answer,
                _ => std::thread::sleep(Duration::from_millis(50)),
            }
        }
        panic!("no answer: {:#?}", self.lines.try_iter().collect::<Vec<_>>());
    }

    fn try_post(&self, body: &str) -> std::io::Result<Answer> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let head = "POST /a HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\n";
        stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let field = |name: &str| {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
        };
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let is_chunked = field("transfer-encoding").is_some_and(|coding| coding == "chunked");
        let body = if is_chunked { joined(body) } else { body.to_owned() };
        Ok(Answer { status, kind: field("content-type").unwrap_or_default(), body })
    }
}

/// What chunks say together.
fn joined(mut text: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = text.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        whole += &rest[..length];
        text = rest[length..].trim_start_matches("\r\n");
    }
    whole
}

fn command(code: &Path, port: u16) -> Command {
    let mut command = Command::new(BINARY);
    command.args(["function", "dev", "--port", &port.to_string()]).arg(code).stdin(Stdio::null());
    command.stdout(Stdio::null());
    command
}

impl Drop for Dev {
    /// As who presses Ctrl-C: it ends what it has started.
    fn drop(&mut self) {
        let process = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
        let _ = nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGINT);
        let _ = self.child.wait();
    }
}
