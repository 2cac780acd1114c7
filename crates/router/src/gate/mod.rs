//! The gate of each function: its instances on all nodes, which of them is free, and the requests that wait for one.
//!
//! A request gets a [`Permit`] for one instance and holds it until its answer is over, so what is counted here is exactly
//! what runs on behalf of this node. An instance counts for itself, too: where another node's router was faster it answers
//! that nothing was executed, and the request goes elsewhere or waits on. Nothing here speaks HTTP or reads a clock of its
//! own accord.

mod calls;
mod demand;
mod page;
mod reach;
mod report;
mod split;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use minik8s_meta::function::{FunctionEndpoints, FunctionEndpointsSpec, FunctionProblem, PORT};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

pub use calls::CallRecord;
use calls::CallRing;
use demand::Demand;
use reach::Reach;
pub use report::report;
use split::Split;

/// Namespace and name.
pub type Name = (String, String);

/// The gates of all functions.
#[derive(Debug, Default)]
pub struct Gates {
    all: Mutex<HashMap<Name, Arc<Gate>>>,
    /// Some gate needs more than it has said.
    needs: Arc<Notify>,
    /// The control plane did not answer when it was told last.
    silent: Arc<AtomicBool>,
}

#[derive(Debug)]
pub struct Gate {
    pub name: Name,
    state: Mutex<State>,
    calls: CallRing,
    needs: Arc<Notify>,
    silent: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct State {
    settings: FunctionEndpointsSpec,
    instances: BTreeMap<SocketAddr, Instance>,
    waiting: VecDeque<Waiter>,
    next_waiter: u64,
    split: Split,
    demand: Demand,
}

/// A request that waits, for an instance of this revision if one is named.
#[derive(Debug)]
struct Waiter {
    id: u64,
    revision: Option<String>,
    permit: oneshot::Sender<Permit>,
}

#[derive(Debug, Clone, Default)]
struct Instance {
    /// Another one may get its address.
    pod: String,
    revision: String,
    /// On this node.
    local: bool,
    ready: bool,
    reach: Reach,
    running: u32,
}

/// An instance whose place is taken but has no holder yet.
#[derive(Debug, Clone, Copy)]
struct Granted {
    address: SocketAddr,
    ready: bool,
    doubtful: bool,
}

/// The right to send one request to one instance. Dropped, it goes to the first that waits.
pub struct Permit {
    /// None once it was taken back.
    gate: Option<Arc<Gate>>,
    pub address: SocketAddr,
    /// It has answered before. One that has not may not listen yet.
    pub ready: bool,
    /// It could not be reached last.
    pub doubtful: bool,
}

/// Why a request gets no permit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// So many wait already.
    Full(u32),
    /// There is no instance, and there will be none soon.
    Problem(FunctionProblem),
    /// It has waited too long.
    Late(Duration),
    /// It has waited too long for an instance that nobody starts: the control plane does not answer.
    Unheard(Duration),
}

impl Gates {
    pub fn get(&self, name: &Name) -> Option<Arc<Gate>> {
        self.all.lock().get(name).cloned()
    }

    pub fn list(&self) -> Vec<Arc<Gate>> {
        self.all.lock().values().cloned().collect()
    }

    /// Gates stay as they are while their function does; what waits at others is refused.
    pub fn apply<'a>(&self, functions: impl Iterator<Item = &'a FunctionEndpoints>, node: &str) {
        let mut all = self.all.lock();
        let mut gone = std::mem::take(&mut *all);
        for endpoints in functions {
            let meta = &endpoints.metadata;
            let name = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
            let known = gone.remove(&name);
            let gate = known.unwrap_or_else(|| {
                let (state, calls) = (Mutex::default(), CallRing::default());
                let (needs, silent) = (self.needs.clone(), self.silent.clone());
                Arc::new(Gate { name: name.clone(), state, calls, needs, silent })
            });
            gate.apply(&endpoints.spec, node);
            all.insert(name, gate);
        }
    }
}

