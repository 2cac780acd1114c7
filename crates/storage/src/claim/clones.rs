//! Claims that start with the content of another claim, by that claim: when it is bound, they can be made.
//!
//! An index, so that a claim that is bound costs the same however many others wait. It never looks at volumes.

use std::collections::{BTreeSet, HashMap};

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use minik8s_runtime::{Key, key_of};
use parking_lot::Mutex;

use super::plan::{is_bound, source_claim};

#[derive(Default)]
pub struct Clones(Mutex<HashMap<Key, BTreeSet<Key>>>);

impl Clones {
    /// Takes in how a claim has changed, and gives those that wait for it if it has just been bound.
    pub fn change(
        &self,
        old: Option<&PersistentVolumeClaim>,
        new: Option<&PersistentVolumeClaim>,
    ) -> Vec<Key> {
        let mut waiting = self.0.lock();
        if let Some((source, claim)) = old.and_then(waits)
            && let Some(claims) = waiting.get_mut(&source)
        {
            claims.remove(&claim);
            if claims.is_empty() {
                waiting.remove(&source);
            }
        }
        if let Some((source, claim)) = new.and_then(waits) {
            waiting.entry(source).or_default().insert(claim);
        }
        let bound = new.filter(|claim| is_bound(claim) && !old.is_some_and(is_bound)).map(key_of);
        bound.and_then(|source| waiting.get(&source)).into_iter().flatten().cloned().collect()
    }

    /// Those that wait for a claim.
    pub fn of(&self, source: &Key) -> Vec<Key> {
        self.0.lock().get(source).into_iter().flatten().cloned().collect()
    }
}

/// What a claim waits for, and its own key.
fn waits(claim: &PersistentVolumeClaim) -> Option<(Key, Key)> {
    let own = key_of(claim);
    let source = source_claim(claim).filter(|_| !is_bound(claim))?;
    Some((Key::new(&*own.namespace, source), own))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::annotation::BIND_COMPLETED;

    fn claim(name: &str, source: Option<&str>, volume: Option<&str>) -> PersistentVolumeClaim {
        let annotations = volume.map_or(Value::Null, |_| json!({BIND_COMPLETED: "yes"}));
        let source = source.map(|name| json!({"kind": "PersistentVolumeClaim", "name": name}));
        serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": name, "annotations": annotations},
            "spec": {"dataSource": source, "volumeName": volume},
        }))
        .unwrap()
    }

    #[test]
    fn source_that_is_bound_wakes_its_clones_once() {
        let clones = Clones::default();
        let (source, bound) = (claim("source", None, None), claim("source", None, Some("v")));
        let clone = claim("clone", Some("source"), None);
        let key = Key::new("ns", "clone");
        assert!(clones.change(None, Some(&source)).is_empty());
        assert!(clones.change(None, Some(&clone)).is_empty());
        assert_eq!(clones.change(Some(&source), Some(&bound)), std::slice::from_ref(&key));
        assert!(clones.change(Some(&bound), Some(&bound)).is_empty());
        assert_eq!(clones.of(&Key::new("ns", "source")), [key]);
        clones.change(Some(&clone), Some(&claim("clone", Some("source"), Some("w"))));
        assert!(clones.of(&Key::new("ns", "source")).is_empty());
        assert!(clones.change(Some(&source), Some(&bound)).is_empty());
    }
}
