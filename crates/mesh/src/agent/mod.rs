//! The mesh's part of a node's agent: sets the rules of pods' network namespaces, and feeds their proxies.
//!
//! It follows what the control plane has made of VirtualServices, Services and MeshPolicies from the first pod with a proxy
//! on, and hands all of it, as a whole, to every proxy of the node whenever something changes; and each proxy by what its
//! own pod proves who it is. It says which revisions all proxies have applied, and it routes nothing itself: while it is
//! away, proxies go on with what they know.

mod ack_queue;
mod ack_writer;
mod acks;
mod config_file;
mod engine;
mod feature;
mod followed;
mod identities;
mod metrics;
mod proxies;
mod routed;
mod ruled;
mod rules;
mod sources;
mod taps;
mod tell;
mod updates;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Client;
use minik8s_informer::ApiAccess;
use minik8s_meta::mesh::{MeshProgressSpec, MeshRouteSpec, MeshRouted, MeshServiceSpec, MeshStep};
use minik8s_proxy::LedServices;
use minik8s_telemetry::Tracer;
use serde::Serialize;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{sleep_until, timeout};
use tracing::{debug, warn};

use self::ack_writer::AckWriter;
use self::acks::{Applied, PodsByPolicy, Reached};
use self::engine::Engine;
pub use self::engine::tear_down;
pub use self::feature::MeshAgent;
use self::followed::Name;
use self::identities::Identities;
use self::metrics::Metrics;
use self::proxies::{Encoded, Feeds, Proxy};
use self::routed::Routing;
pub use self::sources::workload;
use self::sources::{Changes, Sources};
use self::tell::{progress_of, tell};
use self::updates::{ProxyState, Updates};
use crate::policy;
use crate::program;
use crate::protocol::Own;
use crate::tap::TapFilter;

/// Something about a pod, and whom to tell that it is done, or why not.
pub type Request = (MeshStep, oneshot::Sender<Result<(), String>>);
/// A pod (by its UID) whose requests somebody wants to see, which of them (as in a query), where to, and whom to tell that
/// it has begun, or why not.
pub type TapRequest = (String, String, mpsc::Sender<Vec<u8>>, oneshot::Sender<Result<(), String>>);

/// What others ask of the agent of the mesh.
#[derive(Debug)]
pub struct Requests {
    pub steps: mpsc::Receiver<Request>,
    pub taps: mpsc::Receiver<TapRequest>,
}

/// What the agent of the mesh is part of.
#[derive(Debug, Clone)]
pub struct Node {
    pub name: String,
    /// The cluster's domain, in which identities are.
    pub domain: String,
    pub pods_dir: PathBuf,
    /// Tells what this node has in the kernel from what others on the machine have.
    pub instance: String,
    /// Who tells of requests, if somebody collects them.
    pub tracer: Option<Tracer>,
    /// Services that the node's own proxy leads, for others of the agent.
    pub led: watch::Sender<Arc<LedServices>>,
    /// What its proxies lead to, for pods that end.
    pub routed: watch::Sender<MeshRouted>,
}

/// The folder below a pod's own that its proxy has mounted.
pub const FOLDER: &str = "mesh";
/// For a proxy that was started to route by what is known.
const START: Duration = Duration::from_secs(20);
/// Until the control plane is told again what it could not be told.
const RETRY: Duration = Duration::from_secs(2);

