//! A collector of the test's own: takes whatever is posted to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// Every request that came: its path and body.
pub struct Collector {
    pub url: String,
    came: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Collector {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let came: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let taken = came.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let taken = taken.clone();
                std::thread::spawn(move || serve(stream, &taken));
            }
        });
        Collector { url, came }
    }

    /// All log records, each with the attributes of its resource beside its own.
    pub fn records(&self) -> Vec<Value> {
        self.all("/v1/logs", ["resourceLogs", "scopeLogs", "logRecords"])
    }

    pub fn spans(&self) -> Vec<Value> {
        self.all("/v1/traces", ["resourceSpans", "scopeSpans", "spans"])
    }

    fn all(&self, path: &str, [resources, scopes, items]: [&str; 3]) -> Vec<Value> {
        let mut found = Vec::new();
        for (_, body) in self.came.lock().unwrap().iter().filter(|(came, _)| came == path) {
            for resource in body[resources].as_array().unwrap() {
                for mut item in resource[scopes][0][items].as_array().unwrap().clone() {
                    item["resource"] = resource["resource"].clone();
                    found.push(item);
                }
            }
        }
        found
    }
}

/// Whether a record or span has this attribute, its own or of its resource.
pub fn has(item: &Value, key: &str, value: &str) -> bool {
    let own = item["attributes"].as_array().into_iter().flatten();
    let all = own.chain(item["resource"]["attributes"].as_array().into_iter().flatten());
    all.into_iter().any(|one| one["key"] == key && one["value"]["stringValue"] == value)
}

fn serve(stream: TcpStream, came: &Mutex<Vec<(String, Value)>>) {
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    loop {
        let (mut path, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(rest) = line.strip_prefix("POST ") {
                path = rest.split(' ').next().unwrap().to_owned();
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        came.lock().unwrap().push((path, serde_json::from_slice(&body).unwrap()));
        if writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").is_err() {
            return;
        }
    }
}
