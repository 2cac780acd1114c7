//! Who is told how a call ended: a function of the same namespace, or a workflow of which a run is started.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// As users write it: a function's name, `{function: NAME}` or `{workflow: NAME}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub enum Destination {
    Function(String),
    Workflow(String),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Name(String),
    Fields {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        function: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workflow: Option<String>,
    },
}

impl TryFrom<Form> for Destination {
    type Error = &'static str;

    fn try_from(form: Form) -> Result<Destination, &'static str> {
        match form {
            Form::Name(name) | Form::Fields { function: Some(name), workflow: None } => {
                Ok(Destination::Function(name))
            }
            Form::Fields { function: None, workflow: Some(name) } => Ok(Destination::Workflow(name)),
            Form::Fields { .. } => Err("name a function or a workflow, and not both"),
        }
    }
}

impl From<Destination> for Form {
    fn from(destination: Destination) -> Form {
        match destination {
            Destination::Function(name) => Form::Name(name),
            Destination::Workflow(name) => Form::Fields { function: None, workflow: Some(name) },
        }
    }
}

/// Text or an object, which the schemas of Kubernetes cannot say.
pub(super) fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn destination_is_a_name_or_one_of_two_fields() {
        let check = |given: Value, expected: Option<(Destination, Value)>| {
            let read: Option<Destination> = serde_json::from_value(given).ok();
            let written = read.map(|one| (one.clone(), json!(one)));
            assert_eq!(written, expected);
        };
        let function = || Destination::Function("f".to_owned());
        check(json!("f"), Some((function(), json!("f"))));
        check(json!({"function": "f"}), Some((function(), json!("f"))));
        check(
            json!({"workflow": "w"}),
            Some((Destination::Workflow("w".to_owned()), json!({"workflow": "w"}))),
        );
        check(json!({"function": "f", "workflow": "w"}), None);
        check(json!({}), None);
        check(json!(5), None);
    }
}
