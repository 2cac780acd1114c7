//! Gives every pod of this node a worker, and passes on what the API server and the runtime report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::blueprint::identity;
use super::worker::{Mailbox, Message, Origin, Worker};
use crate::containerd::{RuntimeEvent, watch_events};
use crate::context::Context;
use crate::housekeeping::remove_leftovers;
use crate::pressure::Eviction;
use crate::static_pods::{Directory, delete_mirror, keep_mirror, mirrored};

/// Events tell what happens; this only catches what they missed.
const RELIST: Duration = Duration::from_secs(120);
/// How often a runtime that tells of no events is looked at.
const LOOK: Duration = Duration::from_secs(1);
const RESUBSCRIBE: Duration = Duration::from_millis(500);

pub struct Manager {
    context: Arc<Context>,
    evictions: mpsc::Receiver<Eviction>,
    workers: BTreeMap<String, Mailbox>,
    /// Pods from files of this node, by UID.
    statics: BTreeMap<String, Arc<core::Pod>>,
    /// Tasks that make their mirrors.
    mirrors: BTreeMap<String, JoinHandle<()>>,
    ended: mpsc::UnboundedReceiver<String>,
    tell_ended: mpsc::UnboundedSender<String>,
    /// UIDs listed since the watch began anew.
    listed: BTreeSet<String>,
    synced: bool,
    /// Everything that the runtime had at the start has a worker: what comes now is new to it.
    complete: bool,
}

impl Manager {
    pub fn new(context: Arc<Context>, evictions: mpsc::Receiver<Eviction>) -> Self {
        let (tell_ended, ended) = mpsc::unbounded_channel();
        Manager {
            context,
            evictions,
            workers: BTreeMap::new(),
            statics: BTreeMap::new(),
            mirrors: BTreeMap::new(),
            ended,
            tell_ended,
            listed: BTreeSet::new(),
            synced: false,
            complete: false,
        }
    }

    /// Never returns.
    pub async fn run(mut self) {
        let api: Api<core::Pod> = Api::all(self.context.client.clone());
        let own =
            watcher::Config::default().fields(&format!("spec.nodeName={}", self.context.config.node_name));
        let mut pods = std::pin::pin!(watcher(api, own).default_backoff());
        let mut runtime = runtime_events(&self.context);
        let mut relist = tokio::time::interval(RELIST);
        let config = &self.context.config;
        let mut files = Directory::watch(&config.manifests_dir(), &config.node_name);
        self.set_statics(files.read()).await;
        loop {
            tokio::select! {
                () = files.changed() => self.set_statics(files.read()).await,
                event = pods.next() => match event {
                    Some(Ok(event)) => self.pod_event(event).await,
                    Some(Err(error)) => warn!(%error, "cannot watch pods"),
                    None => return,
                },
                Some(event) = runtime.recv() => self.runtime_event(event).await,
                Some(uid) = self.ended.recv() => {
                    self.workers.remove(&uid);
                    self.context.pods.remove(&uid);
                    // A new version of a static pod may have waited for the end of the old one.
                    self.start_statics();
                }
                Some(eviction) = self.evictions.recv() => {
                    self.tell(&eviction.uid, Message::End(eviction.end)).await;
                }
                _ = relist.tick() => self.relist().await,
            }
        }
    }

    async fn pod_event(&mut self, event: watcher::Event<core::Pod>) {
        match event {
            watcher::Event::Init => self.listed.clear(),
            watcher::Event::InitApply(pod) => {
                self.listed.insert(identity(&pod));
                self.apply_or_mirror(pod).await;
            }
            watcher::Event::InitDone => {
                self.synced = true;
                let vanished: Vec<_> =
                    self.workers.keys().filter(|uid| !self.listed.contains(*uid)).cloned().collect();
                for uid in vanished {
                    match self.statics.contains_key(&uid) {
                        true => self.mirror(&uid),
                        false => self.tell(&uid, Message::Gone).await,
                    }
                }
                self.relist().await;
            }
            watcher::Event::Apply(pod) => self.apply_or_mirror(pod).await,
            watcher::Event::Delete(pod) if mirrored(&pod).is_some() => self.mirror(&identity(&pod)),
            watcher::Event::Delete(pod) => self.tell(&identity(&pod), Message::Gone).await,
        }
    }

