//! A client that asks a Service again and again, and remembers when it got no answer and why.
//!
//! It waits for answers longer than any cable is out, as TCP does: late and lost packets are no reason to fail.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// From one question to the next, whether the others were answered or not.
const PAUSE: Duration = Duration::from_millis(25);
/// Each question has a port of its own, so that none is taken for the rest of an older connection.
const PORTS: RangeInclusive<u16> = 10_000..=60_999;
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Default)]
pub struct Report {
    pub answered: usize,
    pub failures: Vec<Failure>,
}

/// From when until when somebody waited in vain, from which port, and why that was the end.
#[derive(Debug, Clone)]
pub struct Failure {
    pub begun: Instant,
    pub ended: Instant,
    pub port: u16,
    pub why: String,
}

/// Until it is finished, and every question has come to its end.
pub async fn run(address: SocketAddr, finished: watch::Receiver<bool>) -> Report {
    let mut report = Report::default();
    let mut asked = JoinSet::new();
    let mut ports = PORTS.cycle();
    while !*finished.borrow() {
        // Those that somebody else uses are passed over.
        let mut sockets = ports.by_ref().filter_map(|port| Some((bound(port)?, port)));
        let (socket, port) = sockets.next().expect("a free port");
        asked.spawn(question(socket, port, address));
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
    fn note(&mut self, outcome: Result<(), Failure>) {
        match outcome {
            Ok(()) => self.answered += 1,
            Err(failure) => self.failures.push(failure),
        }
    }
}

fn bound(port: u16) -> Option<TcpSocket> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::UNSPECIFIED, port).into()).ok().map(|()| socket)
}

/// Its port is known before anything is sent, so that its way can be found also if nothing comes back.
async fn question(socket: TcpSocket, port: u16, address: SocketAddr) -> Result<(), Failure> {
    let begun = Instant::now();
    let why = match tokio::time::timeout(PATIENCE, ask(socket, address)).await {
        Ok(Ok(answer)) if answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.0 200") => {
            return Ok(());
        }
        Ok(Ok(answer)) => format!("answered {:?}", answer.lines().next().unwrap_or_default()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no answer".to_owned(),
    };
    Err(Failure { begun, ended: Instant::now(), port, why })
}

async fn ask(socket: TcpSocket, address: SocketAddr) -> std::io::Result<String> {
    let mut stream = socket.connect(address).await?;
    stream.write_all(b"GET / HTTP/1.0\r\nHost: web\r\n\r\n").await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
