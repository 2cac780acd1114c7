//! JSONata: one expression, bound variables, a JSON result, and limits that every expression keeps.
//!
//! It never reads a clock, a network or a random source: time and seed come from the caller, so that the same
//! evaluation gives the same value wherever and whenever it is done again.

mod apply;
mod ast;
mod builtins;
mod calendar;
mod construct;
mod date_picture;
mod error;
mod evaluate;
mod expression;
mod function;
mod integer_picture;
mod json;
mod matching;
mod number_picture;
mod operators;
mod parse;
mod path;
mod pattern;
mod process;
mod references;
mod signature;
mod token;
mod transform;
mod value;

pub use error::Error;
pub use expression::{Bound, Expression, HostFunction, Limits, Outcome, Surroundings};
