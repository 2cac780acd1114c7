//! May they? RBAC and the node authorizer, kept current by watching the store.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use minik8s_api::FieldSelector;
use minik8s_auth::impersonation::Impersonation;
use minik8s_auth::node::{NodeAuthorizer, WatchedKind};
use minik8s_auth::rbac::{API_GROUP, Policy, RbacKind};
use minik8s_auth::{Attributes, Decision, User};
use minik8s_store::{Change, Range, Store, WatchItem};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::catalog::Snapshot;
use crate::error::{ApiError, Result};
use crate::lean::Lean;
use crate::request::{Query, RequestInfo};

const RETRY: Duration = Duration::from_secs(1);
/// How long the index of pods may lag behind what a node has already seen.
const CATCH_UP: Duration = Duration::from_millis(300);
/// Pods that may wait to be taken in: to read so many takes less than a tenth of a second.
const WAITING_PODS: usize = 4096;

#[derive(Default)]
pub struct Authorizer {
    policy: RwLock<Policy>,
    nodes: RwLock<NodeAuthorizer>,
    /// The newest state of pods that `nodes` has not taken in yet, None for deleted ones. Only nodes ask about them,
    /// and a pod is told three times before it runs: whoever asks brings the index up to date.
    waiting_pods: Mutex<HashMap<Arc<str>, Option<Bytes>>>,
    ready: AtomicBool,
    changed: Notify,
    /// Told whenever the index of who uses what has changed.
    used: Notify,
}

