//! ConfigMaps, Secrets and ClusterTrustBundles that a pod refers to, fetched before they are used.

mod claims;
mod trust_bundles;
mod watches;

pub use claims::{ClaimError, ClaimedPath, ClaimedVolumes, Claims, claim_name, fetch_claims};
pub use trust_bundles::{TrustBundle, TrustBundles};
pub use watches::{ObjectWatches, Subscription};

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1 as core;
use kube::Api;
use minik8s_informer::Lenient;

use crate::pod::{ContainerSpec, DesiredPod};

pub type Data = BTreeMap<String, Vec<u8>>;

/// The objects of one namespace by name. `None`: looked for and not there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Objects {
    pub config_maps: BTreeMap<String, Option<Data>>,
    pub secrets: BTreeMap<String, Option<Data>>,
    /// All of the cluster, if the pod refers to any.
    pub trust_bundles: TrustBundles,
}

/// Names of the objects that a pod refers to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    pub config_maps: BTreeSet<String>,
    pub secrets: BTreeSet<String>,
    pub trust_bundles: bool,
}

impl Objects {
    pub fn config_map(&self, name: &str) -> Option<&Data> {
        self.config_maps.get(name)?.as_ref()
    }

    pub fn secret(&self, name: &str) -> Option<&Data> {
        self.secrets.get(name)?.as_ref()
    }

    /// All that the pod refers to.
    pub async fn fetch(
        client: &kube::Client,
        watches: &ObjectWatches,
        desired_pod: &DesiredPod,
    ) -> Result<Self, kube::Error> {
        Objects::get(client, watches, &desired_pod.namespace, References::of(desired_pod)).await
    }

    /// What the environment of one container refers to, which is nothing as a rule.
    pub async fn of_environment(
        client: &kube::Client,
        watches: &ObjectWatches,
        desired_pod: &DesiredPod,
        container: &ContainerSpec,
    ) -> Result<Self, kube::Error> {
        let mut references = References::default();
        references.add_environment(container);
        Objects::get(client, watches, &desired_pod.namespace, references).await
    }

    /// Asks the API server; if it does not answer, what its watches have shown last is good enough.
    async fn get(
        client: &kube::Client,
        watches: &ObjectWatches,
        namespace: &str,
        references: References,
    ) -> Result<Self, kube::Error> {
        let mut objects = Objects::default();
        for name in references.config_maps {
            let asked =
                Api::<Lenient<core::ConfigMap>>::namespaced(client.clone(), namespace).get_opt(&name).await;
            let found = asked.map(|found| found.map(|found| config_map_data(found.into_inner())));
            let found = found.or_else(|e| away(e, watches.last_config_map(namespace, &name)))?;
            objects.config_maps.insert(name, found);
        }
        for name in references.secrets {
            let asked =
                Api::<Lenient<core::Secret>>::namespaced(client.clone(), namespace).get_opt(&name).await;
            let found = asked.map(|found| found.map(|found| secret_data(found.into_inner())));
            let found = found.or_else(|e| away(e, watches.last_secret(namespace, &name)))?;
            objects.secrets.insert(name, found);
        }
        if references.trust_bundles {
            let listed = trust_bundles::list(client).await;
            objects.trust_bundles = listed.or_else(|e| away(e, watches.last_trust_bundles()))?;
        }
        Ok(objects)
    }
}

/// A refusal stays a refusal; a server that cannot answer is stood in for.
fn away<T>(error: kube::Error, last: Option<T>) -> Result<T, kube::Error> {
    match error {
        kube::Error::Api(status) if status.code < 500 && status.code != 429 => Err(kube::Error::Api(status)),
        error => last.ok_or(error),
    }
}

impl References {
    pub fn of(desired_pod: &DesiredPod) -> Self {
        let mut references = References::default();
        desired_pod.containers.iter().for_each(|container| references.add_environment(container));
        for volume in desired_pod.spec().and_then(|s| s.volumes.as_ref()).into_iter().flatten() {
            references.add_volume(volume);
        }
        references
    }

    fn add_environment(&mut self, container: &ContainerSpec) {
        for source in container.spec.env_from.iter().flatten() {
            self.config_maps.extend(source.config_map_ref.iter().map(|r| r.name.clone()));
            self.secrets.extend(source.secret_ref.iter().map(|r| r.name.clone()));
        }
        for source in container.spec.env.iter().flatten().filter_map(|v| v.value_from.as_ref()) {
            self.config_maps.extend(source.config_map_key_ref.iter().map(|r| r.name.clone()));
            self.secrets.extend(source.secret_key_ref.iter().map(|r| r.name.clone()));
        }
    }

    fn add_volume(&mut self, volume: &core::Volume) {
        self.config_maps.extend(volume.config_map.iter().map(|source| source.name.clone()));
        self.secrets.extend(volume.secret.iter().filter_map(|source| source.secret_name.clone()));
        let projected = volume.projected.iter().filter_map(|p| p.sources.as_ref()).flatten();
        for source in projected {
            self.config_maps.extend(source.config_map.iter().map(|s| s.name.clone()));
            self.secrets.extend(source.secret.iter().map(|s| s.name.clone()));
            self.trust_bundles |= source.cluster_trust_bundle.is_some();
        }
    }
}

pub fn config_map_data(object: core::ConfigMap) -> Data {
    let text = object.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
    let binary = object.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
    text.chain(binary).collect()
}

pub fn secret_data(object: core::Secret) -> Data {
    object.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect()
}
