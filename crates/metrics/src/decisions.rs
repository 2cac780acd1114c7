//! What autoscalers went by when they last decided, for those who ask why.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value;

/// The last decision of each autoscaler, by namespace and name, as the API shows it.
#[derive(Default)]
pub struct Decisions(RwLock<BTreeMap<(String, String), Arc<Value>>>);

impl Decisions {
    pub fn set(&self, namespace: &str, name: &str, decision: Value) {
        self.0.write().insert((namespace.to_owned(), name.to_owned()), Arc::new(decision));
    }

    pub fn forget(&self, namespace: &str, name: &str) {
        self.0.write().remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Those of a namespace, or of all if it is empty, in the order of their names.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<Value>> {
        let all = self.0.read();
        let chosen = all.iter().filter(|((of, _), _)| namespace.is_empty() || of == namespace);
        chosen.map(|(_, decision)| decision.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_namespace() {
        let decisions = Decisions::default();
        decisions.set("a", "x", Value::from(1));
        decisions.set("b", "x", Value::from(2));
        decisions.set("a", "x", Value::from(3));
        let found = |namespace: &str| -> Vec<Value> {
            decisions.in_namespace(namespace).iter().map(|value| (**value).clone()).collect()
        };
        assert_eq!((found("a"), found("")), (vec![3.into()], vec![3.into(), 2.into()]));
        decisions.forget("a", "x");
        assert!(found("a").is_empty());
    }
}
