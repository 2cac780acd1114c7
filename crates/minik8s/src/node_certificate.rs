//! The certificate of the port of a node beside the control plane, which need not ask for it: issued at every
//! start, and again before it ends, without a restart.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use minik8s_auth::pki::{AltNames, Identity, LiveIdentity, Pki, PkiError, Subject};
use minik8s_kubelet::Serving;

use crate::node;

const LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 365);
/// Clocks can be set and machines sleep, so the date is looked at from time to time.
const CHECK: Duration = Duration::from_secs(3600);

pub struct ServingHere {
    pki: Arc<Pki>,
    subject: Subject,
    names: AltNames,
    held: Mutex<Identity>,
    live: Arc<LiveIdentity>,
}

impl ServingHere {
    pub fn new(
        pki: Arc<Pki>,
        node_name: &str,
        addresses: &[IpAddr],
        now: Timestamp,
    ) -> Result<Self, PkiError> {
        let subject = Subject::new(&format!("system:node:{node_name}"), &["system:nodes"]);
        let names = AltNames { dns: [node_name.to_owned()].into(), ips: addresses.iter().copied().collect() };
        let identity = pki.issue_server(subject.clone(), names.clone(), LIFETIME, now)?;
        let live = Arc::new(LiveIdentity::new(&identity)?);
        Ok(ServingHere { pki, subject, names, held: Mutex::new(identity), live })
    }

    pub fn serving(&self) -> Serving {
        node::serving(self.live.clone(), self.pki.ca_pem())
    }

    /// For ever.
    pub async fn keep_fresh(self: Arc<Self>) {
        loop {
            tokio::time::sleep(CHECK).await;
            match self.renew_due(Timestamp::now()) {
                Ok(true) => tracing::info!("renewed the certificate of the node's port"),
                Ok(false) => {}
                Err(error) => tracing::error!(%error, "the certificate of the node's port was not renewed"),
            }
        }
    }

    /// New connections see the new certificate at once.
    fn renew_due(&self, now: Timestamp) -> Result<bool, PkiError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if !held.is_due(now) {
            return Ok(false);
        }
        let next = self.pki.issue_server(self.subject.clone(), self.names.clone(), LIFETIME, now)?;
        self.live.swap(&next)?;
        *held = next;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use minik8s_auth::pki::ServingNames;

    use super::*;

    #[test]
    fn it_is_renewed_when_a_third_of_its_life_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let names = ServingNames {
            host_name: "h".to_owned(),
            addresses: Vec::new(),
            extra_names: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            service_address: None,
        };
        let pki = Arc::new(Pki::load_or_create(directory.path(), &names, start).unwrap());
        let here = ServingHere::new(pki, "n1", &["10.0.0.1".parse().unwrap()], start).unwrap();
        let shown = |here: &ServingHere| here.live.current().end_entity_cert().unwrap().to_vec();
        let first = shown(&here);
        let after = |days: i64| start + SignedDuration::from_hours(24 * days);
        assert!(!here.renew_due(after(200)).unwrap());
        assert_eq!(shown(&here), first);
        assert!(here.renew_due(after(250)).unwrap());
        assert_ne!(shown(&here), first);
        assert!(!here.renew_due(after(250)).unwrap(), "the new one is good");
    }
}
