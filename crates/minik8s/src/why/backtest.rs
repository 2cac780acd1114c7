//! `minik8s why hpa/NAME --backtest …`: what an autoscaler would have decided over the last hour with another spec. The
//! server plays it through (`…/scalingdecisions/NAME/backtest`); here it is asked and told. Nothing is changed.

use std::fmt::Write as _;

use anyhow::{Context, bail};
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::output;

/// Bars of the drawing.
const WIDTH: usize = 60;
/// Changes that are listed.
const MOST_CHANGES: usize = 20;

/// Milliseconds since 1970, replicas as they were and as they would have been, and use over target for both.
type Point = (i64, i32, i32, Option<f64>, Option<f64>);

#[derive(Debug, Deserialize)]
struct Answer {
    real: Course,
    simulated: Course,
    points: Vec<Point>,
    changes: Vec<Change>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Course {
    changes: usize,
    least: i32,
    most: i32,
    pod_hours: f64,
}

#[derive(Debug, Deserialize)]
struct Change {
    at: i64,
    from: i32,
    to: i32,
    reason: String,
}

pub async fn run(client: &Client, namespace: &str, name: &str, settings: &str) -> anyhow::Result<()> {
    let autoscalers: Api<HorizontalPodAutoscaler> = Api::namespaced(client.clone(), namespace);
    let Some(autoscaler) = autoscalers.get_opt(name).await? else {
        bail!("there is no HorizontalPodAutoscaler {name} in namespace {namespace}");
    };
    let spec = serde_json::to_value(&autoscaler.spec)?;
    let patch = patch(settings, &spec)?;
    let text: String = patch.to_string().bytes().map(escape).collect();
    let path =
        format!("/apis/minik8s.io/v1/namespaces/{namespace}/scalingdecisions/{name}/backtest?spec={text}");
    let answer: Answer = client.request(http::Request::get(path).body(Vec::new())?).await.map_err(refused)?;
    output::text(explain(name, settings, &answer))?;
    Ok(())
}

/// The server's own words, and nothing else of its answer.
fn refused(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => anyhow::anyhow!(status.message.clone()),
        other => other.into(),
    }
}

/// As queries have it.
fn escape(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    }
}

/// `target=35,max=10` as a merge patch of the spec, or the patch itself.
fn patch(settings: &str, spec: &Value) -> anyhow::Result<Value> {
    if settings.trim_start().starts_with('{') {
        return serde_json::from_str(settings).context("--backtest: this is not JSON");
    }
    let mut patch = json!({});
    for setting in settings.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
        let known = "target, min, max, up-window and down-window are known, each with a number";
        let (key, number) =
            setting.split_once('=').with_context(|| format!("--backtest {setting}: {known}"))?;
        let number: i32 = number
            .trim_end_matches(['%', 's'])
            .parse()
            .with_context(|| format!("--backtest {setting}: {number:?} is not a number"))?;
        match key {
            "min" => patch["minReplicas"] = number.into(),
            "max" => patch["maxReplicas"] = number.into(),
            "up-window" => patch["behavior"]["scaleUp"]["stabilizationWindowSeconds"] = number.into(),
            "down-window" => patch["behavior"]["scaleDown"]["stabilizationWindowSeconds"] = number.into(),
            "target" => patch["metrics"] = with_target(&spec["metrics"], number)?,
            other => bail!("--backtest {other}: {known}"),
        }
    }
    Ok(patch)
}

/// The metrics with another utilization of the first that has one.
fn with_target(metrics: &Value, percent: i32) -> anyhow::Result<Value> {
    let default =
        json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]);
    let mut metrics =
        if metrics.as_array().is_some_and(|all| !all.is_empty()) { metrics.clone() } else { default };
    for metric in metrics.as_array_mut().into_iter().flatten() {
        for source in ["resource", "containerResource"] {
            if metric[source]["target"]["type"] == "Utilization" {
                metric[source]["target"]["averageUtilization"] = percent.into();
                return Ok(metrics);
            }
        }
    }
    bail!(
        "--backtest target: no metric of this autoscaler is a utilization; give a JSON patch of its metrics"
    )
}

