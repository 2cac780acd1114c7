//! DNS messages (RFC 1035, RFC 6891): as much of them as a resolver needs that answers one question at a time.
//!
//! Nothing here follows compression pointers, so that no message can lead it in circles: in a question there
//! is nothing to point at.

use super::{Data, Record};

const HEADER: usize = 12;
const IN: u16 = 1;
const OPT: u16 = 41;
const ANY: u16 = 255;
pub(super) const SOA: u16 = 6;
pub(super) const CNAME: u16 = 5;
/// How long others may keep our answers, positive or negative: seconds.
const TTL: u32 = 5;
/// What fits into a UDP packet of a client that says nothing about it, and what we send at most.
const SMALLEST: usize = 512;
const LARGEST: usize = 1232;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    id: [u8; 2],
    recursion_desired: bool,
    /// As it came: clients compare its letters' case.
    question: Vec<u8>,
    /// In lower case, without the dot at its end.
    pub name: String,
    pub kind: u16,
    /// What a UDP answer may measure, if the client speaks EDNS.
    room: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Ok = 0,
    ServerFailure = 2,
    NoSuchName = 3,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub status: Status,
    pub records: Vec<Record>,
    /// The domain that we answer for with authority.
    pub authority: Option<String>,
}

/// A question of our own.
pub fn question(id: u16, name: &str, kind: u16) -> Vec<u8> {
    let mut out = id.to_be_bytes().to_vec();
    out.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    write_name(&mut out, name);
    out.extend(kind.to_be_bytes());
    out.extend(IN.to_be_bytes());
    out
}

/// `None` for what is not a single plain question: it gets no answer.
pub fn parse(message: &[u8]) -> Option<Query> {
    let header = message.get(..HEADER)?;
    let count = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    // A response, or an operation other than a query.
    if header[2] & 0xf8 != 0 || count(4) != 1 || count(6) != 0 || count(8) != 0 {
        return None;
    }
    let (name, end) = name_at(message, HEADER)?;
    let kind = u16::from_be_bytes(message.get(end..end + 2)?.try_into().ok()?);
    let class = u16::from_be_bytes(message.get(end + 2..end + 4)?.try_into().ok()?);
    if class != IN {
        return None;
    }
    let additional = message.get(end + 4..).filter(|_| count(10) > 0);
    Some(Query {
        id: [header[0], header[1]],
        recursion_desired: header[2] & 1 != 0,
        question: message[HEADER..end + 4].to_vec(),
        name,
        kind,
        room: additional.and_then(edns_room),
    })
}

/// The question as it stands in a message, letter by letter.
pub(super) fn question_of(message: &[u8]) -> Option<&[u8]> {
    let (_, end) = name_at(message, HEADER)?;
    message.get(HEADER..end + 4)
}

fn name_at(message: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut name = String::new();
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        match length {
            0 => return Some((name, at)),
            1..=63 => {}
            _ => return None,
        }
        let label = message.get(at..at + length)?;
        at += length;
        if !name.is_empty() {
            name.push('.');
        }
        // A dot or anything strange within a label makes a name that nobody has.
        let plain = |byte: u8| if byte.is_ascii_graphic() && byte != b'.' { byte } else { b'?' };
        name.extend(label.iter().map(|&byte| char::from(plain(byte).to_ascii_lowercase())));
        if name.len() > 253 {
            return None;
        }
    }
}

/// The first additional record, if it is EDNS': a root name, the type, the room.
fn edns_room(record: &[u8]) -> Option<usize> {
    let fixed: [u8; 5] = record.get(..5)?.try_into().ok()?;
    (fixed[0] == 0 && u16::from_be_bytes([fixed[1], fixed[2]]) == OPT)
        .then(|| usize::from(u16::from_be_bytes([fixed[3], fixed[4]])).clamp(SMALLEST, LARGEST))
}

impl Query {
    /// Whether it asks for addresses.
    pub fn wants_addresses(&self) -> bool {
        matches!(self.kind, 1 | 28)
    }

    /// Whether records of that type answer the question.
    pub fn wants(&self, data: &Data) -> bool {
        self.kind == ANY || self.kind == data.kind() || data.kind() == CNAME
    }

