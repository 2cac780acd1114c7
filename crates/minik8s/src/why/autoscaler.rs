//! All that an autoscaler went by when it last decided, in words.

use std::fmt::Write as _;

use anyhow::{Context, bail};
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{Api, Client};
use minik8s_meta::human_duration;
use minik8s_meta::scaling_decision::{ScalingDecision, ScalingMetric};

use crate::output;

pub async fn run(client: &Client, namespace: &str, name: &str) -> anyhow::Result<()> {
    let autoscalers: Api<HorizontalPodAutoscaler> = Api::namespaced(client.clone(), namespace);
    if autoscalers.get_opt(name).await?.is_none() {
        bail!("there is no HorizontalPodAutoscaler {name} in namespace {namespace}");
    }
    let decisions: Api<ScalingDecision> = Api::namespaced(client.clone(), namespace);
    let decision = decisions.get_opt(name).await?;
    let decision = decision.context("it has not decided anything yet; try again in a few seconds")?;
    output::words(&explain(&decision, Timestamp::now()))?;
    Ok(())
}

/// Pure.
fn explain(decision: &ScalingDecision, now: Timestamp) -> String {
    let mut text = String::new();
    let ago = human_duration(now.as_second() - decision.at.0.as_second());
    let (name, target) = (decision.metadata.name.as_deref().unwrap_or_default(), &decision.target);
    let _ = writeln!(text, "hpa/{name} looked at {target} {ago} ago: {}", decision.verdict);
    let (least, most) = (decision.min_replicas, decision.max_replicas);
    let _ = writeln!(text, "  replicas: {} (allowed: {least} to {most})", decision.replicas);
    for metric in &decision.metrics {
        explain_metric(metric, &mut text);
    }
    if let Some(wish) = decision.wish {
        let _ = writeln!(text, "  the largest proposal: {wish}");
    }
    for (what, why) in [("held back", &decision.held), ("limited", &decision.limited)] {
        if let Some(why) = why {
            let _ = writeln!(text, "  {what}: {why}");
        }
    }
    let _ = writeln!(text, "  decided: {} replicas", decision.desired);
    text
}

/// A target of one figure is for all pods, or says so itself.
fn per_pod(metric: &ScalingMetric) -> &'static str {
    if metric.query.is_some() { "" } else { " a pod" }
}

fn explain_metric(metric: &ScalingMetric, text: &mut String) {
    let _ = writeln!(text, "  metric {} (target {}{}):", metric.name, metric.target, per_pod(metric));
    if let Some(query) = &metric.query {
        let _ = writeln!(text, "    asked for: {query}");
    }
    for pod in &metric.pods {
        let amount = pod.amount.as_deref().unwrap_or("-");
        let request =
            pod.request.as_ref().map(|request| format!(" of {request} requested")).unwrap_or_default();
        let _ = writeln!(text, "    pod {}: {amount}{request} ({})", pod.name, pod.state);
    }
    if let (Some(current), Some(ratio)) = (&metric.current, metric.ratio) {
        let average = if metric.query.is_some() { "value " } else { "on average " };
        let tolerance = match metric.tolerance.as_slice() {
            [down, up] => format!(", nothing changes from {:.2} to {:.2}", 1.0 - down, 1.0 + up),
            _ => String::new(),
        };
        let _ = writeln!(text, "    {average}{current}: {ratio:.2} of the target{tolerance}");
    }
    if let Some(proposal) = metric.proposal {
        let _ = writeln!(text, "    proposes {proposal} replicas");
    }
    if let Some(problem) = &metric.problem {
        let _ = writeln!(text, "    proposes nothing: {problem}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_input_is_told() {
        let decision = json!({
            "metadata": {"name": "web"}, "at": "2026-01-01T00:00:00Z", "target": "Deployment/web",
            "replicas": 2, "minReplicas": 1, "maxReplicas": 10,
            "metrics": [
                {"name": "cpu", "target": "50%", "current": "90% (90m a pod)", "ratio": 1.8, "tolerance": [0.1, 0.1],
                 "proposal": 4, "pods": [
                    {"name": "a", "state": "measured", "amount": "90m", "request": "100m"},
                    {"name": "b", "state": "not ready"}]},
                {"name": "hits", "target": "5", "problem": "no metrics"},
            ],
            "wish": 4, "limited": "too fast", "desired": 3, "verdict": "from 2 to 3 replicas: cpu above target",
        });
        let decision: ScalingDecision = serde_json::from_value(decision).unwrap();
        let told = explain(&decision, "2026-01-01T00:00:07Z".parse().unwrap());
        let expected = "\
hpa/web looked at Deployment/web 7s ago: from 2 to 3 replicas: cpu above target
  replicas: 2 (allowed: 1 to 10)
  metric cpu (target 50% a pod):
    pod a: 90m of 100m requested (measured)
    pod b: - (not ready)
    on average 90% (90m a pod): 1.80 of the target, nothing changes from 0.90 to 1.10
    proposes 4 replicas
  metric hits (target 5 a pod):
    proposes nothing: no metrics
  the largest proposal: 4
  limited: too fast
  decided: 3 replicas
";
        assert_eq!(told, expected);
    }
}
