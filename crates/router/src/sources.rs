//! The objects of one kind that the router looks at, shared with the other parts of the agent.

use std::sync::Arc;

use minik8s_informer::{Caches, Change, Informer, Key, ListOptions, Object};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

/// Namespace and name.
pub type Name = (String, String);

/// Ends with the watch, if nobody else needs it, when it is dropped.
pub struct Source<K> {
    informer: Arc<Informer<K>>,
    _task: AbortOnDropHandle<()>,
}

/// How well the objects of a kind are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sight {
    Nothing,
    /// By a former run of the agent.
    Checkpointed,
    /// By the server, which may have no such kind.
    Synced,
}

impl<K: Object> Source<K> {
    /// `changed` is told of objects that matter.
    pub fn follow(
        caches: &Caches,
        options: ListOptions,
        changed: Arc<Notify>,
        matters: impl Fn(&K) -> bool + Send + 'static,
    ) -> Self {
        let informer = caches.informer::<K>(options);
        let mut changes = informer.subscribe();
        let task = tokio::spawn(async move {
            loop {
                let is_news = match changes.next().await {
                    Change::Applied { old, new } => matters(&new) || old.is_some_and(|old| matters(&old)),
                    Change::Removed(old) => matters(&old),
                    Change::Synced | Change::Absent => true,
                };
                if is_news {
                    changed.notify_one();
                }
            }
        });
        Source { informer, _task: AbortOnDropHandle::new(task) }
    }

    pub fn sight(&self) -> Sight {
        match (self.informer.is_synced() || self.informer.is_absent(), self.informer.is_checkpointed()) {
            (true, _) => Sight::Synced,
            (false, true) => Sight::Checkpointed,
            (false, false) => Sight::Nothing,
        }
    }

    pub fn get(&self, (namespace, name): &Name) -> Option<Arc<K>> {
        self.informer.get(&Key::new(namespace, name))
    }

    pub fn list(&self, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        self.informer.list().into_iter().filter(|object| wanted(object)).collect()
    }
}
