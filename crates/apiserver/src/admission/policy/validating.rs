//! ValidatingAdmissionPolicy: expressions that must hold for a request.
//!
//! Pure: what is judged, and with which parameters, is found by others; so is what becomes of a failure.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec,
};
use minik8s_cel::policy::{Account, Expected, OutOfBudget};
use minik8s_cel::{Bindings, Program, Value, admission};
use serde_json::Value as Json;

use super::definition::{Binding, Definition, Parts};
use super::set::Policy;
use crate::admission::variables::Variables;

const LONGEST_MESSAGE: usize = 5 * 1024;
const LONGEST_ANNOTATION: usize = 10 * 1024;

pub struct ValidatingPolicy {
    definition: Definition,
    validations: Vec<Validation>,
    annotations: Vec<Annotation>,
}

type Compiled = Result<Program, String>;

struct Validation {
    expression: String,
    program: Compiled,
    message: String,
    message_program: Option<Compiled>,
    reason: &'static str,
}

struct Annotation {
    key: String,
    expression: String,
    program: Compiled,
}

/// A validation that did not hold, or could not be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Of the validation; None where the whole policy failed.
    pub index: Option<usize>,
    pub message: String,
    pub reason: &'static str,
}

/// What a policy says about a request. What failed and is to be ignored is not in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    pub failures: Vec<Failure>,
    /// Annotations for the audit log, by key.
    pub annotations: Vec<(String, String)>,
    /// Annotations that could not be computed refuse the request, whatever the binding says.
    pub broken_annotations: Vec<String>,
}

impl Policy for ValidatingPolicy {
    type Spec = ValidatingAdmissionPolicySpec;
    type BindingSpec = ValidatingAdmissionPolicyBindingSpec;
    const PREFIX: &'static str = "/registry/admissionregistration.k8s.io/validatingadmissionpolicies/";
    const BINDING_PREFIX: &'static str =
        "/registry/admissionregistration.k8s.io/validatingadmissionpolicybindings/";

    fn compile(name: &str, spec: ValidatingAdmissionPolicySpec) -> Result<Self, String> {
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
        let (asking, silent) = (definition.environment(true, false), definition.environment(false, false));
        let validations = spec.validations.into_iter().flatten().map(|validation| Validation {
            program: Expected::Bool.compile(&asking, &validation.expression),
            message_program: validation
                .message_expression
                .filter(|text| !text.is_empty())
                .map(|text| Expected::String.compile(&silent, &text)),
            reason: reason(validation.reason.as_deref()),
            message: validation.message.unwrap_or_default(),
            expression: validation.expression,
        });
        let annotations = spec.audit_annotations.into_iter().flatten().map(|annotation| Annotation {
            key: annotation.key,
            program: Expected::StringOrNull.compile(&asking, annotation.value_expression.trim()),
            expression: annotation.value_expression,
        });
        let (validations, annotations) = (validations.collect(), annotations.collect());
        Ok(ValidatingPolicy { definition, validations, annotations })
    }

    fn bind(name: &str, spec: ValidatingAdmissionPolicyBindingSpec) -> Result<Binding, String> {
        Binding::validating(name, spec)
    }

    fn definition(&self) -> &Definition {
        &self.definition
    }
}

fn reason(given: Option<&str>) -> &'static str {
    const KNOWN: [&str; 3] = ["Unauthorized", "Forbidden", "RequestEntityTooLarge"];
    KNOWN.into_iter().find(|known| given == Some(known)).unwrap_or("Invalid")
}

impl ValidatingPolicy {
    pub fn judge(&self, variables: &Variables<'_>, param: Option<&Json>, namespace: &Json) -> Judgement {
        let null = Json::Null;
        let bindings = variables
            .bind()
            .with("params", Value::of_json(param.unwrap_or(&null), None))
            .with("namespaceObject", Value::of_json(namespace, admission::namespace()));
        let bindings = self.definition.variables.bind(bindings);
        match self.definition.conditions.hold(&bindings) {
            Ok(true) => self.evaluate(&bindings),
            Ok(false) => Judgement::default(),
            Err(why) => self.failed(why),
        }
    }

