//! Questions about other people's names, handed to the node's own name servers byte by byte.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// Clients give up after five seconds: a second server must get its chance before.
const PATIENCE: Duration = Duration::from_secs(2);

/// The node's name servers and its search path.
#[derive(Debug, Clone, Default)]
pub struct Upstreams {
    pub servers: Vec<SocketAddr>,
    pub searches: Vec<String>,
}

impl Upstreams {
    /// Out of the text of a resolv.conf, without the cluster's own address: that way lies a circle.
    pub fn parse(text: &str, own: IpAddr) -> Self {
        let server = |line: &str| {
            let mut words = line.split_whitespace();
            words.next().filter(|word| *word == "nameserver")?;
            words.next()?.parse::<IpAddr>().ok()
        };
        let servers = text.lines().filter_map(server).filter(|address| *address != own);
        let search = |line: &str| {
            let mut words = line.split_whitespace();
            words.next().filter(|word| matches!(*word, "search" | "domain"))?;
            Some(words.map(|word| word.trim_end_matches('.').to_ascii_lowercase()).collect())
        };
        Upstreams {
            servers: servers.map(|address| SocketAddr::new(address, 53)).collect(),
            // The last line wins.
            searches: text.lines().filter_map(search).next_back().unwrap_or_default(),
        }
    }

    /// The first answer, and whose it is; `None` if nobody answers.
    pub async fn ask(&self, question: &[u8], udp: bool) -> Option<(SocketAddr, Vec<u8>)> {
        for &server in &self.servers {
            let answer = if udp {
                timeout(PATIENCE, ask_udp(server, question)).await
            } else {
                timeout(PATIENCE, ask_tcp(server, question)).await
            };
            if let Ok(Ok(answer)) = answer {
                return Some((server, answer));
            }
        }
        None
    }
}

/// From a port of its own, which only the server that was asked can answer to.
async fn ask_udp(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let any: IpAddr = if server.is_ipv4() { [0u8; 4].into() } else { [0u16; 8].into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut answer = vec![0; 4096];
    loop {
        let length = socket.recv(&mut answer).await?;
        if length >= 2 && answer[..2] == question[..2] {
            answer.truncate(length);
            return Ok(answer);
        }
    }
}

async fn ask_tcp(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), question].concat()).await?;
    let mut answer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}
