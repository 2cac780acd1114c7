//! How long things took, counted in buckets. Counting takes no lock, so that it may stand in the way of every request; only
//! what belongs to a trace that somebody collects leaves it behind as an example.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use crate::Text;

/// A histogram of Prometheus.
#[derive(Debug)]
pub struct Histogram {
    /// Upper bounds in seconds, rising.
    bounds: &'static [f64],
    /// One for each bound, and one for what lies above all of them.
    buckets: Box<[AtomicU64]>,
    /// All of it together: whole seconds, and the rest of each. Years, a million times, fit.
    seconds: AtomicU64,
    nanoseconds: AtomicU64,
    /// The last one of each bucket, from the first one on.
    exemplars: OnceLock<Box<[Mutex<Option<Exemplar>>]>>,
}

/// One that was counted, and the trace that tells of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exemplar {
    pub(crate) trace: u128,
    pub(crate) seconds: f64,
    /// In seconds since 1970.
    pub(crate) at: f64,
}

impl Histogram {
    pub fn new(bounds: &'static [f64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        let (seconds, nanoseconds) = (AtomicU64::new(0), AtomicU64::new(0));
        Histogram { bounds, buckets, seconds, nanoseconds, exemplars: OnceLock::new() }
    }

    pub fn observe(&self, took: Duration) {
        self.buckets[self.bucket(took)].fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(u64::from(took.subsec_nanos()), Ordering::Relaxed);
        if took.as_secs() > 0 {
            self.seconds.fetch_add(took.as_secs(), Ordering::Relaxed);
        }
    }

    /// One that is an example of its bucket.
    pub fn observe_traced(&self, took: Duration, trace: u128) {
        self.observe(took);
        let new = || (0..=self.bounds.len()).map(|_| Mutex::new(None)).collect();
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let exemplar = Exemplar { trace, seconds: took.as_secs_f64(), at };
        *self.exemplars.get_or_init(new)[self.bucket(took)].lock() = Some(exemplar);
    }

    fn bucket(&self, took: Duration) -> usize {
        let seconds = took.as_secs_f64();
        self.bounds.partition_point(|bound| *bound < seconds)
    }

    pub fn is_empty(&self) -> bool {
        self.buckets.iter().all(|bucket| bucket.load(Ordering::Relaxed) == 0)
    }

    /// How many there are in each bucket, and all of it together in nanoseconds.
    pub fn counts(&self) -> (Vec<u64>, u64) {
        let buckets = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        (buckets, u64::try_from(self.total().as_nanos()).unwrap_or(u64::MAX))
    }

    fn total(&self) -> Duration {
        let rest = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed));
        Duration::from_secs(self.seconds.load(Ordering::Relaxed)).saturating_add(rest)
    }

    /// Its samples, below a `metric` of that name and the type `histogram`.
    pub fn write(&self, text: &mut Text, name: &str, labels: &[(&str, &str)]) {
        let exemplar = |at: usize| *self.exemplars.get()?[at].lock();
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets = counts.enumerate().map(|(at, count)| (count, exemplar(at)));
        write_buckets(text, (name, labels), self.bounds, buckets, self.total());
    }
}

/// The samples of a histogram that was counted elsewhere: one count for each bound and one for what lies above.
pub fn write_counts(
    text: &mut Text,
    (name, labels): (&str, &[(&str, &str)]),
    bounds: &[f64],
    counts: &[u64],
    total: Duration,
) {
    write_buckets(text, (name, labels), bounds, counts.iter().map(|count| (*count, None)), total);
}

fn write_buckets(
    text: &mut Text,
    (name, labels): (&str, &[(&str, &str)]),
    bounds: &[f64],
    buckets: impl Iterator<Item = (u64, Option<Exemplar>)>,
    total: Duration,
) {
    let bounds: Vec<String> = bounds.iter().map(|bound| text.bound(*bound)).collect();
    let bounds = bounds.iter().map(String::as_str).chain(["+Inf"]);
    let mut sum = 0;
    for (bound, (count, exemplar)) in bounds.zip(buckets) {
        sum += count;
        let labels = [labels, &[("le", bound)]].concat();
        text.bucket(&format!("{name}_bucket"), &labels, sum as f64, exemplar);
    }
    text.sample(&format!("{name}_sum"), labels, total.as_secs_f64(), None);
    text.sample(&format!("{name}_count"), labels, sum as f64, None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageFormat;

    #[test]
    fn samples() {
        let histogram = Histogram::new(&[0.0005, 1.0]);
        assert!(histogram.is_empty());
        for micros in [500, 501, 1_000_000, 3_000_000] {
            histogram.observe(Duration::from_micros(micros));
        }
        assert!(!histogram.is_empty());
        let mut text = Text::default();
        histogram.write(&mut text, "t", &[("a", "b")]);
        let want = "t_bucket{a=\"b\",le=\"0.0005\"} 1\nt_bucket{a=\"b\",le=\"1\"} 3\nt_bucket{a=\"b\",le=\"+Inf\"} 4\n\
                    t_sum{a=\"b\"} 4.001001\nt_count{a=\"b\"} 4\n";
        assert_eq!(text.finish(), want);
        assert_eq!(histogram.counts(), (vec![1, 2, 1], 4_001_001_000));
        let mut text = Text::default();
        let total = Duration::from_micros(4_001_001);
        write_counts(&mut text, ("t", &[("a", "b")]), &[0.0005, 1.0], &[1, 2, 1], total);
        assert_eq!(text.finish(), want);
    }

    /// What is left of certificates is counted with each request.
    #[test]
    fn sum_of_many_years_does_not_wrap() {
        let histogram = Histogram::new(&[1.0]);
        let year = Duration::from_secs(365 * 86_400);
        (0..2_000).for_each(|_| histogram.observe(year));
        assert_eq!(histogram.total(), year * 2_000);
    }

    #[test]
    fn examples_are_for_openmetrics_alone() {
        let histogram = Histogram::new(&[0.5, 1.0]);
        histogram.observe(Duration::from_millis(200));
        histogram.observe_traced(Duration::from_millis(750), 0xab);
        let page = |format| {
            let mut text = Text::new(format);
            histogram.write(&mut text, "t", &[("a", "x # {y")]);
            text.finish()
        };
        let classic = page(PageFormat::Classic);
        assert!(classic.contains("t_bucket{a=\"x # {y\",le=\"1\"} 2\n") && !classic.contains("trace_id"));
        let openmetrics = page(PageFormat::OpenMetrics);
        let traced =
            "t_bucket{a=\"x # {y\",le=\"1.0\"} 2 # {trace_id=\"000000000000000000000000000000ab\"} 0.75 1";
        assert!(openmetrics.contains(traced), "{openmetrics}");
        assert_eq!(openmetrics.matches("trace_id").count(), 1, "of its own bucket alone: {openmetrics}");
    }
}
