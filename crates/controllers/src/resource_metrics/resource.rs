//! `metrics.k8s.io`: what nodes and pods use now. Computed when asked for, never stored.

use std::sync::Arc;

use jiff::Timestamp;
use minik8s_api::{Cell, Column, Resource, Strategy, table};
use minik8s_meta::Quantity;
use minik8s_meta::resource_metrics::{NodeMetrics, PodMetrics};
use minik8s_metrics::History;
use serde_json::Value;

use super::series::SeriesHandler;
use super::usage::Usage;

/// NodeMetrics and PodMetrics in both of their versions.
pub fn resources(history: &Arc<History>) -> Vec<Resource> {
    let versions = ["v1", "v1beta1"].into_iter();
    versions
        .flat_map(|version| {
            let nodes = Resource::of::<NodeMetrics>(Columns);
            let pods = Resource::of::<PodMetrics>(Columns);
            [nodes, pods].map(|resource| computed(resource, version, history))
        })
        .collect()
}

/// Read only. As metrics-server serves them, they have no singular name: that is the node's or pod's own.
fn computed(resource: Resource, version: &str, history: &Arc<History>) -> Resource {
    let resource = Resource { version: version.to_owned(), singular: String::new(), ..resource };
    let usage = Usage::of(&resource, history.clone());
    let kind = if resource.namespaced { "PodMetrics" } else { "NodeMetrics" };
    resource.computed(usage).handled("series", kind, &["get"], SeriesHandler(history.clone()))
}

struct Columns;

impl Strategy for Columns {
    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "CPU", "Memory", "Window"]))
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Cell> {
        let containers = object["containers"].as_array();
        let usages: Vec<&Value> = match containers {
            Some(containers) => containers.iter().map(|container| &container["usage"]).collect(),
            None => vec![&object["usage"]],
        };
        let sum = |resource: &str| -> String {
            let amounts =
                usages.iter().filter_map(|usage| usage[resource].as_str()?.parse::<Quantity>().ok());
            let milli = amounts.fold(0i64, |sum, amount| sum.saturating_add(amount.milli()));
            match resource {
                "cpu" => format!("{milli}m"),
                _ => format!("{}Mi", milli / 1000 / (1 << 20)),
            }
        };
        vec![
            table::name(object),
            sum("cpu").into(),
            sum("memory").into(),
            table::text_or(&object["window"], "").into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows() {
        let now = Timestamp::UNIX_EPOCH;
        let check = |object: Value, expected: Value| {
            assert_eq!(Value::Array(Columns.row(&object, now)), expected);
        };
        let usage = json!({"cpu": "250000000n", "memory": "2048Ki"});
        check(
            json!({"metadata": {"name": "n"}, "window": "10s", "usage": usage}),
            json!(["n", "250m", "2Mi", "10s"]),
        );
        check(
            json!({"metadata": {"name": "p"}, "containers": [{"usage": usage}, {"usage": usage}]}),
            json!(["p", "500m", "4Mi", ""]),
        );
    }
}
