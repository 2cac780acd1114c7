//! What a Workflow may say, and how it is listed.
//!
//! Definitions are read by the engine's own reader, so that what is accepted is what runs.

use jiff::Timestamp;
use minik8s_api::{At, Cell, Column, FieldErrors, Path, Resource, Strategy, fill, table};
use minik8s_asl::definition::{Definition, Diagnostic, Diagnostics, MachineType, position_of};
use serde_json::Value;

use super::{Workflow, WorkflowType};

/// AWS' limit.
const LARGEST_DEFINITION: usize = 1024 * 1024;

pub fn resource() -> Resource {
    Resource::of::<Workflow>(Rules).short(&["wf"]).counted()
}

impl From<WorkflowType> for MachineType {
    fn from(workflow: WorkflowType) -> Self {
        match workflow {
            WorkflowType::Standard => MachineType::Standard,
            WorkflowType::Express => MachineType::Express,
        }
    }
}

/// One thing that is wrong with a definition.
#[derive(Debug, Clone, PartialEq)]
pub struct Located {
    /// A JSON pointer into the definition.
    pub pointer: String,
    /// Line and column, where the definition is a text.
    pub position: Option<(usize, usize)>,
    pub message: String,
}

/// A definition as an object, or as the JSON text of one.
pub fn parse_definition(definition: &Value, machine: MachineType) -> Result<Definition, Vec<Located>> {
    let (parsed, text) = match definition {
        Value::String(text) => (Definition::from_text(text, machine), Some(text.as_str())),
        value => (Definition::from_value(value, machine), None),
    };
    parsed.map_err(|Diagnostics(all)| all.into_iter().map(|one| locate(one, text)).collect())
}

fn locate(diagnostic: Diagnostic, text: Option<&str>) -> Located {
    let Diagnostic { code, message, mut location, hint, .. } = diagnostic;
    let is_pointer = location.starts_with('/');
    let mut message = message.lines().next().unwrap_or_default().to_owned();
    if let Some(hint) = hint {
        location = format!("{}/{}", location.trim_end_matches('/'), hint.field);
        message = format!("{message}; allowed are {}", hint.allowed);
    }
    let position = text.filter(|_| is_pointer).and_then(|text| position_of(text, &location));
    match is_pointer {
        true => Located { pointer: location, position, message: format!("{code}: {message}") },
        // The reader of JSON tells lines by itself.
        false => {
            let at = location.rsplit_once("; ").map_or("", |(_, at)| at.trim_end_matches(']'));
            Located { pointer: "/".to_owned(), position: None, message: format!("{code}: {message} ({at})") }
        }
    }
}

struct Rules;

impl Strategy for Rules {
    fn default(&self, object: &mut Value) {
        if let Some(spec) = fill::object(object, "spec") {
            fill::field(spec, "type", "Standard");
        }
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        spec.field("type").need_one_of(errors, &["Standard", "Express"]);
        let history = spec.field("history");
        for field in ["successful", "failed", "ttlSeconds"] {
            history.field(field).not_negative(errors);
        }
        let definition = spec.field("definition");
        if !definition.is_set() {
            return definition.required(errors, "a state machine in the Amazon States Language");
        }
        if definition.value.to_string().len() > LARGEST_DEFINITION {
            return definition.forbidden(errors, "a definition has at most 1 MiB");
        }
        let machine = match spec.field("type").text() {
            "Express" => MachineType::Express,
            _ => MachineType::Standard,
        };
        for problem in parse_definition(definition.value, machine).err().into_iter().flatten() {
            let path = path_of(definition.value, &definition.path, &problem.pointer);
            let found = definition.value.pointer(problem.pointer.trim_end_matches('/'));
            let detail = match problem.position {
                Some((line, column)) => format!("line {line}, column {column}: {}", problem.message),
                None => problem.message,
            };
            errors.invalid(path, shown(found), detail);
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Type", "States", "Start", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let spec = &object["spec"];
        let text = spec["definition"].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let definition = text.as_ref().unwrap_or(&spec["definition"]);
        let named = |name: &str, simple: &str| match &definition[name] {
            Value::Null => definition[simple].clone(),
            value => value.clone(),
        };
        vec![
            table::name(object),
            table::text_or(&spec["type"], "Standard").into(),
            named("States", "nodes").as_object().map_or(0, serde_json::Map::len).to_string().into(),
            table::text_or(&named("StartAt", "startAt"), table::NONE).into(),
            table::age(object, now),
        ]
    }
}

/// Whole objects would fill the screen.
fn shown(found: Option<&Value>) -> Value {
    match found {
        Some(Value::Object(_)) => "{…}".into(),
        Some(Value::Array(_)) => "[…]".into(),
        Some(value) => value.clone(),
        None => Value::Null,
    }
}

/// `/States/a/Choices/0` as `spec.definition.States.a.Choices[0]`.
fn path_of(root: &Value, begin: &Path, pointer: &str) -> Path {
    let (mut path, mut here) = (begin.clone(), root);
    for step in pointer.split('/').filter(|step| !step.is_empty()) {
        let name = step.replace("~1", "/").replace("~0", "~");
        match (here, name.parse()) {
            (Value::Array(items), Ok(index)) => {
                path = path.index(index);
                here = items.get(index).unwrap_or(&Value::Null);
            }
            _ => {
                path = path.field(&name);
                here = here.get(&name).unwrap_or(&Value::Null);
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(spec: Value, expected: &[&str]) {
        let mut object = json!({"spec": spec});
        Rules.default(&mut object);
        let mut errors = FieldErrors::default();
        Rules.validate(&object, &mut errors);
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}\n{expected}");
        }
    }

    #[test]
    fn definition_is_refused_with_the_path_to_the_mistake() {
        let pass = json!({"StartAt": "a", "States": {"a": {"Type": "Pass", "End": true}}});
        check(json!({"definition": pass}), &[]);
        check(json!({"definition": pass, "type": "Express"}), &[]);
        check(json!({}), &["spec.definition: Required value"]);
        check(json!({"definition": pass, "type": "Fast"}), &["spec.type: Unsupported value: \"Fast\""]);
        check(
            json!({"definition": {"StartAt": "a", "States": {"a": {"Type": "Pass", "Next": "b"}}}}),
            &["spec.definition.States.a.Next: Invalid value: \"b\": MISSING_TRANSITION_TARGET"],
        );
        check(
            json!({"definition": pass, "history": {"failed": -1}}),
            &["spec.history.failed: Invalid value: -1"],
        );
    }

    #[test]
    fn definition_text_is_refused_with_the_line() {
        let text =
            "{\"StartAt\": \"a\",\n \"States\": {\n  \"a\": {\"Type\": \"Pass\",\n   \"Next\": \"b\"}}}";
        check(
            json!({"definition": text}),
            &[
                "spec.definition.States.a.Next: Invalid value: null: line 4, column 12: MISSING_TRANSITION_TARGET",
            ],
        );
        check(json!({"definition": "{\n x"}), &["spec.definition: Invalid value: "]);
    }

    #[test]
    fn simple_form_is_a_definition() {
        check(json!({"definition": {"startAt": "add", "nodes": {"add": {"type": "Task"}}}}), &[]);
    }
}
