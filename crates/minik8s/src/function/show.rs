//! `minik8s function list`, `describe` and `minik8s why function/NAME`: what there is, and why it is so.

use std::fmt::Write as _;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Api, Client};
use minik8s_functions::BUILD_FAILED;
use minik8s_meta::function::{FUNCTION_LABEL, Function, FunctionDemand, FunctionEndpoints, REVISION_READY};
use minik8s_meta::human_duration;

use super::get;
use crate::output;

pub async fn list(functions: &Api<Function>, namespace: &str) -> anyhow::Result<()> {
    let functions = functions.list(&ListParams::default()).await?.items;
    if functions.is_empty() {
        return Ok(output::line(format_args!("no functions in namespace {namespace}"))?);
    }
    let mut rows = vec![["NAME", "RUNTIME", "READY", "INSTANCES", "REVISION", "AGE"].map(str::to_owned)];
    rows.extend(functions.iter().map(row));
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        output::line(cells.join("   ").trim_end())?;
    }
    Ok(())
}

fn row(function: &Function) -> [String; 6] {
    let status = function.status.clone().unwrap_or_default();
    let ready = status.conditions.iter().find(|one| one.type_ == REVISION_READY);
    let created = function.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
    let age = created.map_or(String::new(), |created| human_duration(Timestamp::now().as_second() - created));
    [
        function.metadata.name.clone().unwrap_or_default(),
        function.spec.image.clone().or_else(|| function.spec.runtime.clone()).unwrap_or_default(),
        ready.map_or("Unknown".to_owned(), |ready| ready.status.clone()),
        format!("{}/{}", status.ready_replicas, status.desired),
        status.serving_revision.to_string(),
        age,
    ]
}

pub async fn describe(client: &Client, namespace: &str, name: &str) -> anyhow::Result<()> {
    let facts = Facts::read(client, namespace, name).await?;
    let mut text = facts.explain();
    let _ = writeln!(text, "Revisions:");
    for (number, hash) in &facts.revisions {
        let status = facts.function.status.as_ref();
        let serves = status.and_then(|status| status.serving.as_ref()) == Some(hash);
        let _ = writeln!(text, "  {number}  {hash}{}", if serves { "  serves" } else { "" });
    }
    output::words(&text)?;
    Ok(())
}

/// Why a function has the instances it has.
pub async fn explain(client: &Client, namespace: &str, name: &str) -> anyhow::Result<()> {
    output::words(&Facts::read(client, namespace, name).await?.explain())?;
    Ok(())
}

/// All that the answer goes by.
struct Facts {
    function: Function,
    endpoints: Option<FunctionEndpoints>,
    /// Node and requests.
    demands: Vec<(String, u32)>,
    revisions: Vec<(i64, String)>,
}

