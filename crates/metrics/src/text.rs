//! The text format of Prometheus, and OpenMetrics, which it became. The one place that writes either.

use std::fmt::Write as _;

use crate::histogram::Exemplar;

/// In which form a page is wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PageFormat {
    /// The text format of Prometheus, which every scraper reads.
    #[default]
    Classic,
    /// Counters are announced without their ending, values may have examples, and the page says where it ends.
    OpenMetrics,
}

impl PageFormat {
    /// OpenMetrics is for its examples: without traces there are none.
    pub fn choose(accept: &str, has_traces: bool) -> Self {
        match has_traces && accept.contains("application/openmetrics-text") {
            true => PageFormat::OpenMetrics,
            false => PageFormat::Classic,
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            PageFormat::Classic => "text/plain; version=0.0.4; charset=utf-8",
            PageFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A page of metrics.
#[derive(Default)]
pub struct Text {
    page: String,
    format: PageFormat,
    is_counter: bool,
}

impl Text {
    pub fn new(format: PageFormat) -> Self {
        Text { format, ..Text::default() }
    }

    /// Begins a metric; its samples follow.
    pub fn metric(&mut self, name: &str, kind: &str, help: &str) {
        self.is_counter = kind == "counter";
        let name = match self.format {
            PageFormat::OpenMetrics if self.is_counter => name.strip_suffix("_total").unwrap_or(name),
            _ => name,
        };
        let _ = writeln!(self.page, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One sample. Label values may hold anything.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64, milliseconds: Option<i64>) {
        self.begin_sample(name, labels, value);
        if let Some(milliseconds) = milliseconds {
            let _ = write!(self.page, " {milliseconds}");
        }
        self.page.push('\n');
    }

    /// One sample, with an example where there is one and the format has them.
    pub(crate) fn bucket(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        value: f64,
        exemplar: Option<Exemplar>,
    ) {
        self.begin_sample(name, labels, value);
        if let Some(Exemplar { trace, seconds, at }) = exemplar.filter(|_| self.is_openmetrics()) {
            let _ = write!(self.page, " # {{trace_id=\"{trace:032x}\"}} {seconds} {at:.3}");
        }
        self.page.push('\n');
    }

    fn begin_sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.page.push_str(name);
        if self.is_openmetrics() && self.is_counter && !name.ends_with("_total") {
            self.page.push_str("_total");
        }
        if !labels.is_empty() {
            let pairs: Vec<_> =
                labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escape(value))).collect();
            let _ = write!(self.page, "{{{}}}", pairs.join(","));
        }
        let _ = write!(self.page, " {value}");
    }

    /// A bound as a label: OpenMetrics wants to see that it is a float.
    pub(crate) fn bound(&self, bound: f64) -> String {
        match self.format {
            PageFormat::Classic => bound.to_string(),
            PageFormat::OpenMetrics => format!("{bound:?}"),
        }
    }

    fn is_openmetrics(&self) -> bool {
        self.format == PageFormat::OpenMetrics
    }

    pub fn finish(mut self) -> String {
        if self.is_openmetrics() {
            self.page.push_str("# EOF\n");
        }
        self.page
    }
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples() {
        let mut text = Text::default();
        text.metric("a", "gauge", "Help.");
        text.sample("a", &[], 1.5, None);
        text.sample("a", &[("x", "say \"hi\"\\\n")], 2.0, Some(7));
        let want = "# HELP a Help.\n# TYPE a gauge\na 1.5\na{x=\"say \\\"hi\\\"\\\\\\n\"} 2 7\n";
        assert_eq!(text.finish(), want);
    }

    #[test]
    fn openmetrics_announces_counters_without_their_ending() {
        let page = |format| {
            let mut text = Text::new(format);
            // Upstream has counters without the ending, too.
            for name in ["a_total", "b_count"] {
                text.metric(name, "counter", "Help.");
                text.sample(name, &[("x", "y")], 1.0, None);
            }
            text.metric("c_total", "gauge", "Help.");
            text.sample("c_total", &[], 2.0, None);
            text.finish()
        };
        let classic = "# HELP a_total Help.\n# TYPE a_total counter\na_total{x=\"y\"} 1\n\
                       # HELP b_count Help.\n# TYPE b_count counter\nb_count{x=\"y\"} 1\n\
                       # HELP c_total Help.\n# TYPE c_total gauge\nc_total 2\n";
        let openmetrics = "# HELP a Help.\n# TYPE a counter\na_total{x=\"y\"} 1\n\
                           # HELP b_count Help.\n# TYPE b_count counter\nb_count_total{x=\"y\"} 1\n\
                           # HELP c_total Help.\n# TYPE c_total gauge\nc_total 2\n# EOF\n";
        assert_eq!(page(PageFormat::Classic), classic);
        assert_eq!(page(PageFormat::OpenMetrics), openmetrics);
    }

    #[test]
    fn format_is_openmetrics_where_there_may_be_examples() {
        for (accept, has_traces, expected) in [
            ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", true, PageFormat::OpenMetrics),
            ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", false, PageFormat::Classic),
            ("text/plain", true, PageFormat::Classic),
        ] {
            assert_eq!(PageFormat::choose(accept, has_traces), expected, "{accept}");
        }
    }
}
