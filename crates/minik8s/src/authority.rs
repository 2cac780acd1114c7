//! The cluster's keys as the controllers know them: they decide, this signs.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequestSpec;
use minik8s_apiserver::Live;
use minik8s_auth::pki::{Csr, Pki, Signer};
use minik8s_controllers::certificate::{Asked, Authority};
use tokio::sync::watch;

pub struct ClusterAuthority {
    pub pki: Arc<Pki>,
    pub live: watch::Receiver<Live>,
}

impl Authority for ClusterAuthority {
    fn read(&self, spec: &CertificateSigningRequestSpec) -> Result<Asked, String> {
        let signer = signer(spec)?;
        let request = Csr::parse(&text(spec)?).map_err(|e| e.to_string())?;
        request.check(signer, usages(spec)).map_err(|e| e.to_string())?;
        let node = request.node_name().map(str::to_owned);
        let identity = request.uris.into_iter().next();
        Ok(Asked { node, names: request.alt_names.dns, addresses: request.alt_names.ips, identity })
    }

    fn sign(&self, spec: &CertificateSigningRequestSpec, now: Timestamp) -> Result<String, String> {
        let signed =
            self.pki.sign_csr(&text(spec)?, signer(spec)?, usages(spec), spec.expiration_seconds, now);
        signed.map_err(|e| e.to_string())
    }

    fn reserved(&self) -> (BTreeSet<String>, BTreeSet<IpAddr>) {
        let mut names = self.pki.serving_names();
        names.ips.extend(self.live.borrow().iter().map(SocketAddr::ip));
        (names.dns, names.ips)
    }
}

fn signer(spec: &CertificateSigningRequestSpec) -> Result<Signer, String> {
    Signer::by_name(&spec.signer_name).ok_or_else(|| format!("{} is not a signer here", spec.signer_name))
}

fn usages(spec: &CertificateSigningRequestSpec) -> &[String] {
    spec.usages.as_deref().unwrap_or_default()
}

fn text(spec: &CertificateSigningRequestSpec) -> Result<String, String> {
    String::from_utf8(spec.request.0.clone()).map_err(|_| "the request is not a text".to_owned())
}
