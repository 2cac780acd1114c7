//! ClusterRoles, and those that are the union of others.
//!
//! An aggregated role has the rules of every role that its selectors pick, through other aggregated roles
//! too. What its own `rules` say does not count: they are a copy for readers.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::Rule;
use super::selector;

#[derive(Debug, Default)]
pub struct ClusterRoles {
    /// By name, so that unions have a stable order.
    roles: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    labels: BTreeMap<String, String>,
    /// `None` for a plain role.
    selectors: Option<Vec<LabelSelector>>,
    rules: Arc<[Rule]>,
}

impl ClusterRoles {
    pub fn upsert(&mut self, role: ClusterRole) {
        let name = role.metadata.name.unwrap_or_default();
        let entry = Entry {
            labels: role.metadata.labels.unwrap_or_default(),
            selectors: role.aggregation_rule.map(|a| a.cluster_role_selectors.unwrap_or_default()),
            rules: role.rules.unwrap_or_default().into_iter().map(Rule::from).collect(),
        };
        let old = self.roles.get(&name);
        let matters = self.matters(&entry) || old.is_some_and(|old| self.matters(old));
        self.roles.insert(name, entry);
        if matters {
            self.aggregate();
        }
    }

    pub fn remove(&mut self, name: &str) {
        if let Some(old) = self.roles.remove(name)
            && self.matters(&old)
        {
            self.aggregate();
        }
    }

    pub fn rules(&self, name: &str) -> Option<&Arc<[Rule]>> {
        self.roles.get(name).map(|entry| &entry.rules)
    }

    pub fn is_aggregated(&self, name: &str) -> bool {
        self.roles.get(name).is_some_and(|entry| entry.selectors.is_some())
    }

    /// Whether a role's change can change an aggregated one: most cannot, and are then cheap.
    fn matters(&self, role: &Entry) -> bool {
        role.selectors.is_some() || self.roles.values().any(|other| other.picks(role))
    }

    fn aggregate(&mut self) {
        let aggregated = self.roles.iter().filter(|(_, entry)| entry.selectors.is_some());
        let unions: Vec<(String, Arc<[Rule]>)> =
            aggregated.map(|(name, _)| (name.clone(), self.union(name))).collect();
        for (name, rules) in unions {
            if let Some(entry) = self.roles.get_mut(&name) {
                entry.rules = rules;
            }
        }
    }

    /// Rules of all plain roles that can be reached from this one. Roles may pick each other in circles.
    fn union(&self, start: &str) -> Arc<[Rule]> {
        let mut seen = HashSet::from([start]);
        let mut open = vec![start];
        let mut rules: Vec<Rule> = Vec::new();
        let mut known: HashSet<&Rule> = HashSet::new();
        while let Some(entry) = open.pop().and_then(|name| self.roles.get(name)) {
            for (name, picked) in self.roles.iter().filter(|(_, other)| entry.picks(other)) {
                if !seen.insert(name) {
                    continue;
                }
                if picked.selectors.is_some() {
                    open.push(name);
                } else {
                    rules.extend(picked.rules.iter().filter(|rule| known.insert(rule)).cloned());
                }
            }
        }
        rules.into()
    }
}

impl Entry {
    fn picks(&self, other: &Entry) -> bool {
        self.selectors.iter().flatten().any(|s| selector::matches(s, &other.labels))
    }
}
