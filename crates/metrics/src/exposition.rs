//! The text format of Prometheus, read. Pure.

use std::collections::BTreeMap;

/// A metric by its name and, if given, labels that its samples must have: `NAME` or `NAME{a="b",c="d"}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    pub name: String,
    pub labels: BTreeMap<String, String>,
}

/// One line of numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample<'a> {
    pub name: &'a str,
    pub labels: Vec<(&'a str, String)>,
    pub value: f64,
}

/// The samples of a page. What cannot be read is passed over.
pub fn samples(page: &str) -> impl Iterator<Item = Sample<'_>> {
    page.lines().filter(|line| !line.starts_with('#')).filter_map(Sample::parse)
}

impl<'a> Sample<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        let end = line.find(|c: char| c == '{' || c.is_whitespace())?;
        let (name, mut rest) = line.split_at(end);
        let mut labels = Vec::new();
        if let Some(inside) = rest.strip_prefix('{') {
            (labels, rest) = parse_labels(inside)?;
        }
        let value = rest.split_whitespace().next()?;
        let value = match value {
            "+Inf" => f64::INFINITY,
            "-Inf" => f64::NEG_INFINITY,
            number => number.parse().ok()?,
        };
        Some(Sample { name, labels, value })
    }
}

/// The pairs up to the closing brace, and what follows it.
fn parse_labels(mut text: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start_matches([' ', ',']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once('=')?;
        let (value, rest) = parse_quoted(rest.trim_start().strip_prefix('"')?)?;
        labels.push((name.trim(), value));
        text = rest;
    }
}

/// A value up to its closing quote, without escapes, and what follows it.
fn parse_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((i, c)) = characters.next() {
        match c {
            '"' => return Some((value, &text[i + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

impl Wanted {
    pub fn parse(text: &str) -> Option<Self> {
        let Some((name, rest)) = text.split_once('{') else {
            return Some(Wanted { name: text.to_owned(), labels: BTreeMap::new() });
        };
        let (labels, _) = parse_labels(rest)?;
        let labels = labels.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Some(Wanted { name: name.to_owned(), labels })
    }

    /// The sum over all samples that are meant; None if there is none.
    pub fn sum(&self, samples: &[Sample<'_>]) -> Option<f64> {
        self.sum_named(&self.name, samples)
    }

    /// For `x_per_second`: the counter `x_total`, whose growth it is.
    pub fn counter(&self, samples: &[Sample<'_>]) -> Option<f64> {
        let base = self.name.strip_suffix("_per_second")?;
        self.sum_named(&format!("{base}_total"), samples)
    }

    fn sum_named(&self, name: &str, samples: &[Sample<'_>]) -> Option<f64> {
        let has = |sample: &Sample<'_>, label: &str, value: &str| {
            sample.labels.iter().any(|(name, given)| *name == label && given == value)
        };
        let meant = samples.iter().filter(|sample| {
            sample.name == name && self.labels.iter().all(|(label, value)| has(sample, label, value))
        });
        let values: Vec<f64> = meant.map(|sample| sample.value).filter(|value| value.is_finite()).collect();
        (!values.is_empty()).then(|| values.iter().sum())
    }
}

/// As [`Wanted::parse`] reads it.
impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        if self.labels.is_empty() {
            return Ok(());
        }
        let escape = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let pairs: Vec<String> =
            self.labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
        write!(f, "{{{}}}", pairs.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# HELP http_requests_total Requests.
# TYPE http_requests_total counter
http_requests_total{code=\"200\",path=\"/a b\"} 10 1395066363000
http_requests_total{code=\"500\", path=\"say \\\"}\\\"\",} 2
queue_length 7
broken{ 1
nonsense
latency NaN
";

    #[test]
    fn what_is_wanted() {
        let samples: Vec<_> = samples(PAGE).collect();
        let check = |text: &str, value: Option<f64>, counter: Option<f64>| {
            let wanted = Wanted::parse(text).unwrap();
            assert_eq!((wanted.sum(&samples), wanted.counter(&samples)), (value, counter), "{text}");
            assert_eq!(Wanted::parse(&wanted.to_string()), Some(wanted), "{text}");
        };
        check("queue_length", Some(7.0), None);
        check("http_requests_total", Some(12.0), None);
        check("http_requests_total{code=\"500\"}", Some(2.0), None);
        check("http_requests_total{path=\"say \\\"}\\\"\"}", Some(2.0), None);
        check("http_requests_per_second", None, Some(12.0));
        check("http_requests_per_second{code=\"200\"}", None, Some(10.0));
        check("latency", None, None);
        check("absent", None, None);
    }
}
