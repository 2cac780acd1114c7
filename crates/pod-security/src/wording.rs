//! Upstream's way to put lists into sentences.

use std::collections::BTreeSet;

/// `"a", "b"`.
pub fn quoted<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("\"{}\"", item.as_ref())).collect();
    items.join(", ")
}

pub fn plural<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

/// `container "a"`, `containers "a", "b"`.
pub fn containers(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}

/// Who set something: the pod itself, containers, or both.
pub fn setters(pod: bool, names: &[&str]) -> Vec<String> {
    let pod = pod.then(|| "pod".to_owned());
    pod.into_iter().chain((!names.is_empty()).then(|| containers(names))).collect()
}

/// Each once, in order.
pub type Sorted<'a> = BTreeSet<&'a str>;
