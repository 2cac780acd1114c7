//! Amazon States Language as AWS runs it: definitions read and checked, and runs as a pure state machine.
//!
//! It never does anything itself: no clock, no IO, no randomness but from a given seed. Whoever runs workflows feeds
//! events in and carries out the commands that come out (`engine`).

mod choose;
pub mod definition;
pub mod engine;
mod evaluate;
pub mod failure;
pub mod intrinsic;
mod jsonata_functions;
pub mod path;
pub mod random;
pub mod simple_form;
pub mod test_state;
pub mod timestamp;
pub mod values;
