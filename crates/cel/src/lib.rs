//! The Common Expression Language, as Kubernetes uses it.
//!
//! An [`Environment`] declares variables, from schemas where there are some. A [`Program`] is compiled in it once:
//! parsed, type-checked, planned. It runs over values that are borrowed from the object, and pays for every step
//! from a [`Budget`] in upstream's cost units. [`rules`] validates whole objects by the
//! `x-kubernetes-validations` of their schema, [`admission`] is for expressions about requests, [`policy`]
//! for those of admission policies, and [`authorization`] for those of authorization webhooks.
//!
//! Nothing here does IO, reads a clock or keeps state between runs. What only the host knows (who may do what) it
//! answers through [`Authorizer`].

pub mod admission;
mod ast;
pub mod authorization;
mod check;
mod cost;
mod declaration;
pub mod device;
mod each;
mod environment;
mod equality;
mod error;
mod escape;
mod estimate;
mod evaluate;
mod library;
mod macros;
mod parse;
mod plan;
pub mod policy;
mod program;
pub mod rules;
mod source;
mod token;
mod types;
mod unescape;
mod unify;
mod value;

pub use cost::{Budget, PER_CALL_LIMIT, PER_OBJECT_LIMIT};
pub use declaration::Declaration;
pub use environment::Environment;
pub use error::EvalError;
pub use escape::is_identifier;
pub use estimate::Estimate;
pub use library::authorizer::{Authorizer, Check, Decision, Question};
pub use program::{Bindings, Program};
pub use source::{CompileError, CompileErrors};
pub use types::Type;
pub use value::Value;
