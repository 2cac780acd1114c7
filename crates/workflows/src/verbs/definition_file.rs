//! A definition in a file: JSON or YAML, alone or as a whole Workflow object, with the lines of its mistakes.

use std::fmt::Write;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use minik8s_asl::definition::position_of;
use minik8s_asl::simple_form;
use serde_json::Value;

use crate::kinds::{Located, WorkflowType, parse_definition};

/// Line and column of a path (`spec.a[0].b`) in a YAML text.
pub type Locate = fn(&str, &str) -> Option<(usize, usize)>;

pub struct DefinitionFile {
    name: String,
    text: String,
    /// The definition itself.
    pub value: Value,
    /// Where it is in the file: empty, or that of a Workflow object.
    prefix: &'static str,
}

impl DefinitionFile {
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let text = if name == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
            text
        } else {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?
        };
        Self::parse(name, text)
    }

    fn parse(name: String, text: String) -> anyhow::Result<Self> {
        let is_json = text.trim_start().starts_with('{');
        let whole: Value = match is_json {
            true => serde_json::from_str(&text).with_context(|| format!("{name} is no JSON"))?,
            false => {
                serde_saphyr::from_str(&text).with_context(|| format!("{name} is neither JSON nor YAML"))?
            }
        };
        let is_object = whole["kind"] == "Workflow" && whole["spec"]["definition"].is_object();
        let (value, prefix) = match is_object {
            true => (whole["spec"]["definition"].clone(), "/spec/definition"),
            false => (whole, ""),
        };
        if !value.is_object() {
            bail!("{name} holds no definition: an object with StartAt and States, or with startAt and nodes");
        }
        Ok(DefinitionFile { name, text, value, prefix })
    }

    /// Fails with everything that is wrong.
    pub fn check(&self, workflow_type: WorkflowType, locate: Locate) -> anyhow::Result<()> {
        match parse_definition(&self.value, workflow_type.into()) {
            Ok(_) => Ok(()),
            Err(problems) => bail!("{}", self.told(&problems, locate)),
        }
    }

    /// In the States Language, whatever form it has.
    pub fn converted(&self, locate: Locate) -> anyhow::Result<String> {
        let value = match simple_form::convert(&self.value) {
            None => self.value.clone(),
            Some(Ok(value)) => value,
            Some(Err(problem)) => {
                let one = Located { pointer: problem.location, position: None, message: problem.message };
                bail!("{}", self.told(&[one], locate));
            }
        };
        Ok(format!("{value:#}\n"))
    }

    fn told(&self, problems: &[Located], locate: Locate) -> String {
        let mut told = format!("{} is no workflow:", self.name);
        for problem in problems {
            let pointer = format!("{}{}", self.prefix, problem.pointer);
            let place = match self.text.trim_start().starts_with('{') {
                true => nearest(&pointer, |pointer| position_of(&self.text, pointer)),
                false => nearest(&pointer, |pointer| {
                    locate(&self.text, &dotted(&self.value, self.prefix, pointer))
                }),
            };
            let place = place.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default();
            let _ = write!(told, "\n  {}{place}: {}: {}", self.name, problem.pointer, problem.message);
        }
        told
    }
}

/// The place of the value, or of what it should be in.
fn nearest(pointer: &str, place: impl Fn(&str) -> Option<(usize, usize)>) -> Option<(usize, usize)> {
    let mut pointer = pointer.trim_end_matches('/');
    loop {
        if let Some(place) = place(pointer) {
            return Some(place);
        }
        pointer = &pointer[..pointer.rfind('/')?];
    }
}

/// `/States/a/Choices/0` as `States.a.Choices[0]`.
fn dotted(definition: &Value, prefix: &str, pointer: &str) -> String {
    let mut path = String::new();
    let mut here = String::new();
    for step in pointer.split('/').filter(|step| !step.is_empty()) {
        let outer = here.strip_prefix(prefix).and_then(|inner| definition.pointer(inner));
        match outer {
            Some(Value::Array(_)) => {
                let _ = write!(path, "[{step}]");
            }
            _ => {
                let dot = if path.is_empty() { "" } else { "." };
                let _ = write!(path, "{dot}{}", step.replace("~1", "/").replace("~0", "~"));
            }
        }
        let _ = write!(here, "/{step}");
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_told_with_path_and_line() {
        let text =
            "{\n \"StartAt\": \"a\",\n \"States\": {\n  \"a\": {\"Type\": \"Pass\", \"Next\": \"b\"}}}";
        let file = DefinitionFile::parse("x.json".to_owned(), text.to_owned()).unwrap();
        let told = file.check(WorkflowType::Standard, |_, _| None).unwrap_err().to_string();
        assert!(told.contains("x.json:4:33: /States/a/Next: MISSING_TRANSITION_TARGET"), "{told}");
        let text = text.replace("Next", "Nxt");
        let file = DefinitionFile::parse("x.json".to_owned(), text).unwrap();
        let told = file.check(WorkflowType::Standard, |_, _| None).unwrap_err().to_string();
        let expected =
            "x.json:4:32: /States/a/Nxt: SCHEMA_VALIDATION_FAILED: Field 'Nxt' is not supported; allowed are";
        assert!(told.contains(expected), "{told}");
        let yaml = "StartAt: a\nStates:\n  a:\n    Type: Pass\n    Next: b\n";
        let file = DefinitionFile::parse("x.yaml".to_owned(), yaml.to_owned()).unwrap();
        let asked: Locate = |_, path| (path == "States.a.Next").then_some((5, 5));
        let told = file.check(WorkflowType::Standard, asked).unwrap_err().to_string();
        assert!(told.contains("x.yaml:5:5: /States/a/Next"), "{told}");
    }

    #[test]
    fn object_and_simple_form_are_read_too() {
        let text =
            "kind: Workflow\nspec:\n  definition:\n    startAt: add\n    nodes:\n      add: {type: Task}\n";
        let file = DefinitionFile::parse("x.yaml".to_owned(), text.to_owned()).unwrap();
        let converted: Value = serde_json::from_str(&file.converted(|_, _| None).unwrap()).unwrap();
        assert_eq!(converted["States"]["add"]["Resource"], "function:add");
        assert!(DefinitionFile::parse("x".to_owned(), "[1]".to_owned()).is_err());
    }
}
