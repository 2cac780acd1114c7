//! Certificates by host name, out of Secrets.

mod checked;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use rustls::ServerConfig;
use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use minik8s_meta::gateway::host_matches;
use minik8s_proxy::gateway::BackendCertificates;

pub use self::checked::CheckedAcceptors;
use crate::proxy::Shared;
use crate::table::SecretName;

/// Replaced as a whole; handshakes under way keep what they have.
#[derive(Debug, Default, Clone)]
pub struct Certificates {
    by_host: HashMap<String, Arc<CertifiedKey>>,
    /// Of Gateways' ports: the most specific host first, and for each the certificates that it may show.
    by_port: BTreeMap<u16, Vec<ListenerKeys>>,
    /// What Gateways show to backends.
    pub to_backends: BackendCertificates,
}

/// A listener's host, and what it may show.
type ListenerKeys = (String, Vec<Arc<CertifiedKey>>);

/// Which Secrets Gateways' ports show, by host.
pub type PortCertificates = BTreeMap<u16, Vec<(String, Vec<SecretName>)>>;

impl Certificates {
    /// Certificates that cannot be used are left out, and said why.
    pub fn build(
        wanted: &BTreeMap<String, SecretName>,
        of_ports: &PortCertificates,
        to_backends: &BTreeSet<SecretName>,
        secrets: &BTreeMap<SecretName, Arc<Secret>>,
    ) -> (Self, Vec<String>) {
        let mut read: HashMap<SecretName, Result<Arc<CertifiedKey>, String>> = HashMap::new();
        let (mut by_host, mut problems) = (HashMap::new(), Vec::new());
        let mut key = |name: &SecretName| {
            let key = read.entry(name.clone()).or_insert_with(|| {
                let key = secrets
                    .get(name)
                    .ok_or_else(|| "there is none of the type kubernetes.io/tls".to_owned())
                    .and_then(|s| certified(s));
                if let Err(problem) = &key {
                    problems.push(format!("no certificate in Secret {}/{}: {problem}", name.0, name.1));
                }
                key
            });
            key.clone().ok()
        };
        for (host, name) in wanted {
            if let Some(key) = key(name) {
                by_host.insert(host.clone(), key);
            }
        }
        let mut by_port: BTreeMap<u16, Vec<_>> = BTreeMap::new();
        for (port, hosts) in of_ports {
            let of_port =
                hosts.iter().map(|(host, names)| (host.clone(), names.iter().filter_map(&mut key).collect()));
            by_port.insert(*port, of_port.collect());
        }
        let to_backends = to_backends.iter().filter_map(|name| Some((name.clone(), key(name)?))).collect();
        (Certificates { by_host, by_port, to_backends: Arc::new(to_backends) }, problems)
    }

    /// The host's own, that of its wildcard, or the one for everybody.
    pub fn find(&self, host: Option<&str>) -> Option<&Arc<CertifiedKey>> {
        let host = host.unwrap_or_default().to_ascii_lowercase();
        let wildcard = || self.by_host.get(&format!("*.{}", host.split_once('.')?.1));
        self.by_host.get(&host).or_else(wildcard).or_else(|| self.by_host.get(""))
    }
}

impl Certificates {
    /// For a Gateway's port: of the listener that the host is for, the first that has the host, or the first.
    pub fn find_at(&self, port: u16, host: Option<&str>) -> Option<&Arc<CertifiedKey>> {
        let host = host.unwrap_or_default().to_ascii_lowercase();
        let listeners = self.by_port.get(&port)?;
        let (_, keys) = listeners.iter().find(|(pattern, _)| host_matches(pattern, &host))?;
        let is_for = |key: &&Arc<CertifiedKey>| {
            let certificate =
                key.end_entity_cert().ok().and_then(|der| ParsedCertificate::try_from(der).ok());
            let name = ServerName::try_from(host.as_str()).ok();
            certificate
                .zip(name)
                .is_some_and(|(certificate, name)| verify_server_name(&certificate, &name).is_ok())
        };
        keys.iter().find(is_for).or(keys.first())
    }
}

fn certified(secret: &Secret) -> Result<Arc<CertifiedKey>, String> {
    let field = |name: &str| {
        let found = secret.data.as_ref().and_then(|data| data.get(name));
        found.map(|bytes| bytes.0.as_slice()).ok_or_else(|| format!("it has no {name}"))
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(field("tls.crt")?)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("tls.crt: {error}"))?;
    let key =
        PrivateKeyDer::from_pem_slice(field("tls.key")?).map_err(|error| format!("tls.key: {error}"))?;
    let key =
        CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| error.to_string())?;
    Ok(Arc::new(key))
}

/// Looks certificates up at every handshake, so that new ones count at once.
pub fn server_config(shared: &Arc<Shared>, port: Option<u16>) -> Arc<ServerConfig> {
    let resolver = Arc::new(Resolver { shared: shared.clone(), port });
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("ring knows TLS 1.2 and 1.3");
    finished(builder.with_no_client_auth().with_cert_resolver(resolver))
}

fn finished(mut config: ServerConfig) -> Arc<ServerConfig> {
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

struct Resolver {
    shared: Arc<Shared>,
    /// A Gateway's.
    port: Option<u16>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let certificates = self.shared.certificates.borrow();
        match self.port {
            Some(port) => certificates.find_at(port, hello.server_name()).cloned(),
            None => certificates.find(hello.server_name()).cloned(),
        }
    }
}