impl Facts {
    async fn read(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Facts> {
        let function = get(&Api::namespaced(client.clone(), namespace), namespace, name).await?;
        let endpoints: Api<FunctionEndpoints> = Api::namespaced(client.clone(), namespace);
        let demands: Api<FunctionDemand> = Api::namespaced(client.clone(), namespace);
        let demands = demands.list(&ListParams::default()).await?.items.into_iter().filter_map(|demand| {
            let (function, node) = demand.metadata.name.as_deref()?.split_once('.')?;
            (function == name && demand.spec.requests > 0).then(|| (node.to_owned(), demand.spec.requests))
        });
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let of_function = ListParams::default().labels(&format!("{FUNCTION_LABEL}={name}"));
        let mut revisions: Vec<(i64, String)> = maps
            .list(&of_function)
            .await?
            .items
            .iter()
            .map(|map| {
                let hash = map
                    .metadata
                    .name
                    .as_deref()
                    .and_then(|name| name.rsplit_once('-'))
                    .map_or("", |(_, hash)| hash);
                (minik8s_functions::revision_number(map), hash.to_owned())
            })
            .collect();
        revisions.sort();
        Ok(Facts {
            function,
            endpoints: endpoints.get_opt(name).await?,
            demands: demands.collect(),
            revisions,
        })
    }

    fn explain(&self) -> String {
        let (spec, status) = (&self.function.spec, self.function.status.clone().unwrap_or_default());
        let mut text = String::new();
        let name = self.function.metadata.name.as_deref().unwrap_or_default();
        let _ = writeln!(
            text,
            "function/{name}: {} of {} instances ready",
            status.ready_replicas, status.desired
        );
        if let Some(url) = &status.url {
            let _ = writeln!(text, "  url: {url}");
        }
        let _ = writeln!(
            text,
            "  revision: {} serves, {} is the newest",
            status.serving_revision, status.revision
        );
        let total: u32 = self.demands.iter().map(|(_, requests)| requests).sum();
        let _ = writeln!(
            text,
            "  wanted: {total} requests at once, {} in each instance, between {} and {} instances{}",
            spec.concurrency(),
            spec.min(),
            spec.max(),
            match spec.min_active() {
                0 => String::new(),
                least => format!(", {least} at least while there are requests"),
            }
        );
        for (node, requests) in &self.demands {
            let _ = writeln!(text, "    node {node}: {requests}");
        }
        if total == 0 && status.ready_replicas > 0 && spec.min() == 0 {
            let _ = writeln!(
                text,
                "  nobody has called it lately: its last instance ends after {} s",
                spec.idle_seconds()
            );
        }
        if total == 0 && status.replicas == 0 {
            let next = if status.serving_revision > 0 {
                "the first request starts an instance"
            } else {
                "no revision of it can be called yet"
            };
            let _ = writeln!(text, "  nobody calls it: {next}");
        }
        for condition in status.conditions.iter().filter(|condition| condition.status != "True") {
            let _ = writeln!(text, "  {} is {} ({}):", condition.type_, condition.status, condition.reason);
            for line in condition.message.lines() {
                let _ = writeln!(text, "    {line}");
            }
        }
        if let Some(failure) = &status.failure {
            let what = if failure.reason == BUILD_FAILED { "fetches of its dependencies" } else { "starts" };
            let _ = writeln!(
                text,
                "  {} {what} in a row have failed; the next is tried later each time, or once the function is updated",
                failure.count
            );
        }
        for instance in self.endpoints.iter().flat_map(|endpoints| &endpoints.spec.instances) {
            let state = if instance.ready { "ready" } else { "starting" };
            let _ = writeln!(
                text,
                "  instance {} at {} on {}: {state}",
                instance.pod, instance.ip, instance.node
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn explain(status: serde_json::Value) -> String {
        let function =
            json!({"metadata": {"name": "f"}, "spec": {"runtime": "python3.11"}, "status": status});
        let function = serde_json::from_value(function).unwrap();
        Facts { function, endpoints: None, demands: Vec::new(), revisions: Vec::new() }.explain()
    }

    #[test]
    fn explanation_says_why_there_is_no_instance() {
        let text = explain(
            json!({"revision": 2, "servingRevision": 1, "desired": 0, "replicas": 0, "conditions": [
                {"type": "RevisionReady", "status": "False", "reason": "Error", "message": "Traceback\nNameError: x",
                 "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ]}),
        );
        for part in ["1 serves, 2 is the newest", "NameError: x", "the first request starts an instance"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn explanation_of_a_failed_build_names_the_build() {
        let text = explain(json!({
            "revision": 1, "servingRevision": 0, "desired": 0, "replicas": 0,
            "failure": {"revision": "h", "count": 3, "at": "2026-01-01T00:00:00Z", "reason": "BuildFailed", "message": ""},
            "conditions": [
                {"type": "RevisionReady", "status": "False", "reason": "BuildFailed",
                 "message": "pip cannot fetch what requirements.txt names", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ],
        }));
        for part in [
            "3 fetches of its dependencies in a row",
            "pip cannot fetch",
            "no revision of it can be called yet",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("starts an instance"), "{text}");
    }
}
