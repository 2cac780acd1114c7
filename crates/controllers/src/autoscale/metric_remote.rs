//! What a metric of type External or Object asks for: one figure, against a target for all or for the average pod. Pure.

use k8s_openapi::api::autoscaling::v2::{
    ExternalMetricStatus, MetricSpec, MetricStatus, MetricTarget, MetricValueStatus, ObjectMetricStatus,
};

use super::metric::{Basis, Failure, Proposal, milli, times, written};
use super::remote;
use crate::pods;

/// None for metrics of other types.
pub fn propose(metric: &MetricSpec, basis: &Basis<'_>) -> Option<Result<Proposal, Failure>> {
    let (what, reason, target) = match (metric.type_.as_str(), &metric.external, &metric.object) {
        ("External", Some(source), _) => {
            (format!("external metric {}", source.metric.name), "FailedGetExternalMetric", &source.target)
        }
        ("Object", _, Some(source)) => {
            let kind = &source.described_object.kind;
            (format!("{kind} metric {}", source.metric.name), "FailedGetObjectMetric", &source.target)
        }
        _ => return None,
    };
    let fail = |why: String| Failure { reason, message: format!("unable to get {what}: {why}") };
    Some(figure(metric, basis).and_then(|figure| replicas(figure, target, basis)).map_err(fail).map(
        |(replicas, ratio, current)| Proposal {
            replicas,
            name: what,
            ratio,
            status: status(metric, current),
        },
    ))
}

fn figure(metric: &MetricSpec, basis: &Basis<'_>) -> Result<i64, String> {
    let path = remote::path(basis.namespace, metric)?;
    match basis.remote.get(&path) {
        Some(Ok(found)) => Ok(found.milli),
        Some(Err(why)) => Err(why.clone()),
        None => Err("it is not known yet".to_owned()),
    }
}

/// Replicas, what is over the target, and what the status shows.
fn replicas(
    figure: i64,
    target: &MetricTarget,
    basis: &Basis<'_>,
) -> Result<(i32, f64, MetricValueStatus), String> {
    if let Some(average) = milli(target.average_value.as_ref()).filter(|_| target.type_ == "AverageValue") {
        let (average, count) = (average.max(1) as f64, f64::from(basis.current.max(1)));
        let ratio = figure as f64 / (average * count);
        let shown = (figure as f64 / count).round();
        #[allow(clippy::cast_possible_truncation, reason = "a cast of floats saturates")]
        let average_value = Some(written(shown as i64));
        let current = MetricValueStatus { average_value, ..MetricValueStatus::default() };
        let enough = basis.current > 0 && basis.tolerance.holds(ratio);
        let replicas = if enough { basis.current } else { times(figure as f64 / average, 1) };
        return Ok((replicas, ratio, current));
    }
    let Some(value) = milli(target.value.as_ref()) else {
        return Err("neither a value target nor an average value target was set".to_owned());
    };
    let ratio = figure as f64 / value.max(1) as f64;
    let current = MetricValueStatus { value: Some(written(figure)), ..MetricValueStatus::default() };
    if basis.current == 0 {
        return Ok((times(ratio, 1), ratio, current));
    }
    if basis.tolerance.holds(ratio) {
        return Ok((basis.current, ratio, current));
    }
    let ready = basis.pods.iter().filter(|pod| pods::is_ready(pod)).count();
    Ok((times(ratio, ready), ratio, current))
}

fn status(metric: &MetricSpec, current: MetricValueStatus) -> MetricStatus {
    let mut status = MetricStatus { type_: metric.type_.clone(), ..MetricStatus::default() };
    if let Some(source) = &metric.external {
        status.external = Some(ExternalMetricStatus { metric: source.metric.clone(), current });
    } else if let Some(source) = &metric.object {
        status.object = Some(ObjectMetricStatus {
            metric: source.metric.clone(),
            described_object: source.described_object.clone(),
            current,
        });
    }
    status
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::jiff::Timestamp;
    use serde_json::{Value, json};

    use super::super::metric::Tolerance;
    use super::super::remote::{Answers, Remote};
    use super::*;

    fn proposed(target: Value, figure: Result<i64, &str>, current: i32) -> Result<(i32, f64), String> {
        let metric: MetricSpec = serde_json::from_value(
            json!({"type": "External", "external": {"metric": {"name": "q"}, "target": target}}),
        )
        .unwrap();
        let answer = figure.map(|milli| Remote { milli, query: None }).map_err(str::to_owned);
        let remote = Answers::from([(remote::path("n", &metric).unwrap(), answer)]);
        let pod = |_| {
            let pod = json!({"metadata": {"name": "p"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
            std::sync::Arc::new(serde_json::from_value(pod).unwrap())
        };
        let pods: Vec<_> = (0..current).map(pod).collect();
        let basis = Basis {
            current,
            namespace: "n",
            pods: &pods,
            samples: &BTreeMap::new(),
            remote: &remote,
            tolerance: Tolerance { down: 0.1, up: 0.1 },
            now: Timestamp::UNIX_EPOCH,
        };
        let outcome = propose(&metric, &basis).unwrap();
        outcome.map(|proposal| (proposal.replicas, proposal.ratio)).map_err(|failure| failure.message)
    }

    #[test]
    fn value_is_a_target_for_all_and_average_value_for_each() {
        let value = json!({"type": "Value", "value": "10"});
        assert_eq!(proposed(value.clone(), Ok(25_000), 2), Ok((5, 2.5)));
        assert_eq!(proposed(value.clone(), Ok(10_500), 2), Ok((2, 1.05)));
        assert_eq!(proposed(value.clone(), Ok(0), 2), Ok((0, 0.0)));
        assert_eq!(proposed(value.clone(), Ok(25_000), 0), Ok((3, 2.5)));
        let average = json!({"type": "AverageValue", "averageValue": "10"});
        assert_eq!(proposed(average.clone(), Ok(25_000), 2), Ok((3, 1.25)));
        assert_eq!(proposed(average.clone(), Ok(21_000), 2), Ok((2, 1.05)));
        assert_eq!(proposed(average, Ok(5_000), 3), Ok((1, 5.0 / 30.0)));
        assert_eq!(
            proposed(value, Err("no metrics"), 2),
            Err("unable to get external metric q: no metrics".to_owned())
        );
    }
}
