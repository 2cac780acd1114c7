//! `scale`.

use clap::Args;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::flags::{DryRun, DryRunFlag, OutputFlag, TargetFlags};
use crate::print::Report;
use crate::select;
use crate::session::{MERGE, Session, Writing};

/// Set how many pods a workload has
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s scale deployment web --replicas=3
  minik8s scale --current-replicas=2 --replicas=3 statefulset/db")]
pub struct Scale {
    #[command(flatten)]
    targets: TargetFlags,
    /// All objects of the kind
    #[arg(long)]
    all: bool,
    /// How many
    #[arg(long, value_name = "N")]
    replicas: u32,
    /// Only if it has this many now
    #[arg(long, value_name = "N")]
    current_replicas: Option<i64>,
    /// Only if the object is at this version
    #[arg(long, value_name = "VERSION")]
    resource_version: Option<String>,
    /// Accepted for compatibility with kubectl
    #[arg(long, hide = true, value_name = "TIME")]
    timeout: Option<String>,
    #[command(flatten)]
    dry_run: DryRunFlag,
    #[command(flatten)]
    output: OutputFlag,
}

pub async fn run(session: &Session, verb: Scale) -> Result<()> {
    let report = Report::new(&verb.output)?;
    let how = Writing { manager: "kubectl-scale", dry_run: verb.dry_run.dry_run, validation: None };
    for target in select::find_all(session, &verb.targets.words, &verb.targets.filter()).await? {
        if !target.kind.subresources.iter().any(|subresource| subresource == "scale") {
            return Err(Error::plain(format!(
                "cannot scale {}: the server has no scale subresource for {}",
                target.shown(),
                target.kind.plural_qualified()
            )));
        }
        let path = format!("{}/scale", target.path());
        let mut patch = json!({"spec": {"replicas": verb.replicas}});
        if verb.current_replicas.is_some() || verb.resource_version.is_some() {
            let scale = session.client().await?.get(path.as_str()).await?;
            check(&verb, &scale)?;
            patch["metadata"] = json!({"resourceVersion": scale["metadata"]["resourceVersion"]});
        }
        let mut shown = target.object.clone();
        if how.dry_run != DryRun::Client {
            session.patch(path, MERGE, &patch, &how).await?;
            shown["spec"]["replicas"] = verb.replicas.into();
        }
        report.done(&target.shown(), "scaled", how.dry_run.suffix(), &shown)?;
    }
    Ok(())
}

fn check(verb: &Scale, scale: &Value) -> Result<()> {
    let now = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    if let Some(expected) = verb.current_replicas.filter(|expected| *expected != now) {
        return Err(Error::plain(format!("Expected replicas to be {expected}, was {now}")));
    }
    let version = scale["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    if let Some(expected) = verb.resource_version.as_ref().filter(|expected| *expected != version) {
        return Err(Error::plain(format!("Expected resource version to be {expected}, was {version}")));
    }
    Ok(())
}
