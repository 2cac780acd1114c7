//! The example of a program that is measured, run and asked.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../examples/orders.rs"]
mod orders;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn example_counts_orders_in_the_form_that_prometheus_reads() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || orders::serve(&listener));
    assert!(get(address, "/metrics").contains("orders_total 0"));
    for _ in 0..3 {
        get(address, "/order");
    }
    let page = get(address, "/metrics");
    assert!(page.contains("orders_total 3") && page.contains("orders_open 3"), "{page}");
    assert!(page.contains("application/openmetrics-text") && page.ends_with("# EOF\n"), "{page}");
}
