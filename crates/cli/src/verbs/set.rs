//! `set`: parts of workloads, Services and bindings.

mod env;
mod template;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::flags::{DryRun, DryRunFlag, OutputFlag, TargetFlags, pair};
use crate::print::Report;
use crate::select::{self, Target};
use crate::session::{MERGE, STRATEGIC, Session, Writing};
use crate::verbs::create::{Subjects, labels};

/// Set parts of objects
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of them, for one command")]
pub enum Set {
    /// Images of containers
    #[command(after_help = "Examples:
  minik8s set image deployment/web app=nginx:1.27
  minik8s set image deployments,daemonsets --all '*=nginx:1.27'")]
    Image(Image),
    /// Variables of containers' environment
    #[command(after_help = "Examples:
  minik8s set env deployment/web LEVEL=debug OLD-
  minik8s set env deployment/web --list
  minik8s set env deployment/web --from=configmap/settings")]
    Env(env::Env),
    /// Requests and limits of containers
    #[command(
        after_help = "Example: minik8s set resources deployment/web -c app --limits=cpu=1,memory=1Gi --requests=cpu=100m"
    )]
    Resources(Resources),
    /// The service account of pods
    #[command(visible_alias = "sa", after_help = "Example: minik8s set serviceaccount deployment web robot")]
    Serviceaccount(ServiceAccount),
    /// The selector of a Service
    #[command(after_help = "Example: minik8s set selector service web app=web,tier=front")]
    Selector(Selector),
    /// Whom a binding is for
    #[command(after_help = "Example: minik8s set subject rolebinding readers --user=jane --group=ops")]
    Subject(Subject),
}

/// Which objects, and how they are changed.
#[derive(Debug, Args)]
#[command(mut_arg("words", |words| words.help("TYPE NAME or TYPE/NAME, then what to set")))]
pub struct Which {
    #[command(flatten)]
    targets: TargetFlags,
    /// All objects of the kind
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    dry_run: DryRunFlag,
    #[command(flatten)]
    output: OutputFlag,
    /// The name under which the fields are managed
    #[arg(long, value_name = "NAME", default_value = "kubectl-set")]
    field_manager: String,
}

impl Which {
    /// The words that name objects, and those that say what to set.
    fn split(&self) -> (&[String], &[String]) {
        let is_change = |word: &String| word.contains('=') || (word.ends_with('-') && word.len() > 1);
        let first = self.targets.words.iter().position(is_change).unwrap_or(self.targets.words.len());
        self.targets.words.split_at(first)
    }

    async fn find(&self, session: &Session, words: &[String]) -> Result<Vec<Target>> {
        let found = select::find_all(session, words, &self.targets.filter()).await?;
        if found.is_empty() {
            return Err(Error::plain("no resources found"));
        }
        Ok(found)
    }

    /// Sends the patch and says what was done.
    async fn change(
        &self,
        session: &Session,
        target: &Target,
        kind: &'static str,
        patch: &Value,
        done: &str,
    ) -> Result<()> {
        let report = Report::new(&self.output)?;
        let how = Writing { manager: &self.field_manager, dry_run: self.dry_run.dry_run, validation: None };
        let after = match how.dry_run {
            DryRun::Client => target.object.clone(),
            _ => session.patch(target.path(), kind, patch, &how).await?,
        };
        let same = how.dry_run == DryRun::None
            && after["metadata"]["resourceVersion"] == target.object["metadata"]["resourceVersion"];
        if same {
            return Ok(());
        }
        report.done(&target.shown(), done, how.dry_run.suffix(), &after)
    }
}

