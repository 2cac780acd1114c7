//! All that policies and the rules made of them depend on.

use std::collections::BTreeMap;

use super::{Direction, Pod, Policy};

/// Namespace and name.
pub type Key = (String, String);
pub type Labels = BTreeMap<String, String>;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cluster {
    pub policies: BTreeMap<Key, Policy>,
    pub pods: BTreeMap<Key, Pod>,
    /// Their labels.
    pub namespaces: BTreeMap<String, Labels>,
}

impl Cluster {
    pub fn policies_in(&self, namespace: &str) -> impl Iterator<Item = &Policy> {
        let from = (namespace.to_owned(), String::new());
        self.policies
            .range(from..)
            .map(|(_, policy)| policy)
            .take_while(move |policy| policy.namespace == namespace)
    }

    pub fn pods_in(&self, namespace: &str) -> impl Iterator<Item = &Pod> {
        let from = (namespace.to_owned(), String::new());
        self.pods.range(from..).map(|(_, pod)| pod).take_while(move |pod| pod.namespace == namespace)
    }

    /// The policies that isolate the pod in that direction. Without any it is open.
    pub fn isolating(&self, pod: &Pod, direction: Direction) -> Vec<&Policy> {
        let of_pod = self.policies_in(&pod.namespace).filter(|policy| policy.selects(pod));
        of_pod.filter(|policy| policy.rules(direction).is_some()).collect()
    }
}
