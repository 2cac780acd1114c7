//! What both kinds of admission policies share, compiled once, and their bindings.

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MatchResources, MutatingAdmissionPolicyBindingSpec, ParamKind, ParamRef,
    ValidatingAdmissionPolicyBindingSpec, Variable,
};
use minik8s_api::LabelSelector;
use minik8s_cel::Environment;
use minik8s_cel::admission::Conditions;
use minik8s_cel::policy::{Scope, Variables};

use crate::admission::matching::Matching;

/// Which requests a policy is about, and what its expressions can name.
pub struct Definition {
    pub name: String,
    pub is_ignored_when_failing: bool,
    pub matching: Matching,
    pub conditions: Conditions,
    pub param_kind: Option<ParamKind>,
    pub variables: Variables,
}

/// The fields of a spec that both kinds have.
pub struct Parts<'a> {
    pub failure_policy: Option<&'a str>,
    pub match_constraints: Option<&'a MatchResources>,
    pub match_conditions: Option<&'a Vec<MatchCondition>>,
    pub param_kind: Option<&'a ParamKind>,
    pub variables: Option<&'a Vec<Variable>>,
}

impl Definition {
    /// Expressions that do not compile are kept: they fail the requests that need them, as the failure policy says.
    pub fn new(name: &str, parts: Parts<'_>) -> Result<Self, String> {
        let Parts { failure_policy, match_constraints, match_conditions, param_kind, variables } = parts;
        let constraints = match_constraints.ok_or("it has no matchConstraints")?;
        let scope = Scope { params: param_kind.is_some(), authorizer: true, mutation: false }.environment();
        let conditions = match_conditions.into_iter().flatten();
        let conditions = conditions.map(|condition| condition.expression.as_str());
        let mut compiled = Variables::default();
        for variable in variables.into_iter().flatten() {
            // Remembered by itself, and told to whoever reads it.
            let _ = compiled.add(&scope, &variable.name, &variable.expression);
        }
        Ok(Definition {
            name: name.to_owned(),
            is_ignored_when_failing: failure_policy == Some("Ignore"),
            matching: Matching::of_resources(constraints)?,
            conditions: Conditions::compile(&scope, conditions),
            param_kind: param_kind.cloned(),
            variables: compiled,
        })
    }

    /// For an expression of this policy.
    pub fn environment(&self, authorizer: bool, mutation: bool) -> Environment {
        let scope = Scope { params: self.param_kind.is_some(), authorizer, mutation };
        self.variables.declare(scope.environment())
    }
}

/// Where a policy applies, and with which parameters.
pub struct Binding {
    pub name: String,
    pub policy: String,
    pub matching: Option<Matching>,
    pub param: Option<Param>,
    /// Of a validating one: `Deny`, `Warn`, `Audit`.
    pub actions: Vec<String>,
}

/// Which objects are the parameters.
pub struct Param {
    pub name: Option<String>,
    pub namespace: String,
    pub selector: LabelSelector,
    pub is_needed: bool,
}

impl Binding {
    pub fn validating(name: &str, spec: ValidatingAdmissionPolicyBindingSpec) -> Result<Self, String> {
        let ValidatingAdmissionPolicyBindingSpec {
            match_resources,
            param_ref,
            policy_name,
            validation_actions,
        } = spec;
        Binding::new(name, policy_name, match_resources.as_ref(), param_ref, validation_actions)
    }

    pub fn mutating(name: &str, spec: MutatingAdmissionPolicyBindingSpec) -> Result<Self, String> {
        let MutatingAdmissionPolicyBindingSpec { match_resources, param_ref, policy_name } = spec;
        let policy = policy_name.unwrap_or_default();
        Binding::new(name, policy, match_resources.as_ref(), param_ref, Vec::new())
    }

    fn new(
        name: &str,
        policy: String,
        matching: Option<&MatchResources>,
        param: Option<ParamRef>,
        actions: Vec<String>,
    ) -> Result<Self, String> {
        Ok(Binding {
            name: name.to_owned(),
            policy,
            matching: matching.map(Matching::of_resources).transpose()?,
            param: param.map(Param::new).transpose()?,
            actions,
        })
    }
}

impl Param {
    fn new(spec: ParamRef) -> Result<Self, String> {
        let selector = match &spec.selector {
            Some(selector) => LabelSelector::try_from(selector).map_err(|error| error.to_string())?,
            None => LabelSelector::everything(),
        };
        Ok(Param {
            name: spec.name.filter(|name| !name.is_empty()),
            namespace: spec.namespace.unwrap_or_default(),
            selector,
            is_needed: spec.parameter_not_found_action.as_deref() == Some("Deny"),
        })
    }
}
