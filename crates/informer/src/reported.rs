//! Which unreadable fields were logged already: each once per object, so that a heartbeat does not repeat it.
//!
//! What is remembered is bounded; nothing depends on it.

use std::collections::HashSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::Ignored;

/// Above this many the memory of what was logged starts anew.
const CAPACITY: usize = 1024;

/// By UID and field.
#[derive(Debug, Default)]
pub struct Reported(HashSet<(Option<String>, String)>);

impl Reported {
    /// Logs what is new; gives it, for those who tell others too.
    pub fn report<'a>(&mut self, kind: &str, meta: &ObjectMeta, ignored: &'a [Ignored]) -> Vec<&'a Ignored> {
        let new: Vec<&Ignored> = ignored.iter().filter(|ignored| self.is_new(meta, ignored)).collect();
        for ignored in &new {
            tracing::warn!(
                kind,
                namespace = meta.namespace.as_deref().unwrap_or_default(),
                name = meta.name.as_deref().unwrap_or_default(),
                field = %ignored.path,
                error = %ignored.error,
                "ignoring a field that cannot be read"
            );
        }
        new
    }

    fn is_new(&mut self, meta: &ObjectMeta, ignored: &Ignored) -> bool {
        if self.0.len() >= CAPACITY {
            self.0.clear();
        }
        self.0.insert((meta.uid.clone(), ignored.path.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_is_reported_once_per_object() {
        let meta = |uid: &str| ObjectMeta { uid: Some(uid.to_owned()), ..ObjectMeta::default() };
        let at = |path: &str| [Ignored { path: path.to_owned(), error: "odd".to_owned() }];
        let mut reported = Reported::default();
        let mut new = |uid: &str, path: &str| reported.report("Service", &meta(uid), &at(path)).len();
        assert_eq!((new("1", "status"), new("1", "status")), (1, 0));
        assert_eq!((new("1", "spec"), new("2", "status")), (1, 1));
        for n in 0..2 * CAPACITY {
            new(&n.to_string(), "status");
        }
        assert!(reported.0.len() <= CAPACITY);
    }
}