impl Authorizer {
    pub fn policy(&self) -> RwLockReadGuard<'_, Policy> {
        self.policy.read()
    }

    /// The rules have been read once.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Returns after the RBAC rules have changed.
    pub async fn policy_changed(&self) {
        self.changed.notified().await;
    }

    pub fn allows(&self, user: &User, wanted: &Attributes<'_>) -> Decision {
        if user.node_name().is_some() {
            self.take_in_pods();
        }
        let of_node = self.nodes.read().allows(user, wanted);
        if of_node.is_allowed() {
            return of_node;
        }
        match self.policy.read().allows(user, wanted) {
            Decision::NoOpinion { reason } if reason.is_empty() => of_node,
            decided => decided,
        }
    }

    /// Lets the request through or refuses it in upstream's words.
    pub async fn check(
        &self,
        snapshot: &Snapshot,
        user: &User,
        info: &RequestInfo,
        query: &Query,
    ) -> Result<()> {
        let selected = exact_fields(query);
        let selected: Vec<(&str, &str)> =
            selected.iter().map(|(field, value)| (field.as_str(), value.as_str())).collect();
        let wanted = attributes(info, &selected);
        let mut decision = self.allows(user, &wanted);
        // A node may know of its new pod a moment before this index does.
        let deadline = tokio::time::Instant::now() + CATCH_UP;
        while !decision.is_allowed() && user.node_name().is_some() {
            let changed = self.used.notified();
            decision = self.allows(user, &wanted);
            if decision.is_allowed() || tokio::time::timeout_at(deadline, changed).await.is_err() {
                break;
            }
        }
        if decision.is_allowed() {
            return Ok(());
        }
        let mut why = wanted.forbidden(user);
        if !decision.reason().is_empty() {
            why = format!("{why}: {}", decision.reason());
        }
        let resource = snapshot.find(&info.group, &info.version, &info.resource);
        Err(ApiError::forbidden(resource.map(|served| served.resource()), &info.name, why))
    }

    /// The user to act as, if the `Impersonate-*` headers name one and the caller may.
    pub fn impersonate(&self, user: User, headers: &HeaderMap) -> Result<User> {
        let unreadable = headers
            .iter()
            .find(|(name, value)| name.as_str().starts_with("impersonate-") && value.to_str().is_err());
        if let Some((name, _)) = unreadable {
            // To pass over it would be to act with more rights than were asked for.
            return Err(ApiError::bad_request(format!("the header {name} is not plain text")));
        }
        let texts = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let wanted = Impersonation::from_headers(texts).map_err(|e| ApiError::bad_request(e.to_string()))?;
        let Some(wanted) = wanted else { return Ok(user) };
        for check in wanted.checks() {
            if !self.allows(&user, &check).is_allowed() {
                let text =
                    format!("{} \"{}\" is forbidden: {}", check.resource, check.name, check.forbidden(&user));
                let error = ApiError::new(403, "Forbidden", text);
                return Err(error.about(check.api_group, check.resource, check.name));
            }
        }
        Ok(wanted.into_user())
    }

    /// Reads everything once, so that the first request is judged rightly.
    pub async fn load(&self, store: &dyn Store) -> Result<()> {
        for followed in Followed::ALL {
            self.reload(store, followed).await?;
        }
        self.ready.store(true, Ordering::Release);
        self.changed.notify_one();
        Ok(())
    }

    /// Follows rules and pods until `stop`.
    pub async fn run(self: Arc<Self>, store: Arc<dyn Store>, stop: CancellationToken) {
        let following = Followed::ALL.map(|followed| self.follow_always(&*store, followed));
        tokio::select! {
            _ = futures::future::join_all(following) => {}
            _ = stop.cancelled() => {}
        }
    }

    async fn follow_always(&self, store: &dyn Store, followed: Followed) {
        loop {
            if let Err(error) = self.follow(store, followed).await {
                tracing::warn!(%error, "following {followed:?} for authorization failed; trying again");
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn reload(&self, store: &dyn Store, followed: Followed) -> Result<u64> {
        let page = store.range(Range { prefix: followed.prefix(), ..Range::default() }).await?;
        // Begun anew: what was deleted while nobody watched must not live on.
        match followed {
            Followed::Rbac => {
                let mut policy = Policy::default();
                page.entries.iter().for_each(|entry| upsert_rule(&mut policy, &entry.key, &entry.value));
                *self.policy.write() = policy;
            }
            Followed::Used(kind) => {
                if kind == WatchedKind::Pod {
                    self.waiting_pods.lock().clear();
                }
                let mut nodes = self.nodes.write();
                nodes.graph.clear(kind);
                page.entries.iter().for_each(|entry| upsert_used(&mut nodes, kind, &entry.key, &entry.value));
            }
        }
        Ok(page.revision)
    }

    async fn follow(&self, store: &dyn Store, followed: Followed) -> Result<()> {
        let revision = self.reload(store, followed).await?;
        let mut watch = store.watch(&followed.prefix(), revision).await?;
        while let Some(item) = watch.next().await {
            let WatchItem::Event(event) = item? else { continue };
            let value = match &event.change {
                Change::Put(value) => Some(value),
                Change::Delete => None,
            };
            match followed {
                Followed::Rbac => {
                    change_rule(&mut self.policy.write(), &event.key, value);
                    self.changed.notify_one();
                }
                Followed::Used(WatchedKind::Pod) => self.put_aside(&event.key, value),
                Followed::Used(kind) => {
                    change_used(&mut self.nodes.write(), kind, &event.key, value);
                    self.used.notify_waiters();
                }
            }
        }
        Ok(())
    }

    fn put_aside(&self, key: &Arc<str>, value: Option<&Bytes>) {
        let mut waiting = self.waiting_pods.lock();
        waiting.insert(key.clone(), value.cloned());
        let is_full = waiting.len() >= WAITING_PODS;
        drop(waiting);
        if is_full {
            self.take_in_pods();
        }
        self.used.notify_waiters();
    }

    /// Held back by the lock, others who ask meanwhile see all of it too.
    fn take_in_pods(&self) {
        let mut waiting = self.waiting_pods.lock();
        if waiting.is_empty() {
            return;
        }
        let mut nodes = self.nodes.write();
        for (key, value) in waiting.drain() {
            change_used(&mut nodes, WatchedKind::Pod, &key, value.as_ref());
        }
    }
}

fn change_rule(policy: &mut Policy, key: &str, value: Option<&Bytes>) {
    match (value, parse_rbac_key(key)) {
        (Some(value), _) => upsert_rule(policy, key, value),
        (None, Some((kind, namespace, name))) => policy.remove(kind, namespace, name),
        (None, None) => {}
    }
}

fn upsert_rule(policy: &mut Policy, key: &str, value: &[u8]) {
    let Some((kind, _, _)) = parse_rbac_key(key) else { return };
    if let Err(error) = serde_json::from_slice(value).and_then(|rule| policy.upsert(kind, &rule)) {
        tracing::error!(key, %error, "a rule cannot be read and grants nothing");
    }
}

fn change_used(nodes: &mut NodeAuthorizer, kind: WatchedKind, key: &str, value: Option<&Bytes>) {
    match value {
        Some(value) => upsert_used(nodes, kind, key, value),
        None => {
            let place = key.strip_prefix(&Followed::Used(kind).prefix()).unwrap_or_default();
            let (namespace, name) = place.split_once('/').unwrap_or(("", place));
            nodes.graph.remove(kind, namespace, name);
        }
    }
}

fn upsert_used(nodes: &mut NodeAuthorizer, kind: WatchedKind, key: &str, value: &[u8]) {
    match serde_json::from_slice(value) {
        Ok(Lean(object)) => nodes.graph.upsert(kind, &object),
        Err(error) => tracing::error!(key, %error, "an object cannot be read and relates to no node"),
    }
}

/// What authorization depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Followed {
    Rbac,
    /// Who uses what on which node.
    Used(WatchedKind),
}

impl Followed {
    const ALL: [Followed; 6] = [
        Followed::Rbac,
        Followed::Used(WatchedKind::Pod),
        Followed::Used(WatchedKind::PersistentVolume),
        Followed::Used(WatchedKind::VolumeAttachment),
        Followed::Used(WatchedKind::ResourceSlice),
        Followed::Used(WatchedKind::Ingress),
    ];

    fn prefix(self) -> String {
        match self {
            Followed::Rbac => format!("/registry/{API_GROUP}/"),
            Followed::Used(WatchedKind::Pod) => "/registry/core/pods/".to_owned(),
            Followed::Used(WatchedKind::PersistentVolume) => "/registry/core/persistentvolumes/".to_owned(),
            Followed::Used(WatchedKind::VolumeAttachment) => {
                "/registry/storage.k8s.io/volumeattachments/".to_owned()
            }
            Followed::Used(WatchedKind::ResourceSlice) => {
                "/registry/resource.k8s.io/resourceslices/".to_owned()
            }
            Followed::Used(WatchedKind::Ingress) => "/registry/networking.k8s.io/ingresses/".to_owned(),
        }
    }
}

/// `/registry/GROUP/PLURAL/[NAMESPACE/]NAME`.
fn parse_rbac_key(key: &str) -> Option<(RbacKind, &str, &str)> {
    let rest = key.strip_prefix("/registry/")?.strip_prefix(API_GROUP)?.strip_prefix('/')?;
    let (plural, rest) = rest.split_once('/')?;
    let kind = RbacKind::by_plural(plural)?;
    match kind {
        RbacKind::Role | RbacKind::RoleBinding => {
            rest.split_once('/').map(|(namespace, name)| (kind, namespace, name))
        }
        RbacKind::ClusterRole | RbacKind::ClusterRoleBinding => Some((kind, "", rest)),
    }
}

fn attributes<'a>(info: &'a RequestInfo, selected: &'a [(&'a str, &'a str)]) -> Attributes<'a> {
    if !info.is_resource {
        return Attributes::path(&info.verb, &info.path);
    }
    // A list or watch of one name is a request for that object.
    let one = selected.iter().find(|(field, _)| *field == "metadata.name").map(|(_, name)| *name);
    let name = if info.name.is_empty() { one.unwrap_or_default() } else { &info.name };
    Attributes::resource(&info.verb, &info.group, &info.resource)
        .in_namespace(&info.namespace)
        .named(name)
        .subresource(&info.subresource)
        .selecting(selected)
}

/// `field=value` terms of the field selector; one that does not parse is refused later.
fn exact_fields(query: &Query) -> Vec<(String, String)> {
    let Some(text) = query.get("fieldSelector").filter(|text| !text.is_empty()) else { return Vec::new() };
    let Ok(selector) = FieldSelector::parse(text) else { return Vec::new() };
    let exact = |field: &str| selector.exact(field).map(|value| (field.to_owned(), value.to_owned()));
    selector.fields().filter_map(exact).collect()
}
