//! What the engine says, as the metrics APIs say it. Pure.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::question::{About, Question};

/// What the API itself says at its root; None for a path of a metric.
pub fn discovery(path: &str) -> Option<Value> {
    let parts: Vec<&str> = path.trim_start_matches("/apis/").trim_end_matches('/').split('/').collect();
    match parts[..] {
        [group] => {
            let versions: &[&str] =
                if group.starts_with("external") { &["v1beta1"] } else { &["v1beta2", "v1beta1"] };
            let version = |one: &&str| json!({"groupVersion": format!("{group}/{one}"), "version": one});
            let versions: Vec<Value> = versions.iter().map(version).collect();
            Some(json!({"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": versions,
                "preferredVersion": versions[0]}))
        }
        // Which metrics there are is the engine's to tell, of every namespace: it is not told here.
        [group, version] => Some(json!({"kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": format!("{group}/{version}"), "resources": []})),
        _ => None,
    }
}

/// `query` is told beside the values: whoever wonders about a number sees where it comes from.
pub fn values(question: &Question, query: &str, told: &Value) -> Result<Value, String> {
    let series = told["data"]["result"].as_array().map_or(&[][..], Vec::as_slice);
    let items: Vec<Value> = series.iter().filter_map(|one| item(question, one)).collect();
    if items.is_empty() {
        return Err(format!(
            "the engine has no series {} of namespace {}: {query}",
            question.metric, question.namespace
        ));
    }
    let kind = match question.about {
        About::External => "ExternalMetricValueList",
        _ => "MetricValueList",
    };
    Ok(
        json!({"kind": kind, "apiVersion": question.api_version, "metadata": {}, "query": query, "items": items}),
    )
}

fn item(question: &Question, series: &Value) -> Option<Value> {
    let value = milli(series["value"][1].as_str()?)?;
    #[allow(clippy::cast_possible_truncation, reason = "seconds of the epoch")]
    let at = Timestamp::from_second(series["value"][0].as_f64()? as i64).ok()?.to_string();
    let labels = series["metric"].as_object().cloned().unwrap_or_default();
    if question.about == About::External {
        let labels: Map<String, Value> = labels.into_iter().filter(|(name, _)| name != "__name__").collect();
        return Some(
            json!({"metricName": question.metric, "metricLabels": labels, "timestamp": at, "value": value}),
        );
    }
    let described = match &question.about {
        About::Objects { resource, .. } => {
            let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
            let kind = kind_of(plural);
            let version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
            json!({"kind": kind, "namespace": question.namespace, "name": labels.get(&Question::label(resource))?,
                "apiVersion": version})
        }
        _ => json!({"kind": "Namespace", "name": question.namespace, "apiVersion": "v1"}),
    };
    let mut item = json!({"describedObject": described, "timestamp": at, "value": value});
    match question.api_version.ends_with("v1beta1") {
        true => item["metricName"] = question.metric.clone().into(),
        false => item["metric"] = json!({"name": question.metric, "selector": null}),
    }
    Some(item)
}

/// As a quantity; what is not a number is none.
fn milli(text: &str) -> Option<String> {
    let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite() && value.abs() < 9e15)?;
    #[allow(clippy::cast_possible_truncation, reason = "checked above")]
    let milli = (value * 1000.0).round() as i64;
    Some(if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") })
}

/// `pods` is Pod; of kinds that nobody knows, the plural's first letter is raised.
fn kind_of(plural: &str) -> String {
    let singular = Question::label(plural);
    let mut letters = singular.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_become_values() {
        let parse = |path: &str| Question::parse(&format!("/apis/{path}"), "").unwrap();
        let told = json!({"data": {"result": [
            {"metric": {"__name__": "q", "queue": "a"}, "value": [1_700_000_000.5, "1.5"]},
            {"metric": {"queue": "b"}, "value": [1_700_000_000, "NaN"]}]}});
        let external = parse("external.metrics.k8s.io/v1beta1/namespaces/shop/q");
        let found = values(&external, "Q", &told).unwrap();
        assert_eq!(found["query"], "Q");
        assert_eq!(
            found["items"],
            json!([{"metricName": "q", "metricLabels": {"queue": "a"}, "timestamp": "2023-11-14T22:13:20Z", "value": "1500m"}])
        );
        let pods = parse("custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/web/hits");
        let told = json!({"data": {"result": [{"metric": {"pod": "web"}, "value": [1_700_000_000, "3"]}]}});
        let found = values(&pods, "Q", &told).unwrap();
        assert_eq!(found["items"][0]["describedObject"]["kind"], "Pod");
        assert_eq!(
            (&found["items"][0]["value"], &found["items"][0]["metric"]["name"]),
            (&json!("3"), &json!("hits"))
        );
        let none = values(&pods, "Q", &json!({"data": {"result": []}})).unwrap_err();
        assert!(none.contains("no series hits of namespace shop"), "{none}");
    }

    #[test]
    fn apis_tell_their_versions() {
        assert_eq!(discovery("/apis/external.metrics.k8s.io/v1beta1").unwrap()["kind"], "APIResourceList");
        assert_eq!(
            discovery("/apis/custom.metrics.k8s.io/").unwrap()["preferredVersion"]["version"],
            "v1beta2"
        );
        assert!(discovery("/apis/custom.metrics.k8s.io/v1beta1/namespaces/a/metrics/b").is_none());
    }
}
