//! Certificates by host name, out of Secrets.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::proxy::Shared;
use crate::table::SecretName;

/// Replaced as a whole; handshakes under way keep what they have.
#[derive(Debug, Default, Clone)]
pub struct Certificates {
    by_host: HashMap<String, Arc<CertifiedKey>>,
}

impl Certificates {
    /// Certificates that cannot be used are left out, and said why.
    pub fn build(
        wanted: &BTreeMap<String, SecretName>,
        secrets: &BTreeMap<SecretName, Arc<Secret>>,
    ) -> (Self, Vec<String>) {
        let mut read: HashMap<&SecretName, Result<Arc<CertifiedKey>, String>> = HashMap::new();
        let (mut by_host, mut problems) = (HashMap::new(), Vec::new());
        for (host, name) in wanted {
            let key = read.entry(name).or_insert_with(|| {
                let key = secrets
                    .get(name)
                    .ok_or_else(|| "it does not exist".to_owned())
                    .and_then(|s| certified(s));
                if let Err(problem) = &key {
                    problems.push(format!("no certificate in Secret {}/{}: {problem}", name.0, name.1));
                }
                key
            });
            if let Ok(key) = key {
                by_host.insert(host.clone(), key.clone());
            }
        }
        (Certificates { by_host }, problems)
    }

    /// The host's own, that of its wildcard, or the one for everybody.
    pub fn find(&self, host: Option<&str>) -> Option<&Arc<CertifiedKey>> {
        let host = host.unwrap_or_default().to_ascii_lowercase();
        let wildcard = || self.by_host.get(&format!("*.{}", host.split_once('.')?.1));
        self.by_host.get(&host).or_else(wildcard).or_else(|| self.by_host.get(""))
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
pub fn server_config(shared: &Arc<Shared>) -> Arc<ServerConfig> {
    let resolver = Arc::new(Resolver(shared.clone()));
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("ring knows TLS 1.2 and 1.3");
    let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

struct Resolver(Arc<Shared>);

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.certificates.borrow().find(hello.server_name()).cloned()
    }
}
