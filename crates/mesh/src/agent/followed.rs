//! A kind of object that the agent follows, and what of it is known.

use std::collections::BTreeMap;
use std::sync::Arc;

use minik8s_informer::{Caches, Change, Changes, Informer, ListOptions, Object, key_of};

/// Namespace and name.
pub type Name = (String, String);

/// What a change came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    None,
    Changed,
    /// The server does not know the kind.
    Absent,
}

pub struct Followed<K> {
    source: Option<(Arc<Informer<K>>, Changes<K>)>,
    pub known: BTreeMap<Name, Arc<K>>,
    /// Whether all there is has been seen once, or will never be.
    pub is_complete: bool,
    /// Whether two states of an object are the same to proxies.
    is_same: fn(&K, &K) -> bool,
}

impl<K: Object> Followed<K> {
    pub fn new(is_same: fn(&K, &K) -> bool) -> Self {
        Followed { source: None, known: BTreeMap::new(), is_complete: false, is_same }
    }

    pub fn start(&mut self, caches: &Caches, options: ListOptions) {
        if self.source.is_none() {
            let informer = caches.informer::<K>(options);
            let changes = informer.subscribe();
            self.source = Some((informer, changes));
        }
    }

    /// The next change; never, before it was started.
    pub async fn next(&mut self) -> News {
        let Some((_, changes)) = &mut self.source else { return std::future::pending().await };
        let change = changes.next().await;
        self.take(change)
    }

    fn take(&mut self, change: Change<K>) -> News {
        let is_new = match change {
            Change::Applied { new, .. } => {
                let name = name(&*new);
                let same = self.known.get(&name).is_some_and(|known| (self.is_same)(known, &new));
                self.known.insert(name, new);
                !same && self.is_complete
            }
            Change::Removed(old) => self.known.remove(&name(&*old)).is_some() && self.is_complete,
            // A list counts when it is whole.
            Change::Synced => !std::mem::replace(&mut self.is_complete, true),
            // A server without the mesh: pods that have a proxy still go on.
            Change::Absent => {
                self.is_complete = true;
                return News::Absent;
            }
        };
        if is_new { News::Changed } else { News::None }
    }
}

fn name<K: Object>(object: &K) -> Name {
    let key = key_of(object);
    (key.namespace, key.name)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn object(name: &str, value: &str) -> Arc<ConfigMap> {
        let object = json!({"metadata": {"name": name, "namespace": "ns"}, "data": {"key": value}});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn applied(name: &str, value: &str) -> Change<ConfigMap> {
        Change::Applied { old: None, new: object(name, value) }
    }

    #[test]
    fn news_are_what_proxies_see() {
        let mut followed = Followed::<ConfigMap>::new(|old, new| old.data == new.data);
        assert_eq!(followed.take(applied("a", "1")), News::None);
        assert!(!followed.is_complete, "a list counts when it is whole");
        assert_eq!(followed.take(Change::Synced), News::Changed);
        assert_eq!(followed.take(Change::Synced), News::None);
        assert_eq!(followed.take(applied("a", "1")), News::None);
        assert_eq!(followed.take(applied("a", "2")), News::Changed);
        assert_eq!(followed.take(Change::Removed(object("b", "1"))), News::None);
        assert_eq!(followed.take(Change::Removed(object("a", "2"))), News::Changed);
        assert!(followed.known.is_empty() && followed.is_complete);
        assert_eq!(Followed::<ConfigMap>::new(|_, _| true).take(Change::Absent), News::Absent);
    }
}