/// Never returns. `requests` outlives a run, so that one that failed can be started anew.
pub async fn run(access: ApiAccess, node: Node, metrics: Arc<Metrics>, requests: &mut Requests) {
    let ApiAccess { client, caches, .. } = access;
    // What a former agent has left leads to nobody.
    tear_down(&node.instance).await;
    node.led.send_replace(Arc::default());
    let (identities, mut issued) = Identities::new(client.clone(), node.domain.clone());
    let mut agent = Agent {
        acks: AckWriter::new(client.clone(), node.name.clone()),
        about: Arc::default(),
        client,
        config: watch::Sender::default(),
        progress: Arc::default(),
        metrics,
        identities,
        proxies: BTreeMap::new(),
        updates: Updates::default(),
        routing: Routing::new(node.routed.clone()),
        progress_told: BTreeMap::new(),
        engine: None,
        unled: BTreeSet::new(),
        engine_due: None,
        begun: None,
        program: program::identity().ok(),
        node,
    };
    for (uid, dir, pod) in proxies::known(&agent.node.pods_dir, FOLDER) {
        if let Err(error) = agent.listen(uid, &dir, &pod) {
            warn!(pod, %error, "the proxy of a pod cannot be told of changes");
        }
    }
    let mut sources = Sources::default();
    // When to look again although nothing happens.
    let mut again: Option<Instant> = None;
    loop {
        sources.follow_routes(&caches);
        if !agent.proxies.is_empty() || !sources.routes.known.is_empty() {
            sources.start(&caches, &agent.node.name);
        }
        let pause = async {
            match again {
                Some(at) => sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some((uid, query, lines, done)) = requests.taps.recv() => {
                let _ = done.send(agent.tap(&uid, &query, lines));
                continue;
            }
            request = requests.steps.recv() => match request {
                Some((step, done)) => {
                    agent.carry_out(step, done);
                    agent.tell_each(&sources);
                }
                None => return,
            },
            changes = sources.changed() => {
                agent.publish(&sources, changes);
                agent.serve_others(&sources).await;
            }
            Some(one) = issued.recv() => {
                agent.identities.take(one);
                agent.tell_each(&sources);
            }
            Some(written) = agent.acks.written() => {
                // Once all is written, it is compared with what holds by then.
                if agent.acks.take(written) {
                    continue;
                }
            }
            () = agent.progress.notified() => {}
            () = pause => {}
        }
        if agent.engine_due.is_some_and(|due| due <= Instant::now()) {
            agent.serve_others(&sources).await;
        }
        agent.routing.applied(agent.proxies.values().filter_map(|one| *one.applied.borrow()).min());
        again = agent.report(&sources).await.map(|left| Instant::now() + left);
    }
}

struct Agent {
    client: Client,
    node: Node,
    config: watch::Sender<Arc<Encoded>>,
    progress: Arc<Notify>,
    metrics: Arc<Metrics>,
    identities: Identities,
    /// By the pod's uid.
    proxies: BTreeMap<String, Proxy>,
    acks: AckWriter,
    /// Which of its pods policies are about.
    about: Arc<PodsByPolicy>,
    updates: Updates,
    routing: Routing,
    /// Of RollingUpdates.
    progress_told: BTreeMap<Name, MeshProgressSpec>,
    /// From the first route on.
    engine: Option<Engine>,
    /// Routes that the kernel does not lead to it as it should, and when that is tried again.
    unled: BTreeSet<Name>,
    engine_due: Option<Instant>,
    /// When proxies were first told anything.
    begun: Option<Instant>,
    /// What proxies are to run, too.
    program: Option<String>,
}

/// What all proxies are told, without its end.
#[derive(Serialize)]
struct SharedPart<'a> {
    version: u64,
    routes: Vec<&'a MeshRouteSpec>,
    services: Vec<&'a MeshServiceSpec>,
}

impl Agent {
    fn carry_out(&mut self, step: MeshStep, done: oneshot::Sender<Result<(), String>>) {
        match step {
            MeshStep::Start { uid, pod, dir, netns } => {
                let noted = proxies::note_network(&dir, &netns);
                if let Err(error) = noted.and_then(|()| self.listen(uid, &dir, &pod)) {
                    let _ = done.send(Err(format!("{}: {error}", dir.display())));
                    return;
                }
                tokio::spawn(async move { done.send(rules::apply(&netns).await) });
            }
            MeshStep::Ready { uid } => {
                let Some(proxy) = self.proxies.get(&uid) else {
                    let _ = done.send(Err("nobody feeds it".to_owned()));
                    return;
                };
                let mut applied = proxy.applied.clone();
                tokio::spawn(async move {
                    let ready = timeout(START, applied.wait_for(Option::is_some)).await;
                    let late = || format!("it has not taken its routes within {} s", START.as_secs());
                    let _ = done.send(ready.map_err(|_| late()).map(drop));
                });
            }
            MeshStep::End { uid } => {
                if let Some(proxy) = self.proxies.remove(&uid) {
                    self.metrics.forget(&proxy.pod);
                }
                let _ = done.send(Ok(()));
            }
        }
    }

