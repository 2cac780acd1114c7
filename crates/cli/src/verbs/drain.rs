//! `drain`: empties a node, asking each pod's disruption budget.

use std::time::Duration;

use clap::Args;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::gone;
use super::node::{Nodes, set_schedulable};
use crate::client::Call;
use crate::error::{Error, Result};
use crate::flags::{DryRun, duration};
use crate::output;
use crate::print::{self, bar};
use crate::select::Target;
use crate::session::Session;

/// How long to wait before asking a budget again.
const AGAIN: Duration = Duration::from_secs(1);

/// Move all pods away from nodes
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s drain n1 --ignore-daemonsets
  minik8s drain n1 --ignore-daemonsets --delete-emptydir-data --timeout=5m")]
pub struct Drain {
    #[command(flatten)]
    nodes: Nodes,
    /// Leave the pods of DaemonSets alone
    #[arg(long)]
    ignore_daemonsets: bool,
    /// Also pods that keep data in emptyDir volumes; it is lost
    #[arg(long, alias = "delete-local-data")]
    delete_emptydir_data: bool,
    /// Also pods that no controller will make again
    #[arg(long)]
    force: bool,
    /// Delete pods instead of asking their budgets
    #[arg(long)]
    disable_eviction: bool,
    /// Seconds that a pod has to end; -1 for its own setting
    #[arg(long, value_name = "SECONDS", default_value_t = -1, allow_negative_numbers = true)]
    grace_period: i64,
    /// Only pods with these labels
    #[arg(long, value_name = "LABELS")]
    pod_selector: Option<String>,
    /// How long to try; 0 for any time
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = duration)]
    timeout: Duration,
}

pub async fn run(session: &Session, verb: Drain) -> Result<()> {
    let dry_run = verb.nodes.dry_run.dry_run;
    let nodes = verb.nodes.find(session).await?;
    for node in &nodes {
        set_schedulable(session, node, false, dry_run).await?;
    }
    for node in &nodes {
        let work = drain(session, &verb, node);
        let ended = match verb.timeout.is_zero() {
            true => work.await,
            false => match tokio::time::timeout(verb.timeout, work).await {
                Ok(ended) => ended,
                Err(_) => Err(Error::plain(format!("drain did not complete within {:?}", verb.timeout))),
            },
        };
        if let Err(error) = ended {
            return Err(Error::plain(format!(
                "unable to drain node {:?} due to error: {}, continuing command...",
                node.name,
                error.to_string().trim_start_matches("error: ")
            )));
        }
        output::line(format_args!("node/{} drained{}", node.name, dry_run.suffix()));
    }
    Ok(())
}

/// What becomes of a pod.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Goes,
    Stays(&'static str),
    Forbids(&'static str),
}

impl Drain {
    fn fate(&self, pod: &Value) -> Fate {
        let metadata = &pod["metadata"];
        if metadata["annotations"]["kubernetes.io/config.mirror"].is_string() {
            return Fate::Stays("");
        }
        let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let owners = metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
        let controller = owners.iter().find(|owner| owner["controller"] == true);
        if controller.is_some_and(|owner| owner["kind"] == "DaemonSet") && !ended {
            return match self.ignore_daemonsets {
                true => Fate::Stays("ignoring DaemonSet-managed Pods"),
                false => {
                    Fate::Forbids("cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)")
                }
            };
        }
        let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        if volumes.into_iter().any(|volume| volume["emptyDir"].is_object())
            && !ended
            && !self.delete_emptydir_data
        {
            return Fate::Forbids(
                "cannot delete Pods with local storage (use --delete-emptydir-data to override)",
            );
        }
        if controller.is_none() && !ended && !self.force {
            return Fate::Forbids("cannot delete Pods that declare no controller (use --force to override)");
        }
        Fate::Goes
    }
}

async fn drain(session: &Session, verb: &Drain, node: &Target) -> Result<()> {
    let call = Call::get("/api/v1/pods")
        .query("fieldSelector", format!("spec.nodeName={}", node.name))
        .maybe("labelSelector", verb.pod_selector.as_deref());
    let list = session.client().await?.send(call).await?;
    let mut going: Vec<Value> = Vec::new();
    let (mut forbidden, mut staying) = (Vec::<(&str, String)>::new(), Vec::<(&str, String)>::new());
    for pod in print::members(&list) {
        match verb.fate(pod) {
            Fate::Goes => going.push(pod.clone()),
            Fate::Stays("") => {}
            Fate::Stays(why) => staying.push((why, full_name(pod))),
            Fate::Forbids(why) => forbidden.push((why, full_name(pod))),
        }
    }
    if !forbidden.is_empty() {
        return Err(Error::plain(grouped(&forbidden)));
    }
    if !staying.is_empty() {
        output::remark(format_args!("Warning: {}", grouped(&staying)));
    }
    let kind = session.kind("pods").await?;
    let progress = session.progress(shown(node, 0, going.len()));
    for pod in &going {
        let target = Target::new(kind.clone(), pod.clone());
        evict(session, verb, &target).await?;
    }
    if verb.nodes.dry_run.dry_run != DryRun::None {
        return Ok(());
    }
    for (gone_already, pod) in going.iter().enumerate() {
        progress.say(shown(node, gone_already, going.len()));
        let target = Target::new(kind.clone(), pod.clone());
        gone::wait(session, &target, pod["metadata"]["uid"].as_str(), Duration::ZERO).await?;
        let word = if verb.disable_eviction { "deleted" } else { "evicted" };
        output::line(format_args!("pod/{} {word}", target.name));
    }
    Ok(())
}

/// How far it is.
fn shown(node: &Target, gone: usize, all: usize) -> String {
    format!("{}  draining node/{}", bar::of(gone, all, "pods gone"), node.name)
}

fn full_name(pod: &Value) -> String {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

/// `why: a, b; other why: c`.
fn grouped(pods: &[(&str, String)]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for (why, pod) in pods {
        match groups.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => names.push(pod),
            None => groups.push((why, vec![pod])),
        }
    }
    groups.iter().map(|(why, names)| format!("{why}: {}", names.join(", "))).collect::<Vec<_>>().join("; ")
}

/// Asks until the budget allows it.
async fn evict(session: &Session, verb: &Drain, pod: &Target) -> Result<()> {
    let dry_run = verb.nodes.dry_run.dry_run;
    let namespace = pod.namespace.as_deref().unwrap_or_default();
    let word = if verb.disable_eviction { "deleting" } else { "evicting" };
    output::line(format_args!("{word} pod {namespace}/{}{}", pod.name, dry_run.suffix()));
    if dry_run == DryRun::Client {
        return Ok(());
    }
    let mut options = json!({});
    if verb.grace_period >= 0 {
        options["gracePeriodSeconds"] = verb.grace_period.into();
    }
    if dry_run == DryRun::Server {
        options["dryRun"] = json!(["All"]);
    }
    let call = if verb.disable_eviction {
        Call::new(Method::DELETE, pod.path()).json(&options)
    } else {
        let body = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": namespace}, "deleteOptions": options,
        });
        Call::new(Method::POST, format!("{}/eviction", pod.path())).json(&body)
    };
    let started = Instant::now();
    loop {
        match session.client().await?.send(call.clone()).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(Error::Server(server)) if server.code == 429 => {
                output::remark(format_args!(
                    "error when evicting pods/{:?} -n {namespace:?} (will retry after 1s, for {}s now): {}",
                    pod.name,
                    started.elapsed().as_secs(),
                    server.message
                ));
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) => return Err(error),
        }
    }
}
