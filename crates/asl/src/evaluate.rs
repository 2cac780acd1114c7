//! Computing fields: what a state's expressions see, and the values they give.

use std::cell::OnceCell;

use serde_json::{Map, Value};

use crate::definition::{Jsonata, NumberField, Query, Selection, Template, TextField};
use crate::failure::Failure;
use crate::intrinsic;
use crate::jsonata_functions;
use crate::path::Lookup;
use crate::random::Random;
use crate::values::type_name;
use minik8s_jsonata::{Bound, Outcome, Surroundings};

pub type Variables = Map<String, Value>;

/// What expressions of one state see. The context object is made only when one asks for it.
pub struct Scope<'a> {
    pub data: &'a Value,
    /// From the innermost outwards.
    pub variables: Vec<&'a Variables>,
    pub context: OnceCell<Value>,
    pub make_context: Box<dyn Fn() -> Value + 'a>,
    pub random: &'a mut Random,
    pub now: i64,
    /// `$states` beside input and context.
    pub result: Option<&'a Value>,
    pub error_output: Option<&'a Value>,
    pub states: OnceCell<Bound>,
}

struct View<'a, 'b> {
    scope: &'a Scope<'b>,
    data: &'a Value,
}

impl Lookup for View<'_, '_> {
    fn data(&self) -> &Value {
        self.data
    }

    fn context(&self) -> &Value {
        self.scope.context.get_or_init(|| (self.scope.make_context)())
    }

    fn variable(&self, name: &str) -> Option<&Value> {
        self.scope.variables.iter().find_map(|variables| variables.get(name))
    }
}

impl<'a> Scope<'a> {
    /// A path or a call, over `data`.
    fn query(&mut self, query: &Query, data: &Value) -> Result<Value, intrinsic::Failure> {
        let mut random = self.random.clone();
        let view = View { scope: self, data };
        let value = match query {
            Query::Path(path) => path
                .query(&view)
                .map_err(|missing| intrinsic::Failure::Path { path: path.text.clone(), missing })?,
            Query::Call(call) => call.evaluate(&view, &mut random)?,
        };
        *self.random = random;
        Ok(value)
    }

    /// A path field (InputPath, SecondsPath, …), over `data`.
    pub fn path_field(&mut self, query: &Query, data: &Value) -> Result<Value, Failure> {
        self.query(query, data).map_err(|failure| match failure {
            intrinsic::Failure::Path { path, missing } => {
                Failure::runtime(format!("Invalid path '{path}' : {missing}"))
            }
            failure => Failure::runtime(failure.to_string()),
        })
    }

    /// A path that may lead nowhere.
    pub fn optional(&mut self, query: &Query, data: &Value) -> Option<Value> {
        self.query(query, data).ok()
    }

    pub fn select(&mut self, selection: &Selection, data: Value) -> Result<Value, Failure> {
        match selection {
            Selection::All => Ok(data),
            Selection::Nothing => Ok(Value::Object(Map::new())),
            Selection::Query(query) => self.path_field(query, &data),
        }
    }

    /// A template; JSONPath looks at `data`.
    pub fn template(&mut self, template: &Template, data: &Value) -> Result<Value, Failure> {
        match template {
            Template::Constant(value) => Ok(value.clone()),
            Template::Query { field, query } => self.query(query, data).map_err(|failure| match failure {
                intrinsic::Failure::Path { path, .. } if query.is_call() => Failure::runtime(format!(
                    "The function '{}' had the following error: The JsonPath argument for the field '{path}' could \
                     not be found in the input '{data}'",
                    query.text()
                )),
                intrinsic::Failure::Path { path, .. } => Failure::runtime(format!(
                    "The JSONPath '{path}' specified for the field '{field}' could not be found in the input '{data}'"
                )),
                failure => Failure::runtime(failure.to_string()),
            }),
            Template::Jsonata(jsonata) => self.jsonata(jsonata),
            Template::Object(fields) => {
                let mut object = Map::with_capacity(fields.len());
                for (name, field) in fields {
                    object.insert(name.clone(), self.template(field, data)?);
                }
                Ok(Value::Object(object))
            }
            Template::Array(items) => items.iter().map(|item| self.template(item, data)).collect(),
        }
    }

    /// A JSONata expression; nothing and functions are errors, for there is no JSON for them.
    pub fn jsonata(&mut self, jsonata: &Jsonata) -> Result<Value, Failure> {
        let refused = |what: &str| {
            Failure::query(
                &jsonata.field,
                format!(
                    "The JSONata expression '{}' specified for the field '{}' {what}",
                    jsonata.text, jsonata.field
                ),
            )
        };
        match self.evaluate(jsonata) {
            Ok(Outcome::Value(value)) => Ok(value),
            Ok(Outcome::Undefined) => Err(refused("returned nothing (undefined).")),
            Ok(Outcome::Function) => Err(refused("returned an unsupported result type.")),
            Err(error) => Err(refused(&format!("threw an error during evaluation. {error}"))),
        }
    }

