//! The servers of the cluster, of which there may be several on one store.
//!
//! Each shows that it lives by renewing a Lease that bears its address, and tells everybody who does: the Service
//! `kubernetes` leads to all of them. A peer is alive if its Lease changed lately by our own clock, so the
//! clocks of machines are never compared. A server that stops says so; one that dies is found out in seconds.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::error::Result;
use crate::object::Object;
use crate::registry::{Call, DeleteOptions, Registry};
use crate::{api::Api, bootstrap};

const RENEW: Duration = Duration::from_secs(2);
/// Without a sign of life for this long a server counts as gone.
const TIMEOUT: Duration = Duration::from_secs(7);
const NAMESPACE: &str = "kube-system";
const ROLE: (&str, &str) = ("apiserver.kubernetes.io/identity", "kube-apiserver");
const ADDRESS: &str = "minik8s.io/server-address";

/// The addresses of servers that are alive.
pub type Live = BTreeSet<SocketAddr>;

/// Takes part until `stop`.
pub async fn run(api: Arc<Api>, own: SocketAddr, live: watch::Sender<Live>, stop: CancellationToken) {
    let mut peers = Peers { own, seen: HashMap::new() };
    loop {
        match peers.look(&api.registry, Instant::now()).await {
            Ok(found) => {
                live.send_if_modified(|known| std::mem::replace(known, found.clone()) != found);
            }
            Err(error) => tracing::warn!(%error, "cannot tell which servers are alive"),
        }
        tokio::select! {
            () = tokio::time::sleep(RENEW) => {}
            () = stop.cancelled() => break,
        }
    }
    if let Err(error) = peers.leave(&api.registry).await {
        tracing::debug!(%error, "the other servers will find out by themselves");
    }
}

struct Peers {
    own: SocketAddr,
    /// Per Lease its newest version, and when that was first seen.
    seen: HashMap<String, (String, Instant)>,
}

impl Peers {
    async fn look(&mut self, registry: &Registry, now: Instant) -> Result<Live> {
        self.renew(registry).await?;
        let leases = registry.built_in("coordination.k8s.io", "v1", "leases")?;
        let all = registry.all(&leases, NAMESPACE).await?;
        let mut found = self.living(&all, now);
        found.insert(self.own);
        bootstrap::point_to(registry, self.own, &found).await?;
        Ok(found)
    }

    fn living(&mut self, leases: &[Value], now: Instant) -> Live {
        let servers = leases.iter().filter(|lease| lease["metadata"]["labels"][ROLE.0] == ROLE.1);
        let mut found = Live::new();
        let mut seen = HashMap::new();
        for lease in servers {
            let (name, version) = (lease.name().to_owned(), lease.resource_version().to_owned());
            let since = match self.seen.get(&name) {
                Some((known, since)) if *known == version => *since,
                _ => now,
            };
            seen.insert(name, (version, since));
            let address = lease["metadata"]["annotations"][ADDRESS].as_str();
            if let Some(address) = address.and_then(|text| text.parse().ok())
                && now.duration_since(since) < TIMEOUT
            {
                found.insert(address);
            }
        }
        self.seen = seen;
        found
    }

    fn call(&self, registry: &Registry) -> Result<Call> {
        let leases = registry.built_in("coordination.k8s.io", "v1", "leases")?;
        Ok(Call::internal(leases, NAMESPACE, &lease_name(self.own)))
    }

    async fn renew(&self, registry: &Registry) -> Result<()> {
        let call = self.call(registry)?;
        let now = format!("{:.6}", Timestamp::now());
        let renewed = registry.change(&call, |old| {
            let mut new = old.clone();
            new["spec"]["renewTime"] = now.as_str().into();
            Ok(new)
        });
        match renewed.await {
            Err(error) if error.code == 404 => {}
            other => return other.map(drop),
        }
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": call.name, "namespace": NAMESPACE, "labels": {ROLE.0: ROLE.1},
                "annotations": {ADDRESS: self.own.to_string()},
            },
            "spec": {
                "holderIdentity": self.own.to_string(), "leaseDurationSeconds": TIMEOUT.as_secs(),
                "renewTime": now,
            },
        });
        registry.create(&call, lease).await.map(drop)
    }

    async fn leave(&self, registry: &Registry) -> Result<()> {
        registry.delete(&self.call(registry)?, &DeleteOptions::default()).await?;
        let leases = registry.built_in("coordination.k8s.io", "v1", "leases")?;
        let mut rest = Peers { own: self.own, seen: self.seen.clone() };
        let rest = rest.living(&registry.all(&leases, NAMESPACE).await?, Instant::now());
        // The last one stays: pods that ask for it shall find where it will be again.
        if rest.is_empty() { Ok(()) } else { bootstrap::point_to(registry, self.own, &rest).await }
    }
}

fn lease_name(address: SocketAddr) -> String {
    let host = match address.ip() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => ip.to_string().replace(':', "-"),
    };
    format!("apiserver-{host}-{}", address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(address: &str, version: &str) -> Value {
        json!({"metadata": {
            "name": format!("apiserver-{address}"), "resourceVersion": version,
            "labels": {ROLE.0: ROLE.1}, "annotations": {ADDRESS: address},
        }})
    }

    #[test]
    fn a_server_lives_as_long_as_its_lease_changes() {
        let (a, b) = ("10.0.0.1:6443", "10.0.0.2:6443");
        let mut peers = Peers { own: a.parse().unwrap(), seen: HashMap::new() };
        let begun = Instant::now();
        let mut check = |seconds: u64, leases: &[(&str, &str)], expected: &[&str]| {
            let leases: Vec<Value> =
                leases.iter().map(|(address, version)| lease(address, version)).collect();
            let found = peers.living(&leases, begun + Duration::from_secs(seconds));
            let expected: Live = expected.iter().map(|text| text.parse().unwrap()).collect();
            assert_eq!(found, expected, "after {seconds} s");
        };
        check(0, &[(a, "1"), (b, "2")], &[a, b]);
        check(6, &[(a, "3"), (b, "2")], &[a, b]);
        check(7, &[(a, "4"), (b, "2")], &[a]);
        check(8, &[(a, "4"), (b, "5")], &[a, b]);
        check(9, &[(a, "4")], &[a]);
        // Other Leases are none of our business.
        let other = json!({"metadata": {"name": "x", "annotations": {ADDRESS: b}}});
        assert_eq!(peers.living(&[other], begun), Live::new());
    }

    #[test]
    fn leases_bear_names_that_the_api_takes() {
        assert_eq!(lease_name("10.0.0.1:6443".parse().unwrap()), "apiserver-10.0.0.1-6443");
        assert_eq!(lease_name("[fd00::1]:6443".parse().unwrap()), "apiserver-fd00--1-6443");
    }
}
