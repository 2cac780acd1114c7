//! What the names of headers mean for a proxy, by their bytes.

use crate::headers::is_forwarding;

/// Heads with more headers than this are not plain.
pub(super) const MOST_HEADERS: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Host,
    Connection,
    Length,
    TransferEncoding,
    /// Where the request comes from: the router says it anew.
    Forwarded,
    Date,
    /// Is for this hop, and says nothing that matters here.
    HopOnly,
    /// A wish that this hop must understand.
    Special,
    /// Whatever else.
    Other,
}

/// Most names are told apart by their lengths.
pub(super) fn meaning(name: &str) -> Meaning {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    match name.len() {
        2 if is("te") => Meaning::Special,
        4 if is("host") => Meaning::Host,
        4 if is("date") => Meaning::Date,
        6 if is("expect") => Meaning::Special,
        7 if is("upgrade") => Meaning::Special,
        7 if is("trailer") => Meaning::Special,
        10 if is("connection") => Meaning::Connection,
        10 if is("keep-alive") => Meaning::HopOnly,
        14 if is("content-length") => Meaning::Length,
        16 if is("proxy-connection") => Meaning::HopOnly,
        17 if is("transfer-encoding") => Meaning::TransferEncoding,
        9.. if is_forwarding(name) => Meaning::Forwarded,
        _ => Meaning::Other,
    }
}

/// A length, as digits alone.
pub(super) fn length(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.len() <= 18 && value.iter().all(u8::is_ascii_digit);
    let add = |sum: u64, digit: &u8| sum * 10 + u64::from(digit - b'0');
    digits.then(|| value.iter().fold(0, add))
}

/// The words of a `Connection` header.
pub(super) fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

pub(super) fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
