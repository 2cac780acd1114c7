//! May they? RBAC and the node authorizer, kept current by watching the store, and whoever else a configuration names.

mod chain;
mod metrics;
mod wanted;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use minik8s_api::AuthorizationChain;
use minik8s_auth::impersonation::Impersonation;
use minik8s_auth::node::{NodeAuthorizer, WatchedKind};
use minik8s_auth::rbac::{API_GROUP, Policy, RbacKind};
use minik8s_auth::{Attributes, Decision, User};
use minik8s_store::{Change, Page, Range, Store, WatchItem};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use self::chain::Judged;
pub use self::metrics::AuthorizationMetrics;
pub use self::wanted::attributes;
use self::wanted::exact_fields;
use crate::audit::Trail;
use crate::error::{ApiError, Result};
use crate::following;
use crate::managed_fields::WithoutManagedFields;
use crate::registry::Registry;
use crate::request::{Query, RequestInfo};

/// How long the index of pods may lag behind what a node has already seen.
const CATCH_UP: Duration = Duration::from_millis(300);
/// Pods that may wait to be taken in: to read so many takes less than a tenth of a second.
const WAITING_PODS: usize = 4096;
/// Refusals that are looked into at once.
const READERS: usize = 2;

pub struct Authorizer {
    /// Who is asked; without it, the node authorizer and RBAC.
    chain: Option<Arc<dyn AuthorizationChain>>,
    metrics: AuthorizationMetrics,
    policy: RwLock<Policy>,
    nodes: RwLock<NodeAuthorizer>,
    /// The newest state of pods that `nodes` has not taken in yet, None for deleted ones. Only nodes ask about them,
    /// and a pod is told three times before it runs: whoever asks brings the index up to date.
    waiting_pods: Mutex<HashMap<Arc<str>, Option<Bytes>>>,
    ready: AtomicBool,
    changed: Notify,
    /// Told whenever the index of who uses what has changed.
    used: Notify,
    /// Whoever is refused has pods read: a node that asks for nothing but what it may not have keeps few cores busy.
    reading: Semaphore,
}

impl Default for Authorizer {
    fn default() -> Self {
        Authorizer::new(None, AuthorizationMetrics::default())
    }
}

impl Authorizer {
    pub fn new(chain: Option<Arc<dyn AuthorizationChain>>, metrics: AuthorizationMetrics) -> Self {
        Authorizer {
            chain,
            metrics,
            policy: RwLock::default(),
            nodes: RwLock::default(),
            waiting_pods: Mutex::default(),
            ready: AtomicBool::new(false),
            changed: Notify::new(),
            used: Notify::new(),
            reading: Semaphore::new(READERS),
        }
    }

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

    /// By the node authorizer and RBAC.
    fn allows(&self, user: &User, wanted: &Attributes<'_>) -> Decision {
        let of_node = self.by_node(user, wanted);
        if of_node.is_allowed() {
            return of_node;
        }
        match self.by_rbac(user, wanted) {
            Decision::NoOpinion { reason } if reason.is_empty() => of_node,
            decided => decided,
        }
    }

    fn by_node(&self, user: &User, wanted: &Attributes<'_>) -> Decision {
        if user.node_name().is_some() {
            self.take_in_pods();
        }
        self.nodes.read().allows(user, wanted)
    }

    fn by_rbac(&self, user: &User, wanted: &Attributes<'_>) -> Decision {
        self.policy.read().allows(user, wanted)
    }

