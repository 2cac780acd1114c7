//! `create`: objects from files, or from flags by generators, one file for each group of kinds.

mod access;
mod configuration;
mod limits;
mod service;
mod workload;

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

pub use access::Subjects;

use super::apply::{ValidateFlag, explained, passes};
use crate::client::Call;
use crate::error::{Error, Result};
use crate::flags::{DryRun, DryRunFlag, FileFlags, OutputFlag, SelectorFlags};
use crate::manifest;
use crate::output;
use crate::print::Report;
use crate::select;
use crate::session::{Session, Writing};

/// Create objects from files or flags
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s create -f web.yaml
  minik8s create deployment web --image=nginx --replicas=3
  minik8s create configmap settings --from-literal=color=red")]
pub struct Create {
    #[command(subcommand)]
    generator: Option<Generator>,
    #[command(flatten)]
    files: FileFlags,
    #[command(flatten)]
    selectors: SelectorFlags,
    #[command(flatten)]
    making: MakingFlags,
    /// Send the file to this path of the API
    #[arg(long, value_name = "PATH")]
    raw: Option<String>,
}

/// How something is made.
#[derive(Debug, Clone, Args)]
pub struct MakingFlags {
    #[command(flatten)]
    pub dry_run: DryRunFlag,
    #[command(flatten)]
    pub output: OutputFlag,
    #[command(flatten)]
    pub validate: ValidateFlag,
    /// The name under which the fields are managed
    #[arg(long, value_name = "NAME", default_value = "kubectl-create")]
    pub field_manager: String,
    /// Accepted for compatibility with kubectl
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true")]
    save_config: Option<bool>,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of them, for one command")]
enum Generator {
    #[command(visible_alias = "ns")]
    Namespace(access::Namespace),
    #[command(visible_alias = "cm")]
    Configmap(configuration::ConfigMap),
    #[command(subcommand)]
    Secret(configuration::Secret),
    #[command(visible_alias = "deploy")]
    Deployment(workload::Deployment),
    Job(workload::Job),
    #[command(visible_alias = "cj")]
    Cronjob(workload::CronJob),
    #[command(subcommand, visible_alias = "svc")]
    Service(service::Service),
    #[command(visible_alias = "ing")]
    Ingress(service::Ingress),
    #[command(visible_alias = "sa")]
    Serviceaccount(access::ServiceAccount),
    Role(access::Role),
    Clusterrole(access::ClusterRole),
    Rolebinding(access::RoleBinding),
    Clusterrolebinding(access::ClusterRoleBinding),
    Token(access::Token),
    #[command(visible_aliases = ["resourcequota"])]
    Quota(limits::Quota),
    #[command(visible_alias = "pdb")]
    Poddisruptionbudget(limits::PodDisruptionBudget),
    #[command(visible_alias = "pc")]
    Priorityclass(limits::PriorityClass),
}

pub async fn run(session: &Session, verb: Create) -> Result<()> {
    let Some(generator) = verb.generator else { return from_files(session, &verb).await };
    match generator {
        Generator::Namespace(flags) => make(session, flags.object(), &flags.making).await,
        Generator::Configmap(flags) => make(session, flags.object()?, &flags.making).await,
        Generator::Secret(flags) => make(session, flags.object()?, flags.making()).await,
        Generator::Deployment(flags) => make(session, flags.object()?, &flags.making).await,
        Generator::Job(flags) => {
            let object = flags.object(session).await?;
            make(session, object, &flags.making).await
        }
        Generator::Cronjob(flags) => make(session, flags.object(), &flags.making).await,
        Generator::Service(flags) => make(session, flags.object()?, flags.making()).await,
        Generator::Ingress(flags) => make(session, flags.object()?, &flags.making).await,
        Generator::Serviceaccount(flags) => make(session, flags.object(), &flags.making).await,
        Generator::Role(flags) => {
            let object = flags.object(session).await?;
            make(session, object, &flags.making).await
        }
        Generator::Clusterrole(flags) => {
            let object = flags.object(session).await?;
            make(session, object, &flags.making).await
        }
        Generator::Rolebinding(flags) => make(session, flags.object()?, &flags.making).await,
        Generator::Clusterrolebinding(flags) => make(session, flags.object()?, &flags.making).await,
        Generator::Token(flags) => access::token(session, &flags).await,
        Generator::Quota(flags) => make(session, flags.object()?, &flags.making).await,
        Generator::Poddisruptionbudget(flags) => make(session, flags.object()?, &flags.making).await,
        Generator::Priorityclass(flags) => make(session, flags.object(), &flags.making).await,
    }
}

async fn from_files(session: &Session, verb: &Create) -> Result<()> {
    if let Some(path) = &verb.raw {
        return raw(session, verb, path).await;
    }
    let items = manifest::read_some(&verb.files, "create").await?;
    let report = Report::new(&verb.making.output)?;
    let how = verb.making.writing()?;
    let mut errors = Vec::new();
    for item in items.iter() {
        if !passes(&item.object, &verb.selectors)? {
            continue;
        }
        let made = async {
            let target = select::of_item(session, item).await?;
            let made = session.create(&target.kind, &target.object, &how).await;
            let made = made.map_err(|error| explained(error, item, "creating"))?;
            let shown = select::Target::new(target.kind, made);
            report.done(&shown.shown(), "created", how.dry_run.suffix(), &shown.object)
        };
        if let Err(error) = made.await {
            errors.push(error);
        }
    }
    Error::from_all(errors)
}

async fn raw(session: &Session, verb: &Create, path: &str) -> Result<()> {
    let [file] = verb.files.filename.as_slice() else {
        return Err(Error::plain("--raw can only use a single local file or stdin"));
    };
    let items =
        manifest::read(&FileFlags { filename: vec![file.clone()], recursive: false, kustomize: None })
            .await?;
    let object = items.first().map(|item| item.object.clone()).unwrap_or_default();
    let answer = session.client().await?.bytes(Call::new(Method::POST, path).json(&object)).await?;
    output::bytes(&answer);
    output::line("");
    Ok(())
}

impl MakingFlags {
    pub fn writing(&self) -> Result<Writing<'_>> {
        Ok(Writing {
            manager: &self.field_manager,
            dry_run: self.dry_run.dry_run,
            validation: Some(self.validate.mode()?),
        })
    }
}

