//! A lean HTTPS client: one connection, no conveniences that would hide the server's speed.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use base64::Engine;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub struct Client {
    sender: SendRequest<Full<Bytes>>,
}

impl Client {
    pub async fn connect(port: u16, kubeconfig: &Path) -> anyhow::Result<Client> {
        Client::over(port, tls_config(kubeconfig)?).await
    }

    /// A server with this very certificate, without credentials of our own.
    pub async fn connect_trusting(port: u16, certificate: CertificateDer<'static>) -> anyhow::Result<Client> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate)?;
        let config =
            rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
                .with_safe_default_protocol_versions()?
                .with_root_certificates(roots)
                .with_no_client_auth();
        Client::over(port, config).await
    }

    async fn over(port: u16, config: rustls::ClientConfig) -> anyhow::Result<Client> {
        let (sender, connection) = handshake(TokioIo::new(dial(port, config).await?)).await?;
        tokio::spawn(connection);
        Ok(Client { sender })
    }

    pub async fn get(&mut self, path: &str) -> anyhow::Result<Bytes> {
        self.send(Method::GET, path, "").await
    }

    pub async fn post(&mut self, path: &str, body: &str) -> anyhow::Result<Bytes> {
        self.send(Method::POST, path, body).await
    }

    pub async fn put(&mut self, path: &str, body: &str) -> anyhow::Result<Bytes> {
        self.send(Method::PUT, path, body).await
    }

    async fn send(&mut self, method: Method, path: &str, body: &str) -> anyhow::Result<Bytes> {
        let response = self.open(method, path, body).await?;
        Ok(response.collect().await?.to_bytes())
    }

    /// As a client with these headers gets it.
    pub async fn get_with(&mut self, path: &str, headers: &[(&str, &str)]) -> anyhow::Result<Bytes> {
        let mut request = Request::builder().uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.sender.ready().await?;
        let response = self.sender.send_request(request.body(Full::default())?).await?;
        Ok(streamed(path, response).await?.collect().await?.to_bytes())
    }

    /// The body as it comes, for watches.
    pub async fn open(&mut self, method: Method, path: &str, body: &str) -> anyhow::Result<Incoming> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_owned())))?;
        self.sender.ready().await?;
        streamed(path, self.sender.send_request(request).await?).await
    }
}

/// One HTTP/2 connection for many watches, as Go's clients keep it.
pub struct Shared {
    sender: http2::SendRequest<Full<Bytes>>,
}

impl Shared {
    pub async fn connect(port: u16, kubeconfig: &Path) -> anyhow::Result<Shared> {
        let mut config = tls_config(kubeconfig)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = TokioIo::new(dial(port, config).await?);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
        tokio::spawn(connection);
        Ok(Shared { sender })
    }

    pub async fn open(&mut self, path: &str) -> anyhow::Result<Incoming> {
        let request = Request::get(format!("https://localhost{path}")).body(Full::default())?;
        self.sender.ready().await?;
        streamed(path, self.sender.send_request(request).await?).await
    }
}

async fn dial(port: u16, config: rustls::ClientConfig) -> anyhow::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    Ok(TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost")?, stream).await?)
}

async fn streamed(path: &str, response: Response<Incoming>) -> anyhow::Result<Incoming> {
    if response.status().is_success() {
        return Ok(response.into_body());
    }
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    bail!("{path}: {status}: {}", String::from_utf8_lossy(&body))
}

/// TLS with the certificate, key and CA that the kubeconfig holds inline.
fn tls_config(kubeconfig: &Path) -> anyhow::Result<rustls::ClientConfig> {
    let text = std::fs::read_to_string(kubeconfig)?;
    let inline = |field: &str| -> anyhow::Result<Vec<u8>> {
        let line = text.lines().find_map(|line| line.trim().trim_start_matches("- ").strip_prefix(field));
        let value = line.with_context(|| format!("no {field} in the kubeconfig"))?.trim().trim_matches('"');
        Ok(base64::engine::general_purpose::STANDARD.decode(value)?)
    };
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&inline("certificate-authority-data:")?)?)?;
    let certificate = CertificateDer::from_pem_slice(&inline("client-certificate-data:")?)?;
    let key = PrivateKeyDer::from_pem_slice(&inline("client-key-data:")?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key)?;
    Ok(config)
}
