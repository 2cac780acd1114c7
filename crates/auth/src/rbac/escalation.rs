//! Nobody grants what they do not hold, unless they may `escalate` (roles) or `bind` (bindings).

use thiserror::Error;

use super::{API_GROUP, Policy, RoleRef, Rule};
use crate::{Attributes, User};

/// Why a role or binding may not be written.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EscalationError {
    /// A 403; the text lists what is missing.
    #[error("{0}")]
    NotHeld(String),
    /// A 404: what the binding would grant is unknown, so it cannot be judged.
    #[error("{0} not found")]
    RoleMissing(String),
}

impl Policy {
    /// Whether the user may create a role with these rules, or change one to have them. An empty namespace
    /// means a ClusterRole. Ask only if rules or aggregation change: anyone may edit labels.
    pub fn may_write_role(
        &self,
        user: &User,
        namespace: &str,
        name: &str,
        rules: &[Rule],
        aggregated: bool,
    ) -> Result<(), EscalationError> {
        let resource = if namespace.is_empty() { "clusterroles" } else { "roles" };
        let escalate =
            Attributes::resource("escalate", API_GROUP, resource).in_namespace(namespace).named(name);
        if self.allows(user, &escalate).is_allowed() {
            return Ok(());
        }
        // Whoever aggregates gets the rules of roles that others will write: only the almighty may.
        let everything = [Rule::everything(), Rule::every_path()];
        let rules = if aggregated { &everything[..] } else { rules };
        self.confirm(user, namespace, rules)
    }

    /// Whether the user may create a binding of this role. An empty namespace means a ClusterRoleBinding.
    pub fn may_write_binding(
        &self,
        user: &User,
        namespace: &str,
        role: &RoleRef,
    ) -> Result<(), EscalationError> {
        let (resource, name) = match role {
            RoleRef::Role(name) => ("roles", name),
            RoleRef::ClusterRole(name) => ("clusterroles", name),
        };
        let bind = Attributes::resource("bind", API_GROUP, resource).in_namespace(namespace).named(name);
        if self.allows(user, &bind).is_allowed() {
            return Ok(());
        }
        let missing = || EscalationError::RoleMissing(format!("{resource}.{API_GROUP} {name:?}"));
        let rules = self.rules_of(role, namespace).ok_or_else(missing)?;
        self.confirm(user, namespace, rules)
    }

    fn confirm(&self, user: &User, namespace: &str, rules: &[Rule]) -> Result<(), EscalationError> {
        let missing = self.missing_rules(user, namespace, rules);
        if missing.is_empty() { Ok(()) } else { Err(EscalationError::NotHeld(refusal(user, &missing))) }
    }
}

/// The text of the 403.
pub fn refusal(user: &User, missing: &[Rule]) -> String {
    let groups: Vec<String> = user.groups.iter().map(|group| format!("{group:?}")).collect();
    let mut lines: Vec<String> = missing.iter().map(ToString::to_string).collect();
    lines.sort();
    format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        groups.join(" "),
        lines.join("\n")
    )
}
