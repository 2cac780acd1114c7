//! Questions about other people's names, handed to the node's own name servers byte by byte.
//!
//! Each try has a random number and a random port of its own, and only an answer with this number to exactly this
//! question is taken: who wants to pass off an answer must guess both, and what a client chose helps nobody.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::message::question_of;

/// Clients give up after five seconds: a second server must get its chance before.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The node's name servers and its search path.
#[derive(Debug, Clone, Default)]
pub struct Upstreams {
    pub servers: Vec<SocketAddr>,
    pub searches: Vec<String>,
}

impl Upstreams {
    /// Out of the text of a resolv.conf, without the cluster's own addresses: that way lies a circle.
    pub fn parse(text: &str, own: &[IpAddr]) -> Self {
        let server = |line: &str| {
            let mut words = line.split_whitespace();
            words.next().filter(|word| *word == "nameserver")?;
            words.next()?.parse::<IpAddr>().ok()
        };
        let servers = text.lines().filter_map(server).filter(|address| !own.contains(address));
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
        let (id, rest) = question.split_at_checked(2)?;
        for &server in &self.servers {
            let own = [&rand::random::<u16>().to_be_bytes()[..], rest].concat();
            let answer = if udp {
                timeout(TIMEOUT, ask_udp(server, &own)).await
            } else {
                timeout(TIMEOUT, ask_tcp(server, &own)).await
            };
            if let Ok(Ok(mut answer)) = answer {
                answer[..2].copy_from_slice(id);
                return Some((server, answer));
            }
        }
        None
    }
}

/// Whether the message is an answer to the question: same number, same question to the letter.
fn answers(message: &[u8], question: &[u8]) -> bool {
    const RESPONSE: u8 = 0x80;
    const OPERATION: u8 = 0x78;
    let (Some(head), Some(asked)) = (message.get(..12), question.get(..12)) else { return false };
    head[..2] == asked[..2]
        && head[2] & RESPONSE != 0
        && head[2] & OPERATION == asked[2] & OPERATION
        && head[4..6] == [0, 1]
        && question_of(question).is_some_and(|asked| question_of(message) == Some(asked))
}

/// From a port of its own, which the kernel draws and only the server that was asked can answer to.
async fn ask_udp(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let any: IpAddr = if server.is_ipv4() { [0u8; 4].into() } else { [0u16; 8].into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut answer = vec![0; 4096];
    loop {
        let length = socket.recv(&mut answer).await?;
        if answers(&answer[..length], question) {
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
    if answers(&answer, question) { Ok(answer) } else { Err(io::ErrorKind::InvalidData.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::question;

    #[test]
    fn answer_must_repeat_number_and_question() {
        let asked = question(0x1234, "Example.org", 1);
        let response = |change: fn(&mut Vec<u8>)| {
            let mut message = asked.clone();
            message[2] |= 0x80;
            message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 192, 0, 2, 5]);
            change(&mut message);
            message
        };
        assert!(answers(&response(|_| ()), &asked));
        type Forgery = (&'static str, fn(&mut Vec<u8>));
        let refused: [Forgery; 8] = [
            ("another number", |message| message[1] ^= 1),
            ("a question", |message| message[2] &= 0x7f),
            ("another operation", |message| message[2] |= 0x08),
            ("another name", |message| message[14] = b'a'),
            ("other letters", |message| message[13] = b'e'),
            ("another type", |message| message[26] = 28),
            ("no question", |message| message[5] = 0),
            ("a stump", |message| message.truncate(20)),
        ];
        for (what, change) in refused {
            assert!(!answers(&response(change), &asked), "{what}");
        }
        assert!(!answers(&[], &asked) && !answers(&asked, &[]));
    }
}
