//! The text format of Prometheus.

use std::fmt::Write as _;

#[derive(Default)]
pub struct Text(String);

impl Text {
    /// Begins a metric; its samples follow.
    pub fn metric(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One sample. Label values may hold anything.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64, milliseconds: Option<i64>) {
        self.0.push_str(name);
        if !labels.is_empty() {
            let pairs: Vec<_> =
                labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escape(value))).collect();
            let _ = write!(self.0, "{{{}}}", pairs.join(","));
        }
        let _ = write!(self.0, " {value}");
        if let Some(milliseconds) = milliseconds {
            let _ = write!(self.0, " {milliseconds}");
        }
        self.0.push('\n');
    }

    pub fn finish(self) -> String {
        self.0
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
}
