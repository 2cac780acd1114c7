//! The Kubernetes API on a durable store.
//!
//! A request passes, in this order: `listener` (TLS) or `local` (in process) → `api` (panics, metrics, time, `audit`) →
//! `authenticator` → `authorizer` → `body` and `flow` (limits) → `dispatch` → `registry` (with `admission`) → the
//! store.
//! Objects are read from the store and written to it here and nowhere else. It runs no controllers: those are clients like
//! any other. What it does by itself is tending its own data: `custom` (definitions become served kinds), `aggregation`
//! (roles made of roles), `expiry` (old events).

mod admission;
mod aggregation;
mod aggregator;
mod answer;
mod api;
mod audit;
mod authenticator;
mod authorizer;
pub mod backup;
mod body;
mod bootstrap;
mod catalog;
mod codec;
mod component_status;
mod computed;
mod connections;
mod custom;
mod discovery;
mod dispatch;
mod error;
mod expiry;
mod field_tree;
mod flow;
mod following;
mod form;
mod go_json;
mod gzip;
mod handler;
mod health;
mod listener;
mod local;
mod looks;
mod managed_fields;
mod metrics;
mod node_proxy;
mod nonresource;
mod object;
mod peers;
mod policy_status;
mod protocol;
mod records;
mod registry;
mod request;
mod request_header;
mod review;
mod schemas;
mod selection;
mod server;
mod session_limits;
mod span;
mod state_metrics;
mod storage_migration;
mod subresource;
mod webhook_client;
mod websocket;
mod websocket_token;

pub use local::LocalService;
pub use nonresource::version;
pub use peers::Live;
pub use server::{Config, Server, StartError};
