//! `rollout`: how a Deployment, DaemonSet or StatefulSet changes over to a new template, and back.

mod history;
mod mesh;
mod progress;

use std::time::Duration;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::gone;
use crate::error::{Error, Result};
use crate::flags::{DryRun, DryRunFlag, TargetFlags, duration};
use crate::output;
use crate::print::bar;
use crate::select::{self, Target};
use crate::session::{MERGE, STRATEGIC, Session, Writing};

/// Follow, pause or undo changes of workloads
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of them, for one command")]
pub enum Rollout {
    /// Wait until a change is complete
    #[command(after_help = "Example: minik8s rollout status deployment/web --timeout=2m")]
    Status(Status),
    /// List the revisions
    #[command(after_help = "Examples:
  minik8s rollout history deployment/web
  minik8s rollout history deployment/web --revision=2")]
    History(History),
    /// Go back to an earlier revision
    #[command(after_help = "Examples:
  minik8s rollout undo deployment/web
  minik8s rollout undo deployment/web --to-revision=2")]
    Undo(Undo),
    /// Stop a change where it is
    #[command(after_help = "Example: minik8s rollout pause deployment/web")]
    Pause(Which),
    /// Go on with a change
    #[command(after_help = "Example: minik8s rollout resume deployment/web")]
    Resume(Which),
    /// Replace all pods, a few at a time
    #[command(after_help = "Example: minik8s rollout restart deployment/web")]
    Restart(Which),
    /// Replace the pods of a Service by such of another image, steered by the mesh, without a request lost
    #[command(after_help = "Examples:
  minik8s rollout mesh reviews --image reviews:2 --min-alive 1 --interval 15s
  minik8s rollout mesh reviews --abort")]
    Mesh(mesh::MeshRollout),
}

/// Which workloads.
#[derive(Debug, Args)]
pub struct Which {
    #[command(flatten)]
    targets: TargetFlags,
    #[command(flatten)]
    dry_run: DryRunFlag,
}

impl Which {
    async fn find(&self, session: &Session) -> Result<Vec<Target>> {
        let found = select::find_all(session, &self.targets.words, &self.targets.filter()).await?;
        if found.is_empty() {
            return Err(Error::plain("required resource not specified"));
        }
        Ok(found)
    }
}

#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    which: Which,
    /// Wait until it is complete
    #[arg(short, long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true",
          action = clap::ArgAction::Set)]
    watch: bool,
    /// How long to wait; 0 for any time
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = duration)]
    timeout: Duration,
    /// Follow only this revision
    #[arg(long, value_name = "N", default_value_t = 0)]
    revision: i64,
}

#[derive(Debug, Args)]
pub struct History {
    #[command(flatten)]
    which: Which,
    /// Show the pods' template in this revision
    #[arg(long, value_name = "N", default_value_t = 0)]
    revision: i64,
}

#[derive(Debug, Args)]
pub struct Undo {
    #[command(flatten)]
    which: Which,
    /// Go back to this revision; 0 for the one before
    #[arg(long, value_name = "N", default_value_t = 0)]
    to_revision: i64,
}

pub async fn run(session: &Session, verb: Rollout) -> Result<()> {
    match verb {
        Rollout::Status(flags) => status(session, &flags).await,
        Rollout::History(flags) => {
            for target in flags.which.find(session).await? {
                output::text(history::show(session, &target, flags.revision).await?);
            }
            Ok(())
        }
        Rollout::Undo(flags) => {
            for target in flags.which.find(session).await? {
                let done =
                    history::undo(session, &target, flags.to_revision, flags.which.dry_run.dry_run).await?;
                output::line(format_args!(
                    "{} {done}{}",
                    target.shown(),
                    flags.which.dry_run.dry_run.suffix()
                ));
            }
            Ok(())
        }
        Rollout::Pause(flags) => set_paused(session, &flags, true).await,
        Rollout::Resume(flags) => set_paused(session, &flags, false).await,
        Rollout::Restart(flags) => restart(session, &flags).await,
        Rollout::Mesh(flags) => mesh::run(session, &flags).await,
    }
}

