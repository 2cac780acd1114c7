//! The authorizer: all RBAC objects, indexed for quick answers.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use serde::Deserialize;
use serde_json::{Value, json};

use super::aggregation::ClusterRoles;
use super::bindings::{Binding, Bindings};
use super::{RoleRef, Rule, covers};
use crate::user::MASTERS;
use crate::{Attributes, Decision, User};

/// Missing roles named in one answer, at most.
const MOST_REASONS: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RbacKind {
    Role,
    ClusterRole,
    RoleBinding,
    ClusterRoleBinding,
}

/// Put it in an `RwLock`: checks only read.
#[derive(Debug, Default)]
pub struct Policy {
    /// By namespace, then name.
    roles: HashMap<String, HashMap<String, Arc<[Rule]>>>,
    cluster_roles: ClusterRoles,
    bindings: Bindings,
}

impl RbacKind {
    pub const ALL: [RbacKind; 4] =
        [RbacKind::Role, RbacKind::ClusterRole, RbacKind::RoleBinding, RbacKind::ClusterRoleBinding];

    pub fn plural(self) -> &'static str {
        match self {
            RbacKind::Role => "roles",
            RbacKind::ClusterRole => "clusterroles",
            RbacKind::RoleBinding => "rolebindings",
            RbacKind::ClusterRoleBinding => "clusterrolebindings",
        }
    }

    pub fn by_plural(plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.plural() == plural)
    }
}

impl Policy {
    /// Takes in an object as it is stored, new or changed.
    pub fn upsert(&mut self, kind: RbacKind, object: &Value) -> Result<(), serde_json::Error> {
        match kind {
            RbacKind::Role => self.upsert_role(Role::deserialize(object)?),
            RbacKind::ClusterRole => self.upsert_cluster_role(ClusterRole::deserialize(object)?),
            RbacKind::RoleBinding => self.upsert_role_binding(RoleBinding::deserialize(object)?),
            RbacKind::ClusterRoleBinding => {
                self.upsert_cluster_role_binding(ClusterRoleBinding::deserialize(object)?);
            }
        }
        Ok(())
    }

    pub fn upsert_role(&mut self, role: Role) {
        let (namespace, name) = (role.metadata.namespace.unwrap_or_default(), role.metadata.name);
        let rules = role.rules.unwrap_or_default().into_iter().map(Rule::from).collect();
        self.roles.entry(namespace).or_default().insert(name.unwrap_or_default(), rules);
    }

    pub fn upsert_cluster_role(&mut self, role: ClusterRole) {
        self.cluster_roles.upsert(role);
    }

    pub fn upsert_role_binding(&mut self, binding: RoleBinding) {
        let namespace = binding.metadata.namespace.unwrap_or_default();
        let name = binding.metadata.name.unwrap_or_default();
        // One without a namespace would look like a ClusterRoleBinding.
        if !namespace.is_empty() {
            self.bindings.upsert(Binding::new(&namespace, &name, &binding.role_ref, binding.subjects));
        }
    }

    pub fn upsert_cluster_role_binding(&mut self, binding: ClusterRoleBinding) {
        let name = binding.metadata.name.unwrap_or_default();
        self.bindings.upsert(Binding::new("", &name, &binding.role_ref, binding.subjects));
    }

    /// Forgets an object. The namespace of cluster-scoped kinds is ignored.
    pub fn remove(&mut self, kind: RbacKind, namespace: &str, name: &str) {
        match kind {
            RbacKind::Role => self.remove_role(namespace, name),
            RbacKind::ClusterRole => self.cluster_roles.remove(name),
            RbacKind::RoleBinding => self.bindings.remove(namespace, name),
            RbacKind::ClusterRoleBinding => self.bindings.remove("", name),
        }
    }

    fn remove_role(&mut self, namespace: &str, name: &str) {
        if let Some(roles) = self.roles.get_mut(namespace) {
            roles.remove(name);
            if roles.is_empty() {
                self.roles.remove(namespace);
            }
        }
    }

    pub fn allows(&self, user: &User, wanted: &Attributes<'_>) -> Decision {
        if user.in_group(MASTERS) {
            return Decision::allow("");
        }
        let namespace = if wanted.path.is_some() { "" } else { wanted.namespace };
        let mut missing = BTreeSet::new();
        for binding in self.bindings.of(user, namespace) {
            match self.rules_of(&binding.role, &binding.namespace) {
                Some(rules) if rules.iter().any(|rule| rule.allows(wanted)) => {
                    return Decision::allow(format!("RBAC: allowed by {}", binding.describe(user)));
                }
                Some(_) => {}
                None if missing.len() < MOST_REASONS => drop(missing.insert(not_found(&binding.role))),
                None => {}
            }
        }
        let missing = Vec::from_iter(missing);
        Decision::no_opinion(match missing.as_slice() {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            several => format!("RBAC: [{}]", several.join(", ")),
        })
    }

    /// The rules of a role, aggregated ones included; `None` if it does not exist.
    pub fn rules_of(&self, role: &RoleRef, namespace: &str) -> Option<&[Rule]> {
        match role {
            RoleRef::ClusterRole(name) => self.cluster_roles.rules(name),
            RoleRef::Role(name) => self.roles.get(namespace).and_then(|roles| roles.get(name)),
        }
        .map(|rules| &**rules)
    }

    /// What an aggregated ClusterRole's `rules` should say; `None` for any other role.
    pub fn aggregated_rules(&self, name: &str) -> Option<Vec<PolicyRule>> {
        let rules = self.cluster_roles.rules(name).filter(|_| self.cluster_roles.is_aggregated(name))?;
        Some(rules.iter().cloned().map(PolicyRule::from).collect())
    }

    /// All that the user may do in the namespace (empty: at cluster scope), each rule once.
    pub fn rules_for(&self, user: &User, namespace: &str) -> Vec<Rule> {
        let mut rules = Vec::new();
        if user.in_group(MASTERS) {
            rules.extend([Rule::everything(), Rule::every_path()]);
        }
        let mut known = HashSet::new();
        for binding in self.bindings.of(user, namespace) {
            let granted = self.rules_of(&binding.role, &binding.namespace).unwrap_or_default();
            rules.extend(granted.iter().filter(|rule| known.insert(*rule)).cloned());
        }
        rules
    }

    /// `status` of a SelfSubjectRulesReview.
    pub fn rules_review(&self, user: &User, namespace: &str) -> Value {
        let (mut on_resources, mut on_paths) = (Vec::new(), Vec::new());
        for rule in self.rules_for(user, namespace) {
            if !rule.resources.is_empty() {
                let mut entry = json!({
                    "verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources,
                });
                if !rule.resource_names.is_empty() {
                    entry["resourceNames"] = json!(rule.resource_names);
                }
                on_resources.push(entry);
            }
            if !rule.non_resource_urls.is_empty() {
                on_paths.push(json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}));
            }
        }
        json!({"resourceRules": on_resources, "nonResourceRules": on_paths, "incomplete": false})
    }

    /// What of these rules the user does not hold in the namespace, and so must not grant.
    pub fn missing_rules(&self, user: &User, namespace: &str, rules: &[Rule]) -> Vec<Rule> {
        covers::uncovered(&self.rules_for(user, namespace), rules)
    }
}

fn not_found(role: &RoleRef) -> String {
    let (kind, name) = match role {
        RoleRef::Role(name) => ("role", name),
        RoleRef::ClusterRole(name) => ("clusterrole", name),
    };
    format!("{kind}.{} {name:?} not found", super::API_GROUP)
}
