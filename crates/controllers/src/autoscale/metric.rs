//! What one metric asks for.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::autoscaling::v2::{
    ContainerResourceMetricStatus, MetricIdentifier, MetricSpec, MetricStatus, MetricTarget,
    MetricValueStatus, PodsMetricStatus, ResourceMetricStatus,
};
use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::Quantity;
use minik8s_metrics::exposition;

use super::group::{Groups, group};
use super::metric_remote;
use super::remote::Answers;
use super::samples::{MEASURED, PodSample};

pub struct Proposal {
    pub replicas: i32,
    /// As upstream calls the metric in conditions and events.
    pub name: String,
    /// What is used, over the target.
    pub ratio: f64,
    pub status: MetricStatus,
}

/// Why a metric gives no proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub reason: &'static str,
    pub message: String,
}

/// What is near enough to the target, below and above.
#[derive(Debug, Clone, Copy)]
pub struct Tolerance {
    pub down: f64,
    pub up: f64,
}

impl Tolerance {
    pub fn holds(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// What a proposal is made from.
pub struct Basis<'a> {
    pub current: i32,
    pub namespace: &'a str,
    pub pods: &'a [Arc<Pod>],
    pub samples: &'a BTreeMap<String, PodSample>,
    /// Metrics that are not of these pods.
    pub remote: &'a Answers,
    pub tolerance: Tolerance,
    pub now: Timestamp,
}

pub fn propose(metric: &MetricSpec, basis: &Basis<'_>) -> Result<Proposal, Failure> {
    if let Some(source) = metric.resource.as_ref().filter(|_| metric.type_ == "Resource") {
        let of = Wanted { resource: &source.name, container: None, what: "resource" };
        let (replicas, ratio, current, percent) =
            of.resource(&source.target, basis, "FailedGetResourceMetric")?;
        let status = ResourceMetricStatus { name: source.name.clone(), current };
        let status =
            MetricStatus { type_: metric.type_.clone(), resource: Some(status), ..MetricStatus::default() };
        return Ok(Proposal { replicas, name: format!("{} resource{percent}", source.name), ratio, status });
    }
    if let Some(source) = metric.container_resource.as_ref().filter(|_| metric.type_ == "ContainerResource") {
        let container = Some(source.container.as_str());
        let of = Wanted { resource: &source.name, container, what: "container resource" };
        let (replicas, ratio, current, percent) =
            of.resource(&source.target, basis, "FailedGetContainerResourceMetric")?;
        let (name, container) = (source.name.clone(), source.container.clone());
        let status = ContainerResourceMetricStatus { name, container, current };
        let status = MetricStatus {
            type_: metric.type_.clone(),
            container_resource: Some(status),
            ..MetricStatus::default()
        };
        return Ok(Proposal {
            replicas,
            name: format!("{} container resource{percent}", source.name),
            ratio,
            status,
        });
    }
    if let Some(source) = metric.pods.as_ref().filter(|_| metric.type_ == "Pods") {
        let fail = |message: String| Failure { reason: "FailedGetPodsMetric", message };
        let name = &source.metric.name;
        let groups = own_groups(&own_id(&source.metric).map_err(fail)?, basis);
        let target = milli(source.target.average_value.as_ref())
            .ok_or_else(|| fail(format!("invalid pods metric source: averageValue of {name} is missing")))?;
        let (replicas, ratio, average) = by_value(groups, target, basis)
            .map_err(|why| fail(format!("unable to get metric {name}: {why}")))?;
        let current =
            MetricValueStatus { average_value: Some(written(average)), ..MetricValueStatus::default() };
        let status = PodsMetricStatus { metric: source.metric.clone(), current };
        let status =
            MetricStatus { type_: metric.type_.clone(), pods: Some(status), ..MetricStatus::default() };
        return Ok(Proposal { replicas, name: format!("pods metric {name}"), ratio, status });
    }
    if let Some(proposal) = metric_remote::propose(metric, basis) {
        return proposal;
    }
    let message = format!("metrics of type {:?} are not available in this cluster", metric.type_);
    Err(Failure { reason: "InvalidMetricSourceType", message })
}

/// The name that a metric of the pods' own goes by in samples: with the labels that its selector demands.
pub fn own_id(metric: &MetricIdentifier) -> Result<String, String> {
    let selector = metric.selector.as_ref();
    if selector.is_some_and(|selector| selector.match_expressions.as_ref().is_some_and(|e| !e.is_empty())) {
        return Err(format!("the selector of {} may have matchLabels only", metric.name));
    }
    let labels = selector.and_then(|selector| selector.match_labels.clone()).unwrap_or_default();
    Ok(exposition::Wanted { name: metric.name.clone(), labels }.to_string())
}

pub fn own_groups<'a>(id: &str, basis: &Basis<'a>) -> Groups<'a> {
    group(basis.pods, false, basis.now, |pod| {
        let sample = basis.samples.get(pod.metadata.name.as_deref()?)?;
        Some((*sample.own.get(id)?, sample))
    })
}

