//! All that the agent follows: what proxies are told is made of these.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use minik8s_informer::{Caches, ListOptions};
use minik8s_meta::mesh::{MeshRoute, MeshService};
use tokio::time::{Instant, timeout_at};

use super::acks::AckedObject;
use super::followed::{Followed, Name, News};
use super::identities::Account;
use super::ruled;
use crate::controller;
use crate::policy::{self, MeshPolicy, PodView};

/// Events come in groups: a Service's endpoints, the objects of one file.
const GATHER: Duration = Duration::from_millis(3);

pub struct Sources {
    pub routes: Followed<MeshRoute>,
    pub services: Followed<MeshService>,
    pub policies: Followed<MeshPolicy>,
    /// Of this node.
    pub pods: Followed<Pod>,
    pub network_policies: Followed<NetworkPolicy>,
    /// What nobody was told yet.
    changes: Changes,
}

/// What has changed, for whom.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Changes {
    /// For all proxies.
    pub shared: bool,
    /// For some.
    pub own: bool,
}

impl Default for Sources {
    fn default() -> Self {
        Sources {
            routes: Followed::new(|old, new| old.spec == new.spec),
            services: Followed::new(|old, new| old.spec == new.spec),
            // Whoever waits for the next generation waits for it although it says the same.
            policies: Followed::new(|old, new| {
                old.spec == new.spec
                    && old.metadata.uid == new.metadata.uid
                    && old.metadata.generation == new.metadata.generation
            }),
            pods: Followed::new(|old, new| {
                old.metadata.labels == new.metadata.labels
                    && old.metadata.uid == new.metadata.uid
                    && ruled::address(old) == ruled::address(new)
            }),
            network_policies: Followed::new(|old, new| old.spec == new.spec),
            changes: Changes::default(),
        }
    }
}

impl Sources {
    /// What a node without a proxy must know: whether there is any route.
    pub fn follow_routes(&mut self, caches: &Caches) {
        self.routes.start(caches, ListOptions::default());
    }

    pub fn start(&mut self, caches: &Caches, node: &str) {
        self.services.start(caches, ListOptions::default());
        self.policies.start(caches, ListOptions::default());
        self.pods.start(caches, ListOptions::fields(format!("spec.nodeName={node}")));
        self.network_policies.start(caches, ListOptions::default());
    }

    /// Whether all is known. Before that a proxy would let in whom a policy keeps out.
    pub fn are_complete(&self) -> bool {
        let complete = [
            self.routes.is_complete,
            self.services.is_complete,
            self.policies.is_complete,
            self.pods.is_complete,
            self.network_policies.is_complete,
        ];
        complete.into_iter().all(|complete| complete)
    }

    /// What the control plane waits for: each with its uid and its revision.
    pub fn acked_objects(&self) -> impl Iterator<Item = (AckedObject, String, String)> {
        // Those of a server that does not want to know have none.
        let routes = self.routes.known.iter().filter(|(_, route)| !route.spec.revision.is_empty());
        let routes = routes.map(|(name, route)| {
            (AckedObject::Route(name.clone()), route.spec.uid.clone(), route.spec.revision.clone())
        });
        let policies = self.policies.known.iter().map(|(name, policy)| {
            let uid = policy.metadata.uid.clone().unwrap_or_default();
            (AckedObject::Policy(name.clone()), uid, policy::revision(policy))
        });
        routes.chain(policies)
    }

    /// Those that have anything to say about a pod.
    pub fn policies_about(&self, pod: &PodView) -> Vec<(&Name, &MeshPolicy)> {
        let all = self.policies.known.iter().map(|(name, policy)| (name, &**policy));
        all.filter(|(_, policy)| policy::is_about(policy, pod)).collect()
    }

    /// Whether the status of a pod (its uid; namespace and name) says that its proxy runs.
    pub fn has_running_proxy(&self, uid: &str, pod: &str) -> bool {
        let Some((namespace, name)) = pod.split_once('/') else { return false };
        let known = self.pods.known.get(&(namespace.to_owned(), name.to_owned()));
        known.is_some_and(|pod| pod.metadata.uid.as_deref() == Some(uid) && controller::proxy(pod).is_some())
    }

    /// Returns when something has changed, with what follows within a moment. Nothing is lost if it is not waited for to
    /// the end.
    pub async fn changed(&mut self) -> Changes {
        while self.changes == Changes::default() {
            self.take().await;
        }
        let end = Instant::now() + GATHER;
        while timeout_at(end, self.take()).await.is_ok() {}
        std::mem::take(&mut self.changes)
    }

