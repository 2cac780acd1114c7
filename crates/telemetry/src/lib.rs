//! Logs and spans for collectors elsewhere: OTLP over HTTP (in JSON) and Loki's push API.
//!
//! Whoever has something to tell puts it into a bounded [`Queue`], which never waits: what does not fit is dropped and
//! counted. An [`Exporter`] sends what is in it in batches, and tries again with growing pauses while the collector is
//! away. Nothing of this exists where no collector was named. This crate reads no file and asks no cluster.

mod client;
mod context;
mod endpoint;
mod exporter;
mod log_record;
pub mod loki;
pub mod otlp;
mod queue;
mod span;
mod tracer;

pub use context::{TRACEPARENT, TraceContext};
pub use endpoint::{Endpoint, EndpointError, LogProtocol};
pub use exporter::{Encode, Exporter};
pub use log_record::{LogRecord, LogSource, Severity};
pub use queue::{Queue, Weighed};
pub use span::{Span, SpanKind};
pub use tracer::{Described, RequestSpan, Tracer};
