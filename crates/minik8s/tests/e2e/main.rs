//! The whole program, end to end: the real binary, real clients and real containers. One binary, since each is linked with
//! everything; an area is a module, and `cargo nextest run --workspace -E 'test(/^mesh::/)'` runs one.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod backup;
mod chaos;
mod clients;
mod conformance;
mod crash;
mod dashboard;
mod down;
mod etcd_tls;
mod examples;
mod features;
mod functions;
mod ha;
mod harness;
mod join;
mod kubectl;
mod kubectl_workloads;
mod lab;
mod layers;
mod mesh;
mod monitoring;
mod network;
mod node;
mod packaging;
mod router;
mod scheduling;
mod shared_storage;
mod slurm;
mod supervision;
mod tour;
mod workflows;
mod workloads;
