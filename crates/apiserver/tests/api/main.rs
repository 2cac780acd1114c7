//! The API as its clients see it, in process: no sockets, no TLS, a store in a temporary directory.

#![allow(clippy::unwrap_used)]

mod access;
mod admission;
mod cluster;
mod conversion;
mod custom;
mod deleting;
mod every_kind;
mod hostile;
mod ingress;
mod listing;
mod objects;
mod samples;
mod services;
mod subresources;
mod tokens;
mod watching;
