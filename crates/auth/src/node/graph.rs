//! Which node uses which object, kept up to date from watches.
//!
//! Pods are counted per node and object, so a check is one lookup and a pod's end one decrement. Volumes add
//! a step: a volume belongs to the node if its claim does, and so do the secrets that it is mounted with.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::references;

/// What the API server must feed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchedKind {
    Pod,
    PersistentVolume,
    VolumeAttachment,
    ResourceSlice,
    Ingress,
    GatewayConfig,
}

/// What a node can be related to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Pod,
    Secret,
    ConfigMap,
    Claim,
    ServiceAccount,
    ResourceClaim,
    /// Of the cluster's own registry.
    Repository,
    Volume,
    Attachment,
    Slice,
}

type Name = (String, String);

#[derive(Debug, Default)]
pub struct NodeGraph {
    pods: HashMap<Name, Pod>,
    /// How many pods of a node use an object.
    uses: HashMap<String, HashMap<(Kind, Name), usize>>,
    volumes: HashMap<String, Volume>,
    volumes_of_secret: HashMap<Name, BTreeSet<String>>,
    /// Objects that name their node themselves.
    attachments: HashMap<String, String>,
    slices: HashMap<String, String>,
    /// Certificates by Ingress: every node's router answers for every host.
    certificates: HashMap<Name, BTreeSet<String>>,
    /// Likewise by Gateway: what grants allow of other namespaces is in it, and nothing else.
    gateway_certificates: HashMap<Name, BTreeSet<Name>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Pod {
    node: String,
    /// In the pod's own namespace.
    uses: BTreeSet<(Kind, String)>,
}

#[derive(Debug, Default)]
struct Volume {
    claim: Name,
    secrets: BTreeSet<Name>,
    /// The node that keeps the volume as an image of its own.
    keeper: Option<String>,
}

impl NodeGraph {
    /// Takes in an object as it is stored, new or changed. What does not look as expected relates to nothing.
    pub fn upsert(&mut self, kind: WatchedKind, object: &Value) {
        let (namespace, name) = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        match kind {
            WatchedKind::Pod => self.upsert_pod(namespace, name, object),
            WatchedKind::PersistentVolume => self.upsert_volume(name, object),
            WatchedKind::VolumeAttachment => named_node(&mut self.attachments, name, object),
            WatchedKind::ResourceSlice => named_node(&mut self.slices, name, object),
            WatchedKind::Ingress => self.upsert_ingress(namespace, name, object),
            WatchedKind::GatewayConfig => self.upsert_gateway(namespace, name, object),
        }
    }

    /// Forgets an object. The namespace of cluster-scoped kinds is ignored.
    pub fn remove(&mut self, kind: WatchedKind, namespace: &str, name: &str) {
        match kind {
            WatchedKind::Pod => self.remove_pod(&(namespace.to_owned(), name.to_owned())),
            WatchedKind::PersistentVolume => self.remove_volume(name),
            WatchedKind::VolumeAttachment => drop(self.attachments.remove(name)),
            WatchedKind::ResourceSlice => drop(self.slices.remove(name)),
            WatchedKind::Ingress => {
                self.certificates.remove(&(namespace.to_owned(), name.to_owned()));
            }
            WatchedKind::GatewayConfig => {
                self.gateway_certificates.remove(&(namespace.to_owned(), name.to_owned()));
            }
        }
    }

    /// Forgets all objects of a kind.
    pub fn clear(&mut self, kind: WatchedKind) {
        match kind {
            WatchedKind::Pod => {
                self.pods.clear();
                self.uses.clear();
            }
            WatchedKind::PersistentVolume => {
                self.volumes.clear();
                self.volumes_of_secret.clear();
            }
            WatchedKind::VolumeAttachment => self.attachments.clear(),
            WatchedKind::ResourceSlice => self.slices.clear(),
            WatchedKind::Ingress => self.certificates.clear(),
            WatchedKind::GatewayConfig => self.gateway_certificates.clear(),
        }
    }

    pub fn relates(&self, node: &str, kind: Kind, namespace: &str, name: &str) -> bool {
        let key = || (namespace.to_owned(), name.to_owned());
        match kind {
            Kind::Pod => self.pods.get(&key()).is_some_and(|pod| pod.node == node),
            Kind::Volume => self.volumes.get(name).is_some_and(|volume| self.uses_claim(node, volume)),
            Kind::Attachment => self.attachments.get(name).is_some_and(|n| n == node),
            Kind::Slice => self.slices.get(name).is_some_and(|n| n == node),
            Kind::Secret => self.uses(node, kind, key()) || self.mounts_with(node, &key()),
            _ => self.uses(node, kind, key()),
        }
    }

    /// Whether the node keeps the image of a volume.
    pub(super) fn keeps(&self, node: &str, volume: &str) -> bool {
        self.volumes.get(volume).is_some_and(|volume| volume.keeper.as_deref() == Some(node))
    }

