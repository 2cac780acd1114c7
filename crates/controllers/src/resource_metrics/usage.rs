//! `metrics.k8s.io`: what nodes and pods use, as objects made from the metrics that were collected; nothing of it is
//! stored. Selectors apply to the node or pod that was measured. What is not measured is not there.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use minik8s_api::{Computed, Objects, ReadError, Resource, ResourceRef, Scope};
use minik8s_metrics::History;
use serde_json::{Value, json};

/// CPU is averaged over this long.
const WINDOW: SignedDuration = SignedDuration::from_secs(10);

/// The use of nodes, or of pods, in one API version.
pub struct Usage {
    api_version: String,
    kind: String,
    /// `nodes` or `pods`: what is measured goes by the same name.
    plural: String,
    namespaced: bool,
    history: Arc<History>,
}

#[async_trait]
impl Computed for Usage {
    async fn objects(&self, cluster: &dyn Objects, scope: Scope<'_>) -> Result<Vec<Value>, ReadError> {
        let measured = ResourceRef { group: "", version: "v1", plural: &self.plural };
        let objects = cluster.read(&measured, scope).await?;
        Ok(objects.iter().filter_map(|object| self.object(object, scope.now)).collect())
    }
}

impl Usage {
    pub fn of(resource: &Resource, history: Arc<History>) -> Self {
        Usage {
            api_version: resource.api_version(),
            kind: resource.kind.clone(),
            plural: resource.plural.clone(),
            namespaced: resource.namespaced,
            history,
        }
    }

    /// What a node or pod uses; None if it is not measured now.
    fn object(&self, measured: &Value, now: Timestamp) -> Option<Value> {
        let source = &measured["metadata"];
        let text = |field: &str| source[field].as_str().unwrap_or_default();
        let mut metadata = json!({"name": text("name"), "creationTimestamp": seconds(now)});
        if self.namespaced {
            metadata["namespace"] = text("namespace").into();
        }
        if let Value::Object(labels) = &source["labels"] {
            metadata["labels"] = Value::Object(labels.clone());
        }
        let (at, over, field, used) = if self.namespaced {
            let used = self.history.pod(text("namespace"), text("name"), WINDOW, now)?;
            let containers = used
                .containers
                .iter()
                .map(|(name, used)| json!({"name": name, "usage": usage(used.cpu_nanos, used.memory_bytes)}));
            (used.at, used.window, "containers", containers.collect())
        } else {
            let used = self.history.node(text("name"), WINDOW, now)?;
            (used.at, used.window, "usage", usage(used.cpu_nanos, used.memory_bytes))
        };
        Some(json!({
            "kind": self.kind, "apiVersion": self.api_version, "metadata": metadata,
            "timestamp": seconds(at), "window": window(over), field: used,
        }))
    }
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
    use minik8s_metrics::{ContainerLayout, Layout, NodeUsage, PodLayout, Reading};

    use super::*;

    fn usage_of(plural: &str, history: &Arc<History>) -> Usage {
        let all = super::super::resource::resources(history).into_iter();
        let found = all.filter(|r| r.version == "v1beta1").find(|r| r.plural == plural);
        Usage::of(&found.unwrap(), history.clone())
    }

    #[test]
    fn as_kubectl_top_reads_it() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let history = Arc::new(History::default());
        let container = ContainerLayout { name: "c".into(), id: "1".into() };
        let (namespace, name) = ("ns".to_owned(), "p".to_owned());
        let pod = PodLayout { namespace, name, uid: "u".into(), containers: vec![container] };
        let layout = Layout { pods: vec![pod] };
        for second in [100u32, 110] {
            let cpu = u64::from(second) * 500_000_000;
            let values = vec![None, None, Some(cpu), Some(2048), None, None];
            let reading = Reading { at: 0, node: NodeUsage { cpu, working_set: 4096 }, values };
            history.record("n", &layout, &reading, at(second.into()), &|_, _| true);
        }
        let object = json!({"metadata": {"name": "p", "namespace": "ns", "labels": {"a": "b"}, "uid": "u"}});
        let expected = json!({
            "kind": "PodMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
            "metadata": {"name": "p", "creationTimestamp": "1970-01-01T00:01:51Z", "namespace": "ns",
                         "labels": {"a": "b"}},
            "timestamp": "1970-01-01T00:01:50Z", "window": "10s",
            "containers": [{"name": "c", "usage": {"cpu": "500000000n", "memory": "2Ki"}}],
        });
        assert_eq!(usage_of("pods", &history).object(&object, at(111)), Some(expected));
        let nodes = usage_of("nodes", &history);
        let node = nodes.object(&json!({"metadata": {"name": "n"}}), at(111)).unwrap();
        assert_eq!(node["usage"], json!({"cpu": "500000000n", "memory": "4Ki"}));
        let unknown = json!({"metadata": {"name": "m"}});
        assert_eq!(nodes.object(&unknown, at(111)), None);
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
