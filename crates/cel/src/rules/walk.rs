//! Goes through an object beside the tree of its rules.

use minik8s_schema::{FieldErrorKind, FieldErrors, Path};
use serde_json::Value as Json;

use super::Findings;
use super::compile::{Node, Rule};
use super::correlation::{Correlation, old_element};
use crate::cost::{Budget, PER_CALL_LIMIT, PER_OBJECT_LIMIT};
use crate::error::EvalError;
use crate::program::Bindings;
use crate::value::Value;

const LONGEST_MESSAGE: usize = 5 * 1024;

pub fn validate(root: &Node, object: &Json, old: Option<&Json>) -> Findings {
    let mut walk = Walk { findings: Findings::default(), remaining: PER_OBJECT_LIMIT };
    // Too expensive: what was found so far says so.
    let _ = walk.node(root, &Path::root(), object, old, Correlation::of(object, old));
    walk.findings
}

struct Walk {
    findings: Findings,
    remaining: u64,
}

/// The budget is spent, and that has been said.
struct Exhausted;

impl Walk {
    fn node<'a>(
        &mut self,
        node: &'a Node,
        path: &Path,
        value: &'a Json,
        old: Option<&'a Json>,
        correlation: Correlation<'a>,
    ) -> Result<(), Exhausted> {
        if value.is_null() {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        self.rules(node, path, value, old, correlation)?;
        for of in &node.all_of {
            self.node(of, path, value, old, correlation.around())?;
        }
        match value {
            Json::Array(items) => {
                let Some(below) = &node.items else { return Ok(()) };
                let olds = old.and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
                for (index, item) in items.iter().enumerate() {
                    let old = old_element(olds, item, &node.declaration);
                    let correlation = correlation.element(item, &node.declaration);
                    self.node(below, &path.index(index), item, old, correlation)?;
                }
            }
            Json::Object(entries) => {
                if let Some(below) = &node.values {
                    for (key, item) in entries {
                        let old = old.and_then(|old| old.get(key));
                        self.node(below, &path.key(key), item, old, correlation.field(key, item))?;
                    }
                }
                for (name, below) in &node.fields {
                    let Some(item) = entries.get(name) else { continue };
                    let old = old.and_then(|old| old.get(name));
                    self.node(below, &path.field(name), item, old, correlation.field(name, item))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rules<'a>(
        &mut self,
        node: &'a Node,
        path: &Path,
        value: &'a Json,
        old: Option<&'a Json>,
        correlation: Correlation<'a>,
    ) -> Result<(), Exhausted> {
        if node.rules.is_empty() {
            return Ok(());
        }
        let of = Some(&node.declaration);
        let plain = || {
            let bindings = Bindings::new().with("self", Value::of_json(value, of));
            match old {
                Some(old) => bindings.with("oldSelf", Value::of_json(old, of)),
                None => bindings,
            }
        };
        let optional = || {
            let old = old.map_or_else(Value::none, |old| Value::some(Value::of_json(old, of)));
            Bindings::new().with("self", Value::of_json(value, of)).with("oldSelf", old)
        };
        let bindings = plain();
        for rule in &node.rules {
            if rule.reads_old_self && old.is_none() && !rule.optional_old_self {
                continue;
            }
            if rule.optional_old_self {
                self.rule(node, rule, path, value, &optional(), correlation)?;
            } else {
                self.rule(node, rule, path, value, &bindings, correlation)?;
            }
        }
        Ok(())
    }

    fn rule(
        &mut self,
        node: &Node,
        rule: &Rule,
        path: &Path,
        value: &Json,
        bindings: &Bindings,
        correlation: Correlation,
    ) -> Result<(), Exhausted> {
        let kind = node.kind.as_str();
        let program = match &rule.program {
            Ok(program) => program,
            Err(why) => {
                self.findings.errors.invalid(path.clone(), kind, format!("rule compile error: {why}"));
                return Ok(());
            }
        };
        let mut budget = Budget::new(PER_CALL_LIMIT);
        let found = program.evaluate(bindings, &mut budget);
        self.pay(budget.spent(), path, kind)?;
        let shown = &rule.shown;
        match found {
            Ok(Value::Bool(true)) => return Ok(()),
            Ok(_) => {}
            Err(EvalError::CostLimit) => {
                let error = EvalError::CostLimit;
                let detail = format!(
                    "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
                );
                self.findings.errors.invalid(path.clone(), kind, detail);
                return Err(Exhausted);
            }
            Err(error @ EvalError::NoSuchOverload(_)) => {
                let detail = format!(
                    "'{error}': call arguments did not match a supported operator, function or macro signature for \
                     rule: {shown}"
                );
                self.findings.errors.invalid(path.clone(), kind, detail);
                return Ok(());
            }
            Err(error) => {
                self.findings.errors.invalid(path.clone(), kind, format!("{error} evaluating rule: {shown}"));
                return Ok(());
            }
        }
        let message = self.message(rule, bindings, path, kind)?;
        let path = match &rule.field_path {
            Some(below) => path.field(below),
            None => path.clone(),
        };
        let is_warning = !rule.reads_old_self && correlation.is_unchanged();
        let to = if is_warning { &mut self.findings.warnings } else { &mut self.findings.errors };
        add(to, rule, path, value, &message);
        Ok(())
    }

    fn pay(&mut self, cost: u64, path: &Path, kind: &str) -> Result<(), Exhausted> {
        match self.remaining.checked_sub(cost) {
            Some(remaining) => {
                self.remaining = remaining;
                Ok(())
            }
            None => {
                let detail = "validation failed due to running out of cost budget, no further validation rules will be run";
                self.findings.errors.invalid(path.clone(), kind, detail);
                Err(Exhausted)
            }
        }
    }

    /// What the expression says, or else the message, or else the rule.
    fn message(
        &mut self,
        rule: &Rule,
        bindings: &Bindings,
        path: &Path,
        kind: &str,
    ) -> Result<String, Exhausted> {
        let plain =
            || if rule.has_message { rule.shown.clone() } else { format!("failed rule: {}", rule.shown) };
        let Some(program) = &rule.message_program else { return Ok(plain()) };
        let mut budget = Budget::new(PER_CALL_LIMIT);
        let found = program.evaluate(bindings, &mut budget);
        if matches!(found, Err(EvalError::CostLimit)) || budget.spent() > self.remaining {
            let detail = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will \
                 be run";
            self.findings.errors.invalid(path.clone(), kind, detail);
            return Err(Exhausted);
        }
        self.remaining -= budget.spent();
        let is_usable =
            |text: &str| !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n');
        Ok(match found {
            Ok(Value::String(text)) if is_usable(text.trim()) => text.trim().to_owned(),
            _ => plain(),
        })
    }
}

fn add(errors: &mut FieldErrors, rule: &Rule, path: Path, value: &Json, message: &str) {
    let is_scalar = !value.is_object() && !value.is_array();
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => errors.forbidden(path, message),
        Some("FieldValueRequired") => errors.required(path, message),
        Some("FieldValueDuplicate") if is_scalar => errors.duplicate(path, value.clone()),
        Some("FieldValueDuplicate") => {
            errors.push(FieldErrorKind::Duplicate, path, "Duplicate value".to_owned());
        }
        _ if is_scalar => errors.invalid(path, value.clone(), message),
        _ => errors.push(FieldErrorKind::Invalid, path, format!("Invalid value: {message}")),
    }
}
