//! HTTPS to a webhook, of admission or of conversion: to a URL or to a Service, trusting its `caBundle`. Connections are
//! kept for the next call.

use std::io::BufReader;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::admissionregistration::v1::WebhookClientConfig;
use minik8s_meta::error_chain;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::node_proxy;
use crate::registry::Registry;

/// What this machine trusts, for webhooks without a `caBundle`.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";
/// More than any object with its patch.
const MAX_ANSWER: usize = 8 << 20;
/// Connections that wait for their next call.
const MAX_IDLE: usize = 32;

pub struct Client {
    place: Result<Place, String>,
    tls: Result<TlsConnector, String>,
    timeout: Duration,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

struct Place {
    /// Whom the certificate must name.
    host: String,
    port: u16,
    path: String,
    /// Its namespace, if the host is a Service.
    service: Option<(String, String)>,
}

impl Client {
    /// What is wrong with the configuration is told when it is to be used.
    pub fn new(config: &WebhookClientConfig, timeout_seconds: i32) -> Self {
        let bundle = config.ca_bundle.as_ref().map(|bundle| bundle.0.as_slice()).unwrap_or_default();
        Client {
            place: Place::of(config),
            tls: connector(bundle),
            timeout: Duration::from_secs(timeout_seconds.clamp(1, 30).unsigned_abs().into()),
            idle: Mutex::default(),
        }
    }

    /// Posts JSON and returns the answer's.
    pub async fn post(&self, registry: &Registry, body: Bytes) -> Result<Bytes, String> {
        let place = self.place.as_ref().map_err(Clone::clone)?;
        let url = format!("{}?timeout={}s", place.path, self.timeout.as_secs());
        let failed =
            |why: &str| format!("failed to call webhook: Post \"https://{}{url}\": {why}", place.authority());
        match tokio::time::timeout(self.timeout, self.exchange(registry, place, &url, body)).await {
            Ok(Ok((StatusCode::OK, answer))) => Ok(answer),
            Ok(Ok((status, _))) => Err(failed(&format!("it answered {status}"))),
            Ok(Err(why)) => Err(failed(&why)),
            Err(_) => Err(failed("context deadline exceeded")),
        }
    }

    async fn exchange(
        &self,
        registry: &Registry,
        place: &Place,
        url: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), String> {
        while let Some(mut sender) = { self.idle.lock().pop() } {
            // One that the other side has closed takes no request, and tells so before it sent anything.
            if sender.ready().await.is_err() {
                continue;
            }
            match self.send(sender, place, url, body.clone()).await {
                Err(Failed::Unsent) => {}
                Err(Failed::Broken(why)) => return Err(why),
                Ok(answered) => return Ok(answered),
            }
        }
        let sender = self.connect(registry, place).await?;
        self.send(sender, place, url, body).await.map_err(|failed| match failed {
            Failed::Unsent => "the connection was closed".to_owned(),
            Failed::Broken(why) => why,
        })
    }

    async fn connect(&self, registry: &Registry, place: &Place) -> Result<SendRequest<Full<Bytes>>, String> {
        let tls = self.tls.as_ref().map_err(Clone::clone)?;
        let address = place.address(registry).await?;
        let stream = TcpStream::connect(address).await.map_err(|error| error_chain(&error))?;
        let name = ServerName::try_from(place.host.clone()).map_err(|error| error_chain(&error))?;
        let stream = tls.connect(name, stream).await.map_err(|error| error_chain(&error))?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| error_chain(&error))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to a webhook ended");
            }
        });
        Ok(sender)
    }

    async fn send(
        &self,
        mut sender: SendRequest<Full<Bytes>>,
        place: &Place,
        url: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), Failed> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(url)
            .header(HOST, place.authority())
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| Failed::Broken(error_chain(&error)))?;
        let response = sender.send_request(request).await.map_err(|error| match error.is_canceled() {
            true => Failed::Unsent,
            false => Failed::Broken(error_chain(&error)),
        })?;
        let status = response.status();
        let answer = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let answer = answer.map_err(|error| Failed::Broken(error_chain(&*error)))?.to_bytes();
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push(sender);
        }
        Ok((status, answer))
    }
}

enum Failed {
    /// Nothing of the request has left.
    Unsent,
    Broken(String),
}

impl Place {
    fn of(config: &WebhookClientConfig) -> Result<Self, String> {
        if let Some(service) = &config.service {
            let (namespace, name) = (service.namespace.clone(), service.name.clone());
            let path = service.path.clone().unwrap_or_else(|| "/".to_owned());
            let port = u16::try_from(service.port.unwrap_or(443)).map_err(|error| error.to_string())?;
            let host = format!("{name}.{namespace}.svc");
            return Ok(Place { host, port, path, service: Some((namespace, name)) });
        }
        let url = config.url.as_deref().unwrap_or_default();
        let uri: Uri = url.parse().map_err(|error| format!("the URL {url:?} cannot be read: {error}"))?;
        let host = uri.host().ok_or_else(|| format!("the URL {url:?} names no host"))?;
        Ok(Place {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(443),
            path: uri.path().to_owned(),
            service: None,
        })
    }

    /// `HOST:PORT`, with brackets round an address of IPv6.
    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    async fn address(&self, registry: &Registry) -> Result<SocketAddr, String> {
        if let Some((namespace, name)) = &self.service {
            let found = node_proxy::service_endpoint(registry, namespace, name, &self.port.to_string()).await;
            return found.map_err(|error| error.to_string());
        }
        let mut found = tokio::net::lookup_host((self.host.as_str(), self.port))
            .await
            .map_err(|error| error_chain(&error))?;
        found.next().ok_or_else(|| format!("{} has no address", self.host))
    }
}

fn connector(bundle: &[u8]) -> Result<TlsConnector, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots(bundle)?)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Those of a `caBundle`; without one, what this machine trusts.
pub fn roots(bundle: &[u8]) -> Result<RootCertStore, String> {
    let system;
    let bundle = match bundle {
        [] => {
            system = std::fs::read(SYSTEM_ROOTS).map_err(|error| format!("{SYSTEM_ROOTS}: {error}"))?;
            &system
        }
        given => given,
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_reader_iter(BufReader::new(bundle)) {
        let certificate = certificate.map_err(|error| format!("caBundle: {error}"))?;
        roots.add(certificate).map_err(|error| format!("caBundle: {error}"))?;
    }
    Ok(roots)
}
