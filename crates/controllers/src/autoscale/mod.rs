//! HorizontalPodAutoscalers: as many replicas as their pods' use asks for.
//!
//! [`decide`] is the whole judgement, without IO: (spec, pods, samples, memory, now) → (replicas, memory, why).
//! It follows upstream's rules: pods that are not ready or not measured are counted so that they never cause
//! a change by themselves, the largest of several proposals wins, and [`pace`] bounds how fast and how soon.
//! It measures nothing and writes nothing: whoever calls it brings the figures and carries out the verdict.

mod decide;
mod group;
mod metric;
mod pace;
mod samples;
mod text;

pub use decide::{Decision, Seen, Verdict, decide};
pub use pace::{Memory, pace};
pub use samples::PodSample;
pub use text::merged;

#[cfg(test)]
mod tests;
