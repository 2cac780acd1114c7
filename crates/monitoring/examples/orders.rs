//! A program of a user that Prometheus measures, with Prometheus' own Rust client:
//! `cargo run -p minik8s-monitoring --example orders`, then `curl http://127.0.0.1:8000/metrics`.
//!
//! In a pod it is found by `prometheus.io/scrape: 'true'` and `prometheus.io/port: '8000'`, or by a PodMonitor.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[allow(dead_code, reason = "the test that runs this example serves by itself")]
fn main() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:8000")?;
    serve(&listener)
}

/// Every request for `/order` is an order; `/metrics` tells how many there were.
pub fn serve(listener: &TcpListener) -> io::Result<()> {
    let mut registry = Registry::default();
    let (orders, open) = (Counter::<u64>::default(), Gauge::<i64>::default());
    registry.register("orders", "Orders that were taken", orders.clone());
    registry.register("orders_open", "Orders that are not shipped yet", open.clone());
    for stream in listener.incoming() {
        let mut stream = stream?;
        let body = match path(&stream)?.as_str() {
            "/metrics" => {
                let mut page = String::new();
                encode(&mut page, &registry).map_err(io::Error::other)?;
                page
            }
            "/order" => {
                orders.inc();
                open.inc();
                "taken\n".to_owned()
            }
            _ => "ask for /order or /metrics\n".to_owned(),
        };
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )?;
    }
    Ok(())
}

/// Reads the head of a request: what it asks for.
fn path(stream: &TcpStream) -> io::Result<String> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    Ok(first.split(' ').nth(1).unwrap_or_default().to_owned())
}
