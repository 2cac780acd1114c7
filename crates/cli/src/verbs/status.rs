//! `status`: the cluster on one screen. What is there, how full the nodes are, what is unhealthy and why.

mod health;
mod nodes;
mod volumes;

use std::fmt::Write;

use clap::Args;
use serde_json::Value;

use crate::client::Client;
use crate::error::Result;
use crate::output;
use crate::print::{self, tabs};
use crate::session::Session;

/// How many unhealthy objects fit on a screen.
const MOST_TROUBLES: usize = 15;

/// Show the whole cluster on one screen
#[derive(Debug, Args)]
#[command(after_help = "Example: minik8s status")]
pub struct Status {}

/// Everything the screen is made of.
#[derive(Debug, Default)]
pub struct Cluster {
    pub url: String,
    pub version: String,
    pub nodes: Vec<Value>,
    /// Empty where nothing is measured.
    pub metrics: Vec<Value>,
    pub pods: Vec<Value>,
    pub deployments: Vec<Value>,
    pub stateful_sets: Vec<Value>,
    pub daemon_sets: Vec<Value>,
    pub jobs: Vec<Value>,
    pub claims: Vec<Value>,
    /// Of the claims that pods use, where nodes say it.
    pub usages: Vec<volumes::Usage>,
    pub services: usize,
}

pub async fn run(session: &Session, _: Status) -> Result<()> {
    let client = session.client().await?;
    let version = client.get("/version").await?;
    let (nodes, pods, deployments, stateful_sets, daemon_sets, jobs, claims, services) = tokio::try_join!(
        list(client, "/api/v1/nodes"),
        list(client, "/api/v1/pods"),
        list(client, "/apis/apps/v1/deployments"),
        list(client, "/apis/apps/v1/statefulsets"),
        list(client, "/apis/apps/v1/daemonsets"),
        list(client, "/apis/batch/v1/jobs"),
        list(client, "/api/v1/persistentvolumeclaims"),
        list(client, "/api/v1/services"),
    )?;
    // A cluster need not measure anything.
    let metrics = list(client, "/apis/metrics.k8s.io/v1beta1/nodes").await.unwrap_or_default();
    let usages = usages(client, &pods).await;
    let cluster = Cluster {
        url: client.url.clone(),
        version: version["gitVersion"].as_str().unwrap_or_default().to_owned(),
        nodes,
        metrics,
        pods,
        deployments,
        stateful_sets,
        daemon_sets,
        jobs,
        claims,
        usages,
        services: services.len(),
    };
    output::text(screen(&cluster, output::is_terminal()));
    Ok(())
}

async fn list(client: &Client, path: &str) -> Result<Vec<Value>> {
    Ok(print::members(&client.get(path).await?).to_vec())
}

/// A node that does not answer, or may not be asked, is left out.
async fn usages(client: &Client, pods: &[Value]) -> Vec<volumes::Usage> {
    let mut asked = Vec::new();
    for node in volumes::nodes_to_ask(pods) {
        let path = format!("/api/v1/nodes/{node}/proxy/stats/summary");
        asked.push(async move { client.get(&path).await.unwrap_or_default() });
    }
    let told = futures::future::join_all(asked).await;
    told.iter().flat_map(volumes::usages).collect()
}

/// The whole screen. Pure.
pub fn screen(cluster: &Cluster, colours: bool) -> String {
    let mut text = format!("{} at {}\n\n", cluster.version, cluster.url);
    text.push_str(&nodes::table(cluster));
    text.push('\n');
    text.push_str(&workloads(cluster));
    text.push('\n');
    text.push_str(&volumes::table(cluster));
    let troubles = health::troubles(cluster);
    let paint = |line: &str, code: u8| {
        if colours { format!("\u{1b}[{code}m{line}\u{1b}[0m") } else { line.to_owned() }
    };
    if troubles.is_empty() {
        let _ = writeln!(text, "{}", paint("Everything is healthy.", 32));
        return text;
    }
    let _ = writeln!(text, "{}", paint(&format!("Unhealthy: {}", troubles.len()), 31));
    let mut lines = String::new();
    for trouble in troubles.iter().take(MOST_TROUBLES) {
        let _ = writeln!(lines, "  {}\t{}", trouble.object, trouble.why);
    }
    text.push_str(&tabs::align(&lines, tabs::DESCRIPTION));
    if troubles.len() > MOST_TROUBLES {
        let _ = writeln!(text, "  and {} more", troubles.len() - MOST_TROUBLES);
    }
    if let Some(pod) = troubles.iter().find_map(|trouble| trouble.pod.as_ref()) {
        let _ = writeln!(text, "\nMore about one: minik8s why pod/{} -n {}", pod.1, pod.0);
    }
    text
}

