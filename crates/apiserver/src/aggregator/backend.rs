//! One extension API server, as its APIService describes it, and how it is reached.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minik8s_api::openapi::Published;
use minik8s_auth::pki::LiveIdentity;
use minik8s_meta::error_chain;
use parking_lot::RwLock;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::node_proxy::{self, AnyCertificate};
use crate::registry::Registry;
use crate::webhook_client::roots;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Backend {
    pub name: String,
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub service: String,
    port: u64,
    /// As it was read: what has not changed keeps what is known of it.
    pub spec: Value,
    tls: Result<TlsConnector, String>,
    pub known: RwLock<Known>,
    /// Of its OpenAPI v2, and since when. Locked while it is fetched, so that it is fetched once.
    pub published: tokio::sync::Mutex<Option<(Instant, Arc<Published>)>>,
}

/// What the last look at it found.
#[derive(Clone, Default)]
pub struct Known {
    pub is_available: bool,
    /// Its `APIResourceList`.
    pub resources: Option<Arc<Value>>,
    /// Of its OpenAPI v3 document, as its own index has it.
    pub schema_hash: Option<String>,
}

impl Backend {
    /// None for a group and version that this server serves itself.
    pub fn of(name: &str, spec: &Value, identity: &Arc<LiveIdentity>) -> Option<Self> {
        let service = spec.get("service").filter(|service| service.is_object())?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Some(Backend {
            name: name.to_owned(),
            group: text(&spec["group"]),
            version: text(&spec["version"]),
            namespace: text(&service["namespace"]),
            service: text(&service["name"]),
            port: service["port"].as_u64().unwrap_or(443),
            spec: spec.clone(),
            tls: connector(spec, identity),
            known: RwLock::default(),
            published: tokio::sync::Mutex::default(),
        })
    }

    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    pub async fn endpoint(&self, registry: &Registry) -> Result<SocketAddr, String> {
        let port = self.port.to_string();
        let found = node_proxy::service_endpoint(registry, &self.namespace, &self.service, &port).await;
        found.map_err(|error| error.to_string())
    }

    /// A connection on which the aggregator has shown who it is.
    pub async fn connect(&self, address: SocketAddr) -> Result<TlsStream<TcpStream>, String> {
        let tls = self.tls.as_ref().map_err(Clone::clone)?;
        let host = format!("{}.{}.svc", self.service, self.namespace);
        let name = ServerName::try_from(host).map_err(|error| error_chain(&error))?;
        let connecting = async {
            let stream = TcpStream::connect(address).await.map_err(|error| error_chain(&error))?;
            tls.connect(name, stream).await.map_err(|error| error_chain(&error))
        };
        match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err("no answer".to_owned()),
        }
    }
}

fn connector(spec: &Value, identity: &Arc<LiveIdentity>) -> Result<TlsConnector, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = if spec["insecureSkipTLSVerify"] == true {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
    } else {
        let bundle = STANDARD.decode(spec["caBundle"].as_str().unwrap_or_default());
        builder.with_root_certificates(roots(&bundle.map_err(|error| format!("caBundle: {error}"))?)?)
    };
    let mut config = builder.with_client_cert_resolver(identity.clone());
    // A resumed session would be that of the certificate it began with.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(TlsConnector::from(Arc::new(config)))
}
