//! The head of a backend's answer: how its body ends, and what the client gets of it.

use std::io::Write;
use std::mem::MaybeUninit;

use super::head::{MOST_HEADERS, Meaning, length, line, meaning, words};
use crate::answer::Refusal;

/// How the body of an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    None,
    Length(u64),
    Chunks,
    /// With the connection. The client gets it in chunks.
    UntilClose,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answered {
    /// Bytes of the head.
    pub length: usize,
    pub code: u16,
    pub body: Body,
    /// The connection takes another request after this.
    pub is_kept: bool,
}

/// Whoever sent this does not speak HTTP.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unclear;

/// What goes into the client's head beside what the backend says.
pub(super) struct Wanted<'a> {
    /// There is no body, whatever the head says.
    pub is_head: bool,
    /// The client is told that no further answer follows.
    pub closes: bool,
    /// For answers without a date.
    pub date: &'a (dyn Fn() -> String + Sync),
}

/// Reads a head and writes the client's to `out`. `None` if it is not all there.
pub(super) fn read(
    bytes: &[u8],
    wanted: &Wanted<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Answered>, Unclear> {
    let mut headers = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        bytes,
        &mut headers,
    );
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(Unclear),
    };
    let (code, version) = (response.code.ok_or(Unclear)?, response.version.ok_or(Unclear)?);
    let said = Said::of(response.headers)?;
    // Nobody asked for another protocol.
    if code == 101 {
        return Err(Unclear);
    }
    let body = match said.body {
        _ if wanted.is_head || matches!(code, 100..200 | 204 | 304) => Body::None,
        body => body,
    };
    if !(100..200).contains(&code) {
        out.clear();
        let _ = write!(out, "HTTP/1.1 {code} {}\r\n", response.reason.unwrap_or_default());
        write_headers(out, response.headers, &said, wanted, body);
    }
    let is_kept = match version {
        1 => !said.closes,
        _ => said.keeps && !said.closes,
    };
    Ok(Some(Answered { length, code, body, is_kept: is_kept && body != Body::UntilClose }))
}

struct Said<'a> {
    body: Body,
    closes: bool,
    keeps: bool,
    has_date: bool,
    /// Headers that were meant for this hop alone.
    hop_only: Vec<&'a [u8]>,
}