async fn status(session: &Session, flags: &Status) -> Result<()> {
    for target in flags.which.find(session).await? {
        let work = follow(session, flags, &target);
        match flags.timeout.is_zero() {
            true => work.await?,
            false => match tokio::time::timeout(flags.timeout, work).await {
                Ok(ended) => ended?,
                Err(_) => return Err(gone::timed_out(&target)),
            },
        }
    }
    Ok(())
}

async fn follow(session: &Session, flags: &Status, target: &Target) -> Result<()> {
    let told = std::sync::Mutex::new(String::new());
    let failed = std::sync::Mutex::new(None);
    let work = session.progress(format_args!("rolling out {}", target.shown()));
    let look = |object: &Value| -> bool {
        let (done, wanted) = progress::replicas(&target.kind.kind, object);
        let share = bar::bar(done, wanted);
        work.say(format_args!("{share} {done}/{wanted} pods  rolling out {}", target.shown()));
        match progress::of(&target.kind.kind, object, flags.revision) {
            Err(error) => {
                if let Ok(mut failed) = failed.lock() {
                    *failed = Some(error);
                }
                true
            }
            Ok((text, done)) => {
                // The same state is told once.
                let is_new =
                    told.lock().is_ok_and(|mut told| std::mem::replace(&mut *told, text.clone()) != text);
                if is_new {
                    output::text(&text);
                }
                done || !flags.watch
            }
        }
    };
    gone::until(session, target, look).await?;
    match failed.into_inner().ok().flatten() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

async fn set_paused(session: &Session, flags: &Which, paused: bool) -> Result<()> {
    let (done, verb) = if paused { ("paused", "pause") } else { ("resumed", "resume") };
    for target in flags.find(session).await? {
        if target.kind.kind != "Deployment" {
            return Err(Error::plain(format!(
                "{}s {:?} {verb} is not supported",
                target.kind.qualified(),
                target.name
            )));
        }
        if (target.object["spec"]["paused"] == true) == paused {
            let already = if paused { "is already paused" } else { "is not paused" };
            return Err(Error::plain(format!(
                "{} {:?} {already}",
                target.kind.plural_qualified(),
                target.name
            )));
        }
        let patch = json!({"spec": {"paused": if paused { json!(true) } else { Value::Null }}});
        change(session, &target, MERGE, &patch, flags.dry_run.dry_run).await?;
        output::line(format_args!("{} {done}{}", target.shown(), flags.dry_run.dry_run.suffix()));
    }
    Ok(())
}

async fn restart(session: &Session, flags: &Which) -> Result<()> {
    for target in flags.find(session).await? {
        if !target.object["spec"]["template"].is_object() || target.kind.kind == "Job" {
            return Err(Error::plain(format!(
                "{} {:?} restarting is not supported",
                target.kind.plural_qualified(),
                target.name
            )));
        }
        if target.object["spec"]["paused"] == true {
            return Err(Error::plain(format!(
                "{} {:?} can't restart paused deployment (run rollout resume first)",
                target.kind.plural_qualified(),
                target.name
            )));
        }
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let annotations = json!({"kubectl.kubernetes.io/restartedAt": now});
        let patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
        change(session, &target, STRATEGIC, &patch, flags.dry_run.dry_run).await?;
        output::line(format_args!("{} restarted{}", target.shown(), flags.dry_run.dry_run.suffix()));
    }
    Ok(())
}

/// Sends a patch, unless nothing is to be sent.
async fn change(
    session: &Session,
    target: &Target,
    kind: &'static str,
    patch: &Value,
    dry_run: DryRun,
) -> Result<()> {
    if dry_run == DryRun::Client {
        return Ok(());
    }
    let how = Writing { manager: "kubectl-rollout", dry_run, validation: None };
    session.patch(target.path(), kind, patch, &how).await.map(|_| ())
}