impl Gate {
    /// Where the instances are, as the control plane says. Their counts stay.
    fn apply(self: &Arc<Self>, spec: &FunctionEndpointsSpec, node: &str) {
        let mut state = self.state.lock();
        if state.settings == *spec {
            return;
        }
        // Another function of this name may be other people's.
        if state.settings.uid != spec.uid {
            self.calls.clear();
        }
        let mut before = std::mem::take(&mut state.instances);
        for instance in &spec.instances {
            let Ok(ip) = instance.ip.parse::<IpAddr>() else { continue };
            let address = SocketAddr::new(ip, PORT);
            let known = before.remove(&address).filter(|known| known.pod == instance.pod).unwrap_or_default();
            let ready = instance.ready || known.ready;
            let (pod, revision) = (instance.pod.clone(), instance.revision.clone());
            let instance = Instance { pod, revision, local: instance.node == node, ready, ..known };
            state.instances.insert(address, instance);
        }
        state.split.apply(&spec.traffic);
        for waiter in &mut state.waiting {
            // What a revision that gets no more requests was to answer, any other may.
            let is_there = |revision: &String| spec.traffic.iter().any(|share| share.revision == *revision);
            waiter.revision = waiter.revision.take().filter(is_there);
        }
        state.settings = spec.clone();
        self.hand_out(&mut state);
    }

    /// A place in an instance, at once or after others that came before.
    pub async fn acquire(self: &Arc<Self>, deadline: Instant) -> Result<Permit, Refused> {
        let (id, granted) = {
            let mut state = self.state.lock();
            state.demand.begin(Instant::now());
            let revision = state.split.next();
            if !state.waiting.iter().any(|waiter| waiter.revision == revision)
                && let Some(granted) = state.take(revision.as_deref())
            {
                drop(state);
                self.tell();
                return Ok(self.permit(granted));
            }
            match state.enqueue(revision) {
                Ok(waiter) => waiter,
                Err(refused) => {
                    state.demand.end(Instant::now());
                    drop(state);
                    self.tell();
                    return Err(refused);
                }
            }
        };
        self.tell();
        let _waiting = Waiting { gate: self, id };
        match tokio::time::timeout_at(deadline.into(), granted).await {
            Ok(Ok(permit)) => Ok(permit),
            // Its sender was dropped: the control plane says why there will be none.
            Ok(Err(_)) => {
                let problem = self.state.lock().settings.problem.clone();
                Err(Refused::Problem(problem.unwrap_or_default()))
            }
            Err(_) => Err(self.late()),
        }
    }

    fn late(&self) -> Refused {
        let state = self.state.lock();
        let waited = Duration::from_secs(state.settings.queue_seconds.into());
        match state.instances.is_empty() && self.silent.load(Ordering::Relaxed) {
            true => Refused::Unheard(waited),
            false => Refused::Late(waited),
        }
    }

    /// How long a request may wait, and how long it may take.
    pub fn limits(&self) -> (Duration, Duration) {
        let state = self.state.lock();
        let seconds = |number: u32| Duration::from_secs(number.into());
        (seconds(state.settings.queue_seconds), seconds(state.settings.timeout_seconds))
    }

    /// Attempts at a call that nobody waits for, and the seconds after which it is not tried again, where the function says.
    pub fn call_limits(&self) -> (Option<u32>, Option<u32>) {
        let state = self.state.lock();
        (state.settings.attempts, state.settings.max_age_seconds)
    }

    /// Whether the control plane still names this instance.
    pub fn has(&self, address: SocketAddr) -> bool {
        self.state.lock().instances.contains_key(&address)
    }

    /// Whether an instance is there that has answered and takes requests.
    pub fn is_ready(&self) -> bool {
        self.state.lock().instances.values().any(|one| one.ready && one.reach.is_open())
    }

    pub fn pod_at(&self, address: SocketAddr) -> Option<String> {
        self.instance_at(address).map(|(pod, _)| pod)
    }

    /// The pod, and the hash of its revision.
    pub fn instance_at(&self, address: SocketAddr) -> Option<(String, String)> {
        let state = self.state.lock();
        state.instances.get(&address).map(|one| (one.pod.clone(), one.revision.clone()))
    }

