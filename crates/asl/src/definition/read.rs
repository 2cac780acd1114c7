//! Reading machines: required and known fields, transitions that lead somewhere, states that can be reached.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::fields::Object;
use super::{Definition, Diagnostic, Diagnostics, Language, Machine, MachineType};

/// What is known while a definition is read.
pub(super) struct Reader {
    pub(super) machine_type: MachineType,
    /// Of the whole definition.
    pub(super) language: Language,
    /// Only one state matters: where it leads to need not exist.
    pub(super) alone: bool,
    diagnostics: Vec<Diagnostic>,
    /// All state names so far: they are unique across branches.
    names: BTreeSet<String>,
    /// Of the machine being read: from which state, to which, and where it says so.
    targets: Vec<Target>,
    current: String,
}

struct Target {
    from: String,
    to: String,
    field: String,
    location: String,
}

pub(super) fn definition(
    value: &Value,
    machine_type: MachineType,
    alone: bool,
) -> Result<Definition, Diagnostics> {
    let mut reader = Reader {
        machine_type,
        language: Language::JsonPath,
        alone,
        diagnostics: Vec::new(),
        names: BTreeSet::new(),
        targets: Vec::new(),
        current: String::new(),
    };
    let Value::Object(object) = value else {
        return Err(Diagnostics(vec![Diagnostic::schema("/", "Expected value of type Object")]));
    };
    reader.language = reader.query_language(object, "").unwrap_or(Language::JsonPath);
    let timeout_seconds = match object.get("TimeoutSeconds") {
        None => None,
        Some(value) => {
            let seconds = value.as_u64().filter(|seconds| *seconds >= 1);
            if seconds.is_none() {
                reader.schema("/TimeoutSeconds", "The value of 'TimeoutSeconds' must be a positive integer");
            }
            seconds
        }
    };
    let machine = reader.machine(
        object,
        "",
        &["Comment", "StartAt", "States", "TimeoutSeconds", "Version", "QueryLanguage", "ProcessorConfig"],
    );
    let comment = object.get("Comment").and_then(Value::as_str).map(str::to_owned);
    match (machine, reader.diagnostics) {
        (Some(machine), diagnostics) if diagnostics.is_empty() => {
            Ok(Definition { machine, comment, timeout_seconds, machine_type })
        }
        (_, diagnostics) => Err(Diagnostics(diagnostics)),
    }
}

impl Reader {
    pub(super) fn schema(&mut self, location: &str, message: impl Into<String>) {
        let location = if location.is_empty() { "/" } else { location };
        self.diagnostics.push(Diagnostic::schema(location, message));
    }

    pub(super) fn unknown_field(&mut self, location: &str, field: &str, allowed: &str) {
        self.misplaced_field(location, field, format!("Field '{field}' is not supported"), allowed);
    }

    pub(super) fn misplaced_field(&mut self, location: &str, field: &str, message: String, allowed: &str) {
        let location = if location.is_empty() { "/" } else { location };
        self.diagnostics.push(Diagnostic::unknown_field(location, field, message, allowed));
    }

