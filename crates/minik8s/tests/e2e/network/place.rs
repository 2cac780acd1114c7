//! Somewhere to send packets from: the network namespace of a pod, of a node, of the world outside.
//!
//! A thread of the test enters the namespace, so that nothing has to be installed in pods and a request costs what it
//! costs, not the start of a program.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sched::{CloneFlags, setns};

const TIMEOUT: Duration = Duration::from_secs(10);
/// Nobody tells that a datagram was lost.
const TIMEOUT_UDP: Duration = Duration::from_secs(4);

#[derive(Clone)]
pub struct Place {
    pub name: String,
    /// Where others see its packets come from.
    pub address: IpAddr,
    namespace: Arc<File>,
}

impl Place {
    pub fn new(name: &str, address: IpAddr, namespace: &Path) -> Place {
        let namespace = Arc::new(File::open(namespace).unwrap());
        Place { name: name.to_owned(), address, namespace }
    }

    /// Does something there.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let entered = || {
            setns(&*self.namespace, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        };
        let ended = std::thread::scope(|scope| scope.spawn(entered).join());
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Who answers a request, and whom it saw: `web-1 10.244.0.5`. Or `refused`, or what went wrong.
    pub fn ask(&self, address: &str, port: u16) -> String {
        self.ask_often(address, port, 1).remove(0)
    }

    pub fn ask_often(&self, address: &str, port: u16, times: usize) -> Vec<String> {
        let to = socket(address, port);
        self.inside(|| (0..times).map(|_| told(get(to, "any", "/cgi-bin/who"))).collect())
    }

    /// The same for one who does not wait long: of whom it is known that packets are dropped.
    pub fn ask_briefly(&self, address: &str, port: u16) -> String {
        let to = socket(address, port);
        self.inside(|| told(get_within(to, ("any", "/cgi-bin/who"), Duration::from_secs(1))))
    }

    /// Code and body of an answer to a request for a host and path.
    pub fn get(&self, address: &str, port: u16, host: &str, path: &str) -> io::Result<(u16, String)> {
        let to = socket(address, port);
        self.inside(|| get(to, host, path))
    }

    /// The same over UDP, with a datagram of that size.
    pub fn send(&self, address: &str, port: u16, size: usize) -> String {
        let to = socket(address, port);
        self.inside(|| {
            told(
                exchange(to, &vec![b'x'; size])
                    .map(|bytes| (200, String::from_utf8_lossy(&bytes).into_owned())),
            )
        })
    }

    /// A datagram and its answer.
    pub fn exchange(&self, to: SocketAddr, datagram: &[u8]) -> io::Result<Vec<u8>> {
        self.inside(|| exchange(to, datagram))
    }

    /// Answers datagrams there with its name, the sender's address and how long they were, until it is dropped.
    pub fn serve_udp(&self, port: u16) -> Serving {
        let socket = self.inside(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap());
        let name = self.name.clone();
        Serving::start(socket, move |datagram, from| {
            Some(format!("{name} {from} {}", datagram.len()).into_bytes())
        })
    }

    /// Answers datagrams there with what the function makes of them.
    pub fn serve(
        &self,
        port: u16,
        answer: impl Fn(&[u8], IpAddr) -> Option<Vec<u8>> + Send + 'static,
    ) -> Serving {
        Serving::start(self.inside(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap()), answer)
    }
}

/// A server that ends when it is dropped.
pub struct Serving {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Serving {
    fn start(
        socket: UdpSocket,
        answer: impl Fn(&[u8], IpAddr) -> Option<Vec<u8>> + Send + 'static,
    ) -> Serving {
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while !stopped.load(Ordering::Relaxed) {
                let Ok((length, peer)) = socket.recv_from(&mut buffer) else { continue };
                if let Some(reply) = answer(&buffer[..length], peer.ip()) {
                    let _ = socket.send_to(&reply, peer);
                }
            }
        });
        Serving { stop, thread: Some(thread) }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

pub fn socket(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap_or_else(|_| panic!("{address:?} is no address")), port)
}

/// One request on a connection of its own.
pub fn get(to: SocketAddr, host: &str, path: &str) -> io::Result<(u16, String)> {
    get_within(to, (host, path), TIMEOUT)
}

fn get_within(to: SocketAddr, (host, path): (&str, &str), timeout: Duration) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&to, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    // The old version: answers come in one piece.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    // Scripts of busybox's web server end their lines plainly.
    let answer = String::from_utf8_lossy(&answer).replace("\r\n", "\n");
    let (head, body) = answer.split_once("\n\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok((code.ok_or(io::ErrorKind::InvalidData)?, body.trim().to_owned()))
}

fn exchange(to: SocketAddr, datagram: &[u8]) -> io::Result<Vec<u8>> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.set_read_timeout(Some(TIMEOUT_UDP))?;
    socket.connect(to)?;
    socket.send(datagram)?;
    let mut answer = vec![0; 4096];
    let length = socket.recv(&mut answer)?;
    answer.truncate(length);
    Ok(answer)
}

fn told(answer: io::Result<(u16, String)>) -> String {
    match answer {
        Ok((200, text)) => text,
        Ok((code, text)) => format!("{code} {text}"),
        // The node's own packets are refused before they leave it.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::PermissionDenied) =>
        {
            "refused".to_owned()
        }
        Err(error) => format!("failed: {error}"),
    }
}