impl<'a> Said<'a> {
    fn of(headers: &[httparse::Header<'a>]) -> Result<Self, Unclear> {
        let (mut known, mut is_chunked) = (None, false);
        let mut said = Said {
            body: Body::UntilClose,
            closes: false,
            keeps: false,
            has_date: false,
            hop_only: Vec::new(),
        };
        for header in headers {
            match meaning(header.name) {
                Meaning::Length => {
                    let length = length(header.value).ok_or(Unclear)?;
                    // Twice the same is said by some.
                    if known.replace(length).is_some_and(|before| before != length) {
                        return Err(Unclear);
                    }
                }
                Meaning::TransferEncoding => {
                    if is_chunked || !header.value.eq_ignore_ascii_case(b"chunked") {
                        return Err(Unclear);
                    }
                    is_chunked = true;
                }
                Meaning::Connection => {
                    for word in words(header.value) {
                        match word {
                            _ if word.eq_ignore_ascii_case(b"close") => said.closes = true,
                            _ if word.eq_ignore_ascii_case(b"keep-alive") => said.keeps = true,
                            _ => said.hop_only.push(word),
                        }
                    }
                }
                Meaning::Date => said.has_date = true,
                _ => {}
            }
        }
        said.body = match known {
            _ if is_chunked => Body::Chunks,
            Some(length) => Body::Length(length),
            None => Body::UntilClose,
        };
        Ok(said)
    }
}

fn write_headers(
    out: &mut Vec<u8>,
    headers: &[httparse::Header<'_>],
    said: &Said<'_>,
    wanted: &Wanted<'_>,
    body: Body,
) {
    for header in headers {
        let passes = match meaning(header.name) {
            Meaning::Connection | Meaning::HopOnly | Meaning::TransferEncoding => false,
            // What ends with its chunks has no other length.
            Meaning::Length => said.body != Body::Chunks,
            Meaning::Special => !header.name.eq_ignore_ascii_case("upgrade"),
            Meaning::Host | Meaning::Forwarded | Meaning::Date | Meaning::Other => true,
        };
        let named = || said.hop_only.iter().any(|name| name.eq_ignore_ascii_case(header.name.as_bytes()));
        if passes && !(meaning(header.name) == Meaning::Other && named()) {
            line(out, header.name, header.value);
        }
    }
    if !said.has_date {
        line(out, "date", (wanted.date)().as_bytes());
    }
    if matches!(body, Body::Chunks | Body::UntilClose) {
        line(out, "transfer-encoding", b"chunked");
    }
    if wanted.closes {
        line(out, "connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
}

/// The router's own words.
pub(super) fn write_refusal(refusal: &Refusal, wanted: &Wanted<'_>, out: &mut Vec<u8>) {
    let (status, text) = (refusal.status, refusal.sentence());
    out.clear();
    let reason = status.canonical_reason().unwrap_or_default();
    let _ = write!(out, "HTTP/1.1 {} {reason}\r\n", status.as_u16());
    line(out, "content-type", Refusal::CONTENT_TYPE.as_bytes());
    line(out, "content-length", text.len().to_string().as_bytes());
    line(out, "date", (wanted.date)().as_bytes());
    if wanted.closes {
        line(out, "connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    if !wanted.is_head {
        out.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(head: &str, is_head: bool) -> Result<Option<(Answered, String)>, Unclear> {
        let (bytes, mut out) = (head.replace('\n', "\r\n"), Vec::new());
        let wanted = Wanted { is_head, closes: false, date: &|| "now".to_owned() };
        let answered = read(bytes.as_bytes(), &wanted, &mut out)?;
        Ok(answered.map(|answered| (answered, String::from_utf8(out).unwrap().replace("\r\n", "\n"))))
    }

    #[test]
    fn heads() {
        let check = |head: &str, body: Body, is_kept: bool, expected: &str| {
            let (answered, out) = read_one(head, false).unwrap().unwrap();
            assert_eq!((answered.body, answered.is_kept), (body, is_kept), "{head}");
            assert_eq!(out, expected, "{head}");
        };
        check(
            "HTTP/1.1 200 OK\nContent-Length: 5\nDate: then\n\nhello",
            Body::Length(5),
            true,
            "HTTP/1.1 200 OK\nContent-Length: 5\nDate: then\n\n",
        );
        check(
            "HTTP/1.1 404 No\nconnection: x-hop, close\nx-hop: 1\nkeep-alive: 5\nX-Kept: 1\ntransfer-encoding: Chunked\n\n",
            Body::Chunks,
            false,
            "HTTP/1.1 404 No\nX-Kept: 1\ndate: now\ntransfer-encoding: chunked\n\n",
        );
        check("HTTP/1.1 204 No Content\n\n", Body::None, true, "HTTP/1.1 204 No Content\ndate: now\n\n");
        let until_close = "HTTP/1.1 200 OK\ndate: now\ntransfer-encoding: chunked\n\n";
        check("HTTP/1.0 200 OK\nconnection: keep-alive\n\n", Body::UntilClose, false, until_close);
        check(
            "HTTP/1.0 200 OK\nconnection: keep-alive\ncontent-length: 1\n\n",
            Body::Length(1),
            true,
            "HTTP/1.1 200 OK\ncontent-length: 1\ndate: now\n\n",
        );
        // What chunks say is what counts, and nobody is told anything else.
        check(
            "HTTP/1.1 200 OK\ncontent-length: 9\ntransfer-encoding: chunked\n\n",
            Body::Chunks,
            true,
            "HTTP/1.1 200 OK\ndate: now\ntransfer-encoding: chunked\n\n",
        );
    }

    #[test]
    fn what_is_no_answer() {
        for head in [
            "nonsense\n\n",
            "HTTP/1.1 200 OK\ncontent-length: 1\ncontent-length: 2\n\n",
            "HTTP/1.1 200 OK\ncontent-length: -1\n\n",
            "HTTP/1.1 200 OK\ntransfer-encoding: gzip\n\n",
            "HTTP/1.1 200 OK\ntransfer-encoding: gzip, chunked\n\n",
            "HTTP/1.1 101 Switching\n\n",
        ] {
            assert_eq!(read_one(head, false), Err(Unclear), "{head}");
        }
        assert_eq!(read_one("HTTP/1.1 200 OK\ncontent-le", false), Ok(None));
        let (answered, _) = read_one("HTTP/1.1 200 OK\ncontent-length: 9\n\n", true).unwrap().unwrap();
        assert_eq!(answered.body, Body::None, "an answer to HEAD");
    }
}
