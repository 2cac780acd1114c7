//! DNS messages, as much as a test needs to ask and to read.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};

use super::place::Place;

pub const A: u16 = 1;
const CNAME: u16 = 5;
pub const PTR: u16 = 12;
pub const AAAA: u16 = 28;
pub const SRV: u16 = 33;

#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// 0 is well, 3 means that there is no such name.
    pub code: u8,
    pub truncated: bool,
    /// Sorted: `A 10.0.0.1`, `CNAME example.org`, `SRV 80 web.default.svc.cluster.local`.
    pub records: Vec<String>,
}

impl Answer {
    pub fn is(code: u8, records: &[&str]) -> Answer {
        let mut records: Vec<String> = records.iter().map(|&record| record.to_owned()).collect();
        records.sort();
        Answer { code, truncated: false, records }
    }
}

#[track_caller]
pub fn over_udp(from: &Place, server: SocketAddr, name: &str, kind: u16) -> Answer {
    let answer = try_over_udp(from, server, name, kind);
    answer.unwrap_or_else(|error| panic!("{} asks for {name}: {error}", from.name))
}

/// A resolver may be away for a moment.
pub fn try_over_udp(from: &Place, server: SocketAddr, name: &str, kind: u16) -> io::Result<Answer> {
    Ok(read(&from.exchange(server, &question(name, kind))?))
}

pub fn over_tcp(from: &Place, server: SocketAddr, name: &str, kind: u16) -> Answer {
    let question = question(name, kind);
    let message = from.inside(|| {
        let mut stream = TcpStream::connect(server).unwrap();
        let length = u16::try_from(question.len()).unwrap();
        stream.write_all(&[&length.to_be_bytes()[..], &question].concat()).unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut message).unwrap();
        message
    });
    read(&message)
}

fn question(name: &str, kind: u16) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    write_name(&mut message, name);
    message.extend([kind.to_be_bytes(), [0, 1]].concat());
    message
}

fn write_name(message: &mut Vec<u8>, name: &str) {
    for label in name.split('.').filter(|label| !label.is_empty()) {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend(label.as_bytes());
    }
    message.push(0);
}

/// What a name server answers that knows one address for all names.
pub fn reply(question: &[u8], address: Ipv4Addr) -> Option<(String, Vec<u8>)> {
    let (name, end) = name_at(question, 12);
    let kind = number(question, end);
    let mut message = question.get(..end + 4)?.to_vec();
    message[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(kind == A), 0, 0, 0, 0]);
    if kind == A {
        message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        message.extend(address.octets());
    }
    Some((format!("{name} {kind}"), message))
}

fn read(message: &[u8]) -> Answer {
    let mut at = name_at(message, 12).1 + 4;
    let mut records = Vec::new();
    for _ in 0..number(message, 6) {
        let fixed = name_at(message, at).1;
        let (kind, data) = (number(message, fixed), fixed + 10);
        at = data + usize::from(number(message, fixed + 8));
        records.push(match kind {
            A => format!("A {}", Ipv4Addr::from(<[u8; 4]>::try_from(&message[data..data + 4]).unwrap())),
            AAAA => {
                format!("AAAA {}", Ipv6Addr::from(<[u8; 16]>::try_from(&message[data..data + 16]).unwrap()))
            }
            CNAME => format!("CNAME {}", name_at(message, data).0),
            PTR => format!("PTR {}", name_at(message, data).0),
            SRV => format!("SRV {} {}", number(message, data + 4), name_at(message, data + 6).0),
            other => format!("TYPE{other}"),
        });
    }
    records.sort();
    Answer { code: message[3] & 15, truncated: message[2] & 2 != 0, records }
}

fn number(message: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([message[at], message[at + 1]])
}

/// The name, and where what follows it begins.
fn name_at(message: &[u8], mut at: usize) -> (String, usize) {
    let (mut labels, mut end) = (Vec::new(), None);
    loop {
        let length = usize::from(message[at]);
        if length == 0 {
            return (labels.join("."), end.unwrap_or(at + 1));
        }
        if length & 0xc0 == 0xc0 {
            end.get_or_insert(at + 2);
            at = usize::from(number(message, at) & 0x3fff);
            continue;
        }
        labels.push(String::from_utf8_lossy(&message[at + 1..=at + length]).into_owned());
        at += 1 + length;
    }
}
