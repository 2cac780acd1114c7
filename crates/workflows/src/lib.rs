//! Workflows: state machines in the Amazon States Language, run durably on the server that leads.
//!
//! `minik8s-asl` is the language and knows nothing of clusters. This crate is the rest: the kinds, the engine that
//! carries out what the language asks for, the history beside the objects, drawings, and the verbs of the command line.

mod answers;
pub mod engine;
mod feature;
pub mod graph;
mod handlers;
pub mod journal;
pub mod kinds;
mod retention;
pub mod tasks;
#[doc(hidden)]
pub mod testing;
pub mod verbs;

pub use feature::Workflows;
