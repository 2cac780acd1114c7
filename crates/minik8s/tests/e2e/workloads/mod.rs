//! Workloads as users see them: the real API server, controllers and scheduler in one process, on nodes that
//! are simulated.

mod autoscalers;
mod budgets;
pub mod cluster;
mod collections;
mod cron_jobs;
mod daemon_sets;
mod deployments;
mod garbage;
mod jobs;
mod namespaces;
mod quotas;
mod replica_sets;
mod replication_controllers;
mod restarts;
mod runaway;
mod stateful_sets;
