//! Nobody grants rights they do not have, unless they may `escalate` or `bind`.

use std::sync::Arc;

use async_trait::async_trait;
use minik8s_auth::rbac::{API_GROUP, EscalationError, RoleRef, Rule};
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
    async fn admit(&self, _: &Registry, request: &mut Request<'_>) -> Result<()> {
        let call = request.call;
        if call.served.group != API_GROUP || request.operation == Operation::Delete {
            return Ok(());
        }
        // A write that changes no right needs none.
        let unchanged = |field: &str| request.old.is_some_and(|old| old[field] == request.object[field]);
        let name = request.object.name();
        let checked = match call.served.plural.as_str() {
            "roles" | "clusterroles" if !(unchanged("rules") && unchanged("aggregationRule")) => {
                let aggregated = !request.object["aggregationRule"].is_null();
                let rules = rules_of(request.object);
                self.authorizer.policy().may_write_role(&call.user, &call.namespace, name, &rules, aggregated)
            }
            "rolebindings" | "clusterrolebindings" if !(unchanged("subjects") && unchanged("roleRef")) => {
                let role = role_ref(request.object);
                self.authorizer.policy().may_write_binding(&call.user, &call.namespace, &role)
            }
            _ => Ok(()),
        };
        match checked {
            Ok(()) => Ok(()),
            Err(why @ EscalationError::NotHeld(_)) => {
                Err(ApiError::forbidden(Some(call.served.resource()), name, why))
            }
            Err(why @ EscalationError::RoleMissing(_)) => {
                Err(ApiError::new(404, "NotFound", why.to_string()))
            }
        }
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
