//! Metrics that are not of the target's pods, from `external.metrics.k8s.io` and `custom.metrics.k8s.io`: asked for when an
//! autoscaler looks and kept for a moment, whoever answers these APIs.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscalerSpec, MetricIdentifier, MetricSpec};
use kube::Client;
use minik8s_meta::{LabelSelector, Quantity};
use minik8s_runtime::Key;
use serde_json::Value;

use super::answer_cache::{AnswerCache, Wake};

/// So old an answer may be; the next look asks anew.
pub const FRESH: Duration = Duration::from_secs(5);
/// Whoever is slower has not answered.
const TIMEOUT: Duration = Duration::from_secs(10);

/// An answer, in thousandths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    pub milli: i64,
    /// What the answer was made of, where whoever answered says so.
    pub query: Option<String>,
}

/// Answers by the path that was asked for.
pub type Answers = BTreeMap<String, Result<Remote, String>>;

pub struct Remotes(AnswerCache<String, Result<Remote, String>>);

impl Remotes {
    pub fn new(client: Option<Client>) -> Self {
        Remotes(AnswerCache::new(client, FRESH))
    }

    /// Who is to hear of answers.
    pub fn tell(&self, wake: Wake) {
        self.0.tell(wake);
    }

    /// All that an autoscaler goes by. None: something is being asked for the first time, and it is woken with the answer.
    pub fn find(&self, autoscaler: &Key, spec: &HorizontalPodAutoscalerSpec) -> Option<Answers> {
        let paths =
            spec.metrics.iter().flatten().filter_map(|metric| path(&autoscaler.namespace, metric).ok());
        // Each of them, also when one is not known yet.
        let found: Vec<(String, Option<Result<Remote, String>>)> =
            paths.map(|path| (path.clone(), self.0.find(autoscaler, path, ask))).collect();
        found.into_iter().map(|(path, answer)| Some((path, answer?))).collect()
    }
}

/// Where the API has a metric of type External or Object; an error for a name that is none. Those of other types have no
/// path. Pure.
pub fn path(namespace: &str, metric: &MetricSpec) -> Result<String, String> {
    if let Some(source) = metric.external.as_ref().filter(|_| metric.type_ == "External") {
        let name = segment(&source.metric.name)?;
        let labels = selector(&source.metric, "labelSelector")?;
        return Ok(format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{name}{labels}"));
    }
    if let Some(source) = metric.object.as_ref().filter(|_| metric.type_ == "Object") {
        let (name, labels) =
            (segment(&source.metric.name)?, selector(&source.metric, "metricLabelSelector")?);
        let object = &source.described_object;
        let base = format!("/apis/custom.metrics.k8s.io/v1beta1/namespaces/{namespace}");
        if object.kind == "Namespace" {
            return Ok(format!("{base}/metrics/{name}{labels}"));
        }
        let group =
            object.api_version.as_deref().and_then(|version| version.split_once('/')).map(|(group, _)| group);
        let resource = match group {
            Some(group) => format!("{}.{}", plural(&object.kind), segment(group)?),
            None => plural(&object.kind),
        };
        return Ok(format!("{base}/{}/{}/{name}{labels}", segment(&resource)?, segment(&object.name)?));
    }
    Err(format!("metrics of type {:?} are not asked for", metric.type_))
}

/// A word that stays one part of a path: the controller may read everything, and whoever writes an autoscaler may not.
fn segment(word: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    match !word.is_empty() && word.chars().all(is_plain) && !word.chars().all(|c| c == '.') {
        true => Ok(word.to_owned()),
        false => Err(format!("{word:?} is no name of a metric or an object")),
    }
}

fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    }
}

fn selector(metric: &MetricIdentifier, name: &str) -> Result<String, String> {
    let Some(selector) = &metric.selector else { return Ok(String::new()) };
    let parsed = LabelSelector::try_from(selector).map_err(|error| format!("selector: {error}"))?;
    if parsed.is_everything() {
        return Ok(String::new());
    }
    let encoded: String = parsed
        .to_string()
        .bytes()
        .map(|byte| match byte.is_ascii_alphanumeric() {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect();
    Ok(format!("?{name}={encoded}"))
}

async fn ask(client: Client, path: String) -> Result<Remote, String> {
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    let answer = tokio::time::timeout(TIMEOUT, client.request::<Value>(request)).await;
    let answer = answer.map_err(|_| format!("no answer within {} s", TIMEOUT.as_secs()))?;
    let answer = answer.map_err(|error| match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    })?;
    read(&answer)
}

/// The sum of a list of values. Pure.
fn read(answer: &Value) -> Result<Remote, String> {
    let items = answer["items"].as_array().map_or(&[][..], Vec::as_slice);
    if items.is_empty() {
        return Err("no metrics returned from the metrics API".to_owned());
    }
    let mut milli = 0i64;
    for item in items {
        let text = item["value"].as_str().unwrap_or_default();
        let value: Quantity = text.parse().map_err(|_| format!("{text:?} is not a quantity"))?;
        milli = milli.saturating_add(value.milli());
    }
    Ok(Remote { milli, query: answer["query"].as_str().map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metrics_have_the_paths_of_the_metrics_apis() {
        let path = |metric: Value| path("shop", &serde_json::from_value(metric).unwrap());
        let target = json!({"type": "Value", "value": "1"});
        let external =
            |metric: Value| json!({"type": "External", "external": {"metric": metric, "target": target}});
        assert_eq!(
            path(external(json!({"name": "queue_depth", "selector": {"matchLabels": {"queue": "a"}}})))
                .unwrap(),
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/queue_depth?labelSelector=queue%3Da"
        );
        let object = |kind: &str, version: &str| {
            json!({"type": "Object", "object": {"metric": {"name": "hits"}, "target": target,
                "describedObject": {"kind": kind, "name": "front", "apiVersion": version}}})
        };
        assert_eq!(
            path(object("Ingress", "networking.k8s.io/v1")).unwrap(),
            "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/ingresses.networking.k8s.io/front/hits"
        );
        assert_eq!(
            path(object("Service", "v1")).unwrap(),
            "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/services/front/hits"
        );
        assert_eq!(
            path(object("Namespace", "v1")).unwrap(),
            "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/metrics/hits"
        );
        // The controller reads for people who may not.
        for name in ["..", "a/../../secrets", "a?b", "a%2fb", ""] {
            assert!(path(external(json!({"name": name}))).is_err(), "{name}");
        }
        assert!(path(json!({"type": "Resource"})).is_err());
    }

    #[test]
    fn answers_are_summed() {
        let two = json!({"items": [{"value": "1500m"}, {"value": "2"}], "query": "sum(x)"});
        assert_eq!(read(&two), Ok(Remote { milli: 3500, query: Some("sum(x)".to_owned()) }));
        assert!(read(&json!({"items": []})).is_err());
        assert!(read(&json!({"items": [{"value": "much"}]})).is_err());
    }
}
