//! Whether the rules of a definition can be taken: they compile, they fit their place, and no object could make them
//! too expensive.

use minik8s_schema::{FieldErrors, Path};
use serde_json::Value as Json;

use super::compile::{RULES, environment, program, text};
use super::field_path;
use crate::declaration::{Declaration, LARGEST_REQUEST, is_embedded};
use crate::escape::escape;
use crate::program::Program;
use crate::types::Type;

/// What one expression may cost at most, by estimate.
const EXPRESSION_LIMIT: u64 = 10_000_000;
/// What all of a definition may cost together, by estimate.
const DEFINITION_LIMIT: u64 = 100_000_000;
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Adds what is wrong with the rules of an OpenAPI v3 schema of a whole resource, which is at `path`.
pub fn check(schema: &Json, path: &Path, errors: &mut FieldErrors) {
    let mut check = Check { errors, total: 0, expensive: Vec::new() };
    let place = Place { path: path.clone(), repeated: Some(1), uncorrelatable: None };
    check.schema(schema, Declaration::of_schema(schema, "selfType", true).as_ref(), &place);
    if check.total > DEFINITION_LIMIT {
        let Check { total, mut expensive, .. } = check;
        expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        for (_, path) in expensive.into_iter().take(4) {
            let detail =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.forbidden(path, detail);
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.forbidden(path.clone(), too_expensive(what, total, DEFINITION_LIMIT));
    }
}

struct Check<'e> {
    errors: &'e mut FieldErrors,
    total: u64,
    /// Rules that are at least a hundredth of what a definition may cost.
    expensive: Vec<(u64, Path)>,
}

/// Where in the schema, and how often an object can have values there.
struct Place {
    path: Path,
    /// None if nothing bounds it.
    repeated: Option<u64>,
    /// The list around that does not say which old element belongs to which new one.
    uncorrelatable: Option<Path>,
}

impl Place {
    fn below(&self, path: Path, times: Option<u64>) -> Place {
        let repeated = self.repeated.zip(times).map(|(repeated, times)| repeated.saturating_mul(times));
        Place { path, repeated, uncorrelatable: self.uncorrelatable.clone() }
    }
}

impl Check<'_> {
    fn schema(&mut self, schema: &Json, declaration: Option<&Declaration>, place: &Place) {
        let path = &place.path;
        for (name, of) in schema["properties"].as_object().into_iter().flatten() {
            let known = escape(name).and_then(|escaped| declaration?.field(&escaped));
            let made = match known {
                Some(_) => None,
                None => Declaration::of_schema(of, name, is_embedded(of)),
            };
            let of_field = known.map(|field| &field.declaration).or(made.as_ref());
            self.schema(of, of_field, &place.below(path.field("properties").key(name), Some(1)));
        }
        let element = declaration.and_then(|declaration| declaration.element.as_deref());
        if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
            let mut below = place.below(path.field("items"), schema["maxItems"].as_u64());
            if schema["x-kubernetes-list-type"] != "map" && below.uncorrelatable.is_none() {
                below.uncorrelatable = Some(path.clone());
            }
            self.schema(items, element, &below);
        }
        if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
            let below = place.below(path.field("additionalProperties"), schema["maxProperties"].as_u64());
            self.schema(values, element, &below);
        }
        for (index, rule) in schema[RULES].as_array().into_iter().flatten().enumerate() {
            let at = path.field(RULES).index(index);
            if self.shape(rule, schema, &at)
                && let Some(declaration) = declaration
            {
                self.rule(rule, declaration, place, &at);
            }
        }
    }

    /// The rule without its expressions; false if it is no use to look at these.
    fn shape(&mut self, rule: &Json, schema: &Json, at: &Path) -> bool {
        let before = self.errors.iter().count();
        let errors = &mut *self.errors;
        let given = |field: &str| rule[field].as_str().unwrap_or_default();
        let is_blank = |field: &str| !given(field).is_empty() && text(rule, field).is_empty();
        let has_breaks = |text: &str| text.contains(['\n', '\r']);
        if text(rule, "rule").is_empty() {
            errors.required(at.field("rule"), "rule is not specified");
        } else if is_blank("message") {
            errors.invalid(at.field("message"), given("message"), "must be non-empty if specified");
        } else if has_breaks(text(rule, "message")) {
            errors.invalid(at.field("message"), given("message"), "must not contain line breaks");
        } else if has_breaks(text(rule, "rule")) && text(rule, "message").is_empty() {
            errors.required(at.field("message"), "message must be specified if rule contains line breaks");
        }
        if is_blank("messageExpression") {
            let detail = "messageExpression must be non-empty if specified";
            errors.required(at.field("messageExpression"), detail);
        }
        if let Some(reason) = rule["reason"].as_str().filter(|reason| !REASONS.contains(reason)) {
            errors.not_supported(at.field("reason"), reason, &REASONS);
        }
        let field_path = given("fieldPath");
        if is_blank("fieldPath") {
            errors.invalid(at.field("fieldPath"), field_path, "must be non-empty if specified");
        } else if has_breaks(field_path) {
            errors.invalid(at.field("fieldPath"), field_path, "must not contain line breaks");
        } else if field_path::normalized(field_path, schema).is_err() {
            errors.invalid(at.field("fieldPath"), field_path, "must be a valid path");
        }
        self.errors.iter().count() == before
    }

    fn rule(&mut self, rule: &Json, declaration: &Declaration, place: &Place, at: &Path) {
        let optional = rule["optionalOldSelf"] == true;
        let environment = environment(declaration, optional);
        let program = match program(&environment, text(rule, "rule")) {
            Ok(program) => program,
            Err(why) => return self.errors.invalid(at.field("rule"), rule.clone(), why),
        };
        // An unbounded list has as many elements as fit into a request.
        let repeated = place.repeated.unwrap_or(LARGEST_REQUEST / (declaration.min_size + 1));
        let cost = program.estimate(&environment).max.saturating_mul(repeated);
        self.cost("estimated rule cost", cost, at.field("rule"));
        if program.reads("oldSelf") {
            if let Some(list) = &place.uncorrelatable {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                self.errors.invalid(at.field("rule"), text(rule, "rule"), detail);
            }
        } else if rule.get("optionalOldSelf").is_some_and(Json::is_boolean) {
            let detail = "may not be set if oldSelf is not used in rule";
            self.errors.invalid(at.field("optionalOldSelf"), rule["optionalOldSelf"].clone(), detail);
        }
        match text(rule, "messageExpression") {
            "" => {}
            expression => {
                let at = at.field("messageExpression");
                match Program::compile(&environment, expression) {
                    Ok(program) if *program.result_type() != Type::String => {
                        self.errors.invalid(at, rule.clone(), "messageExpression must evaluate to a string");
                    }
                    Ok(program) => {
                        let cost = program.estimate(&environment).max;
                        self.cost("estimated messageExpression cost", cost, at);
                    }
                    Err(errors) => {
                        let detail = format!("messageExpression compilation failed: {errors}");
                        self.errors.invalid(at, rule.clone(), detail);
                    }
                }
            }
        }
    }

    fn cost(&mut self, what: &str, cost: u64, path: Path) {
        if cost > EXPRESSION_LIMIT {
            self.errors.forbidden(path.clone(), too_expensive(what, cost, EXPRESSION_LIMIT));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= DEFINITION_LIMIT / 100 {
            self.expensive.push((cost, path));
        }
    }
}

fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        large if large > 100.0 => "more than 100x".to_owned(),
        little if little < 1.5 => format!("{little:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}
