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
use minik8s_datadir::RemovalError;
use minik8s_informer::{Lenient, Reported};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::admitted::{
    AdmittedPods, Judgement, PREEMPTED, PREEMPTING, in_order, is_terminal, preempted, rejected,
};
use super::desired_pod::{DesiredPod, identity};
use super::index::make_small;
use super::operation::subject;
use super::port;
use super::predicates::Victims;
use super::runtime_events::runtime_events;
use super::worker::{Birth, Mailbox, Message, Origin, Worker};
use crate::containerd::RuntimeEvent;
use crate::context::{NodeContext, PodContext};
use crate::csi;
use crate::events::{Severity, Subject};
use crate::housekeeping::remove_leftovers;
use crate::pressure::Eviction;
use crate::static_pods::{Directory, SOURCE, delete_mirror, keep_mirror, mirrored};

/// Events tell what happens; this only catches what they missed.
const RELIST: Duration = Duration::from_secs(120);
/// Workers that have ended and not yet been heard: those that come after them wait, and nobody waits for those.
const ENDED: usize = 64;
/// How soon an admission that had to wait is tried again.
const ADMISSION_RETRY: Duration = Duration::from_secs(1);

pub struct Manager {
    context: Arc<PodContext>,
    evictions: mpsc::Receiver<Eviction>,
    workers: BTreeMap<String, Mailbox>,
    admitted: AdmittedPods,
    /// Pods whose admission must be tried again, by UID.
    deferred: BTreeMap<String, Arc<core::Pod>>,
    /// Pods without a worker in the list that is being read.
    arrived: Vec<Arc<core::Pod>>,
    /// Pods from files of this node, by UID.
    statics: BTreeMap<String, Arc<core::Pod>>,
    /// Tasks that make their mirrors.
    mirrors: BTreeMap<String, JoinHandle<()>>,
    ended: mpsc::Receiver<String>,
    tell_ended: mpsc::Sender<String>,
    /// UIDs listed since the watch began anew.
    listed: BTreeSet<String>,
    unreadable: Reported,
    synced: bool,
    /// Everything that the runtime had at the start has a worker: what comes now is new to it.
    complete: bool,
}

impl Manager {
    pub fn new(context: Arc<PodContext>, evictions: mpsc::Receiver<Eviction>) -> Self {
        let (tell_ended, ended) = mpsc::channel(ENDED);
        Manager {
            context,
            evictions,
            workers: BTreeMap::new(),
            admitted: AdmittedPods::default(),
            deferred: BTreeMap::new(),
            arrived: Vec::new(),
            statics: BTreeMap::new(),
            mirrors: BTreeMap::new(),
            ended,
            tell_ended,
            listed: BTreeSet::new(),
            unreadable: Reported::default(),
            synced: false,
            complete: false,
        }
    }

