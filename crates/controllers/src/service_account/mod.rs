//! What every namespace gets: the ServiceAccount `default`, and the cluster's CA certificate in the
//! ConfigMap `kube-root-ca.crt`. And the Secrets that hold tokens of ServiceAccounts.

mod token_secrets;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Action, Caches, Controller, Key, Object, Plan, Watches};
use serde_json::json;

pub use token_secrets::{Signer, TokenSecrets};

const ACCOUNT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";
const DATA: &str = "ca.crt";

/// Keeps one `default` ServiceAccount in every namespace.
pub struct DefaultAccounts;

impl Controller for DefaultAccounts {
    type Key = Key;
    type Observed = (Arc<Namespace>, Option<Arc<ServiceAccount>>);

    fn name(&self) -> &'static str {
        "serviceaccount-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<Namespace>();
        watches.on::<ServiceAccount>(|_, account| namespace_of(account, ACCOUNT).into_iter().collect());
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Self::Observed> {
        let namespace = caches.of::<Namespace>().get(key)?;
        let account = caches.of::<ServiceAccount>().get(&Key::new(&*key.name, ACCOUNT));
        Some((namespace, account))
    }

    fn plan(&self, (namespace, account): &Self::Observed, _: Timestamp) -> Plan {
        let mut plan = Plan::default();
        if account.is_none() && is_active(namespace) {
            let metadata = named(namespace, ACCOUNT);
            plan.act(Action::create(&ServiceAccount { metadata, ..ServiceAccount::default() }));
        }
        plan
    }
}

/// Keeps the CA certificate in every namespace, for pods to trust the API server.
pub struct RootCertificates {
    /// PEM.
    pub certificate: String,
}

impl Controller for RootCertificates {
    type Key = Key;
    type Observed = (Arc<Namespace>, Option<Arc<ConfigMap>>);

    fn name(&self) -> &'static str {
        "root-ca-certificate-publisher-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<Namespace>();
        watches.on::<ConfigMap>(|_, map| namespace_of(map, ROOT_CA).into_iter().collect());
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Self::Observed> {
        let namespace = caches.of::<Namespace>().get(key)?;
        let map = caches.of::<ConfigMap>().get(&Key::new(&*key.name, ROOT_CA));
        Some((namespace, map))
    }

    fn plan(&self, (namespace, map): &Self::Observed, _: Timestamp) -> Plan {
        let mut plan = Plan::default();
        if !is_active(namespace) {
            return plan;
        }
        let data = || Some([(DATA.to_owned(), self.certificate.clone())].into());
        match map {
            None => {
                let mut metadata = named(namespace, ROOT_CA);
                let description = "Contains a CA bundle that can be used to verify the kube-apiserver.";
                let key = "kubernetes.io/description".to_owned();
                metadata.annotations = Some([(key, description.to_owned())].into());
                plan.act(Action::create(&ConfigMap { metadata, data: data(), ..ConfigMap::default() }));
            }
            Some(map) if map.data != data() => {
                // Whatever else somebody put there goes.
                let others = map.data.iter().flatten().filter(|(key, _)| *key != DATA);
                let mut data: serde_json::Map<_, _> =
                    others.map(|(key, _)| (key.clone(), json!(null))).collect();
                data.insert(DATA.to_owned(), json!(self.certificate));
                plan.act(Action::patch(&**map, json!({ "data": data })));
            }
            Some(_) => {}
        }
        plan
    }
}

/// The namespace's key if the object has the name that is looked for.
fn namespace_of<K: Object>(object: &K, name: &str) -> Option<Key> {
    let meta = object.meta();
    (meta.name.as_deref() == Some(name)).then(|| Key::new("", meta.namespace.as_deref().unwrap_or("")))
}

fn is_active(namespace: &Namespace) -> bool {
    namespace.metadata.deletion_timestamp.is_none()
}

fn named(namespace: &Namespace, name: &str) -> ObjectMeta {
    let namespace = namespace.metadata.name.clone();
    ObjectMeta { name: Some(name.to_owned()), namespace, ..ObjectMeta::default() }
}

#[cfg(test)]
mod tests {
    use minik8s_runtime::testing::{Simulation, World, check_convergence};

    use super::*;

    #[test]
    fn every_namespace_gets_both() {
        let build = || {
            let mut world = World::default();
            for (name, deleted) in [("a", None), ("b", None), ("gone", Some("2030-01-01T00:00:00Z"))] {
                let meta = json!({"name": name, "deletionTimestamp": deleted, "finalizers": ["x"]});
                world.insert(&serde_json::from_value::<Namespace>(json!({ "metadata": meta })).unwrap());
            }
            let wrong =
                json!({"metadata": {"name": ROOT_CA, "namespace": "b"}, "data": {"ca.crt": "old", "x": "y"}});
            world.insert(&serde_json::from_value::<ConfigMap>(wrong).unwrap());
            Simulation::new(world)
                .with(DefaultAccounts)
                .with(RootCertificates { certificate: "PEM".to_owned() })
        };
        check_convergence(build, |simulation| {
            let accounts: Vec<_> = simulation.world.list::<ServiceAccount>();
            assert_eq!(accounts.len(), 2);
            for namespace in ["a", "b"] {
                let map: ConfigMap = simulation.world.get(&Key::new(namespace, ROOT_CA)).unwrap();
                assert_eq!(map.data.unwrap(), [(DATA.to_owned(), "PEM".to_owned())].into());
            }
        });
    }
}
