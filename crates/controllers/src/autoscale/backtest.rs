//! What another spec would have decided over the last hour: the same [`decide`], run over what was seen.
//!
//! The load of each moment is spread evenly over as many pods as the spec would have had by then, and pods are ready at
//! once. So it tells how a spec paces, not how long images take to pull; and load that was never served, because
//! containers were at their limits, was never measured. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerSpec;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::decide::{Decision, Seen, Verdict, decide};
use super::pace::Memory;
use super::past::{MetricName, Moment, Past};
use super::remote::{Answers, Remote};
use super::samples::PodSample;

/// More pods than this are not played through: it would take long.
pub const MOST_REPLICAS: i32 = 300;

/// Both histories: what was, and what would have been.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backtest {
    pub real: Course,
    pub simulated: Course,
    pub points: Vec<Point>,
    pub changes: Vec<Change>,
}

/// Milliseconds since 1970, replicas as they were and as they would have been, and use over target for both.
pub type Point = (i64, i32, i32, Option<f64>, Option<f64>);

/// One history in numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Course {
    pub changes: usize,
    pub least: i32,
    pub most: i32,
    pub pod_hours: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Milliseconds since 1970.
    pub at: i64,
    pub from: i32,
    pub to: i32,
    pub reason: String,
}

/// None: nothing was seen yet.
pub fn backtest(spec: &HorizontalPodAutoscalerSpec, namespace: &str, past: &Past) -> Option<Backtest> {
    let first = past.moments().next()?;
    let model = Model { template: past.pod.as_deref()?, since: first.at - SignedDuration::from_hours(1) };
    let mut pods: Vec<Arc<Pod>> = Vec::new();
    let mut memory = Memory::default();
    let mut replicas = first.replicas;
    let (mut points, mut changes) = (Vec::new(), Vec::new());
    for moment in past.moments() {
        model.grow(&mut pods, replicas.max(moment.replicas));
        let (samples, remote) = model.samples(moment, replicas);
        let of = |replicas: i32, samples: &BTreeMap<String, PodSample>, memory: &mut Memory| {
            let pods = &pods[..usize::try_from(replicas).unwrap_or(0).min(pods.len())];
            let seen = Seen { spec, namespace, replicas, pods, samples, remote: &remote };
            decide(&seen, memory, moment.at)
        };
        let decision = of(replicas, &samples, &mut memory);
        let real = match moment.replicas == replicas {
            true => ratio(&decision),
            false => {
                let (samples, _) = model.samples(moment, moment.replicas);
                ratio(&of(moment.replicas, &samples, &mut Memory::default()))
            }
        };
        let at = moment.at.as_millisecond();
        let simulated = ratio(&decision);
        if let Verdict::Scale { to, reason } = decision.verdict {
            changes.push(Change { at, from: replicas, to, reason });
            replicas = to;
        }
        points.push((at, moment.replicas, replicas, real, simulated));
    }
    let real = course(points.iter().map(|point| (point.0, point.1)));
    let simulated = course(points.iter().map(|point| (point.0, point.2)));
    Some(Backtest { real, simulated, points, changes })
}

/// The largest use over target of any metric.
fn ratio(decision: &Decision) -> Option<f64> {
    let ratios = decision.why.metrics.iter().filter_map(|metric| metric.ratio);
    ratios.max_by(f64::total_cmp).map(|ratio| (ratio * 1000.0).round() / 1000.0)
}

fn course(points: impl Iterator<Item = (i64, i32)> + Clone) -> Course {
    let pairs = points.clone().zip(points.clone().skip(1));
    let pod_milliseconds: i64 =
        pairs.clone().map(|((from, count), (to, _))| (to - from) * i64::from(count)).sum();
    Course {
        changes: pairs.filter(|((_, before), (_, after))| before != after).count(),
        least: points.clone().map(|(_, count)| count).min().unwrap_or(0),
        most: points.map(|(_, count)| count).max().unwrap_or(0),
        pod_hours: (pod_milliseconds as f64 / 36_000.0).round() / 100.0,
    }
}

/// Pods that are all alike, and have been ready for long.
struct Model<'a> {
    template: &'a Pod,
    since: Timestamp,
}

