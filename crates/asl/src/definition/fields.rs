//! Fields that many states have: paths, numbers, retriers and catchers.

use serde_json::{Map, Value};

use super::read::Reader;
use super::{Catcher, Language, NumberField, Placement, Query, Retrier, Selection, Template, TextField};
use crate::path::ReferencePath;

pub(super) type Object = Map<String, Value>;

impl Reader {
    pub(super) fn selection(&mut self, object: &Object, name: &str, location: &str) -> Selection {
        match object.get(name) {
            None => Selection::All,
            Some(Value::Null) => Selection::Nothing,
            Some(Value::String(text)) => match Query::parse(text) {
                Ok(query) => Selection::Query(query),
                Err(reason) => {
                    self.schema(
                        &format!("{location}/{name}"),
                        format!("Value is not a valid JSONPath: {reason}"),
                    );
                    Selection::All
                }
            },
            Some(_) => {
                self.schema(&format!("{location}/{name}"), "Expected value of type String");
                Selection::All
            }
        }
    }

    pub(super) fn placement(&mut self, object: &Object, location: &str) -> Placement {
        match object.get("ResultPath") {
            None => Placement::Replace,
            Some(Value::Null) => Placement::Discard,
            Some(Value::String(text)) if text == "$" => Placement::Replace,
            Some(Value::String(text)) => match ReferencePath::parse(text) {
                Ok(path) => Placement::At(path),
                Err(reason) => {
                    self.schema(
                        &format!("{location}/ResultPath"),
                        format!("Value is not a Reference Path: {reason}"),
                    );
                    Placement::Replace
                }
            },
            Some(_) => {
                self.schema(&format!("{location}/ResultPath"), "Expected value of type String");
                Placement::Replace
            }
        }
    }

    pub(super) fn query(&mut self, value: &Value, location: &str) -> Option<Query> {
        let parsed = value.as_str().ok_or_else(|| "a string is expected".to_owned()).and_then(Query::parse);
        match parsed {
            Ok(query) => Some(query),
            Err(reason) => {
                self.schema(location, format!("Value is not a valid JSONPath: {reason}"));
                None
            }
        }
    }

