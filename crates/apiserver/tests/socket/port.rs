//! A server on a real port, and ways to connect to it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use minik8s_api::Extension;
use minik8s_apiserver::{Config, Server};
use minik8s_auth::pki::{Pki, ServingNames};
use minik8s_store::{Options, RedbStore};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client::Client;

/// Whoever sends it is an administrator.
pub const TOKEN: &str = "letmein";
/// Whoever sends it is the node `n1`.
pub const NODE_TOKEN: &str = "iamanode";

/// The certificates were made that long ago: still valid, but due to be renewed.
const AGE: SignedDuration = SignedDuration::from_hours(24 * 300);

pub struct Port {
    server: Server,
    pub pki: Arc<Pki>,
    _dir: TempDir,
}

impl Port {
    pub async fn open(store: Options) -> Port {
        Port::with(store, Extension::default()).await
    }

    pub async fn with(store: Options, extension: Extension) -> Port {
        let dir = tempfile::tempdir().unwrap();
        let store = RedbStore::open(dir.path().join("store.redb"), store).unwrap();
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let names = ServingNames {
            host_name: "test".to_owned(),
            addresses: vec![loopback],
            extra_names: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            service_address: None,
        };
        let made = Timestamp::now() - AGE;
        let pki = Arc::new(Pki::load_or_create(&dir.path().join("pki"), &names, made).unwrap());
        let tokens = dir.path().join("tokens.csv");
        let known = format!("{TOKEN},admin,1,system:masters\n{NODE_TOKEN},system:node:n1,2,system:nodes\n");
        std::fs::write(&tokens, known).unwrap();
        let config = Config {
            bind: SocketAddr::new(loopback, 0),
            advertise: loopback,
            service_cidr: "10.96.0.0/12".parse().unwrap(),
            cluster_domain: "cluster.local".to_owned(),
            token_auth_file: Some(tokens),
            allow_external_ips: false,
            kinds: minik8s_kinds::all(),
            has_peers: false,
            extension,
        };
        let server = Server::start(config, store, pki.clone()).await.unwrap();
        Port { server, pki, _dir: dir }
    }

    pub async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.server.address()).await.unwrap()
    }

    /// Checked against the cluster's authority, as any client does.
    pub async fn tls(&self) -> TlsStream<TcpStream> {
        self.tls_as(None).await
    }

    /// Shows a certificate: `(certificate, key)` in PEM.
    pub async fn tls_as(&self, shown: Option<&(String, String)>) -> TlsStream<TcpStream> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from(self.pki.ca_der())).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match shown {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let name = ServerName::from(self.server.address().ip());
        TlsConnector::from(Arc::new(config)).connect(name, self.tcp().await).await.unwrap()
    }

    /// The certificate that a new connection gets.
    pub async fn certificate(&self) -> Vec<u8> {
        let stream = self.tls().await;
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    }

    /// The server serves as ever.
    pub async fn answers(&self) {
        let mut client = Client::connect(self).await;
        assert_eq!(client.send("GET", "/readyz", "").await.status(), 200);
    }
}
