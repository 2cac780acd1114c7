//! Waits for volumes that are made for a pod's node: the pod goes there only when they are there too.
//!
//! A node that turns out to have no volume for the pod is not insisted on: whoever provides volumes takes the choice back,
//! and the pod is tried again.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use minik8s_runtime::{Cache, Caches, key_of};
use tokio::sync::watch;

/// The node that a claim's volume shall be reachable from.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Provisioners of others can take long; after this the pod is tried again, and finds what they have made.
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub struct BoundClaims {
    cache: Arc<Cache<PersistentVolumeClaim>>,
    changes: watch::Receiver<u64>,
}

/// How far a claim has come.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    Bound,
    Waiting,
    /// Gone, or wanted elsewhere.
    GivenUp,
}

impl BoundClaims {
    pub fn follow(caches: &Caches) -> Self {
        let cache = caches.of::<PersistentVolumeClaim>();
        let (told, changes) = watch::channel(0);
        cache.listen(Box::new(move |_, _| told.send_modify(|count| *count += 1)));
        BoundClaims { cache, changes }
    }

    /// Whether all of them got volumes for this node.
    pub async fn wait(mut self, claims: &[Arc<PersistentVolumeClaim>], node: &str) -> bool {
        let all = async {
            loop {
                self.changes.mark_unchanged();
                let seen = |claim: &Arc<PersistentVolumeClaim>| {
                    let now = self.cache.get(&key_of(&**claim));
                    now.map_or(Progress::GivenUp, |now| progress(&now, claim, node))
                };
                let seen: Vec<_> = claims.iter().map(seen).collect();
                if seen.contains(&Progress::GivenUp) {
                    return false;
                }
                if !seen.contains(&Progress::Waiting) {
                    return true;
                }
                if self.changes.changed().await.is_err() {
                    return false;
                }
            }
        };
        tokio::time::timeout(TIMEOUT, all).await.unwrap_or(false)
    }
}

fn progress(now: &PersistentVolumeClaim, known: &PersistentVolumeClaim, node: &str) -> Progress {
    let is_same = now.metadata.uid == known.metadata.uid && now.metadata.deletion_timestamp.is_none();
    let phase = now.status.as_ref().and_then(|status| status.phase.as_deref());
    let selected = now.metadata.annotations.as_ref().and_then(|all| all.get(SELECTED_NODE));
    match phase {
        _ if !is_same => Progress::GivenUp,
        Some("Bound") => Progress::Bound,
        Some("Lost") => Progress::GivenUp,
        _ if selected.is_some_and(|selected| selected == node) => Progress::Waiting,
        _ => Progress::GivenUp,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn claim_is_waited_for_as_long_as_it_is_wanted_here() {
        let claim = |uid: &str, more: Value| -> PersistentVolumeClaim {
            let mut object = json!({"metadata": {"uid": uid}});
            object["metadata"]
                .as_object_mut()
                .unwrap()
                .extend(more["metadata"].as_object().cloned().unwrap_or_default());
            object["status"] = more["status"].clone();
            serde_json::from_value(object).unwrap()
        };
        let check = |now: PersistentVolumeClaim, expected: Progress| {
            assert_eq!(progress(&now, &claim("u", json!({})), "a"), expected, "{now:?}");
        };
        let selected = |node: &str| json!({"annotations": {SELECTED_NODE: node}});
        check(claim("u", json!({"metadata": selected("a")})), Progress::Waiting);
        check(claim("u", json!({"metadata": selected("b")})), Progress::GivenUp);
        check(claim("u", json!({})), Progress::GivenUp);
        check(claim("v", json!({"metadata": selected("a")})), Progress::GivenUp);
        check(claim("u", json!({"metadata": selected("a"), "status": {"phase": "Bound"}})), Progress::Bound);
        check(claim("u", json!({"metadata": selected("a"), "status": {"phase": "Lost"}})), Progress::GivenUp);
    }
}
