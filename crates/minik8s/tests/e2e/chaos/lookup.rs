//! Asks a node's DNS server for the address of a name, as a resolver does: again and again, until somebody answers.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use tokio::net::UdpSocket;

/// What an answer begins with that is none. Silence is allowed for a while, this never is.
pub const REFUSED: &str = "the name was refused";
const AGAIN: Duration = Duration::from_secs(1);
/// Type A, class IN.
const QUESTION: [u8; 4] = [0, 1, 0, 1];

/// The socket knows whom to ask.
pub async fn address(socket: &UdpSocket, name: &str) -> io::Result<IpAddr> {
    let mut answer = vec![0; 512];
    let mut id: u16 = 0;
    loop {
        id = id.wrapping_add(1);
        // While nobody listens the kernel may say so: then as if nothing had come.
        let _ = socket.send(&query(id, name)).await;
        let received = async {
            loop {
                match socket.recv(&mut answer).await {
                    Ok(length) if answer.get(..2) == Some(&id.to_be_bytes()[..]) => return length,
                    Ok(_) => {}
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        };
        if let Ok(length) = tokio::time::timeout(AGAIN, received).await {
            return read(&answer[..length], name.len() + 2).map(IpAddr::V4).map_err(io::Error::other);
        }
    }
}

fn query(id: u16, name: &str) -> Vec<u8> {
    let mut query = id.to_be_bytes().to_vec();
    // Recursion is desired; one question.
    query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        query.push(u8::try_from(label.len()).expect("a short label"));
        query.extend(label.as_bytes());
    }
    query.push(0);
    query.extend(QUESTION);
    query
}

/// The first address of an answer to a question with a name of so many bytes.
fn read(answer: &[u8], name: usize) -> Result<Ipv4Addr, String> {
    let code = answer.get(3).ok_or("too short")? & 15;
    let count = answer.get(6..8).map_or(0, |count| u16::from_be_bytes([count[0], count[1]]));
    if code != 0 || count == 0 {
        return Err(format!("{REFUSED}: code {code}, {count} answers"));
    }
    // Whatever its name is, compressed or not, an A record ends with its length and four bytes.
    let records = answer.get(12 + name + QUESTION.len()..).unwrap_or_default();
    let first = records.windows(10).find(|part| part[..4] == QUESTION && part[8..] == [0, 4]);
    let at = first.map(|part| part.as_ptr() as usize - records.as_ptr() as usize + 10);
    let bytes = at.and_then(|at| records.get(at..at + 4)).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    bytes.map(Ipv4Addr::from).ok_or_else(|| format!("no address in {answer:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u8, record: &[u8]) -> Vec<u8> {
        let mut answer = query(7, "web.chaos");
        (answer[2], answer[3]) = (0x81, 0x80 | code);
        answer[7] = u8::from(!record.is_empty());
        answer.extend(record);
        answer
    }

    #[test]
    fn lookup_reads_an_address_or_a_refusal() {
        let name = "web.chaos".len() + 2;
        let record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 10, 96, 1, 2];
        assert_eq!(read(&answer(0, &record), name), Ok(Ipv4Addr::new(10, 96, 1, 2)));
        assert!(read(&answer(3, &[]), name).unwrap_err().starts_with(REFUSED));
        assert!(read(&answer(0, &[]), name).unwrap_err().starts_with(REFUSED));
        assert!(read(&answer(0, &record[..13]), name).is_err());
        assert!(read(&[], name).is_err());
    }
}
