//! One connection that stays open, and calls on it one after the other.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result};

const TIMEOUT: Duration = Duration::from_secs(60);

pub struct Connection {
    stream: TcpStream,
    answers: BufReader<TcpStream>,
}

impl Connection {
    pub fn open(host: &str, port: u16) -> Result<Connection> {
        let stream = TcpStream::connect((host, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Connection { answers: BufReader::new(stream.try_clone()?), stream })
    }

    /// The status of the answer, which is read whole.
    pub fn call(&mut self, path: &str, body: &str) -> Result<u16> {
        Ok(self.ask(path, body)?.0)
    }

    /// Status and content of the answer.
    pub fn ask(&mut self, path: &str, body: &str) -> Result<(u16, Vec<u8>)> {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.write_all(request.as_bytes())?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let status = line.split(' ').nth(1).context("no status")?.parse()?;
        let mut length = 0;
        loop {
            line.clear();
            self.answers.read_line(&mut line)?;
            let header = line.trim_end().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut content = vec![0; length];
        self.answers.read_exact(&mut content)?;
        Ok((status, content))
    }
}
