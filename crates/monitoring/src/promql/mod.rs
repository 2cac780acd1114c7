//! PromQL, as far as it takes to say whether an expression is one: a rule that an engine would refuse must be refused
//! when it is written, for one bad file keeps all others from being read.
//!
//! It never evaluates anything. Problems are told as promtool tells them: `1:5: parse error: unexpected …`.

mod functions;
mod lex;
mod parse;

use lex::{Kind, Token};

/// What an expression gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    Scalar,
    String,
    Vector,
    Matrix,
}

impl ValueType {
    fn name(self) -> &'static str {
        match self {
            ValueType::Scalar => "scalar",
            ValueType::String => "string",
            ValueType::Vector => "instant vector",
            ValueType::Matrix => "range vector",
        }
    }
}

/// Where an expression is wrong, and how.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: parse error: {message}")]
pub struct Problem {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

/// Expressions nest at most so deep: they are written by anybody.
const DEEPEST: usize = 64;

/// The type of an expression.
pub fn check(text: &str) -> Result<ValueType, Problem> {
    let located = |(at, message): (usize, String)| {
        let before = &text[..at.min(text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Problem { line, column, message }
    };
    let tokens = lex::tokens(text).map_err(located)?;
    parse::expression(&tokens, text.len()).map_err(located)
}

/// A metric's name.
pub fn is_metric_name(name: &str) -> bool {
    let mut characters = name.chars();
    characters.next().is_some_and(|c| c.is_ascii_alphabetic() || matches!(c, '_' | ':'))
        && characters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':'))
}

#[cfg(test)]
mod tests;