    fn evaluate(&mut self, jsonata: &Jsonata) -> Result<Outcome, minik8s_jsonata::Error> {
        let mut bindings = Vec::new();
        for name in jsonata.expression.variables() {
            if name == "states" {
                bindings.push(("states", self.states.get_or_init(|| self.states_object()).clone()));
            } else if let Some(value) = self.variables.iter().find_map(|variables| variables.get(name)) {
                bindings.push((name.as_str(), Bound::from(value)));
            }
        }
        let around = Surroundings {
            bindings,
            now: self.now,
            random: self.random.draw(),
            functions: jsonata_functions::ALL,
            ..Surroundings::default()
        };
        jsonata.expression.evaluate(None, &around)
    }

    fn states_object(&self) -> Bound {
        let mut states = Map::new();
        states.insert("input".into(), self.data.clone());
        states.insert("context".into(), self.context.get_or_init(|| (self.make_context)()).clone());
        if let Some(result) = self.result {
            states.insert("result".into(), result.clone());
        }
        if let Some(error) = self.error_output {
            states.insert("errorOutput".into(), error.clone());
        }
        Bound::from(&Value::Object(states))
    }

    /// A JSONata expression that must give a `wanted` type.
    pub fn typed(&mut self, jsonata: &Jsonata, wanted: &str) -> Result<Value, Failure> {
        let value = self.jsonata(jsonata)?;
        Self::of_type(jsonata, value, wanted)
    }

    /// A value that an expression gave, if it is of the `wanted` type.
    pub fn of_type(jsonata: &Jsonata, value: Value, wanted: &str) -> Result<Value, Failure> {
        let found = type_name(&value);
        if found == wanted || (wanted == "integer" && crate::values::integer(&value).is_some()) {
            return Ok(value);
        }
        Err(Failure::query(
            &jsonata.field,
            format!(
                "The JSONata expression '{}' specified for the field '{}' returned an unexpected result type. \
                 Expected '{wanted}', but was '{found}' for value: {value}",
                jsonata.text, jsonata.field
            ),
        ))
    }

    /// A count: MaxConcurrency, TimeoutSeconds and the like.
    pub fn integer(&mut self, field: &NumberField, name: &str, data: &Value) -> Result<i64, Failure> {
        match field {
            NumberField::Constant(constant) => Ok(*constant as i64),
            NumberField::Query(query) => {
                let value = self.path_field(query, data)?;
                let written = value.as_str().and_then(|text| text.parse().ok());
                crate::values::integer(&value).or(written).ok_or_else(|| {
                    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    Failure::runtime(format!(
                        "The {name}Path field refers to value \"{shown}\" which is not a valid integer: {}",
                        query.text()
                    ))
                })
            }
            NumberField::Jsonata(jsonata) => {
                let value = self.typed(jsonata, "integer")?;
                Ok(crate::values::integer(&value).unwrap_or_default())
            }
        }
    }

    /// A number with a fraction: ToleratedFailurePercentage.
    pub fn float(&mut self, field: &NumberField, name: &str, data: &Value) -> Result<f64, Failure> {
        match field {
            NumberField::Constant(constant) => Ok(*constant),
            NumberField::Query(query) => {
                let value = self.path_field(query, data)?;
                let written = value.as_str().and_then(|text| text.parse().ok());
                value.as_f64().or(written).ok_or_else(|| {
                    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    Failure::runtime(format!(
                        "The {name}Path field refers to value \"{shown}\" which is not a valid float: {}",
                        query.text()
                    ))
                })
            }
            NumberField::Jsonata(jsonata) => Ok(self.typed(jsonata, "number")?.as_f64().unwrap_or_default()),
        }
    }

    /// A text: Error and Cause of Fail.
    pub fn text(&mut self, field: &TextField, name: &str, data: &Value) -> Result<String, Failure> {
        match field {
            TextField::Constant(text) => Ok(text.clone()),
            TextField::Query(query) => match self.path_field(query, data)? {
                Value::String(text) => Ok(text),
                other => Err(Failure::runtime(format!(
                    "The {name}Path field refers to a value that is not a string: {} == {other}",
                    query.text()
                ))),
            },
            TextField::Jsonata(jsonata) => {
                Ok(self.typed(jsonata, "string")?.as_str().unwrap_or_default().to_owned())
            }
        }
    }
}
