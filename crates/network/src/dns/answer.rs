//! Answers of other name servers: how long they may be kept, and the addresses in them.
//!
//! Names here may be compressed. Pointers are followed only backwards, so that none can lead in circles.

use super::message::{CNAME, SOA};
use super::{Data, Record};

const HEADER: usize = 12;
const A: u16 = 1;
const AAAA: u16 = 28;
const OPT: u16 = 41;
const TRUNCATED: u8 = 0x02;

/// What is to be known about an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub code: u8,
    pub is_truncated: bool,
    /// Addresses and aliases, in their order.
    pub records: Vec<Record>,
    /// Where in the message times to live stand, and what they are.
    pub times: Vec<(usize, u32)>,
    /// Seconds for which the answer may be kept, if it may be.
    pub lifetime: Option<u32>,
}

struct Field {
    kind: u16,
    ttl_at: usize,
    ttl: u32,
    data: std::ops::Range<usize>,
}

impl Answer {
    /// `None` if the message is broken.
    pub fn read(message: &[u8]) -> Option<Answer> {
        let header = message.get(..HEADER)?;
        let count = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
        let mut at = HEADER;
        for _ in 0..count(4) {
            at = skip_name(message, at)? + 4;
        }
        let mut answer = Answer {
            code: header[3] & 15,
            is_truncated: header[2] & TRUNCATED != 0,
            records: Vec::new(),
            times: Vec::new(),
            lifetime: None,
        };
        let (answers, authorities) = (count(6), count(8));
        for index in 0..answers + authorities + count(10) {
            let (field, next) = field(message, at)?;
            if field.kind != OPT {
                answer.times.push((field.ttl_at, field.ttl));
                // An answer lives as long as its shortest part; a denial as its SOA says.
                let life = match field.kind {
                    SOA if answers == 0 => field.ttl.min(last_number(message, &field)?),
                    _ if index < answers => field.ttl,
                    _ => u32::MAX,
                };
                answer.lifetime = Some(answer.lifetime.unwrap_or(u32::MAX).min(life));
            }
            if index < answers {
                let data = record_data(message, &field);
                let name = name_at(message, at)?;
                answer.records.extend(data.map(|data| Record { name, data }));
            }
            at = next;
        }
        let may_be_kept = matches!(answer.code, 0 | 3) && !answer.is_truncated;
        answer.lifetime = answer.lifetime.filter(|&life| may_be_kept && life != u32::MAX && life > 0);
        Some(answer)
    }
}

fn field(message: &[u8], at: usize) -> Option<(Field, usize)> {
    let fixed = skip_name(message, at)?;
    let number = |at: usize| Some(u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?));
    let kind = number(fixed)?;
    let ttl = u32::from_be_bytes(message.get(fixed + 4..fixed + 8)?.try_into().ok()?);
    let start = fixed + 10;
    let end = start + usize::from(number(fixed + 8)?);
    (end <= message.len()).then_some((Field { kind, ttl_at: fixed + 4, ttl, data: start..end }, end))
}

/// A SOA ends with the time for which a name may be believed not to exist.
fn last_number(message: &[u8], field: &Field) -> Option<u32> {
    let end = field.data.end;
    Some(u32::from_be_bytes(message.get(end.checked_sub(4)?..end)?.try_into().ok()?))
}

fn record_data(message: &[u8], field: &Field) -> Option<Data> {
    let bytes = message.get(field.data.clone())?;
    match field.kind {
        A => Some(Data::A(<[u8; 4]>::try_from(bytes).ok()?.into())),
        AAAA => Some(Data::Aaaa(<[u8; 16]>::try_from(bytes).ok()?.into())),
        CNAME => Some(Data::Cname(name_at(message, field.data.start)?)),
        _ => None,
    }
}

/// Where what follows a name begins.
fn skip_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            pointer if pointer & 0xc0 == 0xc0 => return Some(at + 2),
            length @ 1..=63 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
}

fn name_at(message: &[u8], mut at: usize) -> Option<String> {
    let mut name = String::new();
    let mut lowest = at;
    loop {
        let length = *message.get(at)?;
        if length & 0xc0 == 0xc0 {
            at = usize::from(u16::from_be_bytes([length & 0x3f, *message.get(at + 1)?]));
            if at >= lowest {
                return None;
            }
            lowest = at;
            continue;
        }
        if length == 0 {
            return Some(name);
        }
        let label = message.get(at + 1..at + 1 + usize::from(length))?;
        at += 1 + usize::from(length);
        if !name.is_empty() {
            name.push('.');
        }
        name.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
        if name.len() > 253 || length > 63 {
            return None;
        }
    }
}
