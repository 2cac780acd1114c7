//! `metrics.k8s.io`: what nodes and pods use, as objects made from the figures that were collected; nothing of it
//! is stored. Selectors apply to the node or pod that was measured. What is not measured is not there.

use std::sync::Arc;

use http::Response;
use jiff::{SignedDuration, Timestamp};
use minik8s_metrics::History;
use serde_json::{Value, json};

use crate::answer::{self, Body};
use crate::api::Api;
use crate::catalog::Served;
use crate::codec;
use crate::error::{ApiError, Result};
use crate::form::Accepted;
use crate::object::Object;
use crate::registry::Call;
use crate::request::{ListOptions, Query};

pub const GROUP: &str = "metrics.k8s.io";

/// CPU is averaged over this long.
const WINDOW: SignedDuration = SignedDuration::from_secs(10);

/// One of them, or those that the query selects if the call names none.
pub async fn answer(api: &Api, call: &Call, query: &Query, accepted: &Accepted) -> Result<Response<Body>> {
    // The node or pod itself goes by the same name.
    let measured = api.registry.built_in("", "v1", &call.served.plural)?;
    let body = if call.name.is_empty() {
        let options = ListOptions::parse(query)?;
        let selected = api.registry.select(&measured, &call.namespace, &options).await?;
        let mut objects = Vec::new();
        for entry in &selected.entries {
            let object = codec::decode(&measured, entry)?;
            objects.extend(figures(&call.served, &object, &api.figures, call.now));
        }
        accepted.form.shape_list(&call.served, selected.list_metadata(), objects)
    } else {
        let found = api.registry.get(&measured, &call.namespace, &call.name).await;
        let figures = found.ok().and_then(|object| figures(&call.served, &object, &api.figures, call.now));
        let full_name = match call.namespace.as_str() {
            "" => call.name.clone(),
            namespace => format!("{namespace}/{}", call.name),
        };
        let figures = figures.ok_or_else(|| ApiError::not_found(&call.served, &full_name))?;
        accepted.form.shape_one(&call.served, figures, false)
    };
    answer::object(200, &body, accepted.yaml)
}

/// What a node or pod uses; None if it is not measured now.
fn figures(served: &Arc<Served>, object: &Value, history: &History, now: Timestamp) -> Option<Value> {
    let mut metadata = json!({"name": object.name(), "creationTimestamp": seconds(now)});
    if served.namespaced {
        metadata["namespace"] = object.namespace().into();
    }
    if let Some(labels) = object.labels() {
        metadata["labels"] = Value::Object(labels.clone());
    }
    let (at, over, field, used) = if served.namespaced {
        let used = history.pod(object.namespace(), object.name(), WINDOW, now)?;
        let containers = used
            .containers
            .iter()
            .map(|(name, used)| json!({"name": name, "usage": usage(used.cpu_nanos, used.memory_bytes)}));
        (used.at, used.window, "containers", containers.collect())
    } else {
        let used = history.node(object.name(), WINDOW, now)?;
        (used.at, used.window, "usage", usage(used.cpu_nanos, used.memory_bytes))
    };
    Some(json!({
        "kind": served.kind, "apiVersion": served.api_version, "metadata": metadata,
        "timestamp": seconds(at), "window": window(over), field: used,
    }))
}

fn usage(cpu_nanos: u64, memory_bytes: u64) -> Value {
    json!({"cpu": format!("{cpu_nanos}n"), "memory": format!("{}Ki", memory_bytes / 1024)})
}

fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// As Go writes durations: `10.05s`.
fn window(window: SignedDuration) -> String {
    let seconds = format!("{:.3}", window.as_secs_f64());
    format!("{}s", seconds.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use minik8s_metrics::{ContainerLayout, Layout, NodeFigures, PodLayout, Reading};

    use super::*;

    fn served(plural: &str) -> Arc<Served> {
        let all = minik8s_api::kinds::all().into_iter();
        let found = all.filter(|r| r.group == GROUP && r.version == "v1beta1").find(|r| r.plural == plural);
        Arc::new(Served::new(found.unwrap()))
    }

    #[test]
    fn as_kubectl_top_reads_it() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let history = History::default();
        let container = ContainerLayout { name: "c".into(), id: "1".into() };
        let (namespace, name) = ("ns".to_owned(), "p".to_owned());
        let pod = PodLayout { namespace, name, uid: "u".into(), containers: vec![container] };
        let layout = Layout { pods: vec![pod] };
        for second in [100u32, 110] {
            let cpu = u64::from(second) * 500_000_000;
            let values = vec![None, None, Some(cpu), Some(2048), None, None];
            let reading = Reading { at: 0, node: NodeFigures { cpu, working_set: 4096 }, values };
            history.record("n", &layout, &reading, at(second.into()));
        }
        let object = json!({"metadata": {"name": "p", "namespace": "ns", "labels": {"a": "b"}, "uid": "u"}});
        let expected = json!({
            "kind": "PodMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
            "metadata": {"name": "p", "creationTimestamp": "1970-01-01T00:01:51Z", "namespace": "ns",
                         "labels": {"a": "b"}},
            "timestamp": "1970-01-01T00:01:50Z", "window": "10s",
            "containers": [{"name": "c", "usage": {"cpu": "500000000n", "memory": "2Ki"}}],
        });
        assert_eq!(figures(&served("pods"), &object, &history, at(111)), Some(expected));
        let node = figures(&served("nodes"), &json!({"metadata": {"name": "n"}}), &history, at(111)).unwrap();
        assert_eq!(node["usage"], json!({"cpu": "500000000n", "memory": "4Ki"}));
        let unknown = json!({"metadata": {"name": "m"}});
        assert_eq!(figures(&served("nodes"), &unknown, &history, at(111)), None);
    }

    #[test]
    fn windows() {
        let check = |millis: i64, expected: &str| {
            assert_eq!(window(SignedDuration::from_millis(millis)), expected);
        };
        check(10_000, "10s");
        check(9_050, "9.05s");
        check(1_001, "1.001s");
    }
}
