//! GPU jobs: a program and a compile line in one object, brought to a Slurm cluster, compiled and run there, and its
//! results brought back.
//!
//! A GPUJob has a pod of its own, which runs `minik8s slurm-submit` for this job alone ([`program`]) with the credentials
//! of its SlurmCluster and no others. What it does next is a pure function of the job and of one look at the cluster
//! ([`decide`]), so it can be killed at any moment. The controller ([`controller`]) makes the pod and lets the object go
//! when nothing is left on the cluster. No part of it trusts a Slurm job id alone, and none runs a user's program here.

pub mod command;
mod controller;
mod decide;
mod feature;
mod glob;
mod kinds;
pub mod program;
mod quote;
mod remote;
mod script;
mod seen;

pub use feature::GpuJobs;
pub use kinds::{GpuJob, GpuJobSpec, SlurmCluster};