    async fn apply_or_mirror(&mut self, mut pod: core::Pod) {
        make_small(&mut pod);
        let Some(uid) = mirrored(&pod).cloned() else { return self.apply(pod).await };
        if self.statics.contains_key(&uid) && pod.metadata.deletion_timestamp.is_none() {
            return self.tell(&uid, Message::Mirror(Arc::new(pod))).await;
        }
        // Somebody deletes it, or its file is gone: its containers are not its own, so it can go at once.
        let client = self.context.client.clone();
        tokio::spawn(async move {
            if let Err(error) = delete_mirror(&client, &pod).await {
                warn!(%error, "cannot delete a mirror");
            }
        });
    }

    /// The files changed: ends the pods of those that are gone and starts those that are new.
    async fn set_statics(&mut self, pods: BTreeMap<String, Arc<core::Pod>>) {
        let old = std::mem::replace(&mut self.statics, pods);
        for (uid, pod) in old.into_iter().filter(|(uid, _)| !self.statics.contains_key(uid)) {
            self.tell(&uid, Message::Gone).await;
            if let Some(task) = self.mirrors.remove(&uid) {
                task.abort();
            }
            let context = self.context.clone();
            tokio::spawn(async move { remove_mirror(&context, &pod).await });
        }
        self.start_statics();
    }

    /// Starts those that wait for nothing: two versions of one pod never run at once.
    fn start_statics(&mut self) {
        let running = self.context.pods.all();
        let taken = |pod: &core::Pod| {
            running.iter().any(|other| {
                other.metadata.name == pod.metadata.name && other.metadata.namespace == pod.metadata.namespace
            })
        };
        let new = self.statics.iter().filter(|(uid, pod)| !self.workers.contains_key(*uid) && !taken(pod));
        for (uid, pod) in new.map(|(uid, pod)| (uid.clone(), pod.clone())).collect::<Vec<_>>() {
            info!(pod = pod.metadata.name, "starting a static pod");
            self.context.pods.insert(pod.clone());
            // The same file again is the same pod: the runtime may still have something of it.
            self.spawn(uid.clone(), pod, Origin::File, false);
            self.mirror(&uid);
        }
    }

    /// Sees to it that a static pod has its mirror.
    fn mirror(&mut self, uid: &str) {
        let Some(pod) = self.statics.get(uid) else { return };
        if self.mirrors.get(uid).is_some_and(|task| !task.is_finished()) {
            return;
        }
        let (client, node) = (self.context.client.clone(), self.context.config.node_name.clone());
        let task = tokio::spawn(keep_mirror(client, node, pod.as_ref().clone()));
        self.mirrors.insert(uid.to_owned(), task);
    }

    async fn apply(&mut self, pod: core::Pod) {
        let uid = identity(&pod);
        let pod = Arc::new(pod);
        self.context.pods.insert(pod.clone());
        match self.workers.get(&uid) {
            Some(worker) => worker.send(Message::Pod(pod)).await,
            None => self.spawn(uid, pod, Origin::Api, self.complete),
        }
    }

    fn spawn(&mut self, uid: String, pod: Arc<core::Pod>, origin: Origin, is_new: bool) {
        let (tell, ended) = (self.tell_ended.clone(), uid.clone());
        let worker = Worker::spawn(self.context.clone(), pod, origin, is_new, move || {
            let _ = tell.send(ended);
        });
        self.workers.insert(uid, worker);
    }

    async fn runtime_event(&mut self, event: Option<RuntimeEvent>) {
        self.context.sampler.containers_changed();
        // A new subscription: anything may have happened since the last one.
        let Some(event) = event else {
            for worker in self.workers.values() {
                worker.send(Message::RuntimeChanged).await;
            }
            return;
        };
        let message = match &event {
            // Starts are our own doing: their operation reports them.
            RuntimeEvent::Started { .. } => return,
            RuntimeEvent::Exited { id } => Message::Exited(id.clone()),
            RuntimeEvent::OutOfMemory { .. } => Message::RuntimeChanged,
        };
        match self.context.runtime.pod_uid_of(event.container_id()).await {
            Ok(Some(uid)) => self.tell(&uid, message).await,
            Ok(None) => {}
            Err(error) => warn!(%error, "whose container is this?"),
        }
    }

    async fn tell(&self, uid: &str, message: Message) {
        if let Some(worker) = self.workers.get(uid) {
            worker.send(message).await;
        }
    }

