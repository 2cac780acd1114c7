//! Nobody grants rights they do not have, unless they may `escalate` or `bind`.

use std::sync::Arc;

use async_trait::async_trait;
use minik8s_auth::rbac::{API_GROUP, EscalationError, Policy, RoleRef, Rule};
use serde_json::Value;

use super::{Admission, Operation, Request};
use crate::authorizer::Authorizer;
use crate::error::{ApiError, Result};
use crate::object::Object;
use crate::registry::Registry;

pub struct RbacEscalation {
    pub authorizer: Arc<Authorizer>,
}

#[async_trait]
impl Admission for RbacEscalation {
    async fn admit(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        let call = request.call;
        if call.served.group != API_GROUP || request.operation == Operation::Delete {
            return Ok(());
        }
        let mut checked = check(&self.authorizer.policy(), request);
        if checked.is_err() {
            // Whoever has just written a role may know of it before the authorizer does.
            let newest = self.authorizer.newest_policy(&*registry.store).await?;
            checked = check(&newest, request);
        }
        checked.map_err(|why| match why {
            EscalationError::NotHeld(_) => {
                ApiError::forbidden(Some(call.served.resource()), request.object.name(), why)
            }
            EscalationError::RoleMissing(_) => ApiError::new(404, "NotFound", why.to_string()),
        })
    }
}

fn check(policy: &Policy, request: &Request<'_>) -> Result<(), EscalationError> {
    let call = request.call;
    // A write that changes no right needs none.
    let unchanged = |field: &str| request.old.is_some_and(|old| old[field] == request.object[field]);
    match call.served.plural.as_str() {
        "roles" | "clusterroles" if !(unchanged("rules") && unchanged("aggregationRule")) => {
            let aggregated = !request.object["aggregationRule"].is_null();
            let (name, rules) = (request.object.name(), rules_of(request.object));
            policy.may_write_role(&call.user, &call.namespace, name, &rules, aggregated)
        }
        "rolebindings" | "clusterrolebindings" if !(unchanged("subjects") && unchanged("roleRef")) => {
            policy.may_write_binding(&call.user, &call.namespace, &role_ref(request.object))
        }
        _ => Ok(()),
    }
}

fn rules_of(role: &Value) -> Vec<Rule> {
    use k8s_openapi::api::rbac::v1::PolicyRule;
    let rules: Vec<PolicyRule> = serde_json::from_value(role["rules"].clone()).unwrap_or_default();
    rules.into_iter().map(Rule::from).collect()
}

fn role_ref(binding: &Value) -> RoleRef {
    let name = binding["roleRef"]["name"].as_str().unwrap_or_default().to_owned();
    if binding["roleRef"]["kind"] == "Role" { RoleRef::Role(name) } else { RoleRef::ClusterRole(name) }
}