    fn tap(&self, uid: &str, query: &str, lines: mpsc::Sender<Vec<u8>>) -> Result<(), String> {
        let proxy = self.proxies.get(uid).ok_or("the pod has no proxy on this node")?;
        proxy.taps.open(TapFilter::parse(query)?, lines)
    }

    fn listen(&mut self, uid: String, dir: &Path, pod: &str) -> std::io::Result<()> {
        // The former sockets close before the new ones are made.
        self.proxies.remove(&uid);
        let feeds = Feeds {
            config: self.config.subscribe(),
            progress: self.progress.clone(),
            metrics: self.metrics.clone(),
            tracer: self.node.tracer.clone(),
        };
        self.proxies.insert(uid, Proxy::listen(dir, pod, feeds)?);
        Ok(())
    }

    /// What each proxy alone is told comes first: a proxy that is told the rest must know who may come in.
    fn publish(&mut self, sources: &Sources, changes: Changes) {
        let is_first = self.config.borrow().version == 0;
        let shared = (sources.are_complete() && (changes.shared || is_first)).then(|| self.encode(sources));
        self.tell_each(sources);
        if let Some(shared) = shared {
            debug!(version = shared.version, "proxies are told");
            self.config.send_replace(Arc::new(shared));
        }
    }

    /// What all proxies are to be told, as a new version.
    fn encode(&mut self, sources: &Sources) -> Encoded {
        let version = self.config.borrow().version + 1;
        let now = Instant::now();
        self.begun.get_or_insert(now);
        let routes = &sources.routes.known;
        self.acks.want(sources.acked_objects(), version, now);
        let metrics = &self.metrics;
        self.routing.tell(&sources.services.known, routes, version);
        self.updates.take(&sources.services.known, routes, version, |service| metrics.totals(service));
        let part = SharedPart {
            version,
            routes: routes.values().map(|route| &route.spec).collect(),
            services: sources.services.known.values().map(|service| &service.spec).collect(),
        };
        let mut shared = serde_json::to_vec(&part).unwrap_or_default();
        shared.pop();
        Encoded { version, shared }
    }

    /// Services with rules, for whoever has no proxy.
    async fn serve_others(&mut self, sources: &Sources) {
        let routes = &sources.routes.known;
        (self.unled, self.engine_due) = (BTreeSet::new(), None);
        if !sources.are_complete() || routes.is_empty() && self.engine.is_none() {
            return;
        }
        if self.engine.is_none() {
            match Engine::start(&self.node.instance).await {
                Ok(engine) => {
                    self.metrics.count_of_node(&self.node.name, engine.shared());
                    self.engine = Some(engine);
                }
                Err(error) => warn!(%error, "clients without a proxy do not route by VirtualServices"),
            }
        }
        let policies = sources.network_policies.known.values().map(AsRef::as_ref);
        let pods = sources.pods.known.values().map(AsRef::as_ref);
        let specs: Vec<&MeshRouteSpec> = routes.values().map(|route| &route.spec).collect();
        let ruled = ruled::ruled(specs.iter().copied(), policies, pods);
        if let Some(engine) = &mut self.engine {
            engine.apply(&specs, &ruled).await;
            let led = engine.led(&specs);
            self.node.led.send_if_modified(|known| {
                let is_new = **known != led;
                *known = Arc::new(led);
                is_new
            });
        }
        self.unled = ruled::unled(routes, &ruled, self.engine.as_ref().and_then(Engine::applied));
        self.engine_due = (!self.unled.is_empty()).then(|| Instant::now() + RETRY);
    }