    /// `name` or, with JSONPath, `namePath`; never both.
    pub(super) fn number(
        &mut self,
        object: &Object,
        name: &str,
        language: Language,
        location: &str,
        least: f64,
    ) -> Option<NumberField> {
        let path = format!("{name}Path");
        if object.contains_key(name) && object.contains_key(&path) {
            self.schema(location, format!("You cannot specify both '{name}' and '{path}'"));
        }
        if let Some(value) = object.get(&path) {
            return self.query(value, &format!("{location}/{path}")).map(NumberField::Query);
        }
        let here = format!("{location}/{name}");
        match object.get(name)? {
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or_default();
                if number < least {
                    self.schema(&here, format!("The value of '{name}' cannot be less than {least}"));
                }
                Some(NumberField::Constant(number))
            }
            Value::String(text) if language == Language::Jsonata => match self.jsonata(text, &here, name) {
                Some(jsonata) => Some(NumberField::Jsonata(jsonata)),
                None => {
                    self.schema(&here, "Expected value of type Number or a JSONata expression");
                    None
                }
            },
            _ => {
                self.schema(&here, "Expected value of type Number");
                None
            }
        }
    }

    pub(super) fn text_field(
        &mut self,
        object: &Object,
        name: &str,
        language: Language,
        location: &str,
    ) -> Option<TextField> {
        let path = format!("{name}Path");
        if object.contains_key(name) && object.contains_key(&path) {
            self.schema(location, format!("You cannot specify both '{name}' and '{path}'"));
        }
        if let Some(value) = object.get(&path) {
            return self.query(value, &format!("{location}/{path}")).map(TextField::Query);
        }
        let here = format!("{location}/{name}");
        match object.get(name)? {
            Value::String(text) => {
                if language == Language::Jsonata
                    && let Some(jsonata) = self.jsonata(text, &here, name)
                {
                    return Some(TextField::Jsonata(jsonata));
                }
                Some(TextField::Constant(text.clone()))
            }
            _ => {
                self.schema(&here, "Expected value of type String");
                None
            }
        }
    }

    pub(super) fn assign(
        &mut self,
        object: &Object,
        language: Language,
        location: &str,
        field: &str,
    ) -> Vec<(String, Template)> {
        let here = format!("{location}/Assign");
        let assigned = match object.get("Assign") {
            None => return Vec::new(),
            Some(Value::Object(assigned)) => assigned,
            Some(_) => {
                self.schema(&here, "Expected value of type Object");
                return Vec::new();
            }
        };
        for key in assigned.keys() {
            let name =
                if language == Language::JsonPath { key.strip_suffix(".$").unwrap_or(key) } else { key };
            let mut characters = name.chars();
            let good = characters.next().is_some_and(|c| c.is_alphabetic() || c == '_')
                && characters.all(|c| c.is_alphanumeric() || c == '_')
                && name.len() <= 80;
            if !good {
                self.schema(&format!("{here}/{key}"), format!("'{name}' is not a valid variable name"));
            }
            if name == "states" {
                self.schema(&format!("{here}/{key}"), "The variable name 'states' is reserved");
            }
        }
        match self.template(&Value::Object(assigned.clone()), language, &here, field) {
            Template::Object(fields) => fields,
            Template::Constant(Value::Object(fields)) => {
                fields.into_iter().map(|(name, value)| (name, Template::Constant(value))).collect()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn retry(&mut self, object: &Object, location: &str) -> Vec<Retrier> {
        let mut retriers = Vec::new();
        for (here, retrier) in self.objects(object, "Retry", location) {
            self.allow(
                &retrier,
                &[
                    "Comment",
                    "ErrorEquals",
                    "IntervalSeconds",
                    "MaxAttempts",
                    "BackoffRate",
                    "MaxDelaySeconds",
                    "JitterStrategy",
                ],
                &here,
            );
            let number = |reader: &mut Self, name: &str, default: f64, least: f64| match retrier.get(name) {
                None => default,
                Some(value) => {
                    let number = value.as_f64().filter(|number| *number >= least);
                    if number.is_none() {
                        reader.schema(
                            &format!("{here}/{name}"),
                            format!("The value of '{name}' cannot be less than {least}"),
                        );
                    }
                    number.unwrap_or(default)
                }
            };
            let interval = number(self, "IntervalSeconds", 1.0, 0.0);
            let most = number(self, "MaxAttempts", 3.0, 0.0);
            let rate = number(self, "BackoffRate", 2.0, 1.0);
            let longest =
                retrier.contains_key("MaxDelaySeconds").then(|| number(self, "MaxDelaySeconds", 1.0, 0.0));
            let jitter = match retrier.get("JitterStrategy").map(|strategy| strategy.as_str()) {
                None | Some(Some("NONE")) => false,
                Some(Some("FULL")) => true,
                Some(_) => {
                    self.schema(
                        &format!("{here}/JitterStrategy"),
                        "The field 'JitterStrategy' should have one of these values: [FULL, NONE]",
                    );
                    false
                }
            };
            let errors = self.error_equals(&retrier, &here);
            retriers.push(Retrier { errors, interval, most: most as u64, rate, longest, jitter });
        }
        self.states_all_last(
            retriers.iter().map(|retrier| &retrier.errors[..]),
            &format!("{location}/Retry"),
        );
        retriers
    }

    pub(super) fn catch(&mut self, object: &Object, language: Language, location: &str) -> Vec<Catcher> {
        let mut catchers = Vec::new();
        for (here, catcher) in self.objects(object, "Catch", location) {
            let fields: &[&str] = match language {
                Language::JsonPath => &["Comment", "ErrorEquals", "Next", "ResultPath", "Assign"],
                Language::Jsonata => &["Comment", "ErrorEquals", "Next", "Output", "Assign"],
            };
            self.allow(&catcher, fields, &here);
            let Some(next) = self.required_text(&catcher, "Next", &here) else { continue };
            let errors = self.error_equals(&catcher, &here);
            let output = catcher.get("Output").filter(|_| language == Language::Jsonata).map(|output| {
                self.template(
                    output,
                    language,
                    &format!("{here}/Output"),
                    &format!("Catch[{}]/Output", catchers.len()),
                )
            });
            let result_path = self.placement(&catcher, &here);
            let assign = self.assign(&catcher, language, &here, &format!("Catch[{}]/Assign", catchers.len()));
            self.target(&next, "Next", &here);
            catchers.push(Catcher { errors, next, result_path, assign, output });
        }
        self.states_all_last(
            catchers.iter().map(|catcher| &catcher.errors[..]),
            &format!("{location}/Catch"),
        );
        catchers
    }

    fn error_equals(&mut self, object: &Object, location: &str) -> Vec<String> {
        let here = format!("{location}/ErrorEquals");
        let errors = match object.get("ErrorEquals") {
            Some(Value::Array(errors)) => errors,
            Some(_) => {
                self.schema(&here, "Expected value of type Array");
                return Vec::new();
            }
            None => {
                self.schema(location, "These fields are required: [ErrorEquals]");
                return Vec::new();
            }
        };
        if errors.is_empty() {
            self.schema(&here, "Value cannot be empty");
        }
        if errors.iter().any(|error| !error.is_string()) {
            self.schema(&here, "Expected value of type String");
        }
        let errors: Vec<String> =
            errors.iter().filter_map(|error| error.as_str().map(str::to_owned)).collect();
        if errors.len() > 1 && errors.iter().any(|error| error == "States.ALL") {
            self.schema(&here, "States.ALL must appear alone in ErrorEquals");
        }
        errors
    }

    fn states_all_last<'a>(&mut self, all: impl Iterator<Item = &'a [String]>, location: &str) {
        let all: Vec<&[String]> = all.collect();
        let early = all.iter().rev().skip(1).any(|errors| errors.iter().any(|error| error == "States.ALL"));
        if early {
            self.schema(location, "States.ALL must appear only in the last element");
        }
    }
}
