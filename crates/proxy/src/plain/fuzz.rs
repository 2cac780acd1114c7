//! Foreign bytes against the readers of HTTP/1: see `minik8s_fuzz`.

use minik8s_fuzz::{Corpus, fuzz};

use super::answer::{self, Wanted};
use super::chunks::Chunks;
use super::request::{self, Came};
use crate::Client;
use crate::tap::Tap;
use crate::testing::Nowhere;

const WORDS: [&str; 14] = [
    "\r\n",
    "\r\n\r\n",
    "Content-Length: ",
    "Transfer-Encoding: chunked",
    "Connection: ",
    "Host: h",
    "close",
    "upgrade",
    "HTTP/1.1",
    "%2f",
    "/../",
    ", ",
    "\t",
    "\u{0}",
];

#[test]
fn fuzz_http1_request_heads() {
    let inputs: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        b"POST /a?b=c HTTP/1.1\r\nHost: h.example:80\r\nContent-Length: 3\r\nAccept: */*\r\n\r\nabc",
        b"PUT /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"GET /ws HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, upgrade\r\nUpgrade: websocket\r\n\r\n",
    ];
    let client = Client::new("192.0.2.9:1234".parse().unwrap(), "http");
    fuzz("HTTP/1 request heads", 1, Corpus { inputs: &inputs, words: &WORDS }, |input| {
        let told = (None, &Tap::default());
        if let Came::Request(asked) = request::read::<Nowhere>(input, &(), &client, told, &mut Vec::new()) {
            assert!((1..=input.len()).contains(&asked.length), "a request is made of bytes that came");
        }
    });
}

#[test]
fn fuzz_http1_answer_heads() {
    let inputs: [&[u8]; 4] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nDate: now\r\n\r\n0\r\n\r\n",
        b"HTTP/1.0 404 Not Found\r\nConnection: keep-alive\r\nServer: x\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    ];
    fuzz("HTTP/1 answer heads", 1, Corpus { inputs: &inputs, words: &WORDS }, |input| {
        for is_head in [false, true] {
            let wanted = Wanted { is_head, closes: is_head, date: &|| "now".to_owned() };
            if let Ok(Some(answered)) = answer::read(input, &wanted, &mut Vec::new()) {
                assert!((1..=input.len()).contains(&answered.length));
            }
        }
    });
}

#[test]
fn fuzz_http1_chunks() {
    let inputs: [&[u8]; 4] = [
        b"3\r\nabc\r\n0\r\n\r\n",
        b"A;x=y\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n",
        b"ffffffffffffffff\r\n",
        b"0\r\n\r\n",
    ];
    fuzz(
        "HTTP/1 chunks",
        1,
        Corpus { inputs: &inputs, words: &["\r\n", "0\r\n\r\n", ";", "fffffff"] },
        |input| {
            let mut whole = Chunks::default();
            let taken = whole.take(input);
            // However the bytes come, the body ends at the same place.
            let (mut pieces, mut sum) = (Chunks::default(), Ok(0));
            for byte in input {
                match pieces.take(std::slice::from_ref(byte)) {
                    Ok(more) => sum = sum.map(|sum| sum + more),
                    Err(error) => sum = Err(error),
                }
                if sum.is_err() || pieces.is_over() {
                    break;
                }
            }
            assert_eq!((taken.is_ok(), whole.is_over()), (sum.is_ok(), pieces.is_over()));
            if let (Ok(taken), Ok(sum)) = (taken, sum) {
                assert_eq!(taken, sum);
            }
        },
    );
}
