//! `delete`: objects by name, selector or file; waits until they are gone.

use std::time::Duration;

use clap::Args;
use http::Method;
use serde_json::{Value, json};

use super::gone;
use crate::client::Call;
use crate::error::{Error, Result};
use crate::flags::{DryRun, DryRunFlag, OutputFlag, ReachFlags, TargetFlags, duration};
use crate::output;
use crate::print::bar;
use crate::select::{self, Filter, Target, Want};
use crate::session::Session;

/// Delete objects
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s delete pod web-1 web-2
  minik8s delete -f web.yaml
  minik8s delete pods -l app=web
  minik8s delete pod stuck --grace-period=0 --force")]
pub struct Delete {
    #[command(flatten)]
    targets: TargetFlags,
    #[command(flatten)]
    reach: ReachFlags,
    #[command(flatten)]
    how: DeletionFlags,
    #[command(flatten)]
    dry_run: DryRunFlag,
    /// It is no mistake if there is no such object
    #[arg(long)]
    ignore_not_found: bool,
    #[command(flatten)]
    output: OutputFlag,
}

/// How objects are deleted.
#[derive(Debug, Clone, Args)]
pub struct DeletionFlags {
    /// What becomes of dependents: background, foreground or orphan
    #[arg(long, value_name = "POLICY", num_args = 0..=1, require_equals = true,
          default_value = "background", default_missing_value = "background")]
    pub cascade: String,
    /// Seconds that a pod has to end; -1 for its own setting
    #[arg(long, value_name = "SECONDS", default_value_t = -1, allow_negative_numbers = true)]
    pub grace_period: i64,
    /// With --grace-period=0: do not wait for the node's confirmation
    #[arg(long)]
    pub force: bool,
    /// One second of grace
    #[arg(long)]
    pub now: bool,
    /// Wait until the objects are gone
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true",
          action = clap::ArgAction::Set)]
    pub wait: bool,
    /// How long to wait; 0 for any time
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = duration)]
    pub timeout: Duration,
}

impl DeletionFlags {
    pub fn options(&self, dry_run: DryRun) -> Result<Value> {
        let policy = match self.cascade.as_str() {
            "background" | "true" => "Background",
            "foreground" => "Foreground",
            "orphan" | "false" => "Orphan",
            other => {
                return Err(Error::plain(format!(
                    "invalid cascade value ({other}). Must be \"background\", \"foreground\", or \"orphan\""
                )));
            }
        };
        if self.now && self.grace_period >= 0 {
            return Err(Error::plain("--now and --grace-period cannot be specified together"));
        }
        let grace = match self.grace_period {
            _ if self.now => 1,
            -1 if self.force => 0,
            // Nobody should lose data by a zero that was meant as "soon".
            0 if !self.force => 1,
            given => given,
        };
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
        if grace >= 0 {
            options["gracePeriodSeconds"] = grace.into();
        }
        if dry_run == DryRun::Server {
            options["dryRun"] = json!(["All"]);
        }
        Ok(options)
    }

    pub fn is_immediate(&self) -> bool {
        self.force && self.grace_period <= 0
    }
}

const ELSEWHERE: &str = "Warning: deleting cluster-scoped resources, not scoped to the provided namespace";
const IMMEDIATE: &str = "Warning: Immediate deletion does not wait for confirmation that the running resource has been \
    terminated. The resource may continue to run on the cluster indefinitely.";

