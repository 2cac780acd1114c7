//! From a schema to a tree of compiled rules, which has only the branches that lead to some.

use serde_json::Value as Json;

use super::field_path;
use crate::declaration::{Declaration, is_embedded};
use crate::environment::Environment;
use crate::escape::escape;
use crate::program::Program;
use crate::types::Type;

/// The rules for one place of the schema and those below it.
#[derive(Debug)]
pub struct Node {
    pub rules: Vec<Rule>,
    pub declaration: Declaration,
    /// As errors name it: `object`, `string`.
    pub kind: String,
    pub fields: Vec<(String, Node)>,
    pub items: Option<Box<Node>>,
    pub values: Option<Box<Node>>,
    /// Rules inside `allOf`, for the same value.
    pub all_of: Vec<Node>,
}

#[derive(Debug)]
pub struct Rule {
    /// Or why it cannot run; only a definition older than the check of rules has such ones.
    pub program: Result<Program, String>,
    pub message_program: Option<Program>,
    /// The message, or the rule itself.
    pub shown: String,
    pub has_message: bool,
    pub reason: Option<String>,
    /// From the value to the field that the error is about.
    pub field_path: Option<String>,
    pub reads_old_self: bool,
    pub optional_old_self: bool,
}

pub fn resource(schema: &Json) -> Option<Node> {
    if !has_rules(schema) {
        return None;
    }
    node(schema, schema, Declaration::of_schema(schema, "selfType", true)?)
}

fn has_rules(schema: &Json) -> bool {
    match schema {
        Json::Object(fields) => fields.contains_key(RULES) || fields.values().any(has_rules),
        Json::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}

pub const RULES: &str = "x-kubernetes-validations";

/// `rules` has the rules, `schema` the structure: they differ inside `allOf`.
fn node(rules: &Json, schema: &Json, declaration: Declaration) -> Option<Node> {
    let mut fields = Vec::new();
    for (name, of) in rules["properties"].as_object().into_iter().flatten() {
        let Some(structure) = schema["properties"].get(name) else { continue };
        let declared = match escape(name) {
            Some(escaped) => declaration.field(&escaped).map(|field| field.declaration.clone()),
            None => Declaration::of_schema(structure, name, is_embedded(structure)),
        };
        if let Some(below) = declared.and_then(|declared| node(of, structure, declared)) {
            fields.push((name.clone(), below));
        }
    }
    let element = |name: &str| {
        let (of, structure) = (rules.get(name)?, schema.get(name)?);
        let declared = declaration.element.as_deref().cloned()?;
        of.is_object().then(|| node(of, structure, declared)).flatten().map(Box::new)
    };
    let (items, values) = (element("items"), element("additionalProperties"));
    let all_of = rules["allOf"].as_array().into_iter().flatten();
    let all_of: Vec<Node> = all_of.filter_map(|of| node(of, schema, declaration.clone())).collect();
    let rules = compiled(&rules[RULES], schema, &declaration);
    if rules.is_empty() && fields.is_empty() && items.is_none() && values.is_none() && all_of.is_empty() {
        return None;
    }
    let kind = schema["type"].as_str().unwrap_or_default().to_owned();
    Some(Node { rules, declaration, kind, fields, items, values, all_of })
}

fn compiled(rules: &Json, schema: &Json, declaration: &Declaration) -> Vec<Rule> {
    let rules = rules.as_array().into_iter().flatten();
    let written = rules.filter(|rule| !text(rule, "rule").is_empty());
    written.map(|rule| compile(rule, schema, declaration)).collect()
}

fn compile(rule: &Json, schema: &Json, declaration: &Declaration) -> Rule {
    let optional_old_self = rule["optionalOldSelf"] == true;
    let environment = environment(declaration, optional_old_self);
    let program = program(&environment, text(rule, "rule"));
    let message_program = match text(rule, "messageExpression") {
        "" => None,
        expression => Program::compile(&environment, expression).ok(),
    };
    let (message, expression) = (text(rule, "message"), text(rule, "rule"));
    Rule {
        reads_old_self: program.as_ref().is_ok_and(|program| program.reads("oldSelf")),
        program,
        message_program,
        shown: if message.is_empty() { expression.to_owned() } else { message.to_owned() },
        has_message: !message.is_empty(),
        reason: rule["reason"].as_str().map(str::to_owned),
        field_path: field_path::normalized(text(rule, "fieldPath"), schema)
            .ok()
            .filter(|path| !path.is_empty()),
        optional_old_self,
    }
}

/// A rule is compiled where `self` is the value and `oldSelf` what it was.
pub fn environment(declaration: &Declaration, optional_old_self: bool) -> Environment {
    let environment = Environment::new().with("self", declaration.clone());
    if optional_old_self {
        let ty = Type::optional(declaration.ty.clone());
        return environment.with("oldSelf", Declaration { ty, ..declaration.clone() });
    }
    environment.with("oldSelf", declaration.clone())
}

/// The program of a rule, which must say yes or no.
pub fn program(environment: &Environment, rule: &str) -> Result<Program, String> {
    let program =
        Program::compile(environment, rule).map_err(|errors| format!("compilation failed: {errors}"))?;
    match program.result_type() {
        Type::Bool => Ok(program),
        _ => Err("cel expression must evaluate to a bool".to_owned()),
    }
}

pub fn text<'r>(rule: &'r Json, field: &str) -> &'r str {
    rule[field].as_str().unwrap_or_default().trim()
}
