//! One look at a changed object for all watches that choose by the same fields.
//!
//! Every agent watches the pods of its own node. A pod that changes is one value in memory that a hundred watches are
//! told of: the first one reads what selectors ask about, the others find it here.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use minik8s_api::Part;
use parking_lot::Mutex;
use serde_json::Value;

use crate::catalog::Served;
use crate::codec;
use crate::error::Result;

/// As many as watches lie apart: they are told of a change within moments of each other.
const KEPT: usize = 64;

/// The newest looks at objects of one kind.
#[derive(Default)]
pub struct Looks(Mutex<VecDeque<Look>>);

struct Look {
    /// Kept, so that nothing else comes to lie at its address.
    value: Bytes,
    parts: Vec<Part>,
    seen: Arc<Value>,
}

impl Looks {
    /// What selectors that need these parts ask about.
    pub fn look(&self, served: &Served, value: &Bytes, parts: Option<&[Part]>) -> Result<Arc<Value>> {
        let Some(wanted) = parts else { return codec::look(served, value, None).map(Arc::new) };
        let is_same = |look: &&Look| look.value.as_ptr() == value.as_ptr() && look.parts == wanted;
        if let Some(look) = self.0.lock().iter().rev().find(is_same) {
            return Ok(look.seen.clone());
        }
        let seen = Arc::new(codec::look(served, value, parts)?);
        let mut looks = self.0.lock();
        if looks.len() == KEPT {
            looks.pop_front();
        }
        looks.push_back(Look { value: value.clone(), parts: wanted.to_vec(), seen: seen.clone() });
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pods() -> Served {
        let mut kinds = minik8s_kinds::all().into_iter();
        Served::new(kinds.find(|kind| kind.plural == "pods" && kind.group.is_empty()).unwrap())
    }

    #[test]
    fn look_at_the_same_value_is_shared() {
        let (pods, looks) = (pods(), Looks::default());
        let parts = pods.strategy.selectable_parts("spec.nodeName").unwrap().to_vec();
        let value = |node: &str| {
            let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "containers": []}});
            Bytes::from(pod.to_string())
        };
        let look = |value: &Bytes| looks.look(&pods, value, Some(&parts)).unwrap();
        let (one, other) = (value("a"), value("a"));
        let first = look(&one);
        assert_eq!(first["spec"]["nodeName"], "a");
        assert!(Arc::ptr_eq(&first, &look(&one.clone())));
        // Equal, and yet another one.
        assert!(!Arc::ptr_eq(&first, &look(&other)));
        for number in 0..KEPT {
            assert_eq!(look(&value(&number.to_string()))["spec"]["nodeName"], number.to_string());
        }
        assert!(!Arc::ptr_eq(&first, &look(&one)), "kept for ever");
    }
}
