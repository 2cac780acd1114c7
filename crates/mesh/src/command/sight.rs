//! `minik8s mesh top` and `graph`: who calls whom, how often, with what success and how fast, out of the pages of all
//! nodes. Pure, but for the reading of pages.

use std::collections::BTreeMap;
use std::fmt::Write;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use minik8s_metrics::exposition::samples;

/// The metrics of every node that answers.
pub async fn pages(client: &Client) -> anyhow::Result<Vec<String>> {
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = nodes.list(&ListParams::default()).await?;
    let each = nodes.iter().map(|node| async {
        let path = format!("/api/v1/nodes/{}/proxy/metrics", node.name_any());
        let request = http::Request::get(path).body(Vec::new()).ok()?;
        client.request_text(request).await.ok()
    });
    Ok(join_all(each).await.into_iter().flatten().collect())
}

/// From a workload to a Service, both with their namespaces.
pub type Edge = (String, String);

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Traffic {
    pub requests: f64,
    /// With a code from 500 on.
    pub errors: f64,
    /// Upper bound in seconds, and how many were at most as slow.
    pub buckets: Vec<(f64, f64)>,
}

impl Traffic {
    /// What has come since.
    pub fn since(&self, before: &Traffic) -> Traffic {
        let bucket = |(at, (bound, count)): (usize, &(f64, f64))| {
            (*bound, count - before.buckets.get(at).map_or(0.0, |(_, count)| *count))
        };
        Traffic {
            requests: self.requests - before.requests,
            errors: self.errors - before.errors,
            buckets: self.buckets.iter().enumerate().map(bucket).collect(),
        }
    }

    /// The bound that a share of all answers kept to.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let total = self.buckets.last()?.1;
        let found = self.buckets.iter().find(|(_, count)| *count >= total * share)?;
        (total > 0.0).then_some(found.0)
    }
}

/// Of all pods of a workload together.
pub fn read(pages: &[String]) -> BTreeMap<Edge, Traffic> {
    let mut edges: BTreeMap<Edge, Traffic> = BTreeMap::new();
    for sample in pages.iter().flat_map(|page| samples(page)) {
        let label =
            |name: &str| sample.labels.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
        let (Some(namespace), Some(workload), Some(service)) =
            (label("source_namespace"), label("source_workload"), label("destination_service"))
        else {
            continue;
        };
        let traffic = edges.entry((format!("{namespace}/{workload}"), service.clone())).or_default();
        match sample.name {
            "minik8s_mesh_requests_total" => {
                traffic.requests += sample.value;
                let code: u16 = label("code").and_then(|code| code.parse().ok()).unwrap_or_default();
                traffic.errors += if code >= 500 { sample.value } else { 0.0 };
            }
            "minik8s_mesh_request_duration_seconds_bucket" => {
                let bound = match label("le").map(String::as_str) {
                    Some("+Inf") => f64::INFINITY,
                    other => other.and_then(|text| text.parse().ok()).unwrap_or_default(),
                };
                match traffic.buckets.iter_mut().find(|(known, _)| *known == bound) {
                    Some((_, count)) => *count += sample.value,
                    None => traffic.buckets.push((bound, sample.value)),
                }
            }
            _ => {}
        }
    }
    edges
}

