//! Answers that come piece by piece, and connections that become WebSockets, through the router.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use super::site::{Site, eventually};
use crate::harness::cluster::{Cluster, TIMEOUT};

/// The next event is made when the one before has been read: it waits until it is told to go on.
const EVENTS: &str = "
import os, time
def main(params):
    if 'say' in params:
        return open('/tmp/say', 'w').write(params['say'])
    def events():
        yield 'data: first\\n\\n'
        while not os.path.exists('/tmp/say'):
            time.sleep(0.02)
        yield 'data: ' + open('/tmp/say').read() + '\\n\\n'
    return {'statusCode': 200, 'headers': {'content-type': 'text/event-stream'}, 'body': events()}
";

const COUNT: &str = "
const sleep = (n) => new Promise((done) => setTimeout(done, n));
exports.main = async function* (params) {
  for (let n = 0; params.for_ever || n < 3; n++) { yield `${n}\\n`; await sleep(100); }
};
";

/// ASGI, as frameworks speak it.
const ECHO: &str = "
async def app(scope, receive, send):
    if scope['type'] == 'http':
        await send({'type': 'http.response.start', 'status': 426, 'headers': []})
        return await send({'type': 'http.response.body', 'body': b''})
    await receive()
    await send({'type': 'websocket.accept'})
    while (message := await receive())['type'] == 'websocket.receive':
        await send({'type': 'websocket.send', 'text': 'echo ' + message['text']})
";

/// A server of its own, for `--image`: it accepts the handshake and sends back what comes, in a frame of its own.
const OWN_ECHO: &str = "
import base64, hashlib, os, socketserver
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        headers = {}
        while (line := self.rfile.readline().decode().strip()):
            name, _, value = line.partition(': ')
            headers[name.lower()] = value
        key = headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.wfile.write(('HTTP/1.1 101 Switching Protocols\\r\\nupgrade: websocket\\r\\nconnection: Upgrade\\r\\n'
                          'sec-websocket-accept: ' + accept + '\\r\\n\\r\\n').encode())
        while len(head := self.rfile.read(2)) == 2 and head[0] == 0x81:
            mask, text = self.rfile.read(4), self.rfile.read(head[1] & 127)
            text = b'echo ' + bytes(byte ^ mask[i % 4] for i, byte in enumerate(text))
            self.wfile.write(bytes([0x81, len(text)]) + text)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads = True, True
Server(('', int(os.environ['PORT'])), Handler).serve_forever()
";

#[test]
fn answers_and_sockets_stream_through_the_router() {
    Cluster::builder().run(|cluster| {
        let site = Site::new(&cluster, "stream");
        server_sent_events(&site);
        from_node(&site);
        let echo = site.file("echo.py", ECHO);
        site.run(&["create", "echo", "--from", &echo]);
        web_socket(&site, "echo");
        image_with_web_socket(&cluster, &site);
    });
}

/// The first event is there before the second has been made; two at once, as one waits for the other.
fn server_sent_events(site: &Site) {
    let events = site.file("events.py", EVENTS);
    // Both calls must meet in one instance.
    site.run(&["create", "events", "--from", &events, "--concurrency", "2", "--max", "1", "--min", "1"]);
    let mut stream = Stream::open(site, "events", "");
    let head = stream.until("data: first\n\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("content-type: text/event-stream"), "{head}");
    assert_eq!(site.call("events", &json!({"say": "second"})).status, 200);
    assert!(stream.until("data: second\n\n").contains("second"));
}

/// Node's generators, piece by piece; one that has no end is told when its caller has gone, and its place is free again.
fn from_node(site: &Site) {
    let count = site.file("count.js", COUNT);
    site.run(&["create", "count", "--from", &count, "--max", "1"]);
    let mut endless = Stream::open(site, "count", r#"{"for_ever": true}"#);
    endless.until("2\n");
    drop(endless);
    let begun = Instant::now();
    let mut bounded = Stream::open(site, "count", "{}");
    let first = bounded.until("0\n");
    assert!(first.starts_with("HTTP/1.1 200 "), "{first}");
    bounded.until("2\n");
    assert!(begun.elapsed() < Duration::from_secs(30), "its only place was free: {:?}", begun.elapsed());
}

fn image_with_web_socket(cluster: &Cluster, site: &Site) {
    let program = site.file("echo.py", OWN_ECHO);
    let base = "minik8s.io/function-python:3.11-7";
    let entrypoint = ["--entrypoint", "/usr/bin/python3.11,/app/echo.py"];
    let tag = ["--tag", "own.example/echo:1", "--data-dir", cluster.dir.to_str().unwrap()];
    site.kubectl(&[&["image", "build", &program, "--base", base], &entrypoint[..], &tag].concat());
    site.run(&["create", "own", "--image", "own.example/echo:1"]);
    web_socket(site, "own");
}

fn web_socket(site: &Site, function: &str) {
    let handshake = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                     sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let mut stream = Stream::get(site, function, handshake);
    let head = stream.until("\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    for word in ["one", "two"] {
        stream.send(&frame(word));
        let expected = format!("echo {word}");
        let answer = stream.until(&expected);
        // Behind the first byte, which is no text.
        assert_eq!(answer.chars().nth(1).map(|length| length as usize), Some(expected.len()), "{answer:?}");
    }
    drop(stream);
    eventually("its place is free again", || {
        let mut again = Stream::get(site, function, handshake);
        again.until("\r\n\r\n").starts_with("HTTP/1.1 101 ")
    });
}

/// A masked text frame of one piece.
fn frame(text: &str) -> Vec<u8> {
    let mask = [1_u8, 2, 3, 4];
    let length = u8::try_from(text.len()).unwrap();
    let masked = text.bytes().zip(mask.into_iter().cycle()).map(|(byte, mask)| byte ^ mask);
    [0x81, 0x80 | length].into_iter().chain(mask).chain(masked).collect()
}

/// One request, and what has come of its answer.
struct Stream {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Stream {
    /// With a body of JSON.
    fn open(site: &Site, function: &str, body: &str) -> Stream {
        let head = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        let mut stream = Stream::begin(site, "POST", function, &head);
        stream.send(body.as_bytes());
        stream
    }

    fn get(site: &Site, function: &str, headers: &str) -> Stream {
        Stream::begin(site, "GET", function, headers)
    }

    fn begin(site: &Site, method: &str, function: &str, headers: &str) -> Stream {
        let stream = site.connect();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut stream = Stream { stream, received: Vec::new() };
        let path = format!("/fn/{}/{function}", site.namespace);
        stream.send(format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{headers}\r\n").as_bytes());
        stream
    }

    fn send(&mut self, data: &[u8]) {
        self.stream.write_all(data).unwrap();
    }

    /// All up to this text, and with it; it must come in time.
    fn until(&mut self, text: &str) -> String {
        loop {
            let place = self.received.windows(text.len()).position(|part| part == text.as_bytes());
            if let Some(place) = place {
                let taken: Vec<u8> = self.received.drain(..place + text.len()).collect();
                return String::from_utf8_lossy(&taken).into_owned();
            }
            let mut piece = [0; 4096];
            let length = self.stream.read(&mut piece).unwrap_or_else(|error| {
                panic!("{text:?} did not come: {error}; {:?}", String::from_utf8_lossy(&self.received))
            });
            assert!(length > 0, "{text:?} did not come: {:?}", String::from_utf8_lossy(&self.received));
            self.received.extend_from_slice(&piece[..length]);
        }
    }
}
