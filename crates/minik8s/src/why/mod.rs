//! `minik8s why pod/NAME`: why a pod is pending, crashing or not ready, and what would help; `minik8s why hpa/NAME`:
//! all that an autoscaler went by.
//!
//! Reads the cluster through the API and changes nothing. A pending pod is held against every node by the
//! scheduler's own filters, so that the answer is the scheduler's; the rest is read from the pod's status and
//! events.

mod autoscaler;
mod containers;
mod pending;

use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Client;
use kube::api::{Api, ListParams};
use minik8s_scheduler::snapshot::{PodInfo, Snapshot};

use crate::kubeconfig::{self, ClusterFlags};
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s why pod/web -n default
  minik8s why hpa/web")]
pub struct WhyFlags {
    /// What to explain
    #[arg(value_name = "pod/NAME|hpa/NAME")]
    object: String,
    /// Its namespace; the kubeconfig's by default
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    #[command(flatten)]
    cluster: ClusterFlags,
}

pub async fn run(flags: WhyFlags) -> anyhow::Result<()> {
    let subject = subject(&flags.object)?;
    let (client, default_namespace) = kubeconfig::client(&flags.cluster).await?;
    let namespace = flags.namespace.unwrap_or(default_namespace);
    match subject {
        Subject::Autoscaler(name) => autoscaler::run(&client, &namespace, name).await,
        Subject::Pod(name) => pod(client, &namespace, name).await,
    }
}

async fn pod(client: Client, namespace: &str, name: &str) -> anyhow::Result<()> {
    let pod: Option<Pod> = Api::namespaced(client.clone(), namespace).get_opt(name).await?;
    let pod = pod.with_context(|| format!("there is no pod {name} in namespace {namespace}"))?;
    let assigned = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).map(str::to_owned);
    match assigned.filter(|node| !node.is_empty()) {
        None => {
            let snapshot = snapshot(&client).await?;
            output::text(pending::explain(&PodInfo::new(Arc::new(pod)), &snapshot))?;
        }
        Some(node) => {
            let node: Option<Node> = Api::all(client.clone()).get_opt(&node).await?;
            let about =
                ListParams::default().fields(&format!("involvedObject.kind=Pod,involvedObject.name={name}"));
            let events: Api<Event> = Api::namespaced(client, namespace);
            let mut events = events.list(&about).await?.items;
            let uid = pod.metadata.uid.clone();
            events.retain(|event| event.involved_object.uid == uid);
            output::text(containers::explain(&pod, node.as_ref(), &events))?;
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq)]
enum Subject<'a> {
    Pod(&'a str),
    Autoscaler(&'a str),
}

/// `pod/web`, `pods/web`, `po/web` or just `web`; `hpa/web` and its longer names.
fn subject(object: &str) -> anyhow::Result<Subject<'_>> {
    match object.split_once('/') {
        None if !object.is_empty() => Ok(Subject::Pod(object)),
        Some(("pod" | "pods" | "po", name)) if !name.is_empty() => Ok(Subject::Pod(name)),
        Some(("hpa" | "horizontalpodautoscaler" | "horizontalpodautoscalers", name)) if !name.is_empty() => {
            Ok(Subject::Autoscaler(name))
        }
        _ => bail!(
            "cannot explain {object:?}: name a pod or an autoscaler, e.g. `minik8s why pod/web` or `hpa/web`"
        ),
    }
}

/// The cluster as the scheduler sees it.
async fn snapshot(client: &Client) -> anyhow::Result<Snapshot> {
    let mut snapshot = Snapshot::default();
    for node in all::<Node>(client).await? {
        snapshot.set_node(node);
    }
    for namespace in all::<Namespace>(client).await? {
        snapshot.set_namespace(namespace);
    }
    for claim in all::<PersistentVolumeClaim>(client).await? {
        snapshot.volumes.set_claim(claim);
    }
    for volume in all::<PersistentVolume>(client).await? {
        snapshot.volumes.set_volume(volume);
    }
    for class in all::<StorageClass>(client).await? {
        snapshot.volumes.set_class(class);
    }
    for pod in all::<Pod>(client).await? {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        if let Some(node) = node.filter(|_| !matches!(phase, Some("Succeeded" | "Failed"))) {
            snapshot.place(PodInfo::new(pod), &node);
        }
    }
    Ok(snapshot)
}

async fn all<K>(client: &Client) -> anyhow::Result<Vec<Arc<K>>>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let list = Api::<K>::all(client.clone()).list(&ListParams::default()).await;
    let list = list.with_context(|| format!("cannot list {}", K::plural(&())))?;
    Ok(list.items.into_iter().map(Arc::new).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["web", "pod/web", "pods/web", "po/web"] {
            assert_eq!(subject(good).ok(), Some(Subject::Pod("web")), "{good}");
        }
        for good in ["hpa/web", "horizontalpodautoscaler/web", "horizontalpodautoscalers/web"] {
            assert_eq!(subject(good).ok(), Some(Subject::Autoscaler("web")), "{good}");
        }
        for bad in ["", "pod/", "hpa/", "service/web"] {
            assert!(subject(bad).is_err(), "{bad}");
        }
    }
}
