//! Finds all registered prefixes of a key without looking at the others.
//!
//! The prefixes stand in one ordered map. The greatest entry that is not above the key is either a prefix
//! of it, or shares its first letters with it, in which case no registered prefix is longer than those.
//! So each look either finds a prefix or skips to where the next one can be: a few steps for a key, however
//! many prefixes there are.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

pub(super) struct PrefixIndex<T> {
    by_prefix: BTreeMap<Arc<str>, T>,
}

impl<T> Default for PrefixIndex<T> {
    fn default() -> Self {
        PrefixIndex { by_prefix: BTreeMap::new() }
    }
}

impl<T: Default> PrefixIndex<T> {
    pub(super) fn get_or_insert(&mut self, prefix: &Arc<str>) -> &mut T {
        self.by_prefix.entry(prefix.clone()).or_default()
    }

    pub(super) fn get(&self, prefix: &str) -> Option<&T> {
        self.by_prefix.get(prefix)
    }

    /// Changes what stands at `prefix`; removes it when `change` returns true.
    pub(super) fn remove_if(&mut self, prefix: &str, change: impl FnOnce(&mut T) -> bool) {
        if self.by_prefix.get_mut(prefix).is_some_and(change) {
            self.by_prefix.remove(prefix);
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.by_prefix.values()
    }

    fn up_to(&self, bound: &str) -> Option<(&Arc<str>, &T)> {
        self.by_prefix.range::<str, _>((Bound::Unbounded, Bound::Included(bound))).next_back()
    }

    /// Calls `found` for every registered prefix of `key`, longest first.
    pub(super) fn for_each_prefix_of(&self, key: &str, mut found: impl FnMut(&T)) {
        let mut bound = key;
        while let Some((prefix, value)) = self.up_to(bound) {
            let prefix: &str = prefix;
            if !key.starts_with(prefix) {
                bound = &key[..shared_length(prefix, key)];
                continue;
            }
            found(value);
            let Some(last) = prefix.chars().next_back() else { return };
            bound = &key[..prefix.len() - last.len_utf8()];
        }
    }
}

fn shared_length(a: &str, b: &str) -> usize {
    let bytes = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    b.floor_char_boundary(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(prefixes: &[String], key: &str) -> Vec<String> {
        let mut index = PrefixIndex::<String>::default();
        for prefix in prefixes {
            *index.get_or_insert(&Arc::from(prefix.as_str())) = prefix.clone();
        }
        let mut found = Vec::new();
        index.for_each_prefix_of(key, |prefix| found.push(prefix.clone()));
        found
    }

    #[test]
    fn finds_nested_prefixes_longest_first() {
        let prefixes = ["", "/pods/", "/pods/a/", "/pods/b/", "/podsx"].map(String::from);
        assert_eq!(matches(&prefixes, "/pods/a/x"), ["/pods/a/", "/pods/", ""]);
        assert_eq!(matches(&prefixes, "/podt"), [""]);
        assert_eq!(matches(&prefixes[1..], "/nodes/a"), [""; 0]);
    }

    proptest! {
        #[test]
        fn agrees_with_looking_at_every_prefix(
            prefixes in prop::collection::btree_set("[ab/é]{0,5}", 0..20),
            key in "[ab/é]{0,8}",
        ) {
            let prefixes: Vec<String> = prefixes.into_iter().collect();
            let mut expected: Vec<String> =
                prefixes.iter().filter(|prefix| key.starts_with(prefix.as_str())).cloned().collect();
            expected.reverse();
            prop_assert_eq!(matches(&prefixes, &key), expected);
        }
    }
}
