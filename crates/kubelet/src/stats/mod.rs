//! MetricsPages of the node, its pods and their containers, read from the kernel.
//!
//! Two ways: [`Collector`] looks at everything when somebody asks for a page, and [`Sampler`] measures what
//! autoscaling and `kubectl top` need once a second, cheaply, while the server listens.

mod cadvisor;
mod collect;
mod gauge;
mod host;
mod network;
mod own;
mod resource;
mod sampler;
#[cfg(test)]
mod scrape_bench;
mod subjects;
mod summary;

pub use cadvisor::cadvisor;
#[cfg(test)]
use collect::PodSample;
pub use collect::{ClaimSample, Collector, Disk, NodeSample, claim_samples, disk};
pub use host::Host;
pub use own::{Operations, Process, own};
pub use resource::resource;
pub use sampler::Sampler;
pub use subjects::{Subject, Subjects};
pub use summary::summary;
