//! Intrinsic functions of payload templates: `States.Format('{}', $.name)` and the others.
//!
//! Parsing decides everything that does not depend on data, so that a definition with an unknown function or a wrong
//! number of arguments is refused before it runs. Random values come from the caller's generator.

mod functions;
mod parse;

use serde_json::Value;

use crate::path::{Lookup, Missing, Path};
use crate::random::Random;

/// A parsed call.
#[derive(Debug, Clone)]
pub struct Call {
    pub text: String,
    function: Function,
    arguments: Vec<Argument>,
}

#[derive(Debug, Clone)]
enum Argument {
    Literal(Value),
    Path(Path),
    Call(Call),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Function {
    Format,
    StringToJson,
    JsonToString,
    Array,
    ArrayPartition,
    ArrayContains,
    ArrayRange,
    ArrayGetItem,
    ArrayLength,
    ArrayUnique,
    Base64Encode,
    Base64Decode,
    Hash,
    JsonMerge,
    MathRandom,
    MathAdd,
    StringSplit,
    Uuid,
}

impl Function {
    /// Name, least and most arguments.
    const ALL: &'static [(&'static str, Self, usize, usize)] = &[
        ("States.Format", Self::Format, 1, usize::MAX),
        ("States.StringToJson", Self::StringToJson, 1, 1),
        ("States.JsonToString", Self::JsonToString, 1, 1),
        ("States.Array", Self::Array, 0, usize::MAX),
        ("States.ArrayPartition", Self::ArrayPartition, 2, 2),
        ("States.ArrayContains", Self::ArrayContains, 2, 2),
        ("States.ArrayRange", Self::ArrayRange, 3, 3),
        ("States.ArrayGetItem", Self::ArrayGetItem, 2, 2),
        ("States.ArrayLength", Self::ArrayLength, 1, 1),
        ("States.ArrayUnique", Self::ArrayUnique, 1, 1),
        ("States.Base64Encode", Self::Base64Encode, 1, 1),
        ("States.Base64Decode", Self::Base64Decode, 1, 1),
        ("States.Hash", Self::Hash, 2, 2),
        ("States.JsonMerge", Self::JsonMerge, 3, 3),
        ("States.MathRandom", Self::MathRandom, 2, 3),
        ("States.MathAdd", Self::MathAdd, 2, 2),
        ("States.StringSplit", Self::StringSplit, 2, 2),
        ("States.UUID", Self::Uuid, 0, 0),
    ];
}

impl Function {
    /// Whether a literal can be right; what paths and calls give shows only later.
    fn takes(self, argument: &Argument) -> bool {
        let Argument::Literal(literal) = argument else { return true };
        match self {
            Self::MathAdd | Self::MathRandom | Self::ArrayRange => literal.is_number(),
            Self::StringToJson | Self::Base64Encode | Self::Base64Decode | Self::StringSplit => {
                literal.is_string()
            }
            Self::ArrayLength | Self::ArrayUnique => false,
            _ => true,
        }
    }
}

/// Why a call gave nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Failure {
    /// A path among the arguments.
    #[error("{missing}")]
    Path { path: String, missing: Missing },
    /// The function refused its arguments.
    #[error("The function '{call}' had the following error: {reason}")]
    Function { call: String, reason: String },
}

impl Call {
    pub fn parse(text: &str) -> Result<Self, String> {
        parse::call(text)
    }

    /// True when a text is meant as a call, right or wrong.
    pub fn looks_like(text: &str) -> bool {
        text.starts_with("States.")
    }

    /// The paths among the arguments, at any depth.
    pub fn paths(&self) -> Vec<&Path> {
        let mut paths = Vec::new();
        for argument in &self.arguments {
            match argument {
                Argument::Path(path) => paths.push(path),
                Argument::Call(call) => paths.extend(call.paths()),
                Argument::Literal(_) => {}
            }
        }
        paths
    }

    pub fn evaluate(&self, lookup: &dyn Lookup, random: &mut Random) -> Result<Value, Failure> {
        let mut arguments = Vec::with_capacity(self.arguments.len());
        for argument in &self.arguments {
            arguments.push(match argument {
                Argument::Literal(value) => value.clone(),
                Argument::Path(path) => path
                    .query(lookup)
                    .map_err(|missing| Failure::Path { path: path.text.clone(), missing })?,
                Argument::Call(call) => call.evaluate(lookup, random)?,
            });
        }
        functions::call(self.function, &arguments, random)
            .map_err(|reason| Failure::Function { call: self.text.clone(), reason })
    }
}

pub use functions::{hash, partition, range};
