//! What policies mean, by upstream's own cases; that rules mean the same; and golden files of tables.

mod properties;
mod rulesets;
mod upstream;
mod world;
