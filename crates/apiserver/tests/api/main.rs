//! The API as its clients see it, in process: no sockets, no TLS, a store in a temporary directory.

#![allow(clippy::unwrap_used)]

mod access;
mod admission;
mod cluster;
mod configuration;
mod conversion;
mod custom;
mod definitions;
mod deleting;
mod discovery;
mod events;
mod every_kind;
mod hostile;
mod ingress;
mod listing;
mod objects;
mod protobuf;
mod puts;
mod samples;
mod services;
mod subresources;
mod tokens;
mod watching;
