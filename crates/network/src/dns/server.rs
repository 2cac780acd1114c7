//! Answers DNS questions over UDP and TCP.
//!
//! It listens on a port of the node's own addresses; the service proxy leads the cluster's DNS address there. It
//! answers pods and the node, nobody else: an open resolver would serve attacks on others.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use minik8s_limits::ClientLimit;
use minik8s_meta::Cidrs;
use parking_lot::RwLock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::search::further_names;
use super::{Answer, Cache, Data, Query, Record, Reply, Status, Upstreams, Zone, parse, question};
use crate::metrics::{DnsMetrics, Exchange};

/// Questions that wait for others' answers, of one client and of all. More get no answer, and their clients ask again:
/// nobody who waits keeps names that are known here from being answered.
const FORWARDS: (usize, usize) = (64, 512);
/// TCP connections of one client and of all: more than the pods of a node have together. More are closed.
const CONNECTIONS: (usize, usize) = (16, 2048);
const TCP_TIMEOUT: Duration = Duration::from_secs(10);
/// So long a question waits for an agent that has just started to know the Services. Then nobody is told anything, and asks
/// again: resolvers do so after 5 s.
const START_TIMEOUT: Duration = Duration::from_secs(4);
/// CNAMEs may lead in circles.
const LONGEST_CHAIN: usize = 8;
const NOT_A_PORT_OF_BOTH: usize = 16;
const FAILURE: Reply = Reply { status: Status::ServerFailure, records: Vec::new(), authority: None };

pub struct Resolver {
    /// Of each address of the node.
    sockets: Vec<(UdpSocket, TcpListener)>,
    shared: Arc<Shared>,
}

struct Shared {
    zone: Arc<RwLock<Zone>>,
    upstreams: Upstreams,
    cache: Cache,
    metrics: Arc<DnsMetrics>,
    pods: Cidrs,
    node: Vec<IpAddr>,
    forwards: Arc<ClientLimit>,
    connections: Arc<ClientLimit>,
}

impl Resolver {
    /// On one port of each address for both protocols: the given one, or if that is taken any free one.
    pub async fn bind(
        (node, port): (&[IpAddr], u16),
        pods: Cidrs,
        zone: Arc<RwLock<Zone>>,
        upstreams: Upstreams,
        metrics: Arc<DnsMetrics>,
    ) -> io::Result<Self> {
        let mut sockets = Vec::new();
        for address in node {
            match bind_both(*address, port).await {
                Ok(both) => sockets.push(both),
                // Names are as good in the other family.
                Err(error) if address != &node[node.len() - 1] || !sockets.is_empty() => {
                    warn!(%error, "names are not answered on {address}");
                }
                Err(error) => return Err(error),
            }
        }
        let [forwards, connections] =
            [FORWARDS, CONNECTIONS].map(|(each, total)| ClientLimit::new(each, total));
        let (cache, node) = (Cache::default(), node.to_vec());
        let shared = Shared { zone, upstreams, cache, metrics, pods, node, forwards, connections };
        Ok(Resolver { sockets, shared: Arc::new(shared) })
    }

    /// Where it listens.
    pub fn endpoints(&self) -> io::Result<Vec<SocketAddr>> {
        self.sockets.iter().map(|(udp, _)| udp.local_addr()).collect()
    }

    /// Serves until it is dropped.
    pub async fn serve(self) {
        let Resolver { sockets, shared } = self;
        let serve = |(udp, tcp): (UdpSocket, TcpListener)| {
            let shared = shared.clone();
            async move { tokio::join!(serve_udp(Arc::new(udp), shared.clone()), serve_tcp(tcp, shared)) }
        };
        futures::future::join_all(sockets.into_iter().map(serve)).await;
    }
}

async fn bind_both(address: IpAddr, port: u16) -> io::Result<(UdpSocket, TcpListener)> {
    let mut tries = 0;
    loop {
        let port = if tries == 0 { port } else { 0 };
        let udp = match UdpSocket::bind((address, port)).await {
            Ok(udp) => udp,
            Err(error) if port == 0 => return Err(error),
            Err(_) => {
                tries += 1;
                continue;
            }
        };
        match TcpListener::bind(udp.local_addr()?).await {
            Ok(tcp) => return Ok((udp, tcp)),
            Err(error) if tries == NOT_A_PORT_OF_BOTH => return Err(error),
            Err(_) => tries += 1,
        }
    }
}

