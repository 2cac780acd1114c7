//! What expressions mean, cost, and say when they are wrong: tables of small cases.

#![allow(clippy::unwrap_used)]

mod admission;
mod authorizer;
mod errors;
mod language;
mod libraries;
mod objects;
mod policy;
mod properties;
mod rules;
mod support;
