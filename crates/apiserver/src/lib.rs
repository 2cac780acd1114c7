//! The Kubernetes API on a durable store.
//!
//! A request passes, in this order: `listener` (TLS) or `local` (in process) → `api` (limits, panics,
//! metrics) → `authenticator` → `authorizer` → `dispatch` → `registry` (with `admission`) → the store.
//! Only this crate touches the store. It runs no controllers: those are clients like any other. What it does
//! by itself is tending its own data: `custom` (definitions become served kinds), `aggregation` (roles made of
//! roles), `expiry` (old events).

mod admission;
mod aggregation;
mod answer;
mod api;
mod authenticator;
mod authorizer;
pub mod backup;
mod bootstrap;
mod catalog;
mod codec;
mod component;
mod custom;
mod discovery;
mod dispatch;
mod error;
mod expiry;
mod flow;
mod form;
mod health;
mod lean;
mod listener;
mod local;
mod measured;
mod metrics;
mod node_proxy;
mod nonresource;
mod object;
mod peers;
mod registry;
mod request;
mod review;
mod scaling_decision;
mod schemas;
mod selection;
mod server;
mod state_metrics;
mod subresource;

pub use local::LocalService;
pub use nonresource::version;
pub use peers::Live;
pub use server::{Config, Server, StartError};