#[derive(Debug, Args)]
pub struct Image {
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
pub struct Resources {
    #[command(flatten)]
    which: Which,
    /// The containers; * for all
    #[arg(short, long, value_name = "NAME", default_value = "*")]
    containers: String,
    /// resource=amount,...
    #[arg(long, value_name = "RESOURCE=AMOUNT")]
    limits: Option<String>,
    /// resource=amount,...
    #[arg(long, value_name = "RESOURCE=AMOUNT")]
    requests: Option<String>,
}

#[derive(Debug, Args)]
pub struct ServiceAccount {
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
pub struct Selector {
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Args)]
pub struct Subject {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    subjects: Subjects,
}

pub async fn run(session: &Session, verb: Set) -> Result<()> {
    match verb {
        Set::Image(flags) => image(session, &flags.which).await,
        Set::Env(flags) => env::run(session, &flags).await,
        Set::Resources(flags) => resources(session, &flags).await,
        Set::Serviceaccount(flags) => service_account(session, &flags.which).await,
        Set::Selector(flags) => selector(session, &flags.which).await,
        Set::Subject(flags) => subject(session, &flags).await,
    }
}

async fn image(session: &Session, which: &Which) -> Result<()> {
    let (words, changes) = which.split();
    if changes.is_empty() {
        return Err(Error::plain("at least one image update is required"));
    }
    for target in which.find(session, words).await? {
        let mut parts: Vec<(String, Value)> = Vec::new();
        for change in changes {
            let (name, image) = pair(change, "image")?;
            let matched = template::containers(&target.object, name)?;
            if matched.is_empty() {
                return Err(Error::plain(format!("unable to find container named {name:?}")));
            }
            parts.extend(matched.into_iter().map(|name| (name, json!({"image": image}))));
        }
        let patch = template::patch(&target.object, &parts)?;
        which.change(session, &target, STRATEGIC, &patch, "image updated").await?;
    }
    Ok(())
}

async fn resources(session: &Session, flags: &Resources) -> Result<()> {
    if flags.limits.is_none() && flags.requests.is_none() {
        return Err(Error::plain(
            "you must specify an update to requests or limits (in the form of --requests/--limits)",
        ));
    }
    let mut amounts = json!({});
    for (field, text) in [("limits", &flags.limits), ("requests", &flags.requests)] {
        if let Some(text) = text {
            amounts[field] = labels(text)?;
        }
    }
    for target in flags.which.find(session, &flags.which.targets.words).await? {
        let names = template::containers(&target.object, &flags.containers)?;
        if names.is_empty() {
            return Err(Error::plain(format!("unable to find container named {:?}", flags.containers)));
        }
        let parts: Vec<(String, Value)> =
            names.into_iter().map(|name| (name, json!({"resources": amounts}))).collect();
        let patch = template::patch(&target.object, &parts)?;
        flags.which.change(session, &target, STRATEGIC, &patch, "resource requirements updated").await?;
    }
    Ok(())
}

async fn service_account(session: &Session, which: &Which) -> Result<()> {
    let Some((account, words)) = which.targets.words.split_last().filter(|(_, words)| !words.is_empty())
    else {
        return Err(Error::plain("serviceaccount is required: TYPE NAME ACCOUNT"));
    };
    for target in which.find(session, words).await? {
        let patch = template::at(&target.object, json!({"serviceAccountName": account}))?;
        which.change(session, &target, STRATEGIC, &patch, "serviceaccount updated").await?;
    }
    Ok(())
}

async fn selector(session: &Session, which: &Which) -> Result<()> {
    let (words, changes) = which.split();
    let selector = labels(&changes.join(","))?;
    if changes.is_empty() {
        return Err(Error::plain("a selector is required: TYPE NAME KEY=VALUE,..."));
    }
    for target in which.find(session, words).await? {
        if target.kind.kind != "Service" {
            return Err(Error::plain(format!(
                "setting a selector is only supported for Services, not {}",
                target.kind.kind
            )));
        }
        let mut patch = selector.clone();
        // What is not named goes.
        for key in target.object["spec"]["selector"].as_object().into_iter().flatten().map(|(key, _)| key) {
            if patch[key].is_null() {
                patch[key] = Value::Null;
            }
        }
        which
            .change(session, &target, MERGE, &json!({"spec": {"selector": patch}}), "selector updated")
            .await?;
    }
    Ok(())
}

async fn subject(session: &Session, flags: &Subject) -> Result<()> {
    let fresh = flags.subjects.list()?;
    if fresh.is_empty() {
        return Err(Error::plain("you must specify at least one value of user, group or serviceaccount"));
    }
    for target in flags.which.find(session, &flags.which.targets.words).await? {
        let mut subjects = target.object["subjects"].as_array().cloned().unwrap_or_default();
        for subject in &fresh {
            if !subjects.contains(subject) {
                subjects.push(subject.clone());
            }
        }
        flags
            .which
            .change(session, &target, MERGE, &json!({"subjects": subjects}), "subjects updated")
            .await?;
    }
    Ok(())
}