    async fn take(&mut self) {
        let (news, is_shared) = tokio::select! {
            news = self.routes.next() => (news, true),
            news = self.services.next() => (news, true),
            // It is acknowledged by the version that all are told.
            news = self.policies.next() => (news, true),
            news = self.pods.next() => (news, false),
            news = self.network_policies.next() => (news, false),
        };
        self.changes.shared |= is_shared && news == News::Changed;
        self.changes.own |= !is_shared && news == News::Changed || news == News::Absent;
    }
}

/// A pod as its proxy is told.
pub struct PodParts {
    pub view: PodView,
    pub account: Account,
    /// What it belongs to, for metrics.
    pub workload: String,
}

/// By its uid.
pub fn pod(pod: &Pod) -> Option<(&str, PodParts)> {
    let (meta, spec) = (&pod.metadata, pod.spec.as_ref()?);
    let namespace = meta.namespace.clone().unwrap_or_default();
    let account = spec.service_account_name.clone().unwrap_or_else(|| "default".to_owned());
    let parts = PodParts {
        workload: workload(pod),
        account: (namespace.clone(), account),
        view: PodView { namespace, labels: meta.labels.clone().unwrap_or_default() },
    };
    Some((meta.uid.as_deref()?, parts))
}

/// The Deployment of a ReplicaSet's pod, the controller of any other, or the pod itself.
pub fn workload(pod: &Pod) -> String {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let Some(owner) = owners.find(|owner| owner.controller == Some(true)) else {
        return pod.metadata.name.clone().unwrap_or_default();
    };
    let hash = pod.metadata.labels.as_ref().and_then(|labels| labels.get("pod-template-hash"));
    let stem = hash.and_then(|hash| owner.name.strip_suffix(hash)).and_then(|rest| rest.strip_suffix('-'));
    stem.filter(|_| owner.kind == "ReplicaSet").unwrap_or(&owner.name).to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn workload_is_what_users_made() {
        let check = |owner: Value, expected: &str| {
            let object = json!({"metadata": {"name": "p", "labels": {"pod-template-hash": "6d4f"},
                "ownerReferences": [owner]}});
            assert_eq!(workload(&serde_json::from_value(object).unwrap()), expected);
        };
        let owner = |kind: &str, name: &str, controller: bool| json!({"apiVersion": "x", "kind": kind, "name": name, "uid": "u", "controller": controller});
        check(owner("ReplicaSet", "web-6d4f", true), "web");
        check(owner("StatefulSet", "db", true), "db");
        check(owner("ReplicaSet", "bare", true), "bare");
        check(owner("ReplicaSet", "web-6d4f", false), "p");
    }

    #[test]
    fn policies_are_about_pods_of_their_namespace_with_their_labels() {
        let mut sources = Sources::default();
        for (namespace, name, spec) in [
            ("kube-system", "default", json!({"mtls": "Strict"})),
            ("ns", "all", json!({"mtls": "Strict"})),
            ("ns", "web", json!({"mtls": "Strict", "selector": {"matchLabels": {"app": "web"}}})),
            ("other", "all", json!({"mtls": "Strict"})),
        ] {
            let policy = json!({"metadata": {"name": name, "namespace": namespace}, "spec": spec});
            let policy = Arc::new(serde_json::from_value(policy).unwrap());
            sources.policies.known.insert((namespace.to_owned(), name.to_owned()), policy);
        }
        let check = |app: &str, expected: &[&str]| {
            let labels = [("app".to_owned(), app.to_owned())].into();
            let pod = PodView { namespace: "ns".to_owned(), labels };
            let found = sources.policies_about(&pod);
            let names: Vec<&str> = found.iter().map(|((_, name), _)| name.as_str()).collect();
            assert_eq!(names, expected, "{app}");
        };
        check("web", &["default", "all", "web"]);
        check("db", &["default", "all"]);
    }

    #[test]
    fn proxy_runs_as_its_pod_says() {
        let mut sources = Sources::default();
        let mut check = |uid: &str, state: Value, expected: bool| {
            let sidecar = json!({"name": "minik8s-proxy", "image": minik8s_meta::mesh::SIDECAR_IMAGE});
            let status = json!({"name": "minik8s-proxy", "image": "", "imageID": "", "ready": true,
                "restartCount": 0, "started": true, "state": state});
            let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": uid},
                "spec": {"containers": [], "initContainers": [sidecar]},
                "status": {"initContainerStatuses": [status]}});
            let name = ("ns".to_owned(), "p".to_owned());
            sources.pods.known.insert(name, Arc::new(serde_json::from_value(pod).unwrap()));
            assert_eq!(sources.has_running_proxy("u", "ns/p"), expected, "{uid} {state}");
            assert!(!sources.has_running_proxy("u", "ns/other"));
        };
        check("u", json!({"running": {}}), true);
        check("u", json!({"terminated": {"exitCode": 0}}), false);
        check("other", json!({"running": {}}), false);
    }
}