/// Creates what a generator made. Without a server, if nothing is to be sent.
pub async fn make(session: &Session, object: Value, making: &MakingFlags) -> Result<()> {
    make_as(session, object, making, "created").await
}

/// As [`make`], with another word for it.
pub async fn make_as(session: &Session, mut object: Value, making: &MakingFlags, done: &str) -> Result<()> {
    let report = Report::new(&making.output)?;
    let how = making.writing()?;
    if how.dry_run == DryRun::Client {
        if let (Some(namespace), false) = (&session.flags.namespace, is_cluster_wide(&object)) {
            object["metadata"]["namespace"] = namespace.clone().into();
        }
        return report.done(&shown(&object), done, how.dry_run.suffix(), &object);
    }
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let discovery = session.discovery().await?;
    let kind = discovery
        .of(&version, &kind)
        .ok_or_else(|| Error::plain(format!("no matches for kind {kind:?} in version {version:?}")))?;
    session.place(kind, &mut object).await?;
    let made =
        session.create(kind, &object, &how).await.map_err(|error| failed(error, spoken(&kind.singular)))?;
    report.done(&shown(&made), done, how.dry_run.suffix(), &made)
}

/// How kubectl's generators call a kind.
fn spoken(kind: &str) -> &str {
    match kind {
        "resourcequota" => "quota",
        other => other,
    }
}

/// kubectl's generators say what failed.
fn failed(error: Error, what: &str) -> Error {
    match error {
        // Told as a plain error, as kubectl does, but for namespaces.
        Error::Server(server) if server.reason != "Invalid" && what != "namespace" => {
            Error::plain(format!("failed to create {what}: {}", server.message))
        }
        other => other,
    }
}

fn is_cluster_wide(object: &Value) -> bool {
    matches!(
        object["kind"].as_str(),
        Some("Namespace" | "ClusterRole" | "ClusterRoleBinding" | "PriorityClass")
    )
}

/// `deployment.apps/web`.
fn shown(object: &Value) -> String {
    let version = text(&object["apiVersion"]);
    let group = version.split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
    format!("{}{group}/{}", text(&object["kind"]).to_lowercase(), text(&object["metadata"]["name"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// `a=b,c=d` as labels.
pub fn labels(text: &str) -> Result<Value> {
    let mut labels = json!({});
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (key, value) = crate::flags::pair(pair, "label")?;
        labels[key] = value.into();
    }
    Ok(labels)
}
