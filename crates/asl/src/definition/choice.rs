//! Choice rules.

use serde_json::Value;

use super::fields::Object;
use super::read::Reader;
use super::{Jsonata, Kind, Language, Query, Template};
use crate::timestamp::Timestamp;

/// One rule: where to go when the condition holds.
#[derive(Debug, Clone)]
pub struct Rule {
    pub condition: Condition,
    pub next: String,
    pub assign: Vec<(String, Template)>,
    pub output: Option<Template>,
}

#[derive(Debug, Clone)]
pub enum Condition {
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Not(Box<Condition>),
    Test {
        variable: Query,
        comparison: Comparison,
        operand: Operand,
    },
    Jsonata(Jsonata),
    /// A condition of JSONata that is written as true or false.
    Constant(bool),
}

#[derive(Debug, Clone)]
pub enum Operand {
    Constant(Value),
    Query(Query),
}

/// Every operator of Choice; those of texts, numbers and timestamps come in five orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    StringMatches,
    BooleanEquals,
    String(Order),
    Numeric(Order),
    Timestamp(Order),
    IsNull,
    IsPresent,
    IsNumeric,
    IsString,
    IsBoolean,
    IsTimestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Equals,
    LessThan,
    GreaterThan,
    LessThanEquals,
    GreaterThanEquals,
}

/// For those who wrote another.
const OPERATORS: &str = "And, Or, Not; String, Numeric or Timestamp before Equals, LessThan, GreaterThan, \
     LessThanEquals, GreaterThanEquals; BooleanEquals; each of these with Path; StringMatches; IsNull, IsPresent, \
     IsNumeric, IsString, IsBoolean, IsTimestamp";

impl Order {
    pub fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Self::Equals => ordering.is_eq(),
            Self::LessThan => ordering.is_lt(),
            Self::GreaterThan => ordering.is_gt(),
            Self::LessThanEquals => ordering.is_le(),
            Self::GreaterThanEquals => ordering.is_ge(),
        }
    }
}

impl Comparison {
    /// The operator of a field's name, without `Path`.
    fn parse(name: &str) -> Option<Self> {
        match name {
            "StringMatches" => return Some(Self::StringMatches),
            "BooleanEquals" => return Some(Self::BooleanEquals),
            "IsNull" => return Some(Self::IsNull),
            "IsPresent" => return Some(Self::IsPresent),
            "IsNumeric" => return Some(Self::IsNumeric),
            "IsString" => return Some(Self::IsString),
            "IsBoolean" => return Some(Self::IsBoolean),
            "IsTimestamp" => return Some(Self::IsTimestamp),
            _ => {}
        }
        let order = |rest: &str| match rest {
            "Equals" => Some(Order::Equals),
            "LessThan" => Some(Order::LessThan),
            "GreaterThan" => Some(Order::GreaterThan),
            "LessThanEquals" => Some(Order::LessThanEquals),
            "GreaterThanEquals" => Some(Order::GreaterThanEquals),
            _ => None,
        };
        name.strip_prefix("String")
            .and_then(order)
            .map(Self::String)
            .or_else(|| name.strip_prefix("Numeric").and_then(order).map(Self::Numeric))
            .or_else(|| name.strip_prefix("Timestamp").and_then(order).map(Self::Timestamp))
    }

    fn takes_path(self) -> bool {
        matches!(self, Self::BooleanEquals | Self::String(_) | Self::Numeric(_) | Self::Timestamp(_))
    }

    /// What is wrong with a constant operand.
    fn refuses(self, value: &Value) -> Option<&'static str> {
        match self {
            Self::StringMatches | Self::String(_) => (!value.is_string()).then_some("String"),
            Self::Numeric(_) => (!value.is_number()).then_some("Number"),
            Self::Timestamp(_) => value.as_str().and_then(Timestamp::parse).is_none().then_some("Timestamp"),
            _ => (!value.is_boolean()).then_some("Boolean"),
        }
    }
}