    fn evaluate(&self, bindings: &Bindings<'_>) -> Judgement {
        bindings.take_spent();
        let mut account = Account::default();
        let mut judgement = Judgement::default();
        for (index, validation) in self.validations.iter().enumerate() {
            match self.validate(validation, bindings, &mut account) {
                Ok(None) => {}
                Ok(Some(failure)) => judgement.failures.push(Failure { index: Some(index), ..failure }),
                Err(out) => return self.failed(out.to_string()),
            }
        }
        let mut account = Account::default();
        for annotation in &self.annotations {
            match annotate(annotation, bindings, &mut account) {
                Ok(Ok(None)) => {}
                Ok(Ok(Some(value))) => judgement.annotations.push((annotation.key.clone(), value)),
                Ok(Err(_)) if self.definition.is_ignored_when_failing => {}
                Ok(Err(why)) => judgement.broken_annotations.push(why),
                Err(out) => return self.failed(out.to_string()),
            }
        }
        judgement
    }

    /// The policy itself could not be evaluated.
    fn failed(&self, message: String) -> Judgement {
        if self.definition.is_ignored_when_failing {
            return Judgement::default();
        }
        let failure = Failure { index: None, message, reason: "Invalid" };
        Judgement { failures: vec![failure], ..Judgement::default() }
    }

    fn validate(
        &self,
        validation: &Validation,
        bindings: &Bindings<'_>,
        account: &mut Account,
    ) -> Result<Option<Failure>, OutOfBudget> {
        let error = match run(&validation.program, &validation.expression, bindings, account)? {
            Ok(Value::Bool(true)) => return Ok(None),
            Ok(_) => None,
            Err(_) if self.definition.is_ignored_when_failing => return Ok(None),
            Err(why) => Some(why),
        };
        let (message, reason) = match error {
            Some(why) => (why, "Invalid"),
            None => (validation.message(bindings, account)?, validation.reason),
        };
        Ok(Some(Failure { index: None, message, reason }))
    }
}

impl Validation {
    /// What the message expression says, else the message, else the expression.
    fn message(&self, bindings: &Bindings<'_>, account: &mut Account) -> Result<String, OutOfBudget> {
        let computed = match &self.message_program {
            Some(Ok(program)) => match account.run(program, bindings)? {
                Ok(Value::String(text)) => text.trim().to_owned(),
                _ => String::new(),
            },
            _ => String::new(),
        };
        if !computed.is_empty() && computed.len() <= LONGEST_MESSAGE && !computed.contains('\n') {
            return Ok(computed);
        }
        let message = self.message.trim();
        Ok(match message.is_empty() {
            true => format!("failed expression: {}", self.expression.trim()),
            false => message.to_owned(),
        })
    }
}

fn annotate(
    annotation: &Annotation,
    bindings: &Bindings<'_>,
    account: &mut Account,
) -> Result<Result<Option<String>, String>, OutOfBudget> {
    let found = run(&annotation.program, &annotation.expression, bindings, account)?;
    Ok(found.and_then(|value| match value {
        Value::Null => Ok(None),
        Value::String(text) => {
            let text: String = text.trim().chars().collect();
            let end = text.floor_char_boundary(LONGEST_ANNOTATION);
            Ok((!text.is_empty()).then(|| text[..end].to_owned()))
        }
        other => Err(format!(
            "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or null.",
            annotation.expression,
            other.type_name()
        )),
    }))
}

/// The value, or upstream's words for why there is none.
pub fn run<'a>(
    program: &Compiled,
    expression: &str,
    bindings: &Bindings<'a>,
    account: &mut Account,
) -> Result<Result<Value<'a>, String>, OutOfBudget> {
    let program = match program {
        Ok(program) => program,
        Err(why) => return Ok(Err(format!("compilation error: {why}"))),
    };
    let found = account.run(program, bindings)?;
    Ok(found.map_err(|error| format!("expression '{expression}' resulted in error: {error}")))
}
