//! Requests to issuers and webhooks: HTTPS alone, one connection each, bounded in time and size. Redirects are not followed:
//! who was configured answers, or nobody.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, LOCATION};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use minik8s_meta::error_chain;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// What this machine trusts.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

pub struct Client {
    tls: TlsConnector,
    /// Shown with every request.
    authorization: Option<HeaderValue>,
    timeout: Duration,
    largest: usize,
}

impl Client {
    /// `authority` is PEM; empty is what this machine trusts. `identity` is a certificate to show, with its key.
    pub fn new(
        authority: &[u8],
        identity: Option<(&[u8], &[u8])>,
        timeout: Duration,
        largest: usize,
    ) -> Result<Client, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots(authority)?);
        let config = match identity {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let key =
                    PrivateKeyDer::from_pem_slice(key).map_err(|_| "it holds no private key".to_owned())?;
                let config = config.with_client_auth_cert(certificates(certificate)?, key);
                config.map_err(|error| error.to_string())?
            }
        };
        Ok(Client { tls: TlsConnector::from(Arc::new(config)), authorization: None, timeout, largest })
    }

    /// From now on requests bear this token.
    pub fn show(&mut self, token: &str) -> Result<(), String> {
        let header = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut header = header.map_err(|_| "the token is not plain text".to_owned())?;
        header.set_sensitive(true);
        self.authorization = Some(header);
        Ok(())
    }

    pub async fn get(&self, url: &str) -> Result<Bytes, String> {
        self.exchange(Method::GET, url, Bytes::new()).await
    }

    pub async fn post(&self, url: &str, json: Bytes) -> Result<Bytes, String> {
        self.exchange(Method::POST, url, json).await
    }

    async fn exchange(&self, method: Method, url: &str, body: Bytes) -> Result<Bytes, String> {
        match tokio::time::timeout(self.timeout, self.answer(method, url, body)).await {
            Ok(answer) => answer.map_err(|why| format!("{url}: {why}")),
            Err(_) => Err(format!("{url}: no answer within {:?}", self.timeout)),
        }
    }

    async fn answer(&self, method: Method, url: &str, body: Bytes) -> Result<Bytes, String> {
        let uri: Uri = url.parse().map_err(|_| "it is no URL".to_owned())?;
        if uri.scheme_str() != Some("https") {
            return Err("it must begin with https://".to_owned());
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(443);
        let stream = TcpStream::connect((host.as_str(), port)).await.map_err(|error| error_chain(&error))?;
        let name = ServerName::try_from(host).map_err(|error| error_chain(&error))?;
        let stream = self.tls.connect(name, stream).await.map_err(|error| error_chain(&error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| error_chain(&error))?;
        let connection = tokio::spawn(connection);
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let host = uri.authority().map_or("", |authority| authority.as_str());
        let request = Request::builder().method(method).uri(path).header(HOST, host);
        let request = request.header(ACCEPT, "application/json").header(CONTENT_TYPE, "application/json");
        let shown =
            self.authorization.iter().fold(request, |request, shown| request.header(AUTHORIZATION, shown));
        let request = shown.body(Full::new(body)).map_err(|error| error_chain(&error))?;
        let response = sender.send_request(request).await.map_err(|error| error_chain(&error))?;
        let status = response.status();
        if status.is_redirection() {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default();
            return Err(format!("it redirects to {to:?}, which is not followed"));
        }
        let answer = Limited::new(response.into_body(), self.largest).collect().await;
        let answer = answer
            .map_err(|error| format!("{} (at most {} bytes are read)", error_chain(&*error), self.largest))?;
        connection.abort();
        match status {
            StatusCode::OK | StatusCode::CREATED => Ok(answer.to_bytes()),
            other => Err(format!("it answered {other}")),
        }
    }
}

/// The authorities in a PEM file; without one, what this machine trusts.
pub fn roots(authority: &[u8]) -> Result<RootCertStore, String> {
    let system;
    let authority = match authority {
        [] => {
            system = std::fs::read(SYSTEM_ROOTS).map_err(|error| format!("{SYSTEM_ROOTS}: {error}"))?;
            &system
        }
        given => given,
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authority)? {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err("it holds no certificate".to_owned()),
    }
}