    fn uses(&self, node: &str, kind: Kind, name: Name) -> bool {
        self.uses.get(node).is_some_and(|objects| objects.contains_key(&(kind, name)))
    }

    fn uses_claim(&self, node: &str, volume: &Volume) -> bool {
        self.uses(node, Kind::Claim, volume.claim.clone())
    }

    fn mounts_with(&self, node: &str, secret: &Name) -> bool {
        let volumes = self.volumes_of_secret.get(secret).into_iter().flatten();
        volumes.filter_map(|name| self.volumes.get(name)).any(|volume| self.uses_claim(node, volume))
    }

    /// Whether an Ingress or a Gateway names it.
    pub(super) fn is_certificate(&self, namespace: &str, secret: &str) -> bool {
        let of_gateway = || {
            let key = (namespace.to_owned(), secret.to_owned());
            self.gateway_certificates.values().any(|secrets| secrets.contains(&key))
        };
        self.certificates.iter().any(|(ingress, secrets)| ingress.0 == namespace && secrets.contains(secret))
            || of_gateway()
    }

    fn upsert_gateway(&mut self, namespace: &str, name: &str, object: &Value) {
        let key = (namespace.to_owned(), name.to_owned());
        match references::secrets_of_gateway(object) {
            none if none.is_empty() => drop(self.gateway_certificates.remove(&key)),
            secrets => drop(self.gateway_certificates.insert(key, secrets)),
        }
    }

    fn upsert_ingress(&mut self, namespace: &str, name: &str, object: &Value) {
        let key = (namespace.to_owned(), name.to_owned());
        match references::secrets_of_ingress(object) {
            none if none.is_empty() => drop(self.certificates.remove(&key)),
            secrets => drop(self.certificates.insert(key, secrets)),
        }
    }

    fn upsert_pod(&mut self, namespace: &str, name: &str, object: &Value) {
        let key = (namespace.to_owned(), name.to_owned());
        let node = text(&object["spec"]["nodeName"]);
        if node.is_empty() {
            return self.remove_pod(&key);
        }
        let pod = Pod { node: node.to_owned(), uses: references::of_pod(object).into_iter().collect() };
        if self.pods.get(&key) == Some(&pod) {
            // Most changes of a pod are of its status.
            return;
        }
        self.remove_pod(&key);
        let objects = self.uses.entry(pod.node.clone()).or_default();
        for (kind, name) in &pod.uses {
            let object = (*kind, (namespace.to_owned(), name.clone()));
            *objects.entry(object).or_default() += 1;
        }
        self.pods.insert(key, pod);
    }

    fn remove_pod(&mut self, key: &Name) {
        let Some(pod) = self.pods.remove(key) else { return };
        let Some(objects) = self.uses.get_mut(&pod.node) else { return };
        for (kind, name) in pod.uses {
            let object = (kind, (key.0.clone(), name));
            if let Some(count) = objects.get_mut(&object) {
                *count -= 1;
                if *count == 0 {
                    objects.remove(&object);
                }
            }
        }
        if objects.is_empty() {
            self.uses.remove(&pod.node);
        }
    }

    fn upsert_volume(&mut self, name: &str, object: &Value) {
        self.remove_volume(name);
        let claim = &object["spec"]["claimRef"];
        let claim = (text(&claim["namespace"]).to_owned(), text(&claim["name"]).to_owned());
        let keeper = references::keeper_of_volume(object).map(str::to_owned);
        if claim.1.is_empty() && keeper.is_none() {
            return;
        }
        let secrets: BTreeSet<Name> = references::secrets_of_volume(object, &claim.0).into_iter().collect();
        for secret in &secrets {
            self.volumes_of_secret.entry(secret.clone()).or_default().insert(name.to_owned());
        }
        self.volumes.insert(name.to_owned(), Volume { claim, secrets, keeper });
    }

    fn remove_volume(&mut self, name: &str) {
        let Some(volume) = self.volumes.remove(name) else { return };
        for secret in volume.secrets {
            if let Some(volumes) = self.volumes_of_secret.get_mut(&secret) {
                volumes.remove(name);
                if volumes.is_empty() {
                    self.volumes_of_secret.remove(&secret);
                }
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty()
            && self.uses.is_empty()
            && self.volumes.is_empty()
            && self.volumes_of_secret.is_empty()
            && self.attachments.is_empty()
            && self.slices.is_empty()
            && self.certificates.is_empty()
            && self.gateway_certificates.is_empty()
    }
}

fn named_node(objects: &mut HashMap<String, String>, name: &str, object: &Value) {
    match text(&object["spec"]["nodeName"]) {
        "" => drop(objects.remove(name)),
        node => drop(objects.insert(name.to_owned(), node.to_owned())),
    }
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
