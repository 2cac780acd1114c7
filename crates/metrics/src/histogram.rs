//! How long things took, counted in buckets. Counting takes no lock, so that it may stand in the way of every request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Text;

/// A histogram of Prometheus.
#[derive(Debug)]
pub struct Histogram {
    /// Upper bounds in seconds, rising.
    bounds: &'static [f64],
    /// One for each bound, and one for what lies above all of them.
    buckets: Box<[AtomicU64]>,
    nanoseconds: AtomicU64,
}

impl Histogram {
    pub fn new(bounds: &'static [f64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram { bounds, buckets, nanoseconds: AtomicU64::new(0) }
    }

    pub fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = self.bounds.partition_point(|bound| *bound < seconds);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub fn is_empty(&self) -> bool {
        self.buckets.iter().all(|bucket| bucket.load(Ordering::Relaxed) == 0)
    }

    /// How many there are in each bucket, and all of it together in nanoseconds.
    pub fn counts(&self) -> (Vec<u64>, u64) {
        let buckets = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        (buckets, self.nanoseconds.load(Ordering::Relaxed))
    }

    /// Its samples, below a `metric` of that name and the type `histogram`.
    pub fn write(&self, text: &mut Text, name: &str, labels: &[(&str, &str)]) {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let bounds = self.bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        let mut sum = 0;
        for (bound, count) in bounds.zip(&counts) {
            sum += count;
            let labels = [labels, &[("le", &bound)]].concat();
            text.sample(&format!("{name}_bucket"), &labels, sum as f64, None);
        }
        let total = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed));
        text.sample(&format!("{name}_sum"), labels, total.as_secs_f64(), None);
        text.sample(&format!("{name}_count"), labels, sum as f64, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
