//! Answers DNS questions over UDP and TCP.
//!
//! It listens on a port of the node's own address; the service proxy leads the cluster's DNS address there. It
//! answers pods and the node, nobody else: an open resolver would serve attacks on others.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::Ipv4Net;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket, lookup_host};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::{Data, Query, Record, Reply, Status, Upstreams, Zone, parse};

/// Questions to others, and TCP connections, at one time. More wait, and their clients ask again.
const MOST_AT_ONCE: usize = 512;
const TCP_PATIENCE: Duration = Duration::from_secs(10);
/// CNAMEs may lead in circles.
const LONGEST_CHAIN: usize = 8;
const NOT_A_PORT_OF_BOTH: usize = 16;

pub struct Resolver {
    udp: UdpSocket,
    tcp: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    zone: watch::Receiver<Arc<Zone>>,
    upstreams: Upstreams,
    pods: Ipv4Net,
    node: Ipv4Addr,
    at_once: Arc<Semaphore>,
}

impl Resolver {
    /// On one free port for both protocols.
    pub async fn bind(
        node: Ipv4Addr,
        pods: Ipv4Net,
        zone: watch::Receiver<Arc<Zone>>,
        upstreams: Upstreams,
    ) -> io::Result<Self> {
        let mut tries = 0;
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind((node, 0)).await?;
            match TcpListener::bind(udp.local_addr()?).await {
                Ok(tcp) => break (udp, tcp),
                Err(error) if tries == NOT_A_PORT_OF_BOTH => return Err(error),
                Err(_) => tries += 1,
            }
        };
        let at_once = Arc::new(Semaphore::new(MOST_AT_ONCE));
        Ok(Resolver { udp, tcp, shared: Arc::new(Shared { zone, upstreams, pods, node, at_once }) })
    }

    pub fn port(&self) -> io::Result<u16> {
        Ok(self.udp.local_addr()?.port())
    }

    /// Serves until it is dropped.
    pub async fn serve(self) {
        let Resolver { udp, tcp, shared } = self;
        tokio::join!(serve_udp(Arc::new(udp), shared.clone()), serve_tcp(tcp, shared));
    }
}

async fn serve_udp(socket: Arc<UdpSocket>, shared: Arc<Shared>) {
    let mut buffer = vec![0; 4096];
    loop {
        let Ok((length, peer)) = socket.recv_from(&mut buffer).await else { continue };
        if !shared.may_ask(peer) {
            continue;
        }
        let message = &buffer[..length];
        let Some(query) = parse(message) else { continue };
        if let Some(reply) = shared.own_answer(&query) {
            let _ = socket.send_to(&query.encode(&reply, true), peer).await;
            continue;
        }
        let Ok(permit) = shared.at_once.clone().acquire_owned().await else { return };
        let (socket, shared, message) = (socket.clone(), shared.clone(), message.to_vec());
        tokio::spawn(async move {
            let _ = socket.send_to(&shared.answer(&query, &message, true).await, peer).await;
            drop(permit);
        });
    }
}

async fn serve_tcp(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok(permit) = shared.at_once.clone().acquire_owned().await else { return };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely: that passes.
                debug!(%error, "cannot accept a DNS connection");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        if !shared.may_ask(peer) {
            continue;
        }
        let shared = shared.clone();
        tokio::spawn(async move {
            let _ = serve_stream(stream, &shared).await;
            drop(permit);
        });
    }
}

async fn serve_stream(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    loop {
        let length = timeout(TCP_PATIENCE, stream.read_u16()).await??;
        let mut message = vec![0; usize::from(length)];
        timeout(TCP_PATIENCE, stream.read_exact(&mut message)).await??;
        let Some(query) = parse(&message) else { return Ok(()) };
        let answer = shared.answer(&query, &message, false).await;
        let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
        timeout(TCP_PATIENCE, stream.write_all(&[&length.to_be_bytes()[..], &answer].concat())).await??;
    }
}

impl Shared {
    fn may_ask(&self, peer: SocketAddr) -> bool {
        match peer.ip() {
            IpAddr::V4(ip) => self.pods.contains(&ip) || ip == self.node || ip.is_loopback(),
            IpAddr::V6(_) => false,
        }
    }

    async fn answer(&self, query: &Query, message: &[u8], udp: bool) -> Vec<u8> {
        if let Some(reply) = self.own_answer(query) {
            return query.encode(&reply, udp);
        }
        let failure = Reply { status: Status::ServerFailure, records: Vec::new(), authority: None };
        if !self.zone.borrow().owns(&query.name) {
            let answer = self.upstreams.ask(message, udp).await;
            return answer.unwrap_or_else(|| query.encode(&failure, udp));
        }
        query.encode(&self.follow_outside(query).await.unwrap_or(failure), udp)
    }

    /// What can be answered without asking anybody.
    fn own_answer(&self, query: &Query) -> Option<Reply> {
        let zone = self.zone.borrow().clone();
        if !zone.owns(&query.name) {
            return None;
        }
        let authority = Some(zone.domain().to_owned());
        let mut name = query.name.clone();
        let mut records = Vec::new();
        for _ in 0..LONGEST_CHAIN {
            let Some(found) = zone.records(&name) else {
                let status = if records.is_empty() { Status::NoSuchName } else { Status::Ok };
                return Some(Reply { status, records, authority });
            };
            let wanted: Vec<Record> = found.into_iter().filter(|record| query.wants(&record.data)).collect();
            let next = wanted.iter().find_map(|record| match &record.data {
                Data::Cname(target) => Some(target.clone()),
                _ => None,
            });
            records.extend(wanted);
            match next {
                None => return Some(Reply { status: Status::Ok, records, authority }),
                Some(target) if !zone.owns(&target) => return None,
                Some(target) => name = target,
            }
        }
        Some(Reply { status: Status::ServerFailure, records: Vec::new(), authority: None })
    }

    /// An ExternalName's target is looked up as the node itself would: clients expect the whole chain.
    async fn follow_outside(&self, query: &Query) -> Option<Reply> {
        let zone = self.zone.borrow().clone();
        let mut records = Vec::new();
        let mut name = query.name.clone();
        for _ in 0..LONGEST_CHAIN {
            if !zone.owns(&name) {
                let found = lookup_host((name.as_str(), 0)).await;
                let addresses: std::collections::BTreeSet<IpAddr> =
                    found.ok().into_iter().flatten().map(|address| address.ip()).collect();
                let record = |ip: IpAddr| Record { name: name.clone(), data: ip.into() };
                records.extend(addresses.into_iter().map(record).filter(|record| query.wants(&record.data)));
                return Some(Reply { status: Status::Ok, records, authority: None });
            }
            let cname = zone.records(&name)?.into_iter().find_map(|record| match record.data {
                Data::Cname(target) => Some(target),
                _ => None,
            })?;
            records.push(Record { name, data: Data::Cname(cname.clone()) });
            name = cname;
        }
        None
    }
}