    /// The answer on the wire: over UDP cut to what the client takes.
    pub fn encode(&self, reply: &Reply, udp: bool) -> Vec<u8> {
        let room = if udp { self.room.unwrap_or(SMALLEST) } else { usize::from(u16::MAX) };
        let room = room - if self.room.is_some() { 11 } else { 0 };
        let mut out = vec![0; HEADER];
        out.extend(&self.question);
        let (mut answers, mut authorities, mut cut) = (0u16, 0u16, false);
        for record in &reply.records {
            let before = out.len();
            self.write_record(&mut out, record);
            if out.len() > room {
                out.truncate(before);
                cut = true;
                break;
            }
            answers += 1;
        }
        if let Some(domain) = reply.authority.as_ref().filter(|_| reply.records.is_empty()) {
            let before = out.len();
            write_soa(&mut out, domain);
            if out.len() > room { out.truncate(before) } else { authorities = 1 }
        }
        if self.room.is_some() {
            out.push(0);
            out.extend(OPT.to_be_bytes());
            out.extend((LARGEST as u16).to_be_bytes());
            out.extend([0; 6]);
        }
        let authoritative = reply.authority.is_some();
        out[..2].copy_from_slice(&self.id);
        out[2] = 0x80 | u8::from(authoritative) << 2 | u8::from(cut) << 1 | u8::from(self.recursion_desired);
        out[3] = 0x80 | reply.status as u8;
        let counts = [1, answers, authorities, u16::from(self.room.is_some())];
        out[4..HEADER].copy_from_slice(&counts.map(u16::to_be_bytes).concat());
        out
    }

    fn write_record(&self, out: &mut Vec<u8>, record: &Record) {
        if record.name == self.name {
            // Points at the question.
            out.extend([0xc0, HEADER as u8]);
        } else {
            write_name(out, &record.name);
        }
        write_head(out, record.data.kind());
        with_length(out, |out| match &record.data {
            Data::A(address) => out.extend(address.octets()),
            Data::Aaaa(address) => out.extend(address.octets()),
            Data::Cname(name) | Data::Ptr(name) => write_name(out, name),
            Data::Srv { port, target } => {
                // All targets are alike: priority 0; upstream's weight is a share of 100, which says no more.
                out.extend([0, 0, 0, 100]);
                out.extend(port.to_be_bytes());
                write_name(out, target);
            }
            Data::Txt(text) => write_label(out, text, 255),
        });
    }
}

impl Data {
    fn kind(&self) -> u16 {
        match self {
            Data::A(_) => 1,
            Data::Aaaa(_) => 28,
            Data::Cname(_) => CNAME,
            Data::Ptr(_) => 12,
            Data::Srv { .. } => 33,
            Data::Txt(_) => 16,
        }
    }
}

/// Tells how long a name may be believed not to exist.
fn write_soa(out: &mut Vec<u8>, domain: &str) {
    write_name(out, domain);
    write_head(out, SOA);
    with_length(out, |out| {
        write_name(out, &format!("ns.dns.{domain}"));
        write_name(out, &format!("hostmaster.{domain}"));
        for number in [1, 7200, 1800, 86400, TTL] {
            out.extend(number.to_be_bytes());
        }
    });
}

fn write_head(out: &mut Vec<u8>, kind: u16) {
    out.extend(kind.to_be_bytes());
    out.extend(IN.to_be_bytes());
    out.extend(TTL.to_be_bytes());
}

fn with_length(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend([0, 0]);
    write(out);
    let length = u16::try_from(out.len() - at - 2).unwrap_or(u16::MAX);
    out[at..at + 2].copy_from_slice(&length.to_be_bytes());
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    for label in name.split('.').filter(|label| !label.is_empty()) {
        write_label(out, label, 63);
    }
    out.push(0);
}

fn write_label(out: &mut Vec<u8>, text: &str, longest: usize) {
    let bytes = &text.as_bytes()[..text.len().min(longest)];
    out.push(bytes.len() as u8);
    out.extend(bytes);
}
