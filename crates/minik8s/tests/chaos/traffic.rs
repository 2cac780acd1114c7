//! A client that asks a Service without pause, and remembers when it got no answer.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

const PAUSE: Duration = Duration::from_millis(25);
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Default)]
pub struct Report {
    /// When each was asked that got an answer.
    pub answered: Vec<Instant>,
    pub failures: Vec<Failure>,
}

/// From when until when somebody waited in vain, and why that was the end.
#[derive(Debug, Clone)]
pub struct Failure {
    pub begun: Instant,
    pub ended: Instant,
    pub why: String,
}

pub async fn run(address: SocketAddr, finished: watch::Receiver<bool>) -> Report {
    let mut report = Report::default();
    while !*finished.borrow() {
        let begun = Instant::now();
        let failed = match tokio::time::timeout(PATIENCE, ask(address)).await {
            Ok(Ok(answer)) if answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.0 200") => {
                None
            }
            Ok(Ok(answer)) => Some(format!("answered {:?}", answer.lines().next().unwrap_or_default())),
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("no answer".to_owned()),
        };
        match failed {
            None => report.answered.push(begun),
            Some(why) => report.failures.push(Failure { begun, ended: Instant::now(), why }),
        }
        tokio::time::sleep(PAUSE).await;
    }
    report
}

async fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET / HTTP/1.0\r\nHost: web\r\n\r\n").await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
