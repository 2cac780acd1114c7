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
use tracing::{info, warn};

use super::blueprint::identity;
use super::worker::{Mailbox, Message, Worker};
use crate::containerd::{RuntimeEvent, watch_events};
use crate::context::Context;
use crate::housekeeping::remove_leftovers;
use crate::pressure::Eviction;

/// Events tell what happens; this only catches what they missed.
const RELIST: Duration = Duration::from_secs(120);
const RESUBSCRIBE: Duration = Duration::from_millis(500);

pub struct Manager {
    context: Arc<Context>,
    evictions: mpsc::Receiver<Eviction>,
    workers: BTreeMap<String, Mailbox>,
    ended: mpsc::UnboundedReceiver<String>,
    tell_ended: mpsc::UnboundedSender<String>,
    /// UIDs listed since the watch began anew.
    listed: BTreeSet<String>,
    synced: bool,
}

impl Manager {
    pub fn new(context: Arc<Context>, evictions: mpsc::Receiver<Eviction>) -> Self {
        let (tell_ended, ended) = mpsc::unbounded_channel();
        Manager {
            context,
            evictions,
            workers: BTreeMap::new(),
            ended,
            tell_ended,
            listed: BTreeSet::new(),
            synced: false,
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
        loop {
            tokio::select! {
                event = pods.next() => match event {
                    Some(Ok(event)) => self.pod_event(event).await,
                    Some(Err(error)) => warn!(%error, "cannot watch pods"),
                    None => return,
                },
                Some(event) = runtime.recv() => self.runtime_event(event).await,
                Some(uid) = self.ended.recv() => {
                    self.workers.remove(&uid);
                    self.context.pods.remove(&uid);
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
                self.apply(pod).await;
            }
            watcher::Event::InitDone => {
                self.synced = true;
                let vanished: Vec<_> =
                    self.workers.keys().filter(|uid| !self.listed.contains(*uid)).cloned().collect();
                for uid in vanished {
                    self.tell(&uid, Message::Gone).await;
                }
                self.relist().await;
            }
            watcher::Event::Apply(pod) => self.apply(pod).await,
            watcher::Event::Delete(pod) => self.tell(&identity(&pod), Message::Gone).await,
        }
    }

    async fn apply(&mut self, pod: core::Pod) {
        let uid = identity(&pod);
        let pod = Arc::new(pod);
        self.context.pods.insert(pod.clone());
        match self.workers.get(&uid) {
            Some(worker) => worker.send(Message::Pod(pod)).await,
            None => self.spawn(uid, pod),
        }
    }

    fn spawn(&mut self, uid: String, pod: Arc<core::Pod>) {
        let (tell, ended) = (self.tell_ended.clone(), uid.clone());
        let worker = Worker::spawn(self.context.clone(), pod, move || {
            let _ = tell.send(ended);
        });
        self.workers.insert(uid, worker);
    }

    async fn runtime_event(&mut self, event: Option<RuntimeEvent>) {
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
        for uid in uids.into_iter().filter(|uid| !self.workers.contains_key(uid)).collect::<Vec<_>>() {
            info!(uid, "removing a pod that nobody knows");
            match self.context.runtime.pod(&uid).await {
                Ok(record) => {
                    self.spawn(uid.clone(), Arc::new(orphan(&uid, record.namespace, record.name)));
                    self.tell(&uid, Message::Gone).await;
                }
                Err(error) => warn!(%error, uid, "cannot look at a pod that nobody knows"),
            }
        }
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
            if let Ok(events) = watch_events(&socket).await {
                let mut events = std::pin::pin!(events);
                if sender.send(None).await.is_err() {
                    return;
                }
                while let Some(event) = events.next().await {
                    if sender.send(Some(event)).await.is_err() {
                        return;
                    }
                }
            }
            tokio::time::sleep(RESUBSCRIBE).await;
        }
    });
    receiver
}
