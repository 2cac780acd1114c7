//! What nodes, pods and containers use: how agents tell it, how the server remembers it.
//!
//! An agent measures once a second and sends each [`Reading`] over a stream that the server holds open
//! ([`frame`]); [`History`] keeps an hour of them in bounded memory and turns counters into rates. Autoscaler,
//! scheduler and `metrics.k8s.io` read the history. [`Text`] and [`Histogram`] write and [`exposition`] reads the text
//! format of Prometheus. Nothing here measures or decides anything, and nothing is kept on disk: after a restart the
//! values are back within seconds.

mod decisions;
pub mod exposition;
pub mod frame;
mod histogram;
mod history;
mod series;
mod text;

pub use decisions::Decisions;
pub use frame::{ContainerLayout, Frames, Layout, Line, NodeUsage, PodLayout, Reading};
pub use histogram::Histogram;
pub use history::{ContainerUse, History, NodeUse, PodUse};
pub use series::{Point, Series};
pub use text::Text;
