//! HorizontalPodAutoscalers: as many replicas as their pods' use asks for.
//!
//! [`decide`] is the whole judgement, without IO: (spec, pods, samples, memory, now) → (replicas, memory, why).
//! It follows upstream's rules: pods that are not ready or not measured are counted so that they never cause
//! a change by themselves, the largest of several proposals wins, and [`pace`] bounds how fast and how soon.
//! [`Autoscalers`] brings it the metrics and carries out its verdict.

mod account;
mod answer_cache;
mod backtest;
mod backtest_handler;
mod controller;
mod decide;
mod group;
mod metric;
mod metric_remote;
mod pace;
mod past;
mod plan;
mod remote;
mod resource;
mod samples;
mod scales;
mod target;
mod text;

pub use controller::Autoscalers;
pub use decide::{Decision, Seen, Verdict, Why, decide};
pub use pace::{Memory, pace};
pub use past::Pasts;
pub use remote::Answers;
pub use resource::resource as scaling_decision;
pub use samples::PodSample;

#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod tests;
