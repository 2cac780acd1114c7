//! What a metric went by, told in full for people who ask why. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::{MetricSpec, MetricStatus, MetricTarget, MetricValueStatus};
use minik8s_meta::scaling_decision::{ScalingMetric, ScalingPod};

use super::group::Groups;
use super::metric::{Basis, Failure, Proposal, Wanted, own_groups, own_id, written};
use super::remote;

pub fn account(spec: &MetricSpec, basis: &Basis<'_>, outcome: &Result<Proposal, Failure>) -> ScalingMetric {
    let mut account = ScalingMetric {
        name: spec.type_.clone(),
        tolerance: vec![basis.tolerance.down, basis.tolerance.up],
        ..ScalingMetric::default()
    };
    if let Some(source) = parts(spec, basis) {
        account.name = source.name;
        account.target = target(source.target);
        account.pods = pods(&source.groups, &source.requests);
    }
    account.query = query(spec, basis);
    match outcome {
        Ok(proposal) => {
            account.proposal = Some(proposal.replicas);
            account.ratio = Some((proposal.ratio * 1000.0).round() / 1000.0);
            account.current = current(&proposal.status);
        }
        Err(failure) => account.problem = Some(failure.message.clone()),
    }
    account
}

struct Parts<'a> {
    name: String,
    target: &'a MetricTarget,
    groups: Groups<'a>,
    requests: BTreeMap<&'a str, i64>,
}

/// None for metrics of a type that nobody measures.
fn parts<'a>(spec: &'a MetricSpec, basis: &Basis<'a>) -> Option<Parts<'a>> {
    let resource = |name: &'a str, container: Option<&'a str>, target: &'a MetricTarget, shown: String| {
        let wanted = Wanted { resource: name, container, what: "" };
        let requests = match target.average_utilization {
            Some(_) => wanted.requests(basis.pods).unwrap_or_default(),
            None => BTreeMap::new(),
        };
        Parts { name: shown, target, groups: wanted.groups(basis), requests }
    };
    if let Some(source) = &spec.resource {
        return Some(resource(&source.name, None, &source.target, source.name.clone()));
    }
    if let Some(source) = &spec.container_resource {
        let shown = format!("{} of container {}", source.name, source.container);
        return Some(resource(&source.name, Some(&source.container), &source.target, shown));
    }
    if let Some((name, target)) = remote_parts(spec) {
        return Some(Parts { name, target, groups: Groups::default(), requests: BTreeMap::new() });
    }
    let source = spec.pods.as_ref()?;
    let id = own_id(&source.metric).ok()?;
    let groups = own_groups(&id, basis);
    Some(Parts { name: id, target: &source.target, groups, requests: BTreeMap::new() })
}

/// Of a metric that is not of the pods.
fn remote_parts(spec: &MetricSpec) -> Option<(String, &MetricTarget)> {
    if let Some(source) = &spec.external {
        return Some((format!("external {}", source.metric.name), &source.target));
    }
    let source = spec.object.as_ref()?;
    let object = &source.described_object;
    Some((format!("{} of {}/{}", source.metric.name, object.kind, object.name), &source.target))
}

/// What was asked for: the query of whoever answered, where it tells, or the path of the API.
fn query(spec: &MetricSpec, basis: &Basis<'_>) -> Option<String> {
    let path = remote::path(basis.namespace, spec).ok()?;
    let told = basis
        .remote
        .get(&path)
        .and_then(|answer| answer.as_ref().ok())
        .and_then(|answer| answer.query.clone());
    Some(told.unwrap_or(path))
}

fn pods(groups: &Groups<'_>, requests: &BTreeMap<&str, i64>) -> Vec<ScalingPod> {
    let pod = |name: &str, state: &str, amount: Option<i64>| ScalingPod {
        name: name.to_owned(),
        state: state.to_owned(),
        amount: amount.map(|amount| written(amount).0),
        request: requests.get(name).map(|request| written(*request).0),
    };
    let measured = groups.ready.iter().map(|(name, amount)| pod(name, "measured", Some(*amount)));
    let unready = groups.unready.iter().map(|name| pod(name, "not ready", None));
    let missing = groups.missing.iter().map(|name| pod(name, "not measured", None));
    measured.chain(unready).chain(missing).collect()
}

fn target(target: &MetricTarget) -> String {
    match (target.average_utilization, &target.average_value, &target.value) {
        (Some(percent), _, _) => format!("{percent}%"),
        (_, Some(amount), _) | (_, _, Some(amount)) => amount.0.clone(),
        _ => String::new(),
    }
}

fn current(status: &MetricStatus) -> Option<String> {
    let resource = status.resource.as_ref().map(|resource| &resource.current);
    let container = status.container_resource.as_ref().map(|resource| &resource.current);
    let pods = status.pods.as_ref().map(|pods| &pods.current);
    let external = status.external.as_ref().map(|external| &external.current);
    let object = status.object.as_ref().map(|object| &object.current);
    let current: &MetricValueStatus = resource.or(container).or(pods).or(external).or(object)?;
    let amount = current.average_value.as_ref().or(current.value.as_ref()).map(|amount| amount.0.clone());
    match current.average_utilization {
        Some(percent) => Some(format!("{percent}% ({} a pod)", amount.unwrap_or_default())),
        None => amount,
    }
}