pub async fn run(session: &Session, verb: Delete) -> Result<()> {
    let options = verb.how.options(verb.dry_run.dry_run)?;
    if verb.how.is_immediate() {
        output::remark(IMMEDIATE);
    }
    let (targets, tolerant) = targets(session, &verb).await?;
    if targets.is_empty() {
        output::line("No resources found");
        return Ok(());
    }
    let (mut deleted, mut errors) = (Vec::new(), Vec::new());
    let is_misled = session.flags.namespace.is_some() && !verb.reach.all_namespaces;
    if is_misled && targets.iter().any(|target| !target.kind.namespaced) {
        output::remark(ELSEWHERE);
    }
    for target in targets {
        match delete_one(session, &target, &options, verb.dry_run.dry_run).await {
            Ok(uid) => {
                told(&verb, &target);
                deleted.push((target, uid));
            }
            Err(error) if error.is_not_found() && tolerant => {}
            Err(error) => errors.push(error),
        }
    }
    if verb.how.wait && verb.dry_run.dry_run == DryRun::None {
        let progress = session.progress("");
        for (done, (target, uid)) in deleted.iter().enumerate() {
            let share = bar::of(done, deleted.len(), "gone");
            progress.say(format_args!("{share}  waiting until {} is gone", target.shown()));
            gone::wait(session, target, uid.as_deref(), verb.how.timeout).await?;
        }
    }
    Error::from_all(errors)
}

fn told(verb: &Delete, target: &Target) {
    if verb.output.output.as_deref() == Some("name") {
        return output::line(target.shown());
    }
    let how = if verb.how.is_immediate() { "force deleted" } else { "deleted" };
    let suffix = verb.dry_run.dry_run.suffix();
    output::line(format_args!("{} {:?} {how}{suffix}", target.kind.qualified(), target.name));
}

/// What to delete, and whether it may be gone already.
async fn targets(session: &Session, verb: &Delete) -> Result<(Vec<Target>, bool)> {
    if verb.targets.files.is_set() {
        return Ok((select::of_files(session, &verb.targets.files).await?, verb.ignore_not_found));
    }
    let selects = verb.reach.all || verb.targets.selectors.is_set();
    let (mut targets, mut lists) = (Vec::new(), false);
    for want in select::wants(session, &verb.targets.words).await? {
        match want {
            Want::Object { kind, name } => {
                if selects {
                    return Err(Error::plain("name cannot be provided when a selector is specified"));
                }
                targets.push(select::named(session, kind, name).await?);
            }
            Want::List { kind } => {
                if !selects {
                    return Err(Error::plain(
                        "resource(s) were provided, but no name was specified; name objects, or give -l SELECTOR or --all",
                    ));
                }
                lists = true;
                let filter = Filter { all_namespaces: verb.reach.all_namespaces, ..verb.targets.filter() };
                let objects = select::list(session, &kind, &filter).await?;
                targets.extend(objects.into_iter().map(|object| Target::new(kind.clone(), object)));
            }
        }
    }
    if verb.targets.words.is_empty() {
        return Err(Error::plain("You must provide one or more resources by argument or filename."));
    }
    Ok((targets, verb.ignore_not_found || lists))
}

/// Deletes; tells the object's UID if the server does.
pub async fn delete_one(
    session: &Session,
    target: &Target,
    options: &Value,
    dry_run: DryRun,
) -> Result<Option<String>> {
    let client = session.client().await?;
    if dry_run == DryRun::Client {
        return client.get(target.path()).await.map(|_| None);
    }
    let answer = client.send(Call::new(Method::DELETE, target.path()).json(options)).await?;
    let uid = answer["metadata"]["uid"].as_str().or(answer["details"]["uid"].as_str());
    Ok(uid.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grace() {
        let check = |grace_period: i64, force: bool, now: bool, expected: Option<i64>| {
            let flags = DeletionFlags {
                cascade: "orphan".into(),
                grace_period,
                force,
                now,
                wait: true,
                timeout: Duration::ZERO,
            };
            let options = flags.options(DryRun::None).unwrap();
            assert_eq!(options["gracePeriodSeconds"].as_i64(), expected, "{grace_period} {force} {now}");
            assert_eq!(options["propagationPolicy"], "Orphan");
        };
        check(-1, false, false, None);
        check(-1, true, false, Some(0));
        check(0, true, false, Some(0));
        check(0, false, false, Some(1));
        check(-1, false, true, Some(1));
        check(5, false, false, Some(5));
    }
}
