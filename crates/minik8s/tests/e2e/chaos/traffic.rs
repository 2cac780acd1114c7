//! Clients that ask the Service without pause, each by one way: in one node's network, at that node's port, at the
//! Service's own address, or by its name. They remember when they got no answer and why.
//!
//! They wait for answers longer than any cable is out, as TCP does: late and lost packets are no reason to fail. A client
//! has a thread of its own, which is in the node's network namespace: whatever socket it makes is the node's.

use std::fmt;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::faults::NODES;
use super::lookup;
use crate::harness::lab::Lab;

pub const NAME: &str = "web.chaos.svc.cluster.local";
pub const PORT: u16 = 80;
/// From one question to the next, whether the others were answered or not.
const PAUSE: Duration = Duration::from_millis(200);
const TIMEOUT: Duration = Duration::from_secs(20);
/// Each question has a port of its own, so that none is taken for the rest of an older connection; each kind of way
/// has so many, from here on. Node ports and those that the kernel gives out lie above.
const FIRST_PORT: u16 = 10_000;
const PORTS: u16 = 5_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    NodePort,
    ClusterIp,
    Name,
}

/// From which node the Service is asked, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    pub node: u32,
    pub by: By,
}

/// Where the Service is.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub node_port: u16,
    pub address: Ipv4Addr,
    /// Who is asked for its name.
    pub dns: Ipv4Addr,
}

#[derive(Default)]
pub struct Report {
    pub answers: Vec<Answered>,
    pub failures: Vec<Failure>,
}

#[derive(Debug, Clone, Copy)]
pub struct Answered {
    pub begun: Instant,
    pub ended: Instant,
    pub port: u16,
}

/// From when until when somebody waited in vain, from which port, and why that was the end.
#[derive(Debug, Clone)]
pub struct Failure {
    pub begun: Instant,
    pub ended: Instant,
    pub port: u16,
    pub why: String,
}

impl Way {
    /// Every way there is.
    pub fn all() -> impl Iterator<Item = Way> {
        (1..=NODES).flat_map(|node| [By::NodePort, By::ClusterIp, By::Name].map(|by| Way { node, by }))
    }

    fn ports(self) -> impl Iterator<Item = u16> {
        let first = FIRST_PORT + PORTS * self.by as u16;
        (first..first + PORTS).cycle()
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.by {
            By::NodePort => "NodePort",
            By::ClusterIp => "ClusterIP",
            By::Name => "name",
        };
        write!(f, "{by} on node{}", self.node)
    }
}

/// Until it is finished, and every question has come to its end.
pub fn start(way: Way, lab: &Lab, target: Target, finished: watch::Receiver<bool>) -> JoinHandle<Report> {
    let namespace = lab.namespace(&format!("node{}", way.node));
    let own: IpAddr = lab.address(way.node).parse().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(way, namespace, own, target, finished))
    })
}

async fn run(
    way: Way,
    namespace: PathBuf,
    own: IpAddr,
    target: Target,
    finished: watch::Receiver<bool>,
) -> Report {
    let mut report = Report::default();
    let mut asked = JoinSet::new();
    let mut ports = way.ports();
    while !*finished.borrow() {
        let begun = Instant::now();
        match Sockets::open(&namespace, &mut ports, target.dns) {
            Ok(sockets) => drop(asked.spawn(question(sockets, begun, way.by, own, target))),
            Err(error) => {
                let why = format!("no socket: {error}");
                report.failures.push(Failure { begun, ended: Instant::now(), port: 0, why });
            }
        }
        while let Some(outcome) = asked.try_join_next() {
            report.note(outcome.unwrap());
        }
        tokio::time::sleep(PAUSE).await;
    }
    while let Some(outcome) = asked.join_next().await {
        report.note(outcome.unwrap());
    }
    report
}

impl Report {
    fn note(&mut self, outcome: Result<Answered, Failure>) {
        match outcome {
            Ok(answered) => self.answers.push(answered),
            Err(failure) => self.failures.push(failure),
        }
    }
}

/// For one question. They are made at once: the node may have another network when they are needed.
struct Sockets {
    tcp: TcpSocket,
    dns: UdpSocket,
    port: u16,
}

impl Sockets {
    /// In the network that the node has now: it gets a new one when it starts.
    fn open(namespace: &Path, ports: &mut impl Iterator<Item = u16>, dns: Ipv4Addr) -> io::Result<Sockets> {
        setns(File::open(namespace)?, CloneFlags::CLONE_NEWNET)?;
        let udp = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        udp.set_nonblocking(true)?;
        udp.connect((dns, 53))?;
        // Ports that somebody else uses are passed over.
        for port in ports.take(usize::from(PORTS)) {
            let tcp = TcpSocket::new_v4()?;
            match tcp.bind((Ipv4Addr::UNSPECIFIED, port).into()) {
                Ok(()) => return Ok(Sockets { tcp, dns: UdpSocket::from_std(udp)?, port }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("every port is taken"))
    }
}

/// Its port is known before anything is sent, so that its way can be found also if nothing comes back.
async fn question(
    sockets: Sockets,
    begun: Instant,
    by: By,
    own: IpAddr,
    target: Target,
) -> Result<Answered, Failure> {
    let port = sockets.port;
    let answer = async {
        let address = match by {
            By::NodePort => SocketAddr::new(own, target.node_port),
            By::ClusterIp => (target.address, PORT).into(),
            By::Name => SocketAddr::new(lookup::address(&sockets.dns, NAME).await?, PORT),
        };
        ask(sockets.tcp, address).await
    };
    let why = match tokio::time::timeout(TIMEOUT, answer).await {
        Ok(Ok(answer)) if answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.0 200") => {
            return Ok(Answered { begun, ended: Instant::now(), port });
        }
        Ok(Ok(answer)) => format!("answered {:?}", answer.lines().next().unwrap_or_default()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no answer".to_owned(),
    };
    Err(Failure { begun, ended: Instant::now(), port, why })
}

async fn ask(socket: TcpSocket, address: SocketAddr) -> io::Result<String> {
    let mut stream = socket.connect(address).await?;
    stream.write_all(b"GET / HTTP/1.0\r\nHost: web\r\n\r\n").await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
