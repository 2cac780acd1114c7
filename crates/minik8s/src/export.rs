//! Collectors elsewhere that are told of what pods print, of events and of requests. Without these flags nothing of it runs.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use minik8s_runtime::Supervisor;
use minik8s_telemetry::{
    Encode, Endpoint, Exporter, LogProtocol, LogRecord, Queue, Span, Tracer, Weighed, loki, otlp,
};
use tokio_util::sync::CancellationToken;

use crate::server::lives;

/// What may wait for a collector: logs wait in their files as well.
const LOG_BYTES: usize = 2 << 20;
const SPAN_BYTES: usize = 1 << 20;
const MILLION: u32 = 1_000_000;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Export to collectors")]
pub struct ExportFlags {
    /// Send what pods print, and events, to a collector: by OTLP/HTTP or to Loki
    #[arg(long, value_name = "otlp=URL|loki=URL")]
    pub export_logs: Option<String>,
    /// Send spans of requests to a collector of OTLP/HTTP
    #[arg(long, value_name = "URL")]
    pub export_traces: Option<String>,
    /// How many of a million requests that come without a trace begin one
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub trace_sampling_per_million: u32,
    /// Headers for collectors, as credentials: a file with a line `Name: value` for each
    #[arg(long, value_name = "FILE")]
    pub export_headers_file: Option<PathBuf>,
    /// Authority that has signed the collectors' certificates; what the machine trusts by default
    #[arg(long, value_name = "PEM")]
    pub export_ca_file: Option<PathBuf>,
}

/// What parts of the program put into it goes to the collectors.
#[derive(Clone, Default)]
pub struct Exports {
    pub logs: Option<Queue<LogRecord>>,
    pub tracer: Option<Tracer>,
    log_exporter: Option<(Endpoint, Encode<LogRecord>)>,
    spans: Option<(Queue<Span>, Endpoint)>,
}

impl ExportFlags {
    /// What is wrong with a flag is told with its name.
    pub fn open(&self) -> anyhow::Result<Exports> {
        let mut exports = Exports::default();
        if self.export_logs.is_none() && self.export_traces.is_none() {
            return Ok(exports);
        }
        let headers = self.export_headers_file.as_deref().map(read_text).transpose()?.unwrap_or_default();
        let authority = self.export_ca_file.as_deref().map(read_text).transpose()?;
        let authority = authority.as_ref().map(String::as_bytes);
        if let Some(text) = &self.export_logs {
            let (protocol, url) = LogProtocol::split(text).context("--export-logs")?;
            let endpoint =
                Endpoint::new(url, protocol.path(), &headers, authority).context("--export-logs")?;
            let encode: Encode<LogRecord> = match protocol {
                LogProtocol::Otlp => otlp::logs,
                LogProtocol::Loki => loki::push,
            };
            exports.logs = Some(Queue::new("logs", LOG_BYTES));
            exports.log_exporter = Some((endpoint, encode));
        }
        if let Some(url) = &self.export_traces {
            let endpoint = Endpoint::new(url, otlp::TRACES_PATH, &headers, authority);
            let queue = Queue::new("spans", SPAN_BYTES);
            let ratio = f64::from(self.trace_sampling_per_million) / f64::from(MILLION);
            exports.tracer = Some(Tracer::new(queue.clone(), ratio));
            exports.spans = Some((queue, endpoint.context("--export-traces")?));
        }
        Ok(exports)
    }
}

impl Exports {
    pub fn run(&self, parts: &mut Supervisor, stop: &CancellationToken) {
        if let (Some(queue), Some((endpoint, encode))) = (&self.logs, &self.log_exporter) {
            export(parts, "the export of logs", (queue, endpoint, *encode), stop);
        }
        if let Some((queue, endpoint)) = &self.spans {
            export(parts, "the export of spans", (queue, endpoint, otlp::spans), stop);
        }
    }

    /// How much was sent, dropped and refused, in Prometheus' text format.
    pub fn metrics(&self) -> String {
        let logs = self.logs.as_ref().map(Queue::page).unwrap_or_default();
        logs + &self.spans.as_ref().map(|(queue, _)| queue.page()).unwrap_or_default()
    }
}

fn export<T: Weighed + Send + 'static>(
    parts: &mut Supervisor,
    name: &str,
    (queue, endpoint, encode): (&Queue<T>, &Endpoint, Encode<T>),
    stop: &CancellationToken,
) {
    let (queue, endpoint, stop) = (queue.clone(), endpoint.clone(), stop.clone());
    parts.restart(name, move || {
        let exporter = Exporter { queue: queue.clone(), endpoint: endpoint.clone(), encode };
        lives(exporter.run(stop.clone()))
    });
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: ExportFlags,
    }

    fn open(arguments: &[&str]) -> anyhow::Result<Exports> {
        let line = Line::try_parse_from([&["minik8s"], arguments].concat())?;
        line.flags.open()
    }

    #[test]
    fn nothing_is_exported_unless_asked_for() {
        let none = open(&["--export-headers-file", "/nonexistent"]).unwrap();
        assert!(none.logs.is_none() && none.tracer.is_none() && none.metrics().is_empty());
        let mut parts = Supervisor::new(CancellationToken::new());
        none.run(&mut parts, &CancellationToken::new());
        assert!(parts.is_empty());
    }

    #[test]
    fn flags_that_name_no_collector_are_refused_by_name() {
        let check = |arguments: &[&str], part: &str| {
            let said = open(arguments).err().map(|error| format!("{error:#}")).unwrap_or_default();
            assert!(said.contains(part), "{arguments:?}: {said}");
        };
        check(&["--export-logs", "http://collector:4318"], "--export-logs: say how");
        check(&["--export-logs", "loki=collector"], "--export-logs: \"collector\" is no address");
        check(&["--export-traces", "collector:4318"], "--export-traces");
        check(&["--export-traces", "http://c", "--export-ca-file", "/nonexistent"], "/nonexistent");
        check(&["--export-traces", "http://c", "--trace-sampling-per-million", "1000001"], "1000001");
        let both =
            open(&["--export-logs", "otlp=http://c:4318", "--export-traces", "http://c:4318"]).unwrap();
        assert!(both.logs.is_some() && both.tracer.is_some());
        assert!(both.metrics().contains("minik8s_export_spans_dropped_total 0"));
    }
}
