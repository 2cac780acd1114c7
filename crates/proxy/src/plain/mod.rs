//! The short way for most requests: HTTP/1.1 on both sides, with no body or one that has come already.
//!
//! Heads go from one connection to the other as bytes. No map of headers is made, nothing is allocated but what is sent,
//! and one task does it all, so that a request costs little more than its four system calls. What is not plainly of this
//! kind (HTTP/2, upgrades, bodies that stream in, anything odd in a head) is left alone before anything was done about it:
//! the connection then goes on with hyper, first byte included. Nothing here guesses: where two readers could understand
//! a head differently, the request is not plain.

mod alarm;
mod answer;
mod backend;
mod chunks;
mod connection;
#[cfg(test)]
mod fuzz;
mod head;
mod request;
mod rest;
mod retry;
mod rewound;

pub(super) use backend::Backend;
pub(super) use connection::serve;
pub use rewound::Rewound;