/// A line for each pair, the busiest first. With `seconds`, of what came between the two readings.
pub fn top(
    before: &BTreeMap<Edge, Traffic>,
    after: &BTreeMap<Edge, Traffic>,
    seconds: Option<u64>,
) -> String {
    let zero = Traffic::default();
    let mut rows: Vec<(&Edge, Traffic)> = after
        .iter()
        .map(|(edge, traffic)| (edge, traffic.since(before.get(edge).unwrap_or(&zero))))
        .filter(|(_, traffic)| traffic.requests > 0.0)
        .collect();
    rows.sort_by(|a, b| b.1.requests.total_cmp(&a.1.requests));
    if rows.is_empty() {
        return "no requests between pods of the mesh and Services\n".to_owned();
    }
    let head = if seconds.is_some() { "REQUESTS/S" } else { "REQUESTS" };
    let mut text =
        format!("{:28} {:28} {head:>10} {:>8} {:>9} {:>9}\n", "SOURCE", "SERVICE", "ERRORS", "P50", "P99");
    for ((source, service), traffic) in rows {
        let number = match seconds {
            Some(seconds) => format!("{:.1}", traffic.requests / seconds.max(1) as f64),
            None => format!("{}", traffic.requests),
        };
        let errors = format!("{:.1}%", traffic.errors * 100.0 / traffic.requests);
        let took = |share: f64| match traffic.quantile(share) {
            Some(bound) if bound.is_finite() => format!("<{}ms", bound * 1000.0),
            Some(_) => ">10s".to_owned(),
            None => "-".to_owned(),
        };
        let _ = writeln!(
            text,
            "{source:28} {service:28} {number:>10} {errors:>8} {:>9} {:>9}",
            took(0.5),
            took(0.99)
        );
    }
    text
}

/// For people, or for Graphviz.
pub fn graph(edges: &BTreeMap<Edge, Traffic>, dot: bool) -> String {
    let mut text = if dot { "digraph mesh {\n".to_owned() } else { String::new() };
    let mut last = "";
    for ((source, service), traffic) in edges {
        if dot {
            let color = if traffic.errors > 0.0 { ", color=red" } else { "" };
            let _ = writeln!(text, "  {source:?} -> {service:?} [label=\"{}\"{color}];", traffic.requests);
            continue;
        }
        if source != last {
            let _ = writeln!(text, "{source}");
        }
        last = source;
        let _ = writeln!(text, "  -> {service}  {} requests, {} errors", traffic.requests, traffic.errors);
    }
    match (dot, edges.is_empty()) {
        (true, _) => text + "}\n",
        (false, true) => "no requests between pods of the mesh and Services\n".to_owned(),
        (false, false) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(pod: &str, requests: u64, errors: u64) -> String {
        let labels = format!(
            "source_namespace=\"ns\",source_workload=\"web\",source_pod=\"{pod}\",destination_service=\"ns/reviews\""
        );
        let bucket = |bound: &str, count: u64| {
            format!("minik8s_mesh_request_duration_seconds_bucket{{{labels},le=\"{bound}\"}} {count}\n")
        };
        format!(
            "minik8s_mesh_requests_total{{{labels},code=\"200\"}} {}\nminik8s_mesh_requests_total{{{labels},code=\"503\"}} \
             {errors}\n{}{}",
            requests - errors,
            bucket("0.001", requests - 1),
            bucket("+Inf", requests)
        )
    }

    #[test]
    fn pods_of_a_workload_count_together() {
        let before = read(&[page("a", 10, 1), page("b", 10, 0)]);
        let edge = &before[&("ns/web".to_owned(), "ns/reviews".to_owned())];
        assert_eq!((edge.requests, edge.errors), (20.0, 1.0));
        assert_eq!(edge.buckets, [(0.001, 18.0), (f64::INFINITY, 20.0)]);
        let shown = top(&BTreeMap::new(), &before, None);
        let line = shown.lines().nth(1).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, ["ns/web", "ns/reviews", "20", "5.0%", "<1ms", ">10s"], "{shown}");
        let after = read(&[page("a", 20, 1), page("b", 10, 0)]);
        assert!(top(&before, &after, Some(5)).contains(" 2.0 "), "ten in five seconds");
        assert!(top(&after, &after, Some(5)).starts_with("no requests"));
        assert!(graph(&after, false).contains("ns/web\n  -> ns/reviews  30 requests, 1 errors"));
        assert!(graph(&after, true).contains("\"ns/web\" -> \"ns/reviews\" [label=\"30\", color=red];"));
    }
}
