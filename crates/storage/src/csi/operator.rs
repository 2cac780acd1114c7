//! Does what is due, each thing by itself: a driver that hangs or fails keeps nobody else waiting.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{
    CSIDriver, CSINode, StorageClass, VolumeAttachment, VolumeAttributesClass,
};
use kube::Client;
use minik8s_csi::controller::{Capabilities, GetCapabilities};
use minik8s_meta::snapshot::{VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent};
use minik8s_runtime::{Action, Backoff, Caches, Executor, Key, Object, Plan, Retries, Target};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::due::{Work, due, nodes_for, nodes_reaching};
use super::provision::COMPONENT;
use super::remote::{Remote, RemoteError};
use crate::annotation::finalizers_patch;

const RETRY: Backoff = Backoff::millis(500, 60_000);
/// A safety net: changes tell what is due.
const AGAIN: Duration = Duration::from_secs(60);
const CAPABILITIES_TTL: Duration = Duration::from_secs(60);

pub struct Operator {
    pub client: Client,
    pub caches: Arc<Caches>,
    pub executor: Executor,
    /// What drivers have said that they can do, by their names, and when.
    can: Mutex<HashMap<String, (Instant, Capabilities)>>,
}

type Name = (&'static str, Key);

/// Until `stop`. Works only while this server leads.
pub async fn operate(
    client: Client,
    caches: Arc<Caches>,
    leads: watch::Receiver<bool>,
    stop: CancellationToken,
) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = run(client, caches, leads) => {}
    }
}

async fn run(client: Client, caches: Arc<Caches>, mut leads: watch::Receiver<bool>) {
    let (told, mut changes) = watch::channel(0_u64);
    follow(&caches, &Arc::new(told)).await;
    let executor = Executor::new(client.clone(), caches.clone(), caches.recorder());
    let operator = Arc::new(Operator { client, caches, executor, can: Mutex::default() });
    let mut running: JoinSet<(Name, bool)> = JoinSet::new();
    let mut busy: HashSet<Name> = HashSet::new();
    let mut failed: HashMap<Name, (Instant, Retries)> = HashMap::new();
    loop {
        let now = Instant::now();
        if *leads.borrow_and_update() {
            changes.borrow_and_update();
            let works = due(&operator.caches);
            failed.retain(|name, _| works.iter().any(|work| work.key() == *name));
            for work in works {
                let name = work.key();
                let waits = failed.get(&name).is_some_and(|(until, _)| *until > now);
                if waits || !busy.insert(name.clone()) {
                    continue;
                }
                let operator = operator.clone();
                running.spawn(async move { (name, operator.carry_out(work).await) });
            }
        }
        // Of the same moment as above: what falls due meanwhile is not passed over.
        let next = failed.values().map(|(until, _)| *until).filter(|until| *until > now).min();
        let next = next.unwrap_or(now + AGAIN);
        tokio::select! {
            Some(done) = running.join_next() => {
                let Ok((name, is_done)) = done else { continue };
                busy.remove(&name);
                if is_done {
                    failed.remove(&name);
                } else {
                    let (until, retries) = failed.entry(name).or_insert_with(|| (Instant::now(), RETRY.retries()));
                    *until = Instant::now() + retries.failed();
                }
            }
            Ok(()) = changes.changed() => {}
            // Nobody tells of changes where there is one server, which leads for ever.
            Ok(()) = leads.changed() => {}
            () = tokio::time::sleep_until(next) => {}
        }
    }
}

/// Every change of what matters wakes the operator; it begins when all is known.
async fn follow(caches: &Arc<Caches>, told: &Arc<watch::Sender<u64>>) {
    async fn one<K: Object>(caches: &Arc<Caches>, told: &Arc<watch::Sender<u64>>) {
        let cache = caches.of::<K>();
        let told = told.clone();
        cache.listen(Box::new(move |_, _| told.send_modify(|count| *count += 1)));
        cache.wait_synced().await;
    }
    one::<CSIDriver>(caches, told).await;
    one::<CSINode>(caches, told).await;
    one::<StorageClass>(caches, told).await;
    one::<PersistentVolumeClaim>(caches, told).await;
    one::<PersistentVolume>(caches, told).await;
    one::<VolumeAttachment>(caches, told).await;
    one::<VolumeSnapshotContent>(caches, told).await;
    one::<VolumeAttributesClass>(caches, told).await;
    caches.of::<VolumeSnapshotClass>().wait_synced().await;
    caches.of::<VolumeSnapshot>().wait_synced().await;
    caches.of::<Node>().wait_synced().await;
}