async fn serve_udp(socket: Arc<UdpSocket>, shared: Arc<Shared>) {
    let mut buffer = vec![0; 4096];
    loop {
        let Ok((length, peer)) = socket.recv_from(&mut buffer).await else { continue };
        if !shared.may_ask(peer) {
            continue;
        }
        let came = Instant::now();
        let message = &buffer[..length];
        let Some(query) = parse(message) else { continue };
        if let Some(answer) = shared.answer_at_once(&query, true, came) {
            let _ = socket.send_to(&answer, peer).await;
            continue;
        }
        let Some(place) = shared.forwards.admit(peer.ip()) else { continue };
        let (socket, shared, message) = (socket.clone(), shared.clone(), message.to_vec());
        tokio::spawn(async move {
            if let Some(answer) = shared.answer_later(&query, &message, true, came).await {
                let _ = socket.send_to(&answer, peer).await;
            }
            drop(place);
        });
    }
}

async fn serve_tcp(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely: that passes.
                debug!(%error, "cannot accept a DNS connection");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let place = shared.may_ask(peer).then(|| shared.connections.admit(peer.ip()));
        let Some(place) = place.flatten() else { continue };
        let shared = shared.clone();
        tokio::spawn(async move {
            let _ = serve_stream(stream, &shared).await;
            drop(place);
        });
    }
}

async fn serve_stream(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    loop {
        let length = timeout(TCP_TIMEOUT, stream.read_u16()).await??;
        let mut message = vec![0; usize::from(length)];
        timeout(TCP_TIMEOUT, stream.read_exact(&mut message)).await??;
        let came = Instant::now();
        let Some(query) = parse(&message) else { return Ok(()) };
        let answer = match shared.answer_at_once(&query, false, came) {
            Some(answer) => Some(answer),
            None => shared.answer_later(&query, &message, false, came).await,
        };
        let Some(answer) = answer else { return Ok(()) };
        let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
        timeout(TCP_TIMEOUT, stream.write_all(&[&length.to_be_bytes()[..], &answer].concat())).await??;
    }
}

impl Shared {
    fn may_ask(&self, peer: SocketAddr) -> bool {
        let ip = peer.ip();
        self.pods.contains(ip) || self.node.contains(&ip) || ip.is_loopback()
    }

    /// The answer that needs nobody else's word.
    fn own_answer(&self, query: &Query) -> Option<Reply> {
        let zone = self.zone.read();
        if !zone.owns(&query.name) || !zone.is_complete() {
            return None;
        }
        let mut records = Vec::new();
        let status = match follow(&zone, query, &query.name, &mut records) {
            Step::End(status) => status,
            Step::Elsewhere(_) => return None,
        };
        let asks_on = status == Status::NoSuchName
            && query.wants_addresses()
            && !further_names(&query.name, &zone, &self.upstreams.searches).is_empty();
        if asks_on {
            return None;
        }
        let authority = (status != Status::ServerFailure).then(|| zone.domain().to_owned());
        Some(Reply { status, records, authority })
    }

    fn answer_at_once(&self, query: &Query, udp: bool, came: Instant) -> Option<Vec<u8>> {
        let answer = query.encode(&self.own_answer(query)?, udp);
        self.count(query, &answer, (true, udp), came);
        Some(answer)
    }

    /// With the help of others. None while we cannot know.
    async fn answer_later(&self, query: &Query, message: &[u8], udp: bool, came: Instant) -> Option<Vec<u8>> {
        let is_own = self.zone.read().owns(&query.name);
        let answer = match is_own {
            true => query.encode(&self.answer_when_known(query).await?, udp),
            false => self.ask_others(message, udp).await.unwrap_or_else(|| query.encode(&FAILURE, udp)),
        };
        self.count(query, &answer, (is_own, udp), came);
        Some(answer)
    }