    /// Lets the request through or refuses it in upstream's words; the trail learns what was decided.
    pub async fn check(
        &self,
        registry: &Registry,
        user: &User,
        info: &RequestInfo,
        query: &Query,
        trail: Option<&Trail>,
    ) -> Result<()> {
        let selected = exact_fields(info, query);
        let selected: Vec<(&str, &str)> =
            selected.iter().map(|(field, value)| (field.as_str(), value.as_str())).collect();
        let wanted = attributes(info, &selected);
        let Judged { mut decision, error, by_node } = self.judge(user, &wanted).await;
        if !decision.is_allowed() && by_node && user.node_name().is_some() {
            let newest = self.newest(&*registry.store, user, &wanted).await;
            if newest.is_allowed() || self.chain.is_none() {
                decision = newest;
            }
        }
        match trail {
            Some(trail) if error.is_some() && !decision.is_allowed() => trail.note_undecided(),
            Some(trail) => trail.note_decision(&decision),
            None => {}
        }
        if decision.is_allowed() {
            return Ok(());
        }
        if let Some(error) = error {
            return Err(ApiError::internal(error));
        }
        let mut why = wanted.forbidden(user);
        if !decision.reason().is_empty() {
            why = format!("{why}: {}", decision.reason());
        }
        let snapshot = registry.catalog.snapshot();
        let resource = snapshot.find(&info.group, &info.version, &info.resource);
        Err(ApiError::forbidden(resource.map(|served| served.resource()), &info.name, why))
    }

