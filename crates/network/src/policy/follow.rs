//! Keeps the node's rules in step with NetworkPolicies and with those that they are about.
//!
//! Pods and namespaces are followed only while there is a policy. A pod that starts on this node is let go only when its
//! rules are in the kernel, so that nothing of it ever runs without them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt;
use minik8s_informer::{Caches, Change, Changes, Informer, ListOptions, Object};
use minik8s_meta::IpFamily;
use minik8s_meta::pod_address::PodAddress;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use super::kernel::PolicyRules;
use super::{Cluster, Key, Pod, Policy, PolicyTable};
use crate::Config;
use crate::proxy::NftError;
use crate::reports::Reports;
use crate::run::RETRY;
use crate::watches::key;

/// Events come in groups.
const GATHER: Duration = Duration::from_millis(5);

/// A pod of this node that is about to start, its addresses, and whom to tell that its rules are in the kernel.
pub type PodAddresses = (Key, Vec<IpAddr>, oneshot::Sender<()>);

/// The name of the agent's nftables table for policies.
pub fn policy_table(instance: &str) -> String {
    format!("minik8s-{instance}-policies")
}

/// Never returns; the rules stay when it is dropped.
pub(crate) async fn follow(caches: &Caches, config: &Config, reports: &Reports) {
    let mut requests = config.pod_addresses.lock().await;
    let mut policies = Followed::<NetworkPolicy>::start(caches);
    let mut follower = Follower::new(config, policies.informer.is_checkpointed());
    let mut others: Option<(Followed<PodAddress>, Followed<Namespace>)> = None;
    let mut retries = RETRY.retries();
    let mut due: Option<Instant> = None;
    // After a restart of the machine nothing guards the pods that are there.
    if follower.is_checkpointed && follower.is_bare().await.unwrap_or(false) {
        due = Some(Instant::now() + GATHER);
    }
    loop {
        match follower.wants_others() {
            true if others.is_none() => others = Some((Followed::start(caches), Followed::start(caches))),
            false if others.is_some() => {
                others = None;
                follower.forget_others();
            }
            _ => {}
        }
        if follower.is_complete() && follower.has_work() {
            due.get_or_insert_with(|| Instant::now() + GATHER);
        }
        tokio::select! {
            // What is known comes before anything is made of it.
            biased;
            change = policies.changes.next() => follower.take_policy(change),
            change = next(&mut others) => match change {
                Other::Pod(change) => follower.take_pod(change),
                Other::Namespace(change) => follower.take_namespace(change),
            },
            Some(request) = requests.recv() => {
                follower.tell_addresses(request);
                // What is only remembered is better than nothing for a pod that starts now.
                if follower.is_checkpointed && !follower.is_complete() {
                    due.get_or_insert_with(|| Instant::now() + GATHER);
                }
            }
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                due = None;
                match follower.apply().await {
                    Ok(()) => {
                        retries.succeeded();
                        follower.answer();
                    }
                    Err(error) => {
                        let message =
                            format!("NetworkPolicies are not enforced on this node: {error}; it is tried again");
                        reports.about_node("NetworkPoliciesFailed", message);
                        due = Some(Instant::now() + retries.failed());
                    }
                }
            }
        }
    }
}

/// Objects of a kind, and what happens to them.
struct Followed<K> {
    informer: Arc<Informer<K>>,
    changes: Changes<K>,
}

impl<K: Object> Followed<K> {
    fn start(caches: &Caches) -> Self {
        let informer = caches.informer::<K>(ListOptions::default());
        let changes = informer.subscribe();
        Followed { informer, changes }
    }
}

enum Other {
    Pod(Change<PodAddress>),
    Namespace(Change<Namespace>),
}

async fn next(others: &mut Option<(Followed<PodAddress>, Followed<Namespace>)>) -> Other {
    let Some((pods, namespaces)) = others else { return std::future::pending().await };
    tokio::select! {
        change = pods.changes.next() => Other::Pod(change),
        change = namespaces.changes.next() => Other::Namespace(change),
    }
}

struct Follower {
    /// One for each address family of the cluster, so at least one. They differ in the pods' addresses alone.
    tables: Vec<(PolicyTable, PolicyRules)>,
    /// Which kinds were listed once.
    listed: [bool; 3],
    is_checkpointed: bool,
    waiting: Vec<(Key, oneshot::Sender<()>)>,
    /// All that there is was not applied yet.
    is_new: bool,
}

const POLICIES: usize = 0;
const PODS: usize = 1;
const NAMESPACES: usize = 2;

