//! MutatingAdmissionPolicy: expressions that make a patch of a request's object.
//!
//! Pure: the object comes in, the changed one goes out. Reading it like a user's object, and defaulting it, is the
//! caller's.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicyBindingSpec, MutatingAdmissionPolicySpec,
};
use minik8s_cel::policy::{Account, Expected, check_names};
use minik8s_cel::{Bindings, Program, Value, admission};
use minik8s_patch::apply::{self, ApplyError};
use minik8s_patch::{PatchError, json};
use minik8s_schema::Schema;
use serde_json::Value as Json;

use super::definition::{Binding, Definition, Parts};
use super::set::Policy;
use super::validating::run;
use crate::admission::variables::Variables;

pub struct MutatingPolicy {
    definition: Definition,
    pub mutations: Vec<Mutation>,
    pub is_reinvoked: bool,
}

/// One expression, and what to do with its value.
pub struct Mutation {
    patch: Patch,
    expression: String,
    program: Result<Program, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patch {
    ApplyConfiguration,
    Json,
}

impl Policy for MutatingPolicy {
    type Spec = MutatingAdmissionPolicySpec;
    type BindingSpec = MutatingAdmissionPolicyBindingSpec;
    const PREFIX: &'static str = "/registry/admissionregistration.k8s.io/mutatingadmissionpolicies/";
    const BINDING_PREFIX: &'static str =
        "/registry/admissionregistration.k8s.io/mutatingadmissionpolicybindings/";

    fn compile(name: &str, spec: MutatingAdmissionPolicySpec) -> Result<Self, String> {
        let definition = Definition::new(
            name,
            Parts {
                failure_policy: spec.failure_policy.as_deref(),
                match_constraints: spec.match_constraints.as_ref(),
                match_conditions: spec.match_conditions.as_ref(),
                param_kind: spec.param_kind.as_ref(),
                variables: spec.variables.as_ref(),
            },
        )?;
        let environment = definition.environment(true, true);
        let mutations = spec.mutations.into_iter().flatten().map(|mutation| {
            let (patch, expected, expression) = match mutation.patch_type.as_str() {
                "JSONPatch" => {
                    let expression = mutation.json_patch.and_then(|patch| patch.expression);
                    (Patch::Json, Expected::JsonPatch, expression)
                }
                _ => {
                    let expression = mutation.apply_configuration.and_then(|patch| patch.expression);
                    (Patch::ApplyConfiguration, Expected::ApplyConfiguration, expression)
                }
            };
            let expression = expression.unwrap_or_default();
            let program = expected.compile(&environment, &expression);
            Mutation { patch, expression, program }
        });
        let mutations = mutations.collect();
        let is_reinvoked = spec.reinvocation_policy.as_deref() == Some("IfNeeded");
        Ok(MutatingPolicy { definition, mutations, is_reinvoked })
    }

    fn bind(name: &str, spec: MutatingAdmissionPolicyBindingSpec) -> Result<Binding, String> {
        Binding::mutating(name, spec)
    }

    fn definition(&self) -> &Definition {
        &self.definition
    }
}

/// What a policy's expressions see.
pub struct Input<'a> {
    pub variables: &'a Variables<'a>,
    pub object: &'a Json,
    pub param: &'a Json,
    pub namespace: &'a Json,
}

impl MutatingPolicy {
    /// Whether its `matchConditions` hold.
    pub fn concerns(&self, input: &Input<'_>) -> Result<bool, String> {
        self.definition.conditions.hold(&self.bind_input(input))
    }

    /// The object after one of the mutations; None if it stays as it is.
    pub fn mutate(
        &self,
        mutation: &Mutation,
        input: &Input<'_>,
        schema: &Schema,
    ) -> Result<Option<Json>, String> {
        let bindings = self.bind_input(input);
        let mut account = Account::default();
        let found = run(&mutation.program, &mutation.expression, &bindings, &mut account);
        let value = found.map_err(|out| out.to_string())??;
        match mutation.patch {
            Patch::ApplyConfiguration => apply_configuration(&value, input.object, schema).map(Some),
            Patch::Json => json_patch(&value, input.object),
        }
    }

    fn bind_input<'a>(&'a self, input: &Input<'a>) -> Bindings<'a> {
        let bindings = input
            .variables
            .bind_object(input.object)
            .with("params", Value::of_json(input.param, None))
            .with("namespaceObject", Value::of_json(input.namespace, admission::namespace()));
        self.definition.variables.bind(bindings)
    }
}

fn apply_configuration(value: &Value, object: &Json, schema: &Schema) -> Result<Json, String> {
    check_names(value, "Object").map_err(|why| format!("type mismatch: {why}"))?;
    let mut configuration = value.to_json().ok_or("the configuration has values that JSON cannot say")?;
    for field in ["apiVersion", "kind"] {
        configuration[field] = object[field].clone();
    }
    apply::merge_configuration(object, &configuration, schema).map_err(|error| match error {
        ApplyError::Undeclared(_) | ApplyError::List { .. } => {
            format!("error applying patch: failed to convert patch object to typed object: {error}")
        }
        error => format!("error applying patch: {error}"),
    })
}

fn json_patch(value: &Value, object: &Json) -> Result<Option<Json>, String> {
    let Value::List(operations) = value else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".to_owned());
    };
    for operation in operations.iter() {
        let Value::Map(operation) = operation else { continue };
        let Some(set @ Value::Map(_)) = operation.field("value") else { continue };
        let name = set.type_name().to_owned();
        if name.starts_with("Object") {
            check_names(&set, &name).map_err(|why| format!("type mismatch: {why}"))?;
        }
    }
    let patch = value
        .to_json()
        .ok_or("JSONPath valueExpression evaluated to a type that could not marshal to JSON")?;
    let mut changed = object.clone();
    match json::apply(&patch, &mut changed) {
        Ok(()) => Ok(Some(changed)),
        // A patch may ask whether it is wanted.
        Err(PatchError::Operation { op, .. }) if op == "test" => Ok(None),
        Err(error) => Err(format!("JSON Patch: {error}")),
    }
}
