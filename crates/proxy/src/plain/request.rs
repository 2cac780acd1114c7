//! A plain request: which one it is, where it goes, and its head for the backend.

use std::mem::MaybeUninit;

use http::{Method, StatusCode};
use minik8s_telemetry::Tracer;

use super::head::{MOST_HEADERS, Meaning, length, line, meaning, words};
use crate::answer::Refusal;
use crate::forward::{is_idempotent, leaves_nothing};
use crate::tap::{Tap, TappedRequest};
use crate::trace::{TRACEPARENT, TraceContext, Traced};
use crate::{Client, Front, RequestHead, Route};

/// What the bytes that came so far are.
pub(super) enum Came<'t, R> {
    /// Not all of a head.
    Part,
    /// Nothing for the short way.
    NotPlain,
    Request(Asked<'t, R>),
}

pub(super) struct Asked<'t, R> {
    /// How many bytes it took.
    pub length: usize,
    /// Its answer has no body.
    pub is_head: bool,
    /// To be sent again does no harm, and nothing is lost.
    pub is_repeatable: bool,
    /// To be sent again does no harm.
    pub is_idempotent: bool,
    /// The backend's connection may be used again.
    pub leaves_nothing: bool,
    /// The client wants no further answer on this connection.
    pub closes: bool,
    pub route: Result<&'t R, Refusal>,
    /// Method, host and target, if somebody wants to know.
    pub log: Option<[String; 3]>,
    /// The span of it, if somebody collects them.
    pub traced: Option<Box<Traced>>,
    /// What is told of it, if somebody taps.
    pub tapped: Option<Box<TappedRequest>>,
}

/// Reads the first request of the bytes; if there is one and it leads somewhere, `out` is what the backend gets.
pub(super) fn read<'t, F: Front>(
    bytes: &[u8],
    table: &'t F::Table,
    client: &Client,
    (tracer, tap): (Option<&Tracer>, &Tap),
    out: &mut Vec<u8>,
) -> Came<'t, F::Route> {
    let mut headers = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    let head_length = match request.parse_with_uninit_headers(bytes, &mut headers) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Came::Part,
        Err(_) => return Came::NotPlain,
    };
    let (Some(method), Some(target), Some(1)) = (request.method, request.path, request.version) else {
        return Came::NotPlain;
    };
    let is_path =
        target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    let Some(seen) = Seen::of(request.headers).filter(|_| is_path && method != "CONNECT") else {
        return Came::NotPlain;
    };
    let Some(length) = seen.body.checked_add(head_length).filter(|length| *length <= bytes.len()) else {
        // Its body is still on its way.
        return Came::NotPlain;
    };
    let headers: &[_] = request.headers;
    let route = match std::str::from_utf8(seen.host) {
        Ok(host) => F::find(table, client, &RequestHead { method, host, target, headers: &headers }),
        Err(_) => Err(Refusal::new(StatusCode::BAD_REQUEST, "the host is not a name")),
    };
    if route.as_ref().is_ok_and(|route| route.answers_itself()) {
        return Came::NotPlain;
    }
    let traced = tracer.map(|tracer| Box::new(Traced::begin(tracer, traceparent(headers), method)));
    if let Ok(route) = route {
        out.clear();
        for part in [method, " ", &*route.rewrite(target), " HTTP/1.1\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
        write_headers::<F>(out, headers, &seen, route, client, traced.is_some());
        match &traced {
            Some(traced) => line(out, TRACEPARENT, traced.header().as_bytes()),
            None if F::TRACES && traceparent(headers).is_none() => {
                line(out, TRACEPARENT, TraceContext::new(true).to_string().as_bytes());
            }
            None => {}
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&bytes[head_length..length]);
    }
    let log = tracing::enabled!(target: "access", tracing::Level::DEBUG)
        .then(|| [method.to_owned(), String::from_utf8_lossy(seen.host).into_owned(), target.to_owned()]);
    let known: Option<Method> = method.parse().ok();
    Came::Request(Asked {
        length,
        is_head: method == "HEAD",
        is_idempotent: known.as_ref().is_some_and(is_idempotent),
        is_repeatable: seen.body == 0 && known.as_ref().is_some_and(is_idempotent),
        leaves_nothing: known.is_some_and(|method| leaves_nothing(&method, seen.body > 0)),
        closes: seen.closes,
        route,
        log,
        traced,
        tapped: tap.begin(client, method, target),
    })
}

/// What the headers say about the way.
struct Seen<'a> {
    host: &'a [u8],
    /// Bytes of the body.
    body: usize,
    closes: bool,
}

