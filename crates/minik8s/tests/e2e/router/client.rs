//! HTTP/1.1 on one connection, plainly, so that nothing but the router can keep or lose it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};

trait Wire: Read + Write {}
impl<T: Read + Write> Wire for T {}

pub struct Connection(Box<dyn Wire>);

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

impl Connection {
    pub fn open(port: u16) -> Self {
        Connection(Box::new(connect(port)))
    }

    /// Code and body. Panics if the connection is closed.
    pub fn get(&mut self, host: &str, path: &str) -> (u16, String) {
        write!(self.0, "GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n").unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).expect("the connection stays open");
            head.extend(byte);
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
        let mut body = vec![0; length.trim().parse().unwrap()];
        self.0.read_exact(&mut body).unwrap();
        (code, String::from_utf8(body).unwrap())
    }
}

/// `None` if the handshake fails: the certificate may not be there yet.
pub fn tls(port: u16, host: &str, authority: &CertificateDer<'static>) -> Option<Connection> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).unwrap();
    let mut session = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = connect(port);
    session.complete_io(&mut stream).ok()?;
    Some(Connection(Box::new(rustls::StreamOwned::new(session, stream))))
}