impl Model<'_> {
    fn grow(&self, pods: &mut Vec<Arc<Pod>>, to: i32) {
        while pods.len() < usize::try_from(to).unwrap_or(0) {
            let ready = PodCondition {
                type_: "Ready".to_owned(),
                status: "True".to_owned(),
                last_transition_time: Some(Time(self.since)),
                ..PodCondition::default()
            };
            let status = PodStatus {
                phase: Some("Running".to_owned()),
                start_time: Some(Time(self.since)),
                conditions: Some(vec![ready]),
                ..PodStatus::default()
            };
            let metadata = ObjectMeta { name: Some(pods.len().to_string()), ..ObjectMeta::default() };
            pods.push(Arc::new(Pod { metadata, spec: self.template.spec.clone(), status: Some(status) }));
        }
    }

    /// Everybody's part of the load of a moment, and what other APIs answered.
    fn samples(&self, moment: &Moment, replicas: i32) -> (BTreeMap<String, PodSample>, Answers) {
        let mut each = PodSample {
            at: moment.at,
            window: SignedDuration::from_secs(3),
            containers: BTreeMap::new(),
            whole: BTreeMap::new(),
            own: BTreeMap::new(),
        };
        let mut remote = Answers::new();
        for (metric, sum) in moment.totals() {
            let part = sum / i64::from(replicas.max(1));
            match metric {
                MetricName::Container(container, resource) => {
                    each.containers.entry(container.clone()).or_default().insert(resource.clone(), part);
                }
                MetricName::Whole(name) => drop(each.whole.insert(name.clone(), part)),
                MetricName::Own(name) => drop(each.own.insert(name.clone(), part)),
                MetricName::Remote(path) => {
                    drop(remote.insert(path.clone(), Ok(Remote { milli: sum, query: None })))
                }
            }
        }
        ((0..replicas.max(0)).map(|at| (at.to_string(), each.clone())).collect(), remote)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(percent: i32, most: i32) -> HorizontalPodAutoscalerSpec {
        let spec = json!({
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1, "maxReplicas": most,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": percent}}}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
        });
        serde_json::from_value(spec).unwrap()
    }

    /// A real history: the load as millicores per second, decided upon by the spec itself.
    fn lived(
        spec: &HorizontalPodAutoscalerSpec,
        load: impl Fn(i64) -> i64,
        seconds: i64,
    ) -> (Past, Vec<(i64, i32)>) {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]},
        }))
        .unwrap();
        let start = Timestamp::from_second(1_000_000).unwrap();
        let model = Model { template: &pod, since: start - SignedDuration::from_hours(1) };
        let mut past = Past::default();
        past.pod = Some(Arc::new(pod.clone()));
        let (mut memory, mut replicas, mut changes, mut pods) =
            (Memory::default(), 1, Vec::new(), Vec::new());
        for second in (0..seconds).step_by(5) {
            let at = start + SignedDuration::from_secs(second);
            let amounts = BTreeMap::from([("cpu".to_owned(), load(second))]);
            let whole = PodSample {
                at,
                window: SignedDuration::from_secs(3),
                containers: BTreeMap::from([("c".to_owned(), amounts)]),
                whole: BTreeMap::new(),
                own: BTreeMap::new(),
            };
            let all = BTreeMap::from([("all".to_owned(), whole)]);
            let moment = Moment::of(at, replicas, &all, &Answers::new());
            model.grow(&mut pods, replicas);
            let (samples, remote) = model.samples(&moment, replicas);
            past.record(moment);
            let pods = &pods[..usize::try_from(replicas).unwrap()];
            let seen = Seen { spec, namespace: "ns", replicas, pods, samples: &samples, remote: &remote };
            if let Verdict::Scale { to, .. } = decide(&seen, &mut memory, at).verdict {
                changes.push((at.as_millisecond(), to));
                replicas = to;
            }
        }
        (past, changes)
    }

    /// Little, then much for ten minutes, then little.
    fn peak(second: i64) -> i64 {
        if (600..1200).contains(&second) { 400 } else { 30 }
    }

    #[test]
    fn same_spec_decides_what_was_decided() {
        let own = spec(50, 20);
        let (past, changes) = lived(&own, peak, 3000);
        assert!(changes.len() >= 3, "{changes:?}");
        let found = backtest(&own, "ns", &past).unwrap();
        let simulated: Vec<(i64, i32)> = found.changes.iter().map(|change| (change.at, change.to)).collect();
        assert_eq!(simulated, changes);
        assert_eq!((found.simulated.most, found.real.most), (8, 8));
        assert_eq!(found.simulated.least, 1);
        // Both histories are the same but for the step in which a change shows.
        assert!((found.real.pod_hours - found.simulated.pod_hours).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn other_specs_decide_otherwise() {
        let (past, _) = lived(&spec(50, 20), peak, 3000);
        let eager = backtest(&spec(25, 20), "ns", &past).unwrap();
        assert_eq!(eager.simulated.most, 16);
        assert!(eager.simulated.pod_hours > eager.real.pod_hours * 1.5, "{eager:?}");
        let bounded = backtest(&spec(50, 3), "ns", &past).unwrap();
        assert_eq!((bounded.simulated.most, bounded.real.most), (3, 8));
        let worst = bounded.points.iter().filter_map(|point| point.4).fold(0.0, f64::max);
        assert!(worst > 2.0, "three pods are used beyond their target: {worst}");
        assert_eq!(backtest(&spec(50, 3), "ns", &Past::default()), None);
    }
}
