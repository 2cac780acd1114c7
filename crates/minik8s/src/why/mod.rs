//! `minik8s why pod/NAME`: why a pod is pending, crashing or not ready, and what would help; `minik8s why hpa/NAME`:
//! all that an autoscaler went by; `pvc/NAME`: why a claim has no volume; `function/NAME`: why it has the instances it
//! has; `minik8s why connection POD POD:PORT`: which NetworkPolicy allows or denies it.
//!
//! Reads the cluster through the API and changes nothing. A pending pod is held against every node by the
//! scheduler's own filters, so that the answer is the scheduler's; the rest is read from the pod's status and
//! events.

mod autoscaler;
mod backtest;
mod claim;
mod connection;
mod containers;
mod pending;
pub mod placement;

use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::resource::v1::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass};
use kube::Client;
use kube::api::{Api, ListParams};
use minik8s_cli::GlobalFlags;
use minik8s_scheduler::snapshot::{PodInfo, Snapshot};

use crate::{kubeconfig, output};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s why pod/web -n default
  minik8s why hpa/web
  minik8s why hpa/web --backtest target=35,max=10,down-window=60
  minik8s why pvc/data
  minik8s why function/hello
  minik8s why connection client shop/web:80")]
pub struct WhyFlags {
    /// What to explain
    #[arg(value_name = "pod/NAME|hpa/NAME|pvc/NAME|function/NAME|connection")]
    object: String,
    /// Of a connection: who connects and to whom, as POD, NAMESPACE/POD or an address, the second with :PORT and, unless it
    /// is TCP, /PROTOCOL
    #[arg(value_name = "FROM TO:PORT", num_args = 0..=2)]
    ends: Vec<String>,
    /// Of an autoscaler: what it would have decided over the last hour with other settings: target, min, max, up-window and
    /// down-window, or a JSON merge patch of its spec
    #[arg(long, value_name = "KEY=N,...|JSON", num_args = 0..=1, default_missing_value = "")]
    backtest: Option<String>,
}

pub async fn run(flags: WhyFlags, global: &GlobalFlags) -> anyhow::Result<()> {
    let subject = match (flags.object.as_str(), flags.ends.as_slice()) {
        ("connection", [from, to]) => Subject::Connection(from, to),
        ("connection", _) => bail!(
            "name both ends of the connection, e.g. `minik8s why connection client web:80` or `... client shop/web:53/UDP`"
        ),
        (object, []) => subject(object)?,
        (object, [more, ..]) => bail!("one object at a time: {object} or {more}"),
    };
    let (client, namespace) = kubeconfig::client(global).await?;
    if let Some(settings) = &flags.backtest {
        let Subject::Autoscaler(name) = subject else {
            bail!("--backtest is for autoscalers: `minik8s why hpa/NAME --backtest max=5`");
        };
        return backtest::run(&client, &namespace, name, settings).await;
    }
    match subject {
        Subject::Connection(from, to) => connection::run(&client, &namespace, from, to).await,
        Subject::Function(name) => crate::function::explain(&client, &namespace, name).await,
        Subject::Autoscaler(name) => autoscaler::run(&client, &namespace, name).await,
        Subject::Claim(name) => claim::run(&client, &namespace, name).await,
        Subject::Pod(name) => pod(client, &namespace, name).await,
    }
}

async fn pod(client: Client, namespace: &str, name: &str) -> anyhow::Result<()> {
    let pod: Option<Pod> = Api::namespaced(client.clone(), namespace).get_opt(name).await?;
    let pod = pod.with_context(|| format!("there is no pod {name} in namespace {namespace}"))?;
    let assigned = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).map(str::to_owned);
    match assigned.filter(|node| !node.is_empty()) {
        None => {
            let mut snapshot = snapshot(&client).await?;
            let claims = pod.spec.as_ref().and_then(|spec| spec.resource_claims.as_ref());
            if claims.is_some_and(|claims| !claims.is_empty()) {
                add_devices(&client, &mut snapshot).await?;
            }
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
            output::words(&containers::explain(&pod, node.as_ref(), &events))?;
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq)]
enum Subject<'a> {
    Pod(&'a str),
    Autoscaler(&'a str),
    Claim(&'a str),
    Function(&'a str),
    Connection(&'a str, &'a str),
}

/// `pod/web`, `pods/web`, `po/web` or just `web`; `hpa/web`, `pvc/web` and their longer names.
fn subject(object: &str) -> anyhow::Result<Subject<'_>> {
    match object.split_once('/') {
        None if !object.is_empty() => Ok(Subject::Pod(object)),
        Some(("pod" | "pods" | "po", name)) if !name.is_empty() => Ok(Subject::Pod(name)),
        Some(("hpa" | "horizontalpodautoscaler" | "horizontalpodautoscalers", name)) if !name.is_empty() => {
            Ok(Subject::Autoscaler(name))
        }
        Some(("pvc" | "persistentvolumeclaim" | "persistentvolumeclaims", name)) if !name.is_empty() => {
            Ok(Subject::Claim(name))
        }
        Some(("function" | "functions" | "fn", name)) if !name.is_empty() => Ok(Subject::Function(name)),
        _ => bail!(
            "cannot explain {object:?}: name a pod, an autoscaler, a claim, a function or a connection, e.g. \
             `minik8s why pod/web`, `hpa/web`, `pvc/data`, `function/hello` or `connection client web:80`"
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
    let csi = &mut snapshot.volumes.csi;
    all::<CSINode>(client).await?.into_iter().for_each(|node| csi.set_node(None, Some(node)));
    all::<CSIDriver>(client).await?.into_iter().for_each(|driver| csi.set_driver(None, Some(driver)));
    all::<CSIStorageCapacity>(client).await?.into_iter().for_each(|told| csi.set_capacity(None, Some(told)));
    for pod in all::<Pod>(client).await? {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        if let Some(node) = node.filter(|_| !matches!(phase, Some("Succeeded" | "Failed"))) {
            snapshot.place(PodInfo::new(pod), &node);
        }
    }
    Ok(snapshot)
}

/// What drivers offer and claims have of it, for a pod that claims some.
async fn add_devices(client: &Client, snapshot: &mut Snapshot) -> anyhow::Result<()> {
    let devices = &mut snapshot.devices;
    all::<ResourceClaim>(client).await?.into_iter().for_each(|claim| devices.set_claim(claim));
    all::<ResourceSlice>(client).await?.iter().for_each(|slice| devices.set_slice(slice));
    all::<DeviceClass>(client).await?.into_iter().for_each(|class| devices.set_class(class));
    all::<DeviceTaintRule>(client).await?.into_iter().for_each(|rule| devices.set_rule(rule));
    Ok(())
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
        for good in ["pvc/web", "persistentvolumeclaim/web", "persistentvolumeclaims/web"] {
            assert_eq!(subject(good).ok(), Some(Subject::Claim("web")), "{good}");
        }
        for bad in ["", "pod/", "hpa/", "service/web"] {
            assert!(subject(bad).is_err(), "{bad}");
        }
    }
}
