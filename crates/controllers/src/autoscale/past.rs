//! What autoscalers saw in the last hour: sums over pods every few seconds, enough to ask what another spec would have
//! decided. Bounded in time, and small: names are kept once, a moment is numbers. It judges nothing.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_runtime::Key;
use parking_lot::RwLock;

use super::remote::Answers;
use super::samples::PodSample;

/// A moment is kept this often.
const STEP: SignedDuration = SignedDuration::from_secs(5);
const KEPT: SignedDuration = SignedDuration::from_hours(1);

/// Which number it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricName {
    /// Of a container, by its name, and the resource.
    Container(String, String),
    /// Of pods as a whole.
    Whole(String),
    /// What pods tell of themselves.
    Own(String),
    /// The answer of another API, by the path that was asked for; not a sum.
    Remote(String),
}

/// What was seen at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    pub at: Timestamp,
    /// `spec.replicas` of the target.
    pub replicas: i32,
    names: Arc<[MetricName]>,
    /// Sums over all pods that were measured, in thousandths.
    values: Box<[i64]>,
}

impl Moment {
    pub fn of(
        at: Timestamp,
        replicas: i32,
        samples: &BTreeMap<String, PodSample>,
        remote: &Answers,
    ) -> Moment {
        let mut sums: BTreeMap<MetricName, i64> = BTreeMap::new();
        let mut add = |metric: MetricName, amount: i64| {
            let sum = sums.entry(metric).or_default();
            *sum = sum.saturating_add(amount);
        };
        for sample in samples.values() {
            for (container, amounts) in &sample.containers {
                for (resource, amount) in amounts {
                    add(MetricName::Container(container.clone(), resource.clone()), *amount);
                }
            }
            sample.whole.iter().for_each(|(name, amount)| add(MetricName::Whole(name.clone()), *amount));
            sample.own.iter().for_each(|(name, amount)| add(MetricName::Own(name.clone()), *amount));
        }
        for (path, answer) in remote {
            if let Ok(answer) = answer {
                add(MetricName::Remote(path.clone()), answer.milli);
            }
        }
        let (names, values): (Vec<MetricName>, Vec<i64>) = sums.into_iter().unzip();
        Moment { at, replicas, names: names.into(), values: values.into() }
    }

    pub fn totals(&self) -> impl Iterator<Item = (&MetricName, i64)> {
        self.names.iter().zip(self.values.iter().copied())
    }
}

/// The last hour of one autoscaler.
#[derive(Debug, Clone, Default)]
pub struct Past {
    /// One of the pods that are scaled, for what they request.
    pub pod: Option<Arc<Pod>>,
    moments: VecDeque<Moment>,
}

impl Past {
    pub fn moments(&self) -> impl ExactSizeIterator<Item = &Moment> {
        self.moments.iter()
    }

    /// Takes a moment unless one was taken just before it.
    pub fn record(&mut self, mut moment: Moment) {
        if let Some(last) = self.moments.back() {
            if moment.at < last.at + STEP {
                return;
            }
            if last.names == moment.names {
                moment.names = last.names.clone();
            }
        }
        while self.moments.front().is_some_and(|first| moment.at.duration_since(first.at) > KEPT) {
            self.moments.pop_front();
        }
        self.moments.push_back(moment);
    }
}

/// Of all autoscalers.
#[derive(Debug, Default)]
pub struct Pasts(RwLock<BTreeMap<Key, Past>>);

impl Pasts {
    pub fn record(&self, autoscaler: &Key, pod: Option<&Arc<Pod>>, moment: Moment) {
        let mut pasts = self.0.write();
        let past = pasts.entry(autoscaler.clone()).or_default();
        if let Some(pod) = pod {
            past.pod = Some(pod.clone());
        }
        past.record(moment);
    }

    /// Whether another moment of it is to be kept.
    pub fn is_due(&self, autoscaler: &Key, now: Timestamp) -> bool {
        let pasts = self.0.read();
        let last = pasts.get(autoscaler).and_then(|past| past.moments.back());
        last.is_none_or(|last| now >= last.at + STEP)
    }

    pub fn forget(&self, autoscaler: &Key) {
        self.0.write().remove(autoscaler);
    }

    pub fn of(&self, autoscaler: &Key) -> Option<Past> {
        self.0.read().get(autoscaler).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(second: i64) -> Moment {
        let at = Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH);
        let sample = PodSample {
            at,
            window: STEP,
            containers: BTreeMap::from([("c".to_owned(), BTreeMap::from([("cpu".to_owned(), second)]))]),
            whole: BTreeMap::new(),
            own: BTreeMap::new(),
        };
        let samples = BTreeMap::from([("a".to_owned(), sample.clone()), ("b".to_owned(), sample)]);
        Moment::of(at, 2, &samples, &Answers::new())
    }

    #[test]
    fn an_hour_in_steps_with_names_once() {
        let mut past = Past::default();
        for second in 0..3 * 3600 {
            past.record(moment(second));
        }
        let moments: Vec<&Moment> = past.moments().collect();
        assert!((720..=721).contains(&moments.len()), "{}", moments.len());
        assert!(moments.windows(2).all(|pair| Arc::ptr_eq(&pair[0].names, &pair[1].names)));
        let (metric, sum) = moments[0].totals().next().unwrap();
        assert_eq!(
            (metric, sum),
            (&MetricName::Container("c".into(), "cpu".into()), 2 * moments[0].at.as_second())
        );
    }
}
