//! The simple form of workflows: `startAt`, `params`, and `nodes` that are functions or choices.
//!
//! `{startAt, params?, nodes: {name: {type: Task|Choice, next?, choices?: [{variable, numericEquals…, next}]}}}`.
//! A Task's function has the node's name unless `function` says otherwise; a node without `next` ends the run; the
//! last choice without a comparison is the default.

use serde_json::{Map, Value, json};

use crate::definition::Diagnostic;

/// The definition in the States Language, when `value` is in the simple form.
pub fn convert(value: &Value) -> Option<Result<Value, Diagnostic>> {
    let nodes = value.get("nodes")?;
    Some(definition(value, nodes))
}

/// What the simple form's `params` are: the input a run has when it is given none.
pub fn default_input(value: &Value) -> Option<&Value> {
    value.get("nodes").and_then(|_| value.get("params"))
}

fn definition(value: &Value, nodes: &Value) -> Result<Value, Diagnostic> {
    let Value::Object(nodes) = nodes else {
        return Err(Diagnostic::schema("/nodes", "Expected value of type Object"));
    };
    let Some(start_at) = value.get("startAt").and_then(Value::as_str) else {
        return Err(Diagnostic::schema("/", "These fields are required: [startAt]"));
    };
    let mut states = Map::new();
    for (name, node) in nodes {
        states.insert(name.clone(), state(name, node)?);
    }
    let mut definition = json!({"StartAt": start_at, "States": states});
    if let Some(comment) = value.get("comment") {
        definition["Comment"] = comment.clone();
    }
    Ok(definition)
}

fn state(name: &str, node: &Value) -> Result<Value, Diagnostic> {
    let location = format!("/nodes/{name}");
    let Value::Object(node) = node else {
        return Err(Diagnostic::schema(&location, "Expected value of type Object"));
    };
    match node.get("type").and_then(Value::as_str) {
        Some("Task") | None if !node.contains_key("choices") => {
            let function = node.get("function").and_then(Value::as_str).unwrap_or(name);
            let mut state = json!({"Type": "Task", "Resource": format!("function:{function}")});
            match node.get("next").and_then(Value::as_str).filter(|next| !next.is_empty()) {
                Some(next) => state["Next"] = next.into(),
                None => state["End"] = true.into(),
            }
            Ok(state)
        }
        Some("Choice") | None => choice(node, &location),
        Some(other) => Err(Diagnostic::schema(
            &format!("{location}/type"),
            format!("The field 'type' should have one of these values: [Task, Choice], not '{other}'"),
        )),
    }
}

fn choice(node: &Map<String, Value>, location: &str) -> Result<Value, Diagnostic> {
    let Some(Value::Array(choices)) = node.get("choices") else {
        return Err(Diagnostic::schema(location, "These fields are required: [choices]"));
    };
    let mut rules = Vec::new();
    let mut default = node.get("default").and_then(Value::as_str).map(str::to_owned);
    for (at, choice) in choices.iter().enumerate() {
        let here = format!("{location}/choices/{at}");
        let Value::Object(choice) = choice else {
            return Err(Diagnostic::schema(&here, "Expected value of type Object"));
        };
        let Some(next) = choice.get("next").and_then(Value::as_str) else {
            return Err(Diagnostic::schema(&here, "These fields are required: [next]"));
        };
        match rule(choice, &here)? {
            Some(mut rule) => {
                rule["Next"] = next.into();
                rules.push(rule);
            }
            None => default = Some(next.to_owned()),
        }
    }
    let mut state = json!({"Type": "Choice", "Choices": rules});
    if let Some(default) = default {
        state["Default"] = default.into();
    }
    Ok(state)
}

/// `{variable, numericNotEquals: 3}` as `{Not: {Variable, NumericEquals: 3}}`; nothing without a comparison.
fn rule(choice: &Map<String, Value>, location: &str) -> Result<Option<Value>, Diagnostic> {
    let mut operators =
        choice.iter().filter(|(key, _)| !matches!(key.as_str(), "variable" | "next" | "type" | "comment"));
    let Some((operator, operand)) = operators.next() else { return Ok(None) };
    if operators.next().is_some() {
        return Err(Diagnostic::schema(location, "A choice rule can have only one comparison operator"));
    }
    let Some(variable) = choice.get("variable").and_then(Value::as_str) else {
        return Err(Diagnostic::schema(location, "These fields are required: [variable]"));
    };
    let variable = match variable {
        path if path.starts_with('$') => path.to_owned(),
        name => format!("$.{name}"),
    };
    let mut letters = operator.chars();
    let operator: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
    // Both spellings of equality are in use.
    let operator = match operator.strip_suffix("Equal") {
        Some(stem) => format!("{stem}Equals"),
        None => operator,
    };
    Ok(Some(match operator.strip_suffix("NotEquals") {
        Some(stem) => json!({"Not": {"Variable": variable, format!("{stem}Equals"): operand}}),
        None => json!({"Variable": variable, operator: operand}),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{Definition, MachineType};

    #[test]
    fn simple_form_becomes_states() {
        let simple = json!({"startAt": "add", "params": {"a": 5, "b": 7}, "nodes": {
            "add": {"type": "Task", "next": "judge"},
            "judge": {"type": "Choice", "choices": [
                {"variable": "sum", "numericNotEquals": 11, "next": "multiply"},
                {"variable": "$.sum", "stringEqual": "x", "next": "multiply"},
                {"next": "print"}]},
            "multiply": {"type": "Task", "function": "mul"},
            "print": {"type": "Task", "next": ""}}});
        let converted = convert(&simple).unwrap().unwrap();
        assert_eq!(
            converted["States"]["add"],
            json!({"Type": "Task", "Resource": "function:add", "Next": "judge"})
        );
        assert_eq!(
            converted["States"]["judge"],
            json!({"Type": "Choice", "Default": "print", "Choices": [
                {"Not": {"Variable": "$.sum", "NumericEquals": 11}, "Next": "multiply"},
                {"Variable": "$.sum", "StringEquals": "x", "Next": "multiply"}]})
        );
        assert_eq!(converted["States"]["multiply"]["Resource"], "function:mul");
        assert_eq!(default_input(&simple), Some(&json!({"a": 5, "b": 7})));
        Definition::from_value(&simple, MachineType::Standard).unwrap();
        assert!(convert(&json!({"StartAt": "a"})).is_none());
    }

    #[test]
    fn simple_form_mistakes_are_located() {
        for (value, location) in [
            (json!({"nodes": {}}), "/"),
            (json!({"startAt": "a", "nodes": {"a": {"type": "Loop"}}}), "/nodes/a/type"),
            (
                json!({"startAt": "a", "nodes": {"a": {"type": "Choice", "choices": [{"variable": "x"}]}}}),
                "/nodes/a/choices/0",
            ),
        ] {
            assert_eq!(convert(&value).unwrap().unwrap_err().location, location);
        }
    }
}
