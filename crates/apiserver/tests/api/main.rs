//! The API as its clients see it, in process: no sockets, no TLS, a store in a temporary directory.

#![allow(clippy::unwrap_used)]

mod access;
mod admission;
mod aggregation;
mod audit;
mod authorization;
mod cluster;
mod configuration;
mod conversion;
mod custom;
mod custom_conversion;
mod custom_rules;
mod custom_webhooks;
mod definitions;
mod deleting;
mod devices;
mod discovery;
mod dual_stack;
mod events;
mod every_kind;
mod extension;
mod field_validation;
mod fuzz;
mod host_names;
mod hostile;
mod https;
mod ingress;
mod listing;
mod mutating_policies;
mod objects;
mod pod_security;
mod policies;
mod protobuf;
mod puts;
mod rights;
mod samples;
mod services;
mod signers;
mod subresources;
mod tokens;
mod traces;
mod watching;
mod webhook_clients;
mod webhooks;
