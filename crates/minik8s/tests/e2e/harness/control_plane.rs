//! The real binary with a data dir of its own, and clients over HTTPS.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use base64::Engine;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::program::{Program, free_port};

/// Long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// A connection that takes longer is better begun anew: the kernel asks after one, three and seven seconds.
const CONNECT: Duration = Duration::from_secs(4);

pub struct Server {
    dir: PathBuf,
    address: SocketAddr,
    program: Program,
}

impl Server {
    /// Nothing runs until [`Server::start`]. The port stays the same over restarts.
    pub fn new(dir: &Path) -> Server {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let program = Program::control_plane(dir, &dir.join("log"), address.port(), &[]);
        Server { dir: dir.to_owned(), address, program }
    }

    /// Variables for every process from now on.
    pub fn set_environment(&mut self, variables: Vec<(String, String)>) {
        self.program.set_environment(variables);
    }

    pub fn start(&mut self) {
        self.program.start();
    }

    pub fn start_with(&mut self, flags: &[&str]) {
        self.program.start_with(flags);
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// kill -9.
    pub fn crash(&mut self) {
        self.program.crash();
    }

    pub fn has_ended(&self) -> bool {
        self.program.has_ended()
    }

    pub fn log(&self) -> String {
        self.program.log()
    }

    pub fn signal(&self, signal: Signal) {
        self.program.signal(signal);
    }

    /// SIGTERM: how long it took, and how it ended.
    pub fn stop(&mut self) -> (Duration, ExitStatus) {
        self.program.stop().expect("it runs")
    }

    /// Waits until it answers that it is ready.
    pub async fn ready(&mut self) -> Credentials {
        let begun = Instant::now();
        loop {
            let answer =
                async { Credentials::read(&self.dir, self.address)?.connect().await?.get("/readyz").await };
            if let Ok((200, _)) = answer.await {
                return Credentials::read(&self.dir, self.address).expect("a kubeconfig");
            }
            if self.program.has_ended() || begun.elapsed() > TIMEOUT {
                panic!("the server is not ready:\n{}", self.program.log());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// What the admin's kubeconfig says.
#[derive(Clone)]
pub struct Credentials {
    address: SocketAddr,
    tls: TlsConnector,
    roots: Arc<rustls::RootCertStore>,
}

impl Credentials {
    pub fn read(dir: &Path, address: SocketAddr) -> Result<Credentials> {
        let text = std::fs::read_to_string(dir.join("admin.kubeconfig"))?;
        let config: Value = serde_saphyr::from_str(&text)?;
        let pem = |value: &Value| -> Result<Vec<u8>> {
            let text = value.as_str().context("a text")?;
            Ok(base64::engine::general_purpose::STANDARD.decode(text)?)
        };
        let user = &config["users"][0]["user"];
        let authority = pem(&config["clusters"][0]["cluster"]["certificate-authority-data"])?;
        let certificate = pem(&user["client-certificate-data"])?;
        let key = pem(&user["client-key-data"])?;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&authority)?)?;
        let roots = Arc::new(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots.clone())
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(&certificate)?],
                PrivateKeyDer::from_pem_slice(&key)?,
            )?;
        Ok(Credentials { address, tls: TlsConnector::from(Arc::new(tls)), roots })
    }

    /// The same at another server.
    pub fn at(&self, address: SocketAddr) -> Credentials {
        Credentials { address, ..self.clone() }
    }

    /// Somebody who trusts the server and shows nothing.
    pub fn without_certificate(&self) -> Credentials {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring supports the default versions")
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        Credentials { tls: TlsConnector::from(Arc::new(tls)), ..self.clone() }
    }

    /// For whoever speaks something else than HTTP/1 over it.
    pub async fn tls_stream(&self) -> Result<TlsStream<TcpStream>> {
        let stream = tokio::time::timeout(CONNECT, TcpStream::connect(self.address)).await??;
        keep_alive(&stream)?;
        Ok(self.tls.connect(ServerName::from(self.address.ip()), stream).await?)
    }

    pub async fn connect(&self) -> Result<Connection> {
        let (sender, connection) = handshake(TokioIo::new(self.tls_stream().await?)).await?;
        tokio::spawn(connection);
        Ok(Connection { sender, token: None })
    }
}

/// Who only waits, as a watch does, would never learn that the machine at the other end was switched off.
fn keep_alive(stream: &TcpStream) -> nix::Result<()> {
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &1)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &1)?;
    setsockopt(stream, sockopt::TcpKeepCount, &4)
}

pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    token: Option<String>,
}

impl Connection {
    pub fn bearing(self, token: &str) -> Connection {
        Connection { token: Some(token.to_owned()), ..self }
    }

    pub async fn get(&mut self, path: &str) -> Result<(u16, Value)> {
        self.send(Method::GET, path, "", &Value::Null).await
    }

    /// The answer's code and body; an error only if there was no whole answer.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<(u16, Value)> {
        let response = self.open(method, path, content_type, body).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await?.to_bytes();
        Ok((code, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
    }

    /// Opens a watch.
    pub async fn watch(&mut self, path: &str) -> Result<Watch> {
        let response = self.open(Method::GET, path, "", &Value::Null).await?;
        if response.status() != 200 {
            bail!("the watch was answered with {}", response.status());
        }
        Ok(Watch { body: response.into_body(), pending: Vec::new() })
    }

    async fn open(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Response<Incoming>> {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", content_type);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.sender.ready().await?;
        let sent = self.sender.send_request(request.body(Full::new(body))?);
        tokio::time::timeout(TIMEOUT, sent).await.map_err(|_| anyhow!("no answer"))?.map_err(Into::into)
    }
}

pub struct Watch {
    body: Incoming,
    pending: Vec<u8>,
}

impl Watch {
    /// The next event; None when the stream ended in order.
    pub async fn next(&mut self) -> Result<Option<Value>> {
        loop {
            if let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            match self.body.frame().await {
                Some(frame) => self.pending.extend_from_slice(&frame?.into_data().unwrap_or_default()),
                None => return Ok(None),
            }
        }
    }
}
