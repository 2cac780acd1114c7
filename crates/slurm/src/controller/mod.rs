//! Makes the pods of GPUJobs and SlurmClusters, and lets objects go when nothing of theirs is left on a cluster. It never
//! talks to a cluster itself: whoever can reach one is a pod with one cluster's credentials.

mod access;
mod jobs;
mod pod;
mod probes;

pub use jobs::{Jobs, pod_name};
pub use probes::Probes;

#[cfg(test)]
mod tests;
