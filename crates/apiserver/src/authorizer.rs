//! May they? RBAC and the node authorizer, kept current by watching the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderMap;
use minik8s_auth::impersonation::Impersonation;
use minik8s_auth::rbac::{API_GROUP, Policy, RbacKind};
use minik8s_auth::{Attributes, Decision, User};
use minik8s_store::{Change, Range, Store, WatchItem};
use parking_lot::{RwLock, RwLockReadGuard};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::catalog::Snapshot;
use crate::error::{ApiError, Result};
use crate::request::RequestInfo;

const RETRY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Authorizer {
    policy: RwLock<Policy>,
    ready: AtomicBool,
}

impl Authorizer {
    pub fn policy(&self) -> RwLockReadGuard<'_, Policy> {
        self.policy.read()
    }

    /// The rules have been read once.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    pub fn allows(&self, user: &User, wanted: &Attributes<'_>) -> Decision {
        self.policy.read().allows(user, wanted)
    }

    /// Lets the request through or refuses it in upstream's words.
    pub fn check(&self, snapshot: &Snapshot, user: &User, info: &RequestInfo) -> Result<()> {
        let wanted = attributes(info);
        let decision = self.allows(user, &wanted);
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
        let unreadable = headers.iter().find(|(name, value)| {
            name.as_str().starts_with("impersonate-") && value.to_str().is_err()
        });
        if let Some((name, _)) = unreadable {
            // To pass over it would be to act with more rights than were asked for.
            return Err(ApiError::bad_request(format!("the header {name} is not plain text")));
        }
        let texts = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let wanted = Impersonation::from_headers(texts).map_err(|e| ApiError::bad_request(e.to_string()))?;
        let Some(wanted) = wanted else { return Ok(user) };
        for check in wanted.checks() {
            if !self.allows(&user, &check).is_allowed() {
                let text = format!("{} \"{}\" is forbidden: {}", check.resource, check.name, check.forbidden(&user));
                let error = ApiError::new(403, "Forbidden", text);
                return Err(error.about(check.api_group, check.resource, check.name));
            }
        }
        Ok(wanted.into_user())
    }

    /// Reads all rules once.
    pub async fn load(&self, store: &dyn Store) -> Result<u64> {
        let page = store.range(Range { prefix: prefix(), ..Range::default() }).await?;
        let mut policy = Policy::default();
        for entry in &page.entries {
            upsert(&mut policy, &entry.key, &entry.value);
        }
        *self.policy.write() = policy;
        self.ready.store(true, Ordering::Release);
        Ok(page.revision)
    }

    /// Follows the rules until `stop`.
    pub async fn run(self: Arc<Self>, store: Arc<dyn Store>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let followed = tokio::select! {
                followed = self.follow(&*store) => followed,
                _ = stop.cancelled() => return,
            };
            if let Err(error) = followed {
                tracing::warn!(%error, "following the RBAC rules failed; trying again");
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    async fn follow(&self, store: &dyn Store) -> Result<()> {
        let revision = self.load(store).await?;
        let mut watch = store.watch(&prefix(), revision).await?;
        while let Some(item) = watch.next().await {
            let WatchItem::Event(event) = item? else { continue };
            let mut policy = self.policy.write();
            match &event.change {
                Change::Put(value) => upsert(&mut policy, &event.key, value),
                Change::Delete => {
                    if let Some((kind, namespace, name)) = parse_key(&event.key) {
                        policy.remove(kind, namespace, name);
                    }
                }
            }
        }
        Ok(())
    }
}

fn prefix() -> String {
    format!("/registry/{API_GROUP}/")
}

/// `/registry/GROUP/PLURAL/[NAMESPACE/]NAME`.
fn parse_key(key: &str) -> Option<(RbacKind, &str, &str)> {
    let rest = key.strip_prefix("/registry/")?.strip_prefix(API_GROUP)?.strip_prefix('/')?;
    let (plural, rest) = rest.split_once('/')?;
    let kind = RbacKind::by_plural(plural)?;
    match kind {
        RbacKind::Role | RbacKind::RoleBinding => rest.split_once('/').map(|(namespace, name)| (kind, namespace, name)),
        RbacKind::ClusterRole | RbacKind::ClusterRoleBinding => Some((kind, "", rest)),
    }
}

fn upsert(policy: &mut Policy, key: &str, value: &[u8]) {
    let Some((kind, _, _)) = parse_key(key) else { return };
    let parsed = serde_json::from_slice::<Value>(value);
    if let Err(error) = parsed.and_then(|object| policy.upsert(kind, &object)) {
        tracing::error!(key, %error, "an RBAC object cannot be read and grants nothing");
    }
}

fn attributes(info: &RequestInfo) -> Attributes<'_> {
    if !info.is_resource {
        return Attributes::path(&info.verb, &info.path);
    }
    Attributes::resource(&info.verb, &info.group, &info.resource)
        .in_namespace(&info.namespace)
        .named(&info.name)
        .subresource(&info.subresource)
}