    /// By its own pod: who it is, and who may call it. Certificates are asked for as soon as its pod is known, and it is
    /// told when all policies are.
    fn tell_each(&mut self, sources: &Sources) {
        let pods: BTreeMap<&str, _> =
            sources.pods.known.values().filter_map(|pod| sources::pod(pod)).collect();
        let accounts: BTreeSet<_> =
            self.proxies.keys().filter_map(|uid| Some(pods.get(uid.as_str())?.account.clone())).collect();
        self.identities.want(&accounts);
        let mut about = PodsByPolicy::new();
        for (uid, proxy) in &self.proxies {
            let Some(pod) = pods.get(uid.as_str()) else { continue };
            self.metrics.name(&proxy.pod, &pod.workload);
            if !sources.are_complete() {
                continue;
            }
            let policies = sources.policies_about(&pod.view);
            for (policy, _) in &policies {
                about.entry((*policy).clone()).or_default().insert(proxy.pod.clone());
            }
            let own = Own {
                credentials: self.identities.get(&pod.account),
                inbound: policy::compile(policies.iter().map(|(_, policy)| *policy), &pod.view),
                draining: self.updates.asks(&proxy.pod),
                namespace: pod.view.namespace.clone(),
                trace_ratio: self.node.tracer.as_ref().map(Tracer::ratio),
                program: self.program.clone(),
                taps: Vec::new(),
            };
            proxy.own.send_if_modified(|known| {
                let own = Some(own);
                let is_new = *known != own;
                *known = own;
                is_new
            });
        }
        self.about = Arc::new(about);
    }

    /// Tells the control plane what it is waiting for; how long until there may be more to tell.
    async fn report(&mut self, sources: &Sources) -> Option<Duration> {
        let reached = self.reached(sources);
        let is_unknown = reached.values().any(|one| matches!(one, Reached::Unknown(_)));
        let progress = self.tell_progress(&reached).await;
        let applied = Applied { proxies: reached, about: self.about.clone(), unled: self.unled.clone() };
        let acks = self.acks.report(&applied);
        let engine = self.engine_due.map(|due| due.saturating_duration_since(Instant::now()));
        // Nobody says so when such a proxy turns out to have ended.
        let unknown = is_unknown.then_some(RETRY);
        [progress, acks, engine, unknown].into_iter().flatten().min()
    }

    /// How far proxies are. One that is not heard of counts if it should run: it may be about to connect again, and route by
    /// what it knew before.
    fn reached(&self, sources: &Sources) -> BTreeMap<String, Reached> {
        let Some(begun) = self.begun else { return BTreeMap::new() };
        let counts = |(uid, proxy): (&String, &Proxy)| {
            let reached = match proxy.reached() {
                Reached::Unknown(_) if !sources.has_running_proxy(uid, &proxy.pod) => return None,
                Reached::Unknown(since) => Reached::Unknown(since.max(begun)),
                known @ Reached::Version(_) => known,
            };
            Some((proxy.pod.clone(), reached))
        };
        self.proxies.iter().filter_map(counts).collect()
    }

    /// How far proxies are with RollingUpdates; how long until it is tried again.
    async fn tell_progress(&mut self, reached: &BTreeMap<String, Reached>) -> Option<Duration> {
        let states = self.proxies.values().filter_map(|one| {
            let reached = reached.get(&one.pod)?;
            Some((one.pod.clone(), ProxyState::of(*reached, *one.open.borrow())))
        });
        let metrics = &self.metrics;
        let progress = self.updates.progress(&states.collect(), |service| metrics.totals(service));
        self.progress_told.retain(|name, _| progress.contains_key(name));
        let mut again = None;
        for (name, spec) in progress {
            if self.progress_told.get(&name) == Some(&spec) {
                continue;
            }
            match tell(&self.client, progress_of(&self.node.name, &name, &spec)).await {
                Ok(()) => drop(self.progress_told.insert(name, spec)),
                Err(error) => {
                    debug!(%error, "cannot say how far a RollingUpdate is");
                    again = Some(RETRY);
                }
            }
        }
        again
    }
}