/// A resource of pods, or of one of their containers.
pub struct Wanted<'a> {
    pub resource: &'a str,
    pub container: Option<&'a str>,
    pub what: &'static str,
}

impl Wanted<'_> {
    pub fn groups<'a>(&self, basis: &Basis<'a>) -> Groups<'a> {
        group(basis.pods, self.resource == "cpu", basis.now, |pod| {
            let sample = basis.samples.get(pod.metadata.name.as_deref()?)?;
            Some((sample.amount(self.resource, self.container)?, sample))
        })
    }

    /// Replicas, use over target, what is used now, and how the metric's name goes on.
    fn resource(
        &self,
        target: &MetricTarget,
        basis: &Basis<'_>,
        reason: &'static str,
    ) -> Result<(i32, f64, MetricValueStatus, &'static str), Failure> {
        let fail = |why: String| Failure {
            reason,
            message: format!("failed to get {} {} {}: {why}", self.resource, self.what, how(target)),
        };
        if !MEASURED.contains(&self.resource) {
            return Err(fail(format!("nobody measures it; known are {}", MEASURED.join(", "))));
        }
        let groups = self.groups(basis);
        if let Some(value) = target.average_value.as_ref().filter(|_| target.type_ == "AverageValue") {
            let value =
                milli(Some(value)).ok_or_else(|| fail("averageValue is not a quantity".to_owned()))?;
            let (replicas, ratio, average) = by_value(groups, value, basis).map_err(fail)?;
            let current =
                MetricValueStatus { average_value: Some(written(average)), ..MetricValueStatus::default() };
            return Ok((replicas, ratio, current, ""));
        }
        let Some(percent) = target.average_utilization else {
            return Err(fail("neither a utilization target nor a value target was set".to_owned()));
        };
        let (replicas, used, average) = self.by_utilization(groups, percent, basis).map_err(fail)?;
        let current = MetricValueStatus {
            average_utilization: Some(used),
            average_value: Some(written(average)),
            ..MetricValueStatus::default()
        };
        Ok((
            replicas,
            f64::from(used) / f64::from(percent.max(1)),
            current,
            " utilization (percentage of request)",
        ))
    }

    /// Replicas, utilization in percent and the average amount.
    fn by_utilization(
        &self,
        mut groups: Groups<'_>,
        percent: i32,
        basis: &Basis<'_>,
    ) -> Result<(i32, i32, i64), String> {
        none_is_an_error(&groups, basis)?;
        let requests = self.requests(basis.pods)?;
        let ratio_of = |amounts: &BTreeMap<&str, i64>| {
            let known = amounts.iter().filter_map(|(name, amount)| Some((*amount, *requests.get(*name)?)));
            let (used, asked) = known.fold((0, 0), |(used, asked), (u, a)| (used + u, asked + a));
            (asked > 0).then(|| used as f64 * 100.0 / asked as f64)
        };
        let utilization = ratio_of(&groups.ready).ok_or("no metrics returned matched known pods")?;
        let average = average(&groups.ready);
        let target = f64::from(percent.max(1));
        // A pod that is not measured counts as fully used when fewer are proposed, as idle when more are.
        let fallback = i64::from(percent.max(100));
        let full = |name: &str| requests.get(name).map_or(0, |request| request * fallback / 100);
        let ratio = |amounts: &BTreeMap<&str, i64>| ratio_of(amounts).unwrap_or(0.0) / target;
        let replicas = replicas(&mut groups, basis, ratio, full);
        Ok((replicas, utilization as i32, average))
    }

    /// What every pod requests; all containers in question must say.
    pub fn requests<'p>(&self, pods: &'p [Arc<Pod>]) -> Result<BTreeMap<&'p str, i64>, String> {
        let mut requests = BTreeMap::new();
        for pod in pods {
            let name = pod.metadata.name.as_deref().unwrap_or("");
            let Some(spec) = &pod.spec else { continue };
            let sidecars = spec.init_containers.iter().flatten();
            let sidecars = sidecars.filter(|c| c.restart_policy.as_deref() == Some("Always"));
            let mut sum = 0;
            for container in spec.containers.iter().chain(sidecars) {
                if self.container.is_some_and(|wanted| wanted != container.name) {
                    continue;
                }
                sum += request(container, self.resource).ok_or_else(|| {
                    format!(
                        "missing request for {} in container {} of Pod {name}",
                        self.resource, container.name
                    )
                })?;
            }
            requests.insert(name, sum);
        }
        Ok(requests)
    }
}