    /// Of all instances, also of those that take no more requests.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.state.lock().instances.keys().copied().collect()
    }

    /// Requests that run and that wait.
    pub fn counts(&self) -> (u32, usize) {
        let state = self.state.lock();
        (state.instances.values().map(|instance| instance.running).sum(), state.waiting.len())
    }

    fn permit(self: &Arc<Self>, granted: Granted) -> Permit {
        let Granted { address, ready, doubtful } = granted;
        Permit { gate: Some(self.clone()), address, ready, doubtful }
    }

    /// The first request of all is told at once; whoever reports looks often enough for the rest.
    fn tell(&self) {
        if self.state.lock().demand.is_news() {
            self.needs.notify_one();
        }
    }

    /// Gives free places to those that wait, in the order in which they came.
    fn hand_out(self: &Arc<Self>, state: &mut State) {
        if state.settings.problem.is_some() && state.instances.is_empty() {
            let now = Instant::now();
            state.waiting.drain(..).for_each(|_| state.demand.end(now));
            return;
        }
        let (mut at, mut full) = (0, Vec::new());
        while let Some(waiter) = state.waiting.get(at) {
            let revision = waiter.revision.clone();
            if full.contains(&revision) {
                at += 1;
                continue;
            }
            let Some(granted) = state.take(revision.as_deref()) else {
                full.push(revision);
                if full.len() >= state.split.count().max(1) {
                    return;
                }
                continue;
            };
            let Some(waiter) = state.waiting.remove(at) else { return };
            // Who has gone away in this moment ends what it began; its place is for the next.
            if let Err(mut permit) = waiter.permit.send(self.permit(granted)) {
                permit.gate = None;
                state.give_back(granted.address);
                state.demand.end(Instant::now());
            }
        }
    }

    fn release(self: &Arc<Self>, address: SocketAddr) {
        let mut state = self.state.lock();
        state.give_back(address);
        state.demand.end(Instant::now());
        self.hand_out(&mut state);
    }
}

impl State {
    /// The least busy instance that has a place: those that can be reached first, of them those that have answered, and
    /// those of this node before others.
    fn take(&mut self, revision: Option<&str>) -> Option<Granted> {
        let places = self.settings.concurrency.max(1);
        let is_fit = |one: &Instance| revision.is_none_or(|wanted| one.revision == wanted);
        let has_place = |one: &Instance| one.running < places && one.reach.takes_another();
        let free = self.instances.iter_mut().filter(|(_, one)| has_place(one) && is_fit(one));
        let rank = |one: &Instance| (one.reach.is_doubtful(), !one.ready, one.running, !one.local);
        let (address, instance) = free.min_by_key(|(_, one)| rank(one))?;
        instance.running += 1;
        instance.reach.take();
        Some(Granted { address: *address, ready: instance.ready, doubtful: instance.reach.is_doubtful() })
    }

    fn enqueue(&mut self, revision: Option<String>) -> Result<(u64, oneshot::Receiver<Permit>), Refused> {
        if let Some(problem) = self.settings.problem.clone().filter(|_| self.instances.is_empty()) {
            return Err(Refused::Problem(problem));
        }
        if self.waiting.len() >= self.settings.queue_max as usize {
            return Err(Refused::Full(self.settings.queue_max));
        }
        let (sender, receiver) = oneshot::channel();
        self.next_waiter += 1;
        self.waiting.push_back(Waiter { id: self.next_waiter, revision, permit: sender });
        Ok((self.next_waiter, receiver))
    }

    fn give_back(&mut self, address: SocketAddr) {
        if let Some(instance) = self.instances.get_mut(&address) {
            instance.running = instance.running.saturating_sub(1);
            instance.reach.give_back();
        }
    }
}

/// A request that waits. One that goes away leaves the queue; what it was given too late goes back by itself.
struct Waiting<'a> {
    gate: &'a Arc<Gate>,
    id: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.state.lock();
        let before = state.waiting.len();
        state.waiting.retain(|waiter| waiter.id != self.id);
        if state.waiting.len() < before {
            state.demand.end(Instant::now());
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(gate) = self.gate.take() {
            gate.release(self.address);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("address", &self.address).finish()
    }
}