    /// For names of ours: when all Services are known.
    async fn answer_when_known(&self, query: &Query) -> Option<Reply> {
        let mut completion = self.zone.read().completion();
        if !*completion.borrow() {
            timeout(START_TIMEOUT, completion.wait_for(|is_complete| *is_complete)).await.ok()?.ok()?;
            if let Some(reply) = self.own_answer(query) {
                return Some(reply);
            }
        }
        Some(self.search(query).await)
    }

    fn count(&self, query: &Query, answer: &[u8], (is_own, udp): (bool, bool), came: Instant) {
        let (code, took) = (code(answer), came.elapsed());
        self.metrics.count(Exchange { is_own, udp, kind: query.kind, code, took });
    }

    /// For names of ours whose answer depends on others.
    async fn search(&self, query: &Query) -> Reply {
        let mut records = Vec::new();
        match self.look_up(query, &query.name, &mut records).await {
            Status::NoSuchName => {}
            status => return Reply { status, records, authority: None },
        }
        let (names, domain) = {
            let zone = self.zone.read();
            let names = further_names(&query.name, &zone, &self.upstreams.searches);
            (names, zone.domain().to_owned())
        };
        for name in names {
            let alias = Record { name: query.name.clone(), data: Data::Cname(name.clone()) };
            let mut records = vec![alias];
            if self.look_up(query, &name, &mut records).await == Status::Ok {
                return Reply { status: Status::Ok, records, authority: None };
            }
        }
        Reply { status: Status::NoSuchName, records: Vec::new(), authority: Some(domain) }
    }

    /// Adds the records of a name, be it ours or others', with those that its aliases lead to.
    async fn look_up(&self, query: &Query, name: &str, records: &mut Vec<Record>) -> Status {
        let step = {
            let zone = self.zone.read();
            match zone.owns(name) {
                true => follow(&zone, query, name, records),
                false => Step::Elsewhere(name.to_owned()),
            }
        };
        let outside = match step {
            Step::End(status) => return status,
            Step::Elsewhere(name) => name,
        };
        // Whoever is asked gets a number of its own.
        let question = question(0, &outside, query.kind);
        let mut answer = self.ask_others(&question, true).await.and_then(|message| Answer::read(&message));
        if answer.as_ref().is_some_and(|answer| answer.is_truncated) {
            answer = self.ask_others(&question, false).await.and_then(|message| Answer::read(&message));
        }
        match answer {
            Some(answer) if answer.code == 0 => {
                records.extend(answer.records);
                Status::Ok
            }
            Some(answer) if answer.code == 3 => Status::NoSuchName,
            _ => Status::ServerFailure,
        }
    }

    async fn ask_others(&self, question: &[u8], udp: bool) -> Option<Vec<u8>> {
        if let Some(kept) = self.cache.get(question, udp, Instant::now()) {
            self.metrics.hit(code(&kept));
            return Some(kept);
        }
        self.metrics.miss();
        let began = Instant::now();
        let (server, answer) = self.upstreams.ask(question, udp).await?;
        self.metrics.forwarded(server, code(&answer), began.elapsed());
        self.cache.put(question, udp, &answer, Instant::now());
        Some(answer)
    }
}

/// How a message answers: the last four bits of its flags.
fn code(message: &[u8]) -> u8 {
    message.get(3).map_or(0, |flags| flags & 15)
}

enum Step {
    End(Status),
    /// An alias leads out of the zone.
    Elsewhere(String),
}

/// Adds what the zone knows about a name and its aliases.
fn follow(zone: &Zone, query: &Query, name: &str, records: &mut Vec<Record>) -> Step {
    let mut name = name.to_owned();
    let before = records.len();
    for _ in 0..LONGEST_CHAIN {
        let Some(found) = zone.records(&name) else {
            return Step::End(if records.len() == before { Status::NoSuchName } else { Status::Ok });
        };
        let wanted: Vec<Record> = found.into_iter().filter(|record| query.wants(&record.data)).collect();
        let next = wanted.iter().find_map(|record| match &record.data {
            Data::Cname(target) => Some(target.clone()),
            _ => None,
        });
        records.extend(wanted);
        match next {
            None => return Step::End(Status::Ok),
            Some(target) if !zone.owns(&target) => return Step::Elsewhere(target),
            Some(target) => name = target,
        }
    }
    records.truncate(before);
    Step::End(Status::ServerFailure)
}