fn request(container: &Container, resource: &str) -> Option<i64> {
    milli(container.resources.as_ref()?.requests.as_ref()?.get(resource))
}

/// Replicas, use over target and the average, for a target amount per pod.
fn by_value(mut groups: Groups<'_>, target: i64, basis: &Basis<'_>) -> Result<(i32, f64, i64), String> {
    none_is_an_error(&groups, basis)?;
    let average_now = average(&groups.ready);
    let target = target.max(1);
    let ratio = |amounts: &BTreeMap<&str, i64>| average(amounts) as f64 / target as f64;
    let ratio_now = ratio(&groups.ready);
    let replicas = replicas(&mut groups, basis, ratio, |_| target);
    Ok((replicas, ratio_now, average_now))
}

fn none_is_an_error(groups: &Groups<'_>, basis: &Basis<'_>) -> Result<(), String> {
    if basis.pods.is_empty() {
        return Err("no pods returned by selector while calculating replica count".to_owned());
    }
    if groups.ready.is_empty() {
        return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
    }
    Ok(())
}

/// The rule itself. `ratio` is use over target; pods that are not ready or not measured are filled in so
/// cautiously that they can only dampen a change, never turn it round.
fn replicas<'a>(
    groups: &mut Groups<'a>,
    basis: &Basis<'_>,
    ratio: impl Fn(&BTreeMap<&'a str, i64>) -> f64,
    full: impl Fn(&str) -> i64,
) -> i32 {
    let measured = ratio(&groups.ready);
    let up_with_unready = !groups.unready.is_empty() && measured > 1.0;
    if !up_with_unready && groups.missing.is_empty() {
        let enough = basis.tolerance.holds(measured);
        return if enough { basis.current } else { times(measured, groups.ready.len()) };
    }
    for name in &groups.missing {
        groups.ready.insert(name, if measured < 1.0 { full(name) } else { 0 });
    }
    if up_with_unready {
        groups.ready.extend(groups.unready.iter().map(|name| (*name, 0)));
    }
    let dampened = ratio(&groups.ready);
    let turned = (measured < 1.0 && dampened > 1.0) || (measured > 1.0 && dampened < 1.0);
    if turned || basis.tolerance.holds(dampened) {
        return basis.current;
    }
    let wanted = times(dampened, groups.ready.len());
    let contrary = (dampened < 1.0 && wanted > basis.current) || (dampened > 1.0 && wanted < basis.current);
    if contrary { basis.current } else { wanted }
}

/// Rounded up, but not by what only floating point added.
#[allow(clippy::cast_possible_truncation)]
pub fn times(ratio: f64, pods: usize) -> i32 {
    let product = ratio * pods as f64;
    (product - 1e-9).ceil().clamp(0.0, f64::from(i32::MAX)) as i32
}

fn average(amounts: &BTreeMap<&str, i64>) -> i64 {
    let count = i64::try_from(amounts.len()).unwrap_or(i64::MAX).max(1);
    amounts.values().sum::<i64>() / count
}

fn how(target: &MetricTarget) -> &'static str {
    if target.type_ == "AverageValue" { "metric value" } else { "utilization" }
}

pub fn milli(quantity: Option<&Written>) -> Option<i64> {
    Quantity::try_from(quantity?).ok().map(|quantity| quantity.milli())
}

pub fn written(milli: i64) -> Written {
    Written(Quantity::from_milli(milli).to_string())
}