impl Follower {
    fn new(config: &Config, is_checkpointed: bool) -> Self {
        let name = policy_table(&config.instance);
        let resolvers = config.dns.as_ref().map(|dns| dns.addresses.as_slice()).unwrap_or_default();
        let table = |family| {
            let resolver = resolvers.iter().copied().find(|address| IpFamily::of(*address) == family);
            (PolicyTable::new(family, &name, &config.node_name, resolver), PolicyRules::new(family, &name))
        };
        Follower {
            tables: config.cluster_cidr.families().map(table).collect(),
            listed: Default::default(),
            is_checkpointed,
            waiting: Vec::new(),
            is_new: true,
        }
    }

    /// What is only remembered takes no rules away: those in the kernel may be younger.
    async fn apply(&mut self) -> Result<(), NftError> {
        if !self.is_complete() && !self.wants_others() {
            return Ok(());
        }
        let mut applied = Ok(());
        for (table, rules) in &mut self.tables {
            applied = applied.and(rules.apply(table).await);
        }
        applied
    }

    /// Whether the kernel has no rules of a former run.
    async fn is_bare(&self) -> Result<bool, NftError> {
        let mut is_bare = true;
        for (_, rules) in &self.tables {
            is_bare &= rules.is_bare().await?;
        }
        Ok(is_bare)
    }

    fn cluster(&self) -> &Cluster {
        self.tables[0].0.cluster()
    }

    fn for_each_table(&mut self, change: impl Fn(&mut PolicyTable)) {
        self.tables.iter_mut().for_each(|(table, _)| change(table));
    }

    fn wants_others(&self) -> bool {
        !self.cluster().policies.is_empty()
    }

    /// Whether everything was seen once: half of the objects would close or open what they must not.
    fn is_complete(&self) -> bool {
        let [policies, pods, namespaces] = &self.listed;
        *policies && (!self.wants_others() || (*pods && *namespaces))
    }

    fn has_work(&self) -> bool {
        let has_changed = self.tables.iter().any(|(table, _)| table.has_changed());
        self.is_new || has_changed || !self.waiting.is_empty() && self.can_answer()
    }

    fn forget_others(&mut self) {
        let pods: Vec<Key> = self.cluster().pods.keys().cloned().collect();
        let namespaces: Vec<String> = self.cluster().namespaces.keys().cloned().collect();
        self.for_each_table(|table| {
            pods.iter().for_each(|pod| table.remove_pod(pod));
            namespaces.iter().for_each(|name| table.set_namespace(name, None));
        });
        (self.listed[PODS], self.listed[NAMESPACES]) = Default::default();
    }

    fn take_policy(&mut self, change: Change<NetworkPolicy>) {
        match change {
            Change::Applied { new, .. } => {
                let policy = Policy::from(&*new);
                self.for_each_table(|table| table.set_policy(policy.clone()));
            }
            Change::Removed(old) => self.for_each_table(|table| table.remove_policy(&key(&*old))),
            Change::Synced => self.listed[POLICIES] = true,
            Change::Absent => {}
        }
    }

    fn take_pod(&mut self, change: Change<PodAddress>) {
        match change {
            Change::Applied { new, .. } => {
                let pod = Pod::from(&*new);
                self.for_each_table(|table| table.set_pod(pod.clone()));
            }
            Change::Removed(old) => self.for_each_table(|table| table.remove_pod(&key(&*old))),
            Change::Synced => self.listed[PODS] = true,
            Change::Absent => {
                warn!("servers tell no addresses of pods; the rules of NetworkPolicies stay as they are")
            }
        }
    }

    fn take_namespace(&mut self, change: Change<Namespace>) {
        match change {
            Change::Applied { new, .. } => {
                let labels = new.metadata.labels.clone().unwrap_or_default();
                self.for_each_table(|table| table.set_namespace(&new.name_any(), Some(labels.clone())));
            }
            Change::Removed(old) => {
                self.for_each_table(|table| table.set_namespace(&old.name_any(), None));
            }
            Change::Synced => self.listed[NAMESPACES] = true,
            Change::Absent => {}
        }
    }

    fn tell_addresses(&mut self, (pod, addresses, done): PodAddresses) {
        self.for_each_table(|table| table.tell_addresses(&pod, addresses.clone()));
        self.waiting.push((pod, done));
    }

    /// Whether some pod waits that need wait no longer.
    fn can_answer(&self) -> bool {
        self.waiting.iter().any(|(pod, _)| self.is_settled(pod))
    }

    /// Whether what is known of the pod decides its rules.
    fn is_settled(&self, pod: &Key) -> bool {
        let cluster = self.cluster();
        cluster.pods.contains_key(pod) || cluster.policies_in(&pod.0).next().is_none()
    }

    /// Lets pods go whose rules were just applied.
    fn answer(&mut self) {
        self.is_new &= !self.is_complete();
        for (pod, done) in std::mem::take(&mut self.waiting) {
            match self.is_settled(&pod) {
                true => drop(done.send(())),
                false => self.waiting.push((pod, done)),
            }
        }
        // Whoever asked has stopped waiting.
        self.waiting.retain(|(_, done)| !done.is_closed());
    }
}