impl Reader {
    pub(super) fn choice(&mut self, object: &Object, language: Language, location: &str) -> Option<Kind> {
        let here = format!("{location}/Choices");
        match object.get("Choices") {
            None => {
                self.schema(location, "These fields are required: [Choices]");
                return None;
            }
            Some(Value::Array(choices)) if choices.is_empty() => {
                self.schema(&here, "Value cannot be empty");
                return None;
            }
            Some(_) => {}
        }
        let mut rules = Vec::new();
        for (here, choice) in self.objects(object, "Choices", location) {
            let Some(next) = self.required_text(&choice, "Next", &here) else { continue };
            self.target(&next, "Next", &here);
            let assign = self.assign(&choice, language, &here, &format!("Choices[{}]/Assign", rules.len()));
            let output = choice.get("Output").filter(|_| language == Language::Jsonata).map(|output| {
                let field = format!("Choices[{}]/Output", rules.len());
                self.template(output, language, &format!("{here}/Output"), &field)
            });
            let condition = match language {
                Language::JsonPath => self.condition(&choice, &here, true),
                Language::Jsonata => self.jsonata_condition(&choice, &here, rules.len()),
            };
            let Some(condition) = condition else { continue };
            rules.push(Rule { condition, next, assign, output });
        }
        let default = match object.get("Default") {
            None => None,
            Some(Value::String(default)) => {
                self.target(default, "Default", location);
                Some(default.clone())
            }
            Some(_) => {
                self.schema(&format!("{location}/Default"), "Expected value of type String");
                None
            }
        };
        Some(Kind::Choice { rules, default })
    }

    fn jsonata_condition(&mut self, rule: &Object, location: &str, index: usize) -> Option<Condition> {
        self.allow(rule, &["Comment", "Condition", "Next", "Assign", "Output"], location);
        let here = format!("{location}/Condition");
        match rule.get("Condition") {
            None => {
                self.schema(location, "These fields are required: [Condition]");
                None
            }
            Some(Value::Bool(constant)) => Some(Condition::Constant(*constant)),
            Some(Value::String(text)) => {
                let field = format!("Choices[{index}]/Condition");
                let jsonata = self.jsonata(text, &here, &field);
                if jsonata.is_none() {
                    self.schema(&here, "Expected value of type Boolean or a JSONata expression");
                }
                jsonata.map(Condition::Jsonata)
            }
            Some(_) => {
                self.schema(&here, "Expected value of type Boolean or a JSONata expression");
                None
            }
        }
    }

    fn condition(&mut self, rule: &Object, location: &str, top: bool) -> Option<Condition> {
        let around: &[&str] = if top { &["Comment", "Next", "Assign"] } else { &["Comment"] };
        let mut operators = rule.keys().filter(|key| !around.contains(&key.as_str()) && *key != "Variable");
        let Some(operator) = operators.next() else {
            self.schema(location, "A choice rule needs a comparison operator");
            return None;
        };
        if operators.next().is_some() {
            self.schema(location, "A choice rule can have only one comparison operator");
            return None;
        }
        let here = format!("{location}/{operator}");
        match operator.as_str() {
            "And" | "Or" => {
                let inner: Vec<(String, Object)> = self.objects(rule, operator, location);
                if inner.is_empty() {
                    self.schema(&here, "Value cannot be empty");
                }
                let inner: Vec<Condition> =
                    inner.iter().filter_map(|(here, rule)| self.condition(rule, here, false)).collect();
                Some(if operator == "And" { Condition::And(inner) } else { Condition::Or(inner) })
            }
            "Not" => match rule.get("Not") {
                Some(Value::Object(inner)) => {
                    self.condition(inner, &here, false).map(|inner| Condition::Not(Box::new(inner)))
                }
                _ => {
                    self.schema(&here, "Expected value of type Object");
                    None
                }
            },
            _ => self.test(rule, operator, location),
        }
    }

    fn test(&mut self, rule: &Object, operator: &str, location: &str) -> Option<Condition> {
        let here = format!("{location}/{operator}");
        let value = rule.get(operator)?;
        let (comparison, operand) = match Comparison::parse(operator) {
            Some(comparison) => {
                if let Some(wanted) = comparison.refuses(value) {
                    self.schema(&here, format!("Expected value of type {wanted}"));
                    return None;
                }
                (comparison, Operand::Constant(value.clone()))
            }
            None => {
                let comparison = operator.strip_suffix("Path").and_then(Comparison::parse);
                let Some(comparison) = comparison.filter(|comparison| comparison.takes_path()) else {
                    self.unknown_field(location, operator, OPERATORS);
                    return None;
                };
                (comparison, Operand::Query(self.query(value, &here)?))
            }
        };
        let Some(variable) = rule.get("Variable") else {
            self.schema(location, "These fields are required: [Variable]");
            return None;
        };
        let variable = self.query(variable, &format!("{location}/Variable"))?;
        Some(Condition::Test { variable, comparison, operand })
    }
}
