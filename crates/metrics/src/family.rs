//! Metrics with labels: one value for each combination of labels that has occurred.
//!
//! It never forgets one. So nothing may become a label of which a client can make any number.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

use crate::{Histogram, Text};

/// One for each label, in the order of their names.
pub type LabelValues<const N: usize> = [Cow<'static, str>; N];

/// Counters that differ in their labels. Clones count into the same place.
#[derive(Debug, Clone)]
pub struct Counters<const N: usize>(Family<N, AtomicU64>);

impl<const N: usize> Counters<N> {
    pub fn new(name: &'static str, help: &'static str, labels: [&'static str; N]) -> Self {
        Counters(Family { name, help, labels, values: Arc::default() })
    }

    pub fn increment(&self, labels: &LabelValues<N>) {
        self.0.of(labels, AtomicU64::default, |count| {
            count.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// Nothing where nothing was counted.
    pub fn write(&self, text: &mut Text) {
        self.0.write(text, "counter", |text, name, labels, count| {
            text.sample(name, labels, count.load(Ordering::Relaxed) as f64, None);
        });
    }
}

/// Histograms that differ in their labels. Clones count into the same place.
#[derive(Debug, Clone)]
pub struct Histograms<const N: usize> {
    family: Family<N, Histogram>,
    bounds: &'static [f64],
}

impl<const N: usize> Histograms<N> {
    /// `bounds`: upper ones in seconds, rising.
    pub fn new(
        name: &'static str,
        help: &'static str,
        bounds: &'static [f64],
        labels: [&'static str; N],
    ) -> Self {
        Histograms { family: Family { name, help, labels, values: Arc::default() }, bounds }
    }

    pub fn observe(&self, labels: &LabelValues<N>, took: Duration) {
        self.observe_in(labels, took, None);
    }

    /// `trace`: what tells of this one.
    pub fn observe_in(&self, labels: &LabelValues<N>, took: Duration, trace: Option<u128>) {
        let count = |histogram: &Histogram| match trace {
            Some(trace) => histogram.observe_traced(took, trace),
            None => histogram.observe(took),
        };
        self.family.of(labels, || Histogram::new(self.bounds), count);
    }

    /// Nothing where nothing was counted.
    pub fn write(&self, text: &mut Text) {
        self.family.write(text, "histogram", |text, name, labels, one| one.write(text, name, labels));
    }
}

#[derive(Debug)]
struct Family<const N: usize, T> {
    name: &'static str,
    help: &'static str,
    labels: [&'static str; N],
    values: Arc<RwLock<HashMap<LabelValues<N>, T>>>,
}

impl<const N: usize, T> Clone for Family<N, T> {
    fn clone(&self) -> Self {
        Family { values: self.values.clone(), ..*self }
    }
}

impl<const N: usize, T> Family<N, T> {
    fn of(&self, labels: &LabelValues<N>, new: impl FnOnce() -> T, count: impl Fn(&T)) {
        if let Some(known) = self.values.read().get(labels) {
            return count(known);
        }
        count(self.values.write().entry(labels.clone()).or_insert_with(new));
    }

    /// In the order of their labels, so that a page differs from the one before only where something was counted.
    fn write(&self, text: &mut Text, kind: &str, one: impl Fn(&mut Text, &str, &[(&str, &str)], &T)) {
        let values = self.values.read();
        if values.is_empty() {
            return;
        }
        text.metric(self.name, kind, self.help);
        let mut all: Vec<_> = values.iter().collect();
        all.sort_by_key(|(labels, _)| *labels);
        for (labels, value) in all {
            let labels: Vec<(&str, &str)> =
                self.labels.iter().copied().zip(labels.iter().map(|label| &**label)).collect();
            one(text, self.name, &labels, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_combination_of_labels_is_counted_by_itself() {
        let counters = Counters::new("a_total", "Help.", ["x", "y"]);
        let mut text = Text::default();
        counters.write(&mut text);
        assert_eq!(text.finish(), "");
        for labels in [["b", "1"], ["a", "2"], ["b", "1"]] {
            counters.clone().increment(&labels.map(|label| label.to_owned().into()));
        }
        let mut text = Text::default();
        counters.write(&mut text);
        let want = "# HELP a_total Help.\n# TYPE a_total counter\na_total{x=\"a\",y=\"2\"} 1\na_total{x=\"b\",y=\"1\"} 2\n";
        assert_eq!(text.finish(), want);
    }

    #[test]
    fn histograms_have_bounds_and_labels_of_their_family() {
        let histograms = Histograms::new("t", "Help.", &[1.0], ["x"]);
        histograms.observe(&["a".into()], Duration::from_secs(2));
        histograms.observe_in(&["a".into()], Duration::from_millis(500), Some(1));
        let mut text = Text::default();
        histograms.write(&mut text);
        let want = "# HELP t Help.\n# TYPE t histogram\nt_bucket{x=\"a\",le=\"1\"} 1\nt_bucket{x=\"a\",le=\"+Inf\"} 2\n\
                    t_sum{x=\"a\"} 2.5\nt_count{x=\"a\"} 2\n";
        assert_eq!(text.finish(), want);
    }
}