impl Operator {
    /// False if it is to be tried again.
    async fn carry_out(&self, work: Work) -> bool {
        let name = work.key();
        let done = match work {
            Work::Provision { claim, class } => self.provision(&claim, &class).await,
            Work::Settle { claim, class, is_written } => {
                self.settle(&claim, class.as_deref(), is_written).await
            }
            Work::Expand { claim, volume, is_allowed } => self.expand(&claim, &volume, is_allowed).await,
            Work::Modify { claim, volume } => self.modify(&claim, &volume).await,
            Work::Delete { volume } => self.delete(&volume).await,
            Work::LetGo { volume } => self.let_go(&volume).await,
            Work::Attach { attachment, volume } => self.attach(&attachment, &volume).await,
            Work::Detach { attachment, volume } => self.detach(&attachment, volume.as_deref()).await,
            Work::Snapshot { content } => self.snapshot(&content).await,
            Work::DeleteSnapshot { content } => self.delete_snapshot(&content).await,
        };
        if let Err(error) = &done {
            debug!(object = ?name, %error, "a call of a CSI driver failed");
        }
        done.is_ok()
    }

    /// The driver, to be asked about a volume that is there, where it can be reached.
    pub fn remote_of(&self, driver: &str, volume: &PersistentVolume) -> Result<Remote, RemoteError> {
        let (csi_nodes, nodes) = (self.caches.of::<CSINode>().list(), self.caches.of::<Node>().list());
        let nodes = nodes_reaching(driver, &csi_nodes, &nodes, volume);
        let is_bound_to_nodes = volume.spec.as_ref().is_some_and(|spec| spec.node_affinity.is_some());
        if nodes.is_empty() && is_bound_to_nodes {
            let why = format!("no node that can reach the volume and has the driver {driver} is ready");
            return Err(RemoteError::Wish(why));
        }
        Ok(Remote { client: self.client.clone(), driver: driver.to_owned(), nodes })
    }

    /// The driver, to be asked where a node is preferred.
    pub fn remote(&self, driver: &str, prefers: impl Fn(&Node) -> bool) -> Remote {
        let (csi_nodes, nodes) = (self.caches.of::<CSINode>().list(), self.caches.of::<Node>().list());
        Remote {
            client: self.client.clone(),
            driver: driver.to_owned(),
            nodes: nodes_for(driver, &csi_nodes, &nodes, prefers),
        }
    }

    /// What a driver's controller can do. It is asked once a minute at most: that changes only when it is replaced.
    pub async fn capabilities(&self, remote: &Remote) -> Result<Capabilities, RemoteError> {
        let known = self.can.lock().get(&remote.driver).cloned();
        if let Some((_, can)) = known.filter(|(asked, _)| asked.elapsed() < CAPABILITIES_TTL) {
            return Ok(can);
        }
        let can = remote.call(&GetCapabilities {}).await?;
        self.can.lock().insert(remote.driver.clone(), (Instant::now(), can.clone()));
        Ok(can)
    }

    pub async fn patch<K: Object>(&self, object: &K, patch: Value) -> Result<(), RemoteError> {
        self.write(Action::patch(object, patch)).await
    }

    /// Fails if anybody has changed the object meanwhile.
    pub async fn patch_finalizers<K: Object>(
        &self,
        object: &K,
        add: &[&str],
        remove: &[&str],
    ) -> Result<(), RemoteError> {
        match finalizers_patch(object.meta(), add, remove) {
            Some(patch) => self.patch_unchanged(object, patch).await,
            None => Ok(()),
        }
    }

    /// Fails if anybody has changed the object meanwhile.
    pub async fn patch_unchanged<K: Object>(&self, object: &K, patch: Value) -> Result<(), RemoteError> {
        self.write(Action::Patch { target: Target::unchanged(object), subresource: None, patch }).await
    }

    pub async fn patch_status<K: Object>(&self, object: &K, status: Value) -> Result<(), RemoteError> {
        self.write(Action::patch_status(object, status)).await
    }

    /// Fails if anybody has changed the object meanwhile.
    pub async fn patch_status_unchanged<K: Object>(
        &self,
        object: &K,
        status: Value,
    ) -> Result<(), RemoteError> {
        let (target, patch) = (Target::unchanged(object), json!({"status": status}));
        self.write(Action::Patch { target, subresource: Some("status"), patch }).await
    }

    async fn write(&self, action: Action) -> Result<(), RemoteError> {
        let plan = Plan { actions: vec![action], ..Plan::default() };
        Ok(self.executor.run(COMPONENT, plan).await?)
    }
}