    pub(super) fn refuse(&mut self, code: &str, location: &str, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::error(code, location, message));
    }

    fn missing_target(&mut self, location: &str, message: String) {
        self.diagnostics.push(Diagnostic::error("MISSING_TRANSITION_TARGET", location, message));
    }

    /// A machine at `location`; `known` are the fields it may have.
    pub(super) fn machine(&mut self, object: &Object, location: &str, known: &[&str]) -> Option<Machine> {
        self.allow(object, known, location);
        let missing: Vec<&str> =
            ["States", "StartAt"].into_iter().filter(|field| !object.contains_key(*field)).collect();
        if !missing.is_empty() {
            self.schema(location, format!("These fields are required: [{}]", missing.join(", ")));
            return None;
        }
        let Some(Value::Object(states)) = object.get("States") else {
            self.schema(&format!("{location}/States"), "Expected value of type Object");
            return None;
        };
        if states.is_empty() {
            self.schema(&format!("{location}/States"), "Value cannot be empty");
            return None;
        }
        let start_at = self.required_text(object, "StartAt", location)?;
        let outer = (std::mem::take(&mut self.targets), std::mem::take(&mut self.current));
        let mut read = BTreeMap::new();
        for (name, state) in states {
            let here = format!("{location}/States/{name}");
            if name.is_empty() || name.chars().count() > 80 {
                self.schema(&here, "State names must have 1 to 80 characters");
            }
            if !self.names.insert(name.clone()) {
                self.diagnostics.push(Diagnostic::error(
                    "DUPLICATE_STATE_NAME",
                    &here,
                    format!("Duplicate State name: {name}"),
                ));
            }
            self.current = name.clone();
            let Value::Object(state) = state else {
                self.schema(&here, "Expected value of type Object");
                continue;
            };
            if let Some(state) = self.state(name, state, &here) {
                read.insert(name.clone(), state);
            }
        }
        self.transitions(&start_at, states, location);
        (self.targets, self.current) = outer;
        Some(Machine { start_at, states: read })
    }

    /// Targets exist, and every state can be reached.
    fn transitions(&mut self, start_at: &str, states: &Object, location: &str) {
        if self.alone && location.is_empty() {
            return;
        }
        if !states.contains_key(start_at) {
            self.missing_target(
                &format!("{location}/StartAt"),
                format!("Missing 'StartAt' target: {start_at}"),
            );
            return;
        }
        let targets = std::mem::take(&mut self.targets);
        for target in &targets {
            if !states.contains_key(&target.to) {
                self.missing_target(
                    &format!("{}/{}", target.location, target.field),
                    format!("Missing '{}' target: {}", target.field, target.to),
                );
            }
        }
        let mut reached = BTreeSet::from([start_at]);
        let mut open = vec![start_at];
        while let Some(from) = open.pop() {
            for target in targets.iter().filter(|target| target.from == from) {
                if reached.insert(&target.to) {
                    open.push(&target.to);
                }
            }
        }
        for name in states.keys().filter(|name| !reached.contains(name.as_str())) {
            self.missing_target(
                &format!("{location}/States/{name}"),
                format!("State \"{name}\" is not reachable."),
            );
        }
    }

    /// Remembers that the current state leads to `to`.
    pub(super) fn target(&mut self, to: &str, field: &str, location: &str) {
        self.targets.push(Target {
            from: self.current.clone(),
            to: to.to_owned(),
            field: field.to_owned(),
            location: location.to_owned(),
        });
    }

    pub(super) fn query_language(&mut self, object: &Object, location: &str) -> Option<Language> {
        match object.get("QueryLanguage")?.as_str() {
            Some("JSONPath") => Some(Language::JsonPath),
            Some("JSONata") => Some(Language::Jsonata),
            other => {
                let message = match other {
                    Some(_) => "Value should be one of the following: [JSONPath, JSONata]",
                    None => "Expected value of type [STRING]",
                };
                self.schema(&format!("{location}/QueryLanguage"), message);
                None
            }
        }
    }

    pub(super) fn allow(&mut self, object: &Object, known: &[&str], location: &str) {
        for field in object.keys().filter(|field| !known.contains(&field.as_str())) {
            self.unknown_field(location, field, &known.join(", "));
        }
    }

    pub(super) fn required_text(&mut self, object: &Object, name: &str, location: &str) -> Option<String> {
        match object.get(name) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => {
                self.schema(&format!("{location}/{name}"), "Expected value of type String");
                None
            }
            None => {
                self.schema(location, format!("These fields are required: [{name}]"));
                None
            }
        }
    }

    /// The objects of an array field, each with its location.
    pub(super) fn objects(&mut self, object: &Object, name: &str, location: &str) -> Vec<(String, Object)> {
        let here = format!("{location}/{name}");
        let items = match object.get(name) {
            None => return Vec::new(),
            Some(Value::Array(items)) => items,
            Some(_) => {
                self.schema(&here, "Expected value of type Array");
                return Vec::new();
            }
        };
        let mut objects = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let here = format!("{here}/{at}");
            match item {
                Value::Object(item) => objects.push((here, item.clone())),
                _ => self.schema(&here, "Expected value of type Object"),
            }
        }
        objects
    }
}
