//! A state machine's definition, typed: every path, intrinsic call and JSONata expression is parsed once, here.
//!
//! Reading and checking are one pass (`read.rs` and the files beside it), so that what runs is what was checked. It
//! never evaluates anything.

mod choice;
mod diagnostic;
mod fields;
mod map;
mod processor;
mod read;
mod resource;
mod states;
mod template;
mod text;

use std::collections::BTreeMap;

use serde_json::Value;

pub use choice::{Comparison, Condition, Operand, Order, Rule};
pub use diagnostic::{Diagnostic, Diagnostics, Hint, Severity};
pub use map::{Batcher, Items, MapState};
pub use processor::processor_at;
pub use resource::{Integration, Pattern, Resource};
pub use template::{Jsonata, Query, Template};

use crate::path::ReferencePath;

/// What a field of expressions is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    JsonPath,
    Jsonata,
}

/// How runs of the machine are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MachineType {
    #[default]
    Standard,
    Express,
}

/// A whole definition.
#[derive(Debug, Clone)]
pub struct Definition {
    pub machine: Machine,
    pub comment: Option<String>,
    pub timeout_seconds: Option<u64>,
    pub machine_type: MachineType,
}

/// States and where they start: the whole machine, a branch, or what a Map does with each item.
#[derive(Debug, Clone)]
pub struct Machine {
    pub start_at: String,
    pub states: BTreeMap<String, State>,
}

/// One state.
#[derive(Debug, Clone)]
pub struct State {
    pub name: String,
    pub language: Language,
    pub kind: Kind,
    pub transition: Transition,
    pub input_path: Selection,
    pub output_path: Selection,
    /// Parameters, or Arguments.
    pub parameters: Option<Template>,
    pub result_selector: Option<Template>,
    pub result_path: Placement,
    pub assign: Vec<(String, Template)>,
    /// Output, of JSONata.
    pub output: Option<Template>,
    pub retry: Vec<Retrier>,
    pub catch: Vec<Catcher>,
}

#[derive(Debug, Clone)]
pub enum Kind {
    Pass { result: Option<Value> },
    Task(Box<Task>),
    Choice { rules: Vec<Rule>, default: Option<String> },
    Wait(Wait),
    Succeed,
    Fail { error: Option<TextField>, cause: Option<TextField> },
    Parallel { branches: Vec<Machine> },
    Map(Box<MapState>),
}

impl Kind {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pass { .. } => "Pass",
            Self::Task(_) => "Task",
            Self::Choice { .. } => "Choice",
            Self::Wait(_) => "Wait",
            Self::Succeed => "Succeed",
            Self::Fail { .. } => "Fail",
            Self::Parallel { .. } => "Parallel",
            Self::Map(_) => "Map",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Task {
    pub resource: Resource,
    pub timeout: Option<NumberField>,
    pub heartbeat: Option<NumberField>,
    pub credentials: Option<Template>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Transition {
    Next(String),
    End,
}

/// InputPath and OutputPath.
#[derive(Debug, Clone)]
pub enum Selection {
    All,
    /// `null`: an empty object.
    Nothing,
    Query(Query),
}

/// ResultPath.
#[derive(Debug, Clone)]
pub enum Placement {
    Replace,
    /// `null`: the input goes on.
    Discard,
    At(ReferencePath),
}

/// A number that may be computed.
#[derive(Debug, Clone)]
pub enum NumberField {
    Constant(f64),
    Query(Query),
    Jsonata(Jsonata),
}

/// A text that may be computed.
#[derive(Debug, Clone)]
pub enum TextField {
    Constant(String),
    Query(Query),
    Jsonata(Jsonata),
}

#[derive(Debug, Clone)]
pub enum Wait {
    Seconds(NumberField),
    Timestamp(TextField),
}

/// When and how often a failed state is tried again.
#[derive(Debug, Clone)]
pub struct Retrier {
    pub errors: Vec<String>,
    pub interval: f64,
    pub most: u64,
    pub rate: f64,
    pub longest: Option<f64>,
    pub jitter: bool,
}

/// Where a failed state goes.
#[derive(Debug, Clone)]
pub struct Catcher {
    pub errors: Vec<String>,
    pub next: String,
    pub result_path: Placement,
    pub assign: Vec<(String, Template)>,
    pub output: Option<Template>,
}

impl Definition {
    /// Reads and checks a definition that is JSON text.
    pub fn from_text(text: &str, machine_type: MachineType) -> Result<Self, Diagnostics> {
        let value = text::parse(text).map_err(|problem| Diagnostics(vec![problem]))?;
        Self::from_value(&value, machine_type)
    }

    /// Reads and checks a definition. The simple form (`startAt`, `nodes`) is taken too.
    pub fn from_value(value: &Value, machine_type: MachineType) -> Result<Self, Diagnostics> {
        match crate::simple_form::convert(value) {
            Some(converted) => read::definition(
                &converted.map_err(|problem| Diagnostics(vec![problem]))?,
                machine_type,
                false,
            ),
            None => read::definition(value, machine_type, false),
        }
    }

    /// A definition of which one state matters, which begins it; its successors need not exist.
    pub fn of_state(value: &Value, name: &str) -> Result<Self, Diagnostics> {
        let mut definition = read::definition(value, MachineType::Standard, true)?;
        definition.machine.start_at = name.to_owned();
        Ok(definition)
    }
}

pub use text::position_of;