/// Pure.
fn explain(name: &str, settings: &str, answer: &Answer) -> String {
    let mut text = String::new();
    let (Some(first), Some(last)) = (answer.points.first(), answer.points.last()) else {
        return format!("nothing is remembered of hpa/{name} yet\n");
    };
    let minutes = (last.0 - first.0) / 60_000;
    let what = if settings.is_empty() { "its own spec" } else { settings };
    let _ = writeln!(text, "hpa/{name} over the last {minutes} minutes, with {what}:\n");
    let _ = writeln!(text, "{:16} {:>8} {:>12} {:>10}  REPLICAS", "", "CHANGES", "LEAST..MOST", "POD-HOURS");
    for (title, course, of) in [
        ("as it was", &answer.real, bars(answer, |point| point.1)),
        ("would have been", &answer.simulated, bars(answer, |point| point.2)),
    ] {
        let range = format!("{}..{}", course.least, course.most);
        let _ =
            writeln!(text, "{title:16} {:>8} {range:>12} {:>10.2}  {of}", course.changes, course.pod_hours);
    }
    let worst = answer.points.iter().filter_map(|point| point.4).fold(0.0, f64::max);
    let _ = writeln!(text, "\nits pods would have used {:.0}% of the target at most", worst * 100.0);
    for change in answer.changes.iter().take(MOST_CHANGES) {
        let at = Timestamp::from_millisecond(change.at).unwrap_or(Timestamp::UNIX_EPOCH);
        let _ = writeln!(
            text,
            "  {} {} -> {}: {}",
            at.strftime("%H:%M:%S"),
            change.from,
            change.to,
            change.reason
        );
    }
    if answer.changes.len() > MOST_CHANGES {
        let _ = writeln!(text, "  and {} more changes", answer.changes.len() - MOST_CHANGES);
    }
    text
}

/// The highest of each part, in eighths of the highest of all.
fn bars(answer: &Answer, value: impl Fn(&(i64, i32, i32, Option<f64>, Option<f64>)) -> i32) -> String {
    let highest = answer.points.iter().map(|point| point.1.max(point.2)).max().unwrap_or(1).max(1);
    let part = answer.points.len().div_ceil(WIDTH).max(1);
    let bar = |points: &[Point]| {
        let most = points.iter().map(&value).max().unwrap_or(0).max(0);
        let eighths = usize::try_from(most * 7 / highest).unwrap_or(0).min(7);
        ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][eighths]
    };
    answer.points.chunks(part).map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_a_patch() {
        let spec = json!({"metrics": [{"type": "Pods"}, {"type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]});
        let made = patch("target=35%,max=10, down-window=60s", &spec).unwrap();
        assert_eq!(made["metrics"][1]["resource"]["target"]["averageUtilization"], 35);
        assert_eq!((&made["maxReplicas"], &made["metrics"][0]["type"]), (&json!(10), &json!("Pods")));
        assert_eq!(made["behavior"]["scaleDown"]["stabilizationWindowSeconds"], 60);
        assert_eq!(patch(r#"{"maxReplicas": 3}"#, &spec).unwrap(), json!({"maxReplicas": 3}));
        assert_eq!(patch("", &spec).unwrap(), json!({}));
        for bad in ["max", "max=many", "most=3", "{", "target"] {
            assert!(patch(bad, &spec).is_err(), "{bad}");
        }
        assert!(patch("target=5", &json!({"metrics": [{"type": "Pods"}]})).is_err());
        assert_eq!("a b{\"é".bytes().map(escape).collect::<String>(), "a%20b%7B%22%C3%A9");
    }

    #[test]
    fn both_histories_are_told() {
        let answer: Answer = serde_json::from_value(json!({
            "real": {"changes": 1, "least": 1, "most": 2, "podHours": 1.5},
            "simulated": {"changes": 1, "least": 1, "most": 4, "podHours": 2.25},
            "points": [[0, 1, 1, 0.5, 0.5], [600_000, 2, 4, 1.2, 0.6], [1_200_000, 2, 4, null, 0.6]],
            "changes": [{"at": 600_000, "from": 1, "to": 4, "reason": "cpu above target"}],
        }))
        .unwrap();
        let told = explain("web", "target=35", &answer);
        let expected = "\
hpa/web over the last 20 minutes, with target=35:

                  CHANGES  LEAST..MOST  POD-HOURS  REPLICAS
as it was               1         1..2       1.50  ▂▄▄
would have been         1         1..4       2.25  ▂██

its pods would have used 60% of the target at most
  00:10:00 1 -> 4: cpu above target
";
        assert_eq!(told, expected);
    }
}
