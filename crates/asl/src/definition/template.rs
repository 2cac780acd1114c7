//! Fields whose value is computed: payload templates of JSONPath and of JSONata, and the expressions in them.

use std::sync::Arc;

use serde_json::Value;

use super::Language;
use super::read::Reader;
use crate::intrinsic::Call;
use crate::path::{Path, Root};

/// A path or an intrinsic call.
#[derive(Debug, Clone)]
pub enum Query {
    Path(Path),
    Call(Call),
}

impl Query {
    pub fn parse(text: &str) -> Result<Self, String> {
        if Call::looks_like(text) {
            return Call::parse(text).map(Self::Call);
        }
        Path::parse(text).map(Self::Path).map_err(|invalid| invalid.0)
    }

    pub fn is_call(&self) -> bool {
        matches!(self, Self::Call(_))
    }

    pub fn text(&self) -> &str {
        match self {
            Self::Path(path) => &path.text,
            Self::Call(call) => &call.text,
        }
    }

    /// True when it reads the context object or the data, rather than only variables.
    pub fn roots(&self) -> Vec<&Root> {
        match self {
            Self::Path(path) => vec![&path.root],
            Self::Call(call) => call.paths().into_iter().map(|path| &path.root).collect(),
        }
    }
}

/// A JSONata expression: `{% … %}`.
#[derive(Debug, Clone)]
pub struct Jsonata {
    /// Between the marks, without outer space, as messages quote it.
    pub text: String,
    /// Below the state, as messages name it: `Output/total`.
    pub field: String,
    pub expression: Arc<minik8s_jsonata::Expression>,
}

/// A value with computed parts.
#[derive(Debug, Clone)]
pub enum Template {
    Constant(Value),
    Query { field: String, query: Query },
    Jsonata(Jsonata),
    Object(Vec<(String, Template)>),
    Array(Vec<Template>),
}

impl Reader {
    /// The template at `location`; `field` is its name below the state.
    pub(super) fn template(
        &mut self,
        value: &Value,
        language: Language,
        location: &str,
        field: &str,
    ) -> Template {
        match language {
            Language::JsonPath => self.payload(value, location),
            Language::Jsonata => self.jsonata_template(value, location, field),
        }
    }

    fn payload(&mut self, value: &Value, location: &str) -> Template {
        match value {
            Value::Object(object) => {
                let mut fields = Vec::with_capacity(object.len());
                let mut constant = true;
                for (key, value) in object {
                    let Some(name) = key.strip_suffix(".$") else {
                        let template = self.payload(value, &format!("{location}/{}", escape(key)));
                        constant &= matches!(template, Template::Constant(_));
                        fields.push((key.clone(), template));
                        continue;
                    };
                    constant = false;
                    if object.contains_key(name) {
                        self.schema(location, format!("The field '{name}' must not be defined twice"));
                    }
                    let query = value.as_str().ok_or_else(|| "no string".to_owned()).and_then(Query::parse);
                    match query {
                        Ok(query) => {
                            fields.push((name.to_owned(), Template::Query { field: key.clone(), query }));
                        }
                        Err(_) => self.schema(
                            &format!("{location}/{}", escape(key)),
                            format!(
                                "The value for the field '{key}' must be a valid JSONPath or a valid intrinsic \
                                 function call"
                            ),
                        ),
                    }
                }
                if constant { Template::Constant(value.clone()) } else { Template::Object(fields) }
            }
            Value::Array(items) => {
                let items: Vec<Template> = items
                    .iter()
                    .enumerate()
                    .map(|(at, item)| self.payload(item, &format!("{location}/{at}")))
                    .collect();
                if items.iter().all(|item| matches!(item, Template::Constant(_))) {
                    return Template::Constant(value.clone());
                }
                Template::Array(items)
            }
            value => Template::Constant(value.clone()),
        }
    }

    fn jsonata_template(&mut self, value: &Value, location: &str, field: &str) -> Template {
        match value {
            Value::Object(object) => {
                let fields: Vec<(String, Template)> = object
                    .iter()
                    .map(|(key, value)| {
                        let location = format!("{location}/{}", escape(key));
                        (key.clone(), self.jsonata_template(value, &location, &format!("{field}/{key}")))
                    })
                    .collect();
                if fields.iter().all(|(_, field)| matches!(field, Template::Constant(_))) {
                    return Template::Constant(value.clone());
                }
                Template::Object(fields)
            }
            Value::Array(items) => {
                let items: Vec<Template> = items
                    .iter()
                    .enumerate()
                    .map(|(at, item)| {
                        self.jsonata_template(item, &format!("{location}/{at}"), &format!("{field}[{at}]"))
                    })
                    .collect();
                if items.iter().all(|item| matches!(item, Template::Constant(_))) {
                    return Template::Constant(value.clone());
                }
                Template::Array(items)
            }
            Value::String(text) => match self.jsonata(text, location, field) {
                Some(jsonata) => Template::Jsonata(jsonata),
                None => Template::Constant(value.clone()),
            },
            value => Template::Constant(value.clone()),
        }
    }

    /// The expression in a text, when it is one; half of the marks is a mistake.
    pub(super) fn jsonata(&mut self, text: &str, location: &str, field: &str) -> Option<Jsonata> {
        match (text.strip_prefix("{%"), text.strip_suffix("%}")) {
            (Some(_), Some(_)) if text.len() >= 4 => {}
            (None, None) => return None,
            _ => {
                self.schema(location, "The JSONata expression must start with '{%' and end with '%}'");
                return None;
            }
        }
        let inner = text[2..text.len() - 2].trim();
        match minik8s_jsonata::Expression::parse(inner) {
            Ok(expression) => {
                self.references(&expression, inner, location, field);
                let expression = Arc::new(expression);
                Some(Jsonata { text: inner.to_owned(), field: field.to_owned(), expression })
            }
            Err(error) => {
                self.refuse("INVALID_JSONATA_EXPRESSION", location, error.message);
                None
            }
        }
    }

    /// An expression has no input of its own, and the error only where it is caught.
    fn references(
        &mut self,
        expression: &minik8s_jsonata::Expression,
        text: &str,
        location: &str,
        field: &str,
    ) {
        let message = match expression.input_reference() {
            Some("$$") => "Reference to '$$' is not supported.".to_owned(),
            Some(name) => format!("Reference to '{name}' at the top level is not supported."),
            None if text.contains("$states.errorOutput") && !field.starts_with("Catch") => {
                "Field '$states.errorOutput' does not exist.".to_owned()
            }
            None => return,
        };
        self.refuse("UNSUPPORTED_JSONATA_EXPRESSION", location, message);
    }
}

/// A name as a step of a JSON pointer. AWS escapes nothing, and names with a slash are rare.
pub(super) fn escape(name: &str) -> &str {
    name
}