    /// A node may know of its new pod before the index does: before it is refused, the store is asked.
    async fn newest(&self, store: &dyn Store, user: &User, wanted: &Attributes<'_>) -> Decision {
        match self.by_store(store, user, wanted).await {
            // A secret may also be an Ingress' or a volume's, which the store does not find as quickly.
            Ok(Some(decision)) if decision.is_allowed() || wanted.resource != "secrets" => return decision,
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "a node is judged by the index alone"),
        }
        let deadline = tokio::time::Instant::now() + CATCH_UP;
        loop {
            let changed = self.used.notified();
            let decision = match self.chain {
                None => self.allows(user, wanted),
                Some(_) => self.by_node(user, wanted),
            };
            if decision.is_allowed() || tokio::time::timeout_at(deadline, changed).await.is_err() {
                return decision;
            }
        }
    }

    /// By the pods of the namespace as they are stored now; None where pods do not decide. Nothing of it is kept: the
    /// index follows the store in its own order.
    async fn by_store(
        &self,
        store: &dyn Store,
        user: &User,
        wanted: &Attributes<'_>,
    ) -> Result<Option<Decision>> {
        let by_pods = matches!(
            (wanted.api_group, wanted.resource),
            ("", "pods" | "secrets" | "configmaps" | "serviceaccounts" | "persistentvolumeclaims")
                | ("resource.k8s.io", "resourceclaims")
                | ("minik8s.io", "imagerepositories")
        );
        let node = user.node_name().unwrap_or_default();
        if !by_pods || node.is_empty() || wanted.namespace.is_empty() || wanted.name.is_empty() {
            return Ok(None);
        }
        let Ok(_turn) = self.reading.acquire().await else { return Ok(None) };
        let prefix = format!("{}{}/", Followed::Used(WatchedKind::Pod).prefix(), wanted.namespace);
        let page = store.range(Range { prefix, ..Range::default() }).await?;
        let mut nodes = NodeAuthorizer::default();
        let quoted = format!("\"{node}\"");
        let is_named = |value: &[u8]| value.windows(quoted.len()).any(|text| text == quoted.as_bytes());
        for entry in page.entries.iter().filter(|entry| is_named(&entry.value)) {
            upsert_used(&mut nodes, WatchedKind::Pod, &entry.key, &entry.value);
        }
        Ok(Some(nodes.allows(user, wanted)))
    }

    /// The RBAC rules as they are stored now. Nothing of it is kept: the rules in force follow the store in its order.
    pub async fn newest_policy(&self, store: &dyn Store) -> Result<Policy> {
        let _turn = self.reading.acquire().await;
        let page = store.range(Range { prefix: Followed::Rbac.prefix(), ..Range::default() }).await?;
        Ok(policy_of(&page))
    }

    /// The user to act as, if the `Impersonate-*` headers name one and the caller may.
    pub async fn impersonate(&self, user: User, headers: &HeaderMap) -> Result<User> {
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
            if !self.authorize(&user, &check).await.is_allowed() {
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
        let what = format!("following {followed:?} for authorization");
        following::for_ever(&what, || self.follow(store, followed)).await
    }

    async fn reload(&self, store: &dyn Store, followed: Followed) -> Result<u64> {
        let page = store.range(Range { prefix: followed.prefix(), ..Range::default() }).await?;
        // Begun anew: what was deleted while nobody watched must not live on.
        match followed {
            Followed::Rbac => *self.policy.write() = policy_of(&page),
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

fn policy_of(page: &Page) -> Policy {
    let mut policy = Policy::default();
    page.entries.iter().for_each(|entry| upsert_rule(&mut policy, &entry.key, &entry.value));
    policy
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
        Ok(WithoutManagedFields(object)) => nodes.graph.upsert(kind, &object),
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
    const ALL: [Followed; 7] = [
        Followed::Rbac,
        Followed::Used(WatchedKind::Pod),
        Followed::Used(WatchedKind::PersistentVolume),
        Followed::Used(WatchedKind::VolumeAttachment),
        Followed::Used(WatchedKind::ResourceSlice),
        Followed::Used(WatchedKind::Ingress),
        Followed::Used(WatchedKind::GatewayConfig),
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
            Followed::Used(WatchedKind::GatewayConfig) => {
                "/registry/internal.minik8s.io/gatewayconfigs/".to_owned()
            }
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

#[cfg(test)]
mod tests {
    use minik8s_auth::rbac::RoleRef;
    use minik8s_store::{Commit, Op, Options, RedbStore};
    use serde_json::json;

    use super::*;

    /// The index here has seen nothing, as if it lagged behind for ever.
    #[tokio::test]
    async fn node_that_has_seen_its_pod_is_allowed_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let store = RedbStore::open(dir.path().join("store.redb"), Options::default()).unwrap();
        let pod = json!({
            "kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "a"},
            "spec": {"nodeName": "n", "serviceAccountName": "sa", "volumes": [{"configMap": {"name": "m"}}]},
        });
        let value = Bytes::from(pod.to_string());
        let ops = vec![Op::Put { key: "/registry/core/pods/a/p".to_owned(), value }];
        store.commit(Commit { conditions: Vec::new(), ops }).await.unwrap();
        let authorizer = Authorizer::default();
        let check = async |node: &str, namespace: &str, resource: &str, name: &str, expected: bool| {
            let user = User::authenticated(&format!("system:node:{node}"), &["system:nodes"]);
            let wanted = Attributes::resource("get", "", resource).in_namespace(namespace).named(name);
            assert!(!authorizer.allows(&user, &wanted).is_allowed());
            let decision = authorizer.newest(&*store, &user, &wanted).await;
            assert_eq!(decision.is_allowed(), expected, "{node} {namespace}/{name}: {decision:?}");
        };
        check("n", "a", "configmaps", "m", true).await;
        check("n", "a", "pods", "p", true).await;
        check("n", "a", "serviceaccounts", "sa", true).await;
        check("n", "a", "configmaps", "other", false).await;
        check("n", "b", "configmaps", "m", false).await;
        check("m", "a", "configmaps", "m", false).await;
        check("n", "a", "secrets", "m", false).await;
        let gone = vec![Op::Delete { key: "/registry/core/pods/a/p".to_owned() }];
        store.commit(Commit { conditions: Vec::new(), ops: gone }).await.unwrap();
        check("n", "a", "configmaps", "m", false).await;
    }

    /// The rules in force here have seen nothing either.
    #[tokio::test]
    async fn newest_policy_knows_a_role_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let store = RedbStore::open(dir.path().join("store.redb"), Options::default()).unwrap();
        let role = json!({"metadata": {"name": "fine", "namespace": "a"}, "rules": []});
        let key = format!("{}roles/a/fine", Followed::Rbac.prefix());
        let ops = vec![Op::Put { key, value: Bytes::from(role.to_string()) }];
        store.commit(Commit { conditions: Vec::new(), ops }).await.unwrap();
        let (authorizer, role) = (Authorizer::default(), RoleRef::Role("fine".to_owned()));
        let user = User::authenticated("ann", &[]);
        assert!(authorizer.policy().may_write_binding(&user, "a", &role).is_err());
        let newest = authorizer.newest_policy(&*store).await.unwrap();
        assert!(newest.may_write_binding(&user, "a", &role).is_ok());
    }
}