fn workloads(cluster: &Cluster) -> String {
    let phase = |phase: &str| cluster.pods.iter().filter(|pod| pod["status"]["phase"] == phase).count();
    let mut lines = String::from("Workloads\n");
    let mut counts = vec![format!("{} running", phase("Running"))];
    for (name, word) in [("Pending", "pending"), ("Succeeded", "done"), ("Failed", "failed")] {
        if phase(name) > 0 {
            counts.push(format!("{} {word}", phase(name)));
        }
    }
    let _ = writeln!(lines, "  Pods\t{}\t{}", cluster.pods.len(), counts.join(", "));
    for (name, objects, ready, wanted) in [
        ("Deployments", &cluster.deployments, "availableReplicas", None),
        ("StatefulSets", &cluster.stateful_sets, "readyReplicas", None),
        ("DaemonSets", &cluster.daemon_sets, "numberAvailable", Some("desiredNumberScheduled")),
    ] {
        if objects.is_empty() {
            continue;
        }
        let complete = objects.iter().filter(|object| health::is_complete(object, ready, wanted)).count();
        let _ = writeln!(lines, "  {name}\t{}\t{complete} complete", objects.len());
    }
    if !cluster.jobs.is_empty() {
        let done = cluster.jobs.iter().filter(|job| job["status"]["completionTime"].is_string()).count();
        let _ = writeln!(lines, "  Jobs\t{}\t{done} done", cluster.jobs.len());
    }
    let _ = writeln!(lines, "  Services\t{}\t", cluster.services);
    let aligned = tabs::align(&lines, tabs::DESCRIPTION);
    aligned.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_screen() {
        let container = |state: Value| json!({"name": "app", "ready": false, "restartCount": 7, "state": state, "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}});
        let cluster = Cluster {
            url: "https://127.0.0.1:6443".into(),
            version: "v1.37.0".into(),
            nodes: vec![json!({
                "metadata": {"name": "n1"},
                "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"}},
            })],
            metrics: vec![json!({"metadata": {"name": "n1"}, "usage": {"cpu": "500m", "memory": "1Gi"}})],
            pods: vec![
                json!({"metadata": {"name": "ok", "namespace": "default"}, "spec": {"nodeName": "n1"},
                       "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}),
                json!({"metadata": {"name": "bad", "namespace": "default"}, "spec": {"nodeName": "n1"},
                       "status": {"phase": "Running", "containerStatuses": [container(json!({"waiting": {"reason": "CrashLoopBackOff"}}))]}}),
            ],
            deployments: vec![
                json!({"metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 3}, "status": {"availableReplicas": 1}}),
            ],
            services: 1,
            ..Cluster::default()
        };
        assert_eq!(
            screen(&cluster, false),
            "\
v1.37.0 at https://127.0.0.1:6443

Nodes  STATUS  CPU use                 MEMORY use                  PODS
  n1   Ready   ███░░░░░░░░░  25% of 2  ███░░░░░░░░░  25% of 4.0Gi  2/110

Workloads
  Pods         2  2 running
  Deployments  1  0 complete
  Services     1

Unhealthy: 2
  pod default/bad         CrashLoopBackOff: container app exited with code 1, 7 restarts
  deployment default/web  1 of 3 available

More about one: minik8s why pod/bad -n default
"
        );
    }
}