impl<'a> Seen<'a> {
    /// `None` if they want something that is not plain, or say it in a way that others could read differently.
    fn of(headers: &[httparse::Header<'a>]) -> Option<Self> {
        let (mut host, mut body, mut closes) = (None, None, false);
        for header in headers {
            match meaning(header.name) {
                Meaning::Host if host.is_none() => host = Some(header.value),
                Meaning::Length if body.is_none() => body = Some(length(header.value)?),
                Meaning::Connection => {
                    for word in words(header.value) {
                        closes |= word.eq_ignore_ascii_case(b"close");
                        if !word.eq_ignore_ascii_case(b"close") && !word.eq_ignore_ascii_case(b"keep-alive") {
                            return None;
                        }
                    }
                }
                Meaning::Host | Meaning::Length => return None,
                Meaning::TransferEncoding | Meaning::Special => return None,
                Meaning::Forwarded | Meaning::Date | Meaning::HopOnly | Meaning::Other => {}
            }
        }
        let body = usize::try_from(body.unwrap_or_default()).ok()?;
        Some(Seen { host: host?, body, closes })
    }
}

fn write_headers<F: Front>(
    out: &mut Vec<u8>,
    headers: &[httparse::Header<'_>],
    seen: &Seen<'_>,
    route: &F::Route,
    client: &Client,
    is_traced: bool,
) {
    for header in headers {
        let is_kept = match meaning(header.name) {
            // The backend's parent is the span of this proxy.
            Meaning::Other => !(is_traced && header.name.eq_ignore_ascii_case(TRACEPARENT)),
            Meaning::Host | Meaning::Length | Meaning::Date => true,
            Meaning::Forwarded => !F::SAYS_FORWARDED,
            _ => false,
        };
        if is_kept {
            line(out, header.name, header.value);
        }
    }
    if F::SAYS_FORWARDED {
        line(out, "x-forwarded-for", client.ip_header.as_bytes());
        line(out, "x-forwarded-proto", client.protocol.as_bytes());
        if let Some(prefix) = route.prefix() {
            line(out, "x-forwarded-prefix", prefix.as_bytes());
        }
        line(out, "x-forwarded-host", seen.host);
    }
}

fn traceparent<'a>(headers: &[httparse::Header<'a>]) -> Option<&'a [u8]> {
    headers.iter().find(|header| header.name.eq_ignore_ascii_case(TRACEPARENT)).map(|header| header.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Nowhere;

    fn client() -> Client {
        Client::new("192.0.2.9:1234".parse().unwrap(), "http")
    }

    #[test]
    fn what_is_plain() {
        let check = |head: &str, expected: &str| {
            let text = format!("{}\r\n\r\n", head.replace('\n', "\r\n"));
            let found = match read::<Nowhere>(
                text.as_bytes(),
                &(),
                &client(),
                (None, &Tap::default()),
                &mut Vec::new(),
            ) {
                Came::Part => "part",
                Came::NotPlain => "not plain",
                Came::Request(asked) if asked.length == text.len() => "plain",
                Came::Request(_) => "plain and more",
            };
            assert_eq!(found, expected, "{head}");
        };
        check("GET / HTTP/1.1\nHost: h", "plain");
        check("GET / HTTP/1.1\nHost: h\nConnection: Keep-Alive, close\nKeep-Alive: 5", "plain");
        check("POST / HTTP/1.1\nHost: h\nContent-Length: 0", "plain");
        check("POST / HTTP/1.1\nHost: h\nContent-Length: 3\n\nabc", "plain and more");
        for odd in [
            "PRI * HTTP/2.0",
            "GET / HTTP/1.0\nHost: h",
            "GET http://h/ HTTP/1.1\nHost: h",
            "CONNECT /x HTTP/1.1\nHost: h",
            "OPTIONS * HTTP/1.1\nHost: h",
            "GET / HTTP/1.1",
            "GET / HTTP/1.1\nHost: h\nHost: i",
            "GET / HTTP/1.1\nHost: h\nX y: 1",
            "GET / HTTP/1.1\nHost : h",
            "GET / HTTP/1.1\nHost: h\nA: 1\n folded",
            "GET /\u{e4} HTTP/1.1\nHost: h",
            "GET /a#b HTTP/1.1\nHost: h",
            "GET / HTTP/1.1\nHost: h\nConnection: upgrade\nUpgrade: websocket",
            "GET / HTTP/1.1\nHost: h\nConnection: x-secret",
            "GET / HTTP/1.1\nHost: h\nTE: trailers",
            "POST / HTTP/1.1\nHost: h\nContent-Length: 3\nContent-Length: 3\n\nabc",
            "POST / HTTP/1.1\nHost: h\nContent-Length: +3\n\nabc",
            "POST / HTTP/1.1\nHost: h\nContent-Length: 3, 3\n\nabc",
            "POST / HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\nContent-Length: 3\n\nabc",
            "POST / HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\n\n0",
            "POST / HTTP/1.1\nHost: h\nExpect: 100-continue\nContent-Length: 3\n\nabc",
            "POST / HTTP/1.1\nHost: h\nContent-Length: 300\n\nabc",
        ] {
            check(odd, "not plain");
        }
        let part = read::<Nowhere>(b"GET / HT", &(), &client(), (None, &Tap::default()), &mut Vec::new());
        assert!(matches!(part, Came::Part));
    }
}
