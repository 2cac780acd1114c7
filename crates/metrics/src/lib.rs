//! What nodes, pods and containers use: how agents tell it, how the server remembers it.
//!
//! An agent measures once a second and sends each [`Reading`] over a stream that the server holds open
//! ([`frame`]); [`History`] keeps an hour of them in bounded memory and turns counters into rates. Autoscaler,
//! scheduler and `metrics.k8s.io` read the history. [`Text`] writes the text format of Prometheus, and nothing else does:
//! [`Counters`] and [`Histograms`] are metrics with labels, [`exposition`] reads them. Nothing here measures or decides
//! anything, and nothing is kept on disk: after a restart the values are back within seconds.

mod decisions;
pub mod exposition;
mod family;
pub mod frame;
mod histogram;
mod history;
mod series;
mod text;

pub use decisions::Decisions;
pub use family::{Counters, Histograms, LabelValues};
pub use frame::{ContainerLayout, Frames, Layout, Line, NodeUsage, PodLayout, Reading};
pub use histogram::{Histogram, write_counts};
pub use history::{ContainerUse, History, NodeUse, PodUse};
pub use series::{Point, Series};
pub use text::{PageFormat, Text};