    /// Looks at everything, and at what the runtime has and the API server never heard of.
    async fn relist(&mut self) {
        let uids = match self.context.runtime.pod_uids().await {
            Ok(uids) => uids,
            Err(error) => return warn!(%error, "cannot list pods of the runtime"),
        };
        for worker in self.workers.values() {
            worker.send(Message::RuntimeChanged).await;
        }
        if !self.synced {
            return;
        }
        let known: BTreeSet<_> = uids.iter().chain(self.workers.keys()).cloned().collect();
        let context = self.context.clone();
        // Waited for, so that no pod begins meanwhile and is taken for a leftover.
        let clean = move || remove_leftovers(&context.config, &context.cgroups, &known);
        let _ = tokio::task::spawn_blocking(clean).await;
        let mut complete = true;
        for uid in uids.into_iter().filter(|uid| !self.workers.contains_key(uid)).collect::<Vec<_>>() {
            info!(uid, "removing a pod that nobody knows");
            match self.context.runtime.pod(&uid).await {
                Ok(record) => {
                    let pod = Arc::new(orphan(&uid, record.namespace, record.name));
                    self.spawn(uid.clone(), pod, Origin::Api, false);
                    self.tell(&uid, Message::Gone).await;
                }
                Err(error) => {
                    warn!(%error, uid, "cannot look at a pod that nobody knows");
                    complete = false;
                }
            }
        }
        self.complete |= complete;
    }
}

/// Drops what nobody here reads, and the room for three more that every list is read with.
fn make_small(pod: &mut core::Pod) {
    pod.metadata.managed_fields = None;
    if let Some(spec) = &mut pod.spec {
        spec.containers.shrink_to_fit();
        spec.volumes.iter_mut().for_each(Vec::shrink_to_fit);
        let projected = spec.volumes.iter_mut().flatten().filter_map(|volume| volume.projected.as_mut());
        projected.flat_map(|projected| &mut projected.sources).for_each(Vec::shrink_to_fit);
    }
    if let Some(status) = &mut pod.status {
        status.conditions.iter_mut().for_each(Vec::shrink_to_fit);
        status.container_statuses.iter_mut().for_each(Vec::shrink_to_fit);
    }
}

/// Deletes the mirror of a static pod whose file is gone.
async fn remove_mirror(context: &Context, pod: &core::Pod) {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let api: Api<core::Pod> = Api::namespaced(context.client.clone(), namespace);
    let found = match api.get_opt(pod.metadata.name.as_deref().unwrap_or_default()).await {
        Ok(found) => found.filter(|found| mirrored(found) == pod.metadata.uid.as_ref()),
        Err(error) => return warn!(%error, "cannot look for a mirror"),
    };
    if let Some(found) = found
        && let Err(error) = delete_mirror(&context.client, &found).await
    {
        warn!(%error, "cannot delete a mirror");
    }
}

/// A pod of which only the runtime knows: just enough to end it.
fn orphan(uid: &str, namespace: String, name: String) -> core::Pod {
    core::Pod {
        metadata: ObjectMeta {
            uid: Some(uid.to_owned()),
            namespace: Some(namespace),
            name: Some(name),
            deletion_timestamp: Some(Time(Timestamp::now())),
            deletion_grace_period_seconds: Some(30),
            ..Default::default()
        },
        spec: Some(core::PodSpec::default()),
        status: None,
    }
}

/// containerd's events; `None` after each new subscription.
fn runtime_events(context: &Arc<Context>) -> mpsc::Receiver<Option<RuntimeEvent>> {
    let (sender, receiver) = mpsc::channel(256);
    let socket = context.config.cri_socket();
    tokio::spawn(async move {
        loop {
            let pause = match watch_events(&socket).await {
                Ok(events) => {
                    let mut events = std::pin::pin!(events);
                    if sender.send(None).await.is_err() {
                        return;
                    }
                    while let Some(event) = events.next().await {
                        if sender.send(Some(event)).await.is_err() {
                            return;
                        }
                    }
                    RESUBSCRIBE
                }
                // Another runtime than containerd: nobody tells, so somebody must look.
                Err(status) if status.code() == tonic::Code::Unimplemented => {
                    if sender.send(None).await.is_err() {
                        return;
                    }
                    LOOK
                }
                Err(_) => RESUBSCRIBE,
            };
            tokio::time::sleep(pause).await;
        }
    });
    receiver
}