    /// Never returns.
    pub async fn run(mut self) {
        let api: Api<Lenient<core::Pod>> = Api::all(self.context.client.clone());
        let own = watcher::Config::default()
            .fields(&format!("spec.nodeName={}", self.context.node.config.node_name));
        let mut pods = std::pin::pin!(watcher(api, own).default_backoff());
        let mut runtime = runtime_events(&self.context.node.config);
        let mut relist = tokio::time::interval(RELIST);
        let config = &self.context.node.config;
        let mut files = Directory::watch(&config.manifests_dir(), &config.node_name);
        let found = self.context.node.runtime.pod_uids().await;
        self.admitted.found(found.map(|uids| uids.into_iter().collect()).ok());
        self.set_statics(files.read()).await;
        let mut retry = tokio::time::interval(ADMISSION_RETRY);
        retry.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
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
                    self.forget(&uid);
                    // A new version of a static pod may have waited for the end of the old one.
                    self.start_statics().await;
                }
                _ = retry.tick(), if !self.deferred.is_empty() => self.admit_deferred().await,
                Some(eviction) = self.evictions.recv() => {
                    self.tell(&eviction.uid, Message::ForcedTermination(eviction.end)).await;
                }
                _ = relist.tick() => self.relist().await,
            }
        }
    }

    async fn pod_event(&mut self, event: watcher::Event<Lenient<core::Pod>>) {
        match event {
            watcher::Event::Init => {
                self.listed.clear();
                self.arrived.clear();
            }
            watcher::Event::InitApply(pod) => {
                self.listed.insert(identity(&pod.0.object));
                self.apply_whole(pod, true).await;
            }
            watcher::Event::InitDone => {
                self.synced = true;
                let here = self.listed.iter().chain(self.workers.keys()).chain(self.statics.keys());
                let here = here.cloned().collect();
                self.context.devices.release_all_but(&here);
                self.context.devices.dra.retain(&here);
                let mut arrived = std::mem::take(&mut self.arrived);
                in_order(&self.admitted, &mut arrived);
                for pod in arrived {
                    self.admit(pod).await;
                }
                self.context.node.pods.complete();
                let gone: Vec<_> =
                    self.deferred.keys().filter(|uid| !self.listed.contains(*uid)).cloned().collect();
                gone.iter().for_each(|uid| self.forget(uid));
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
            watcher::Event::Apply(pod) => self.apply_whole(pod, false).await,
            watcher::Event::Delete(Lenient(pod)) if mirrored(&pod.object).is_some() => {
                self.mirror(&identity(&pod.object));
            }
            watcher::Event::Delete(Lenient(pod)) => {
                let uid = identity(&pod.object);
                // Whoever bound the next pod has seen this one go: it must not stand in its way until its worker ends.
                self.admitted.remove(&uid);
                if self.workers.contains_key(&uid) {
                    return self.tell(&uid, Message::Gone).await;
                }
                self.forget(&uid);
            }
        }
    }

    /// A pod is run as its whole spec says, or not: what cannot be read may be what keeps it harmless.
    async fn apply_whole(&mut self, Lenient(pod): Lenient<core::Pod>, listed: bool) {
        let meta = &pod.object.metadata;
        self.unreadable.report("Pod", meta, &pod.ignored);
        if pod.ignores("spec") && meta.deletion_timestamp.is_none() {
            let fields: Vec<String> = pod.ignored.iter().map(ToString::to_string).collect();
            let message = format!("this node cannot read the pod's spec: {}", fields.join("; "));
            let subject = Subject {
                kind: "Pod",
                namespace: meta.namespace.clone().unwrap_or_default(),
                name: meta.name.clone().unwrap_or_default(),
                uid: meta.uid.clone().unwrap_or_default(),
                field_path: None,
            };
            return self.context.recorder.record(subject, Severity::Warning, "UnreadableSpec", &message);
        }
        self.apply_or_mirror(pod.object, listed).await;
    }

    async fn apply_or_mirror(&mut self, mut pod: core::Pod, listed: bool) {
        make_small(&mut pod);
        let Some(uid) = mirrored(&pod).cloned() else { return self.apply(pod, listed).await };
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
            let client = self.context.client.clone();
            tokio::spawn(async move { remove_mirror(&client, &pod).await });
        }
        self.start_statics().await;
    }

    /// Starts those that wait for nothing: two versions of one pod never run at once.
    async fn start_statics(&mut self) {
        let running = self.context.node.pods.all();
        let taken = |pod: &core::Pod| {
            running.iter().any(|other| {
                other.metadata.name == pod.metadata.name && other.metadata.namespace == pod.metadata.namespace
            })
        };
        let new = self.statics.iter().filter(|(uid, pod)| !self.workers.contains_key(*uid) && !taken(pod));
        for (uid, pod) in new.map(|(uid, pod)| (uid.clone(), pod.clone())).collect::<Vec<_>>() {
            info!(pod = pod.metadata.name, "starting a static pod");
            self.context.node.pods.insert(pod.clone());
            let judgement = match self.admitted.judge_static(&pod, &self.context) {
                Ok(victims) => Judgement::Admitted(victims),
                Err(rejection) => Judgement::Rejected(rejection),
            };
            // The same file again is the same pod: the runtime may still have something of it.
            self.carry_out(judgement, pod, Origin::File, false).await;
            self.mirror(&uid);
        }
    }

    /// Sees to it that a static pod has its mirror.
    fn mirror(&mut self, uid: &str) {
        let Some(pod) = self.statics.get(uid) else { return };
        if self.mirrors.get(uid).is_some_and(|task| !task.is_finished()) {
            return;
        }
        let (client, node) = (self.context.client.clone(), self.context.node.config.node_name.clone());
        let task = tokio::spawn(keep_mirror(client, node, pod.as_ref().clone()));
        self.mirrors.insert(uid.to_owned(), task);
    }

    async fn apply(&mut self, mut pod: core::Pod, listed: bool) {
        // Only files of this node make static pods, whatever somebody writes on an object.
        if let Some(source) = pod.metadata.annotations.as_mut().and_then(|all| all.get_mut(SOURCE)) {
            *source = "api".to_owned();
        }
        let uid = identity(&pod);
        let pod = Arc::new(pod);
        self.context.node.pods.insert(pod.clone());
        self.admitted.update(&pod);
        if is_terminal(&pod) {
            self.context.devices.release(&uid);
        }
        match self.workers.get(&uid) {
            Some(worker) => worker.send(Message::Pod(pod)).await,
            // Those of a list are judged together.
            None if listed => self.arrived.push(pod),
            None => self.admit(pod).await,
        }
    }

    async fn admit(&mut self, pod: Arc<core::Pod>) {
        let judgement = self.admitted.judge(&pod, &self.context).await;
        self.carry_out(judgement, pod, Origin::Api, self.complete).await;
    }

    async fn admit_deferred(&mut self) {
        let mut pods: Vec<_> = std::mem::take(&mut self.deferred).into_values().collect();
        in_order(&self.admitted, &mut pods);
        for pod in pods {
            self.admit(pod).await;
        }
    }

    async fn carry_out(&mut self, judgement: Judgement, pod: Arc<core::Pod>, origin: Origin, is_new: bool) {
        let uid = identity(&pod);
        let rejected = match judgement {
            Judgement::Deferred => return drop(self.deferred.insert(uid, pod)),
            Judgement::Admitted(victims) => {
                self.preempt(victims).await;
                None
            }
            Judgement::Rejected(rejection) => {
                let subject = subject(&DesiredPod::new(pod.clone()), None);
                let recorder = &self.context.recorder;
                recorder.record(subject, Severity::Warning, &rejection.reason, &rejection.message);
                Some(rejected(&rejection))
            }
        };
        self.deferred.remove(&uid);
        self.spawn(uid, pod, origin, Birth { is_new, rejected });
    }

    /// They end in their own time; what they ask for is no limit, so the critical pod need not wait for that.
    async fn preempt(&mut self, victims: Victims) {
        let pods = self.context.node.pods.all();
        for pod in pods.into_iter().filter(|pod| victims.contains(&identity(pod))) {
            let subject = subject(&DesiredPod::new(pod.clone()), None);
            self.context.recorder.record(subject, Severity::Warning, PREEMPTING, PREEMPTED);
            self.tell(&identity(&pod), Message::ForcedTermination(preempted())).await;
        }
    }

    fn forget(&mut self, uid: &str) {
        self.context.node.pods.remove(uid);
        self.context.devices.release(uid);
        self.admitted.remove(uid);
        self.deferred.remove(uid);
    }

    fn spawn(&mut self, uid: String, pod: Arc<core::Pod>, origin: Origin, birth: Birth) {
        let (tell, ended) = (self.tell_ended.clone(), uid.clone());
        let worker = Worker::spawn(self.context.clone(), pod, origin, birth, async move {
            let _ = tell.send(ended).await;
        });
        self.workers.insert(uid, worker);
    }

    async fn runtime_event(&mut self, event: Option<RuntimeEvent>) {
        self.context.metrics.sampler.containers_changed();
        // A new subscription: anything may have happened since the last one.
        let Some(event) = event else { return self.all_look_again().await };
        let message = match &event {
            // Starts are our own doing: their operation reports them.
            RuntimeEvent::Started { .. } | RuntimeEvent::ExecExited { .. } => return,
            RuntimeEvent::Exited { id } => Message::Exited(id.clone()),
            RuntimeEvent::OutOfMemory { id } => Message::OutOfMemory(id.clone()),
        };
        match self.context.node.runtime.pod_uid_of(event.container_id()).await {
            Ok(Some(uid)) => self.tell(&uid, message).await,
            Ok(None) => {}
            // It is somebody's: an event that nobody hears would be noticed minutes later.
            Err(error) => {
                warn!(%error, "whose container is this?");
                self.all_look_again().await;
            }
        }
    }

    async fn all_look_again(&self) {
        for worker in self.workers.values() {
            worker.send(Message::RuntimeChanged).await;
        }
    }

    async fn tell(&self, uid: &str, message: Message) {
        if let Some(worker) = self.workers.get(uid) {
            worker.send(message).await;
        }
    }

    /// Looks at everything, and at what the runtime has and the API server never heard of.
    async fn relist(&mut self) {
        let uids = match self.context.node.runtime.pod_uids().await {
            Ok(uids) => uids,
            Err(error) => return warn!(%error, "cannot list pods of the runtime"),
        };
        for worker in self.workers.values() {
            worker.send(Message::RuntimeChanged).await;
        }
        if !self.synced {
            return;
        }
        let mut known: BTreeSet<_> = uids.iter().chain(self.workers.keys()).cloned().collect();
        // Before their directories go, which tell of them.
        known.extend(csi::unpublish_leftovers(&self.context.volumes, &known).await);
        let node = self.context.node.clone();
        // Waited for, so that no pod begins meanwhile and is taken for a leftover.
        let clean = move || remove_leftovers(&node.config, &node.cgroups, &known);
        for error in tokio::task::spawn_blocking(clean).await.unwrap_or_default() {
            self.report_leftover(&error);
        }
        if !self.complete {
            // Pods that an agent of before began, or whose rules somebody took away.
            tokio::spawn(guard_ports(self.context.node.clone(), uids.clone()));
        }
        let mut complete = true;
        for uid in uids.into_iter().filter(|uid| !self.workers.contains_key(uid)).collect::<Vec<_>>() {
            info!(uid, "removing a pod that nobody knows");
            match self.context.node.runtime.pod(&uid).await {
                Ok(record) => {
                    let pod = Arc::new(orphan(&uid, record.namespace, record.name));
                    self.spawn(uid.clone(), pod, Origin::Api, Birth::default());
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

    /// What a pod left stays for now, and the next relist tries again; somebody should know.
    fn report_leftover(&self, error: &RemovalError) {
        warn!(%error, "what a pod left behind stays for now");
        let name = self.context.node.config.node_name.clone();
        let node = Subject { kind: "Node", uid: name.clone(), name, ..Subject::default() };
        self.context.recorder.record(node, Severity::Warning, "OrphanedPodCleanupFailed", &error.to_string());
    }
}

async fn guard_ports(context: Arc<NodeContext>, uids: Vec<String>) {
    for uid in uids {
        let Ok(pod) = context.runtime.pod(&uid).await else { continue };
        for sandbox in pod.sandboxes.iter().filter(|sandbox| sandbox.ready) {
            if let Err(error) = port::guard(&context, &sandbox.id, None).await {
                warn!(uid, error, "a pod could send with others' addresses");
            }
        }
    }
}

/// Deletes the mirror of a static pod whose file is gone.
async fn remove_mirror(client: &kube::Client, pod: &core::Pod) {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let api: Api<core::Pod> = Api::namespaced(client.clone(), namespace);
    let found = match api.get_opt(pod.metadata.name.as_deref().unwrap_or_default()).await {
        Ok(found) => found.filter(|found| mirrored(found) == pod.metadata.uid.as_ref()),
        Err(error) => return warn!(%error, "cannot look for a mirror"),
    };
    if let Some(found) = found
        && let Err(error) = delete_mirror(client, &found).await
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
