//! The verbs of `minik8s workflow`: what each does, and what it prints. They talk to the API as any client.

mod definition_file;
mod follow;
mod step_logs;
mod steps;

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use minik8s_meta::{api_version, kind};
use serde_json::{Value, json};

use definition_file::DefinitionFile;
pub use definition_file::Locate;

use crate::graph;
use crate::kinds::{Workflow, WorkflowRun, WorkflowRunSpec, WorkflowSpec, WorkflowType, run_name};

#[derive(Debug, Subcommand)]
pub enum WorkflowCommand {
    /// Make a workflow of a definition, or change it
    #[command(after_help = "Example: minik8s workflow create order -f order.asl.json")]
    Create {
        name: String,
        #[command(flatten)]
        file: FileFlag,
        /// Standard (every step is durable) or Express (in memory, at most five minutes)
        #[arg(long = "type", default_value = "Standard", value_parser = ["Standard", "Express"])]
        workflow_type: String,
    },
    /// Say what is wrong with a definition, with path and line
    #[command(after_help = "Example: minik8s workflow validate -f order.asl.json")]
    Validate {
        /// What it will be called; it is not looked for
        name: Option<String>,
        #[command(flatten)]
        file: FileFlag,
        /// As which type of workflow
        #[arg(long = "type", default_value = "Standard", value_parser = ["Standard", "Express"])]
        workflow_type: String,
    },
    /// Print a definition in the simple form (startAt, nodes) in the Amazon States Language
    #[command(after_help = "Example: minik8s workflow convert -f simple.yaml")]
    Convert {
        /// What it will be called; it is not looked for
        name: Option<String>,
        #[command(flatten)]
        file: FileFlag,
    },
    /// Draw a workflow, and the path that a run has taken
    #[command(after_help = "Examples:
  minik8s workflow graph order
  minik8s workflow graph --run order-x7k2p --svg > run.svg
  minik8s workflow graph -f order.asl.json")]
    Graph(GraphFlags),
    /// Start a run
    #[command(after_help = "Examples:
  minik8s workflow run order -d '{\"a\": 5, \"b\": 7}' --wait
  minik8s workflow run order -d @input.json --idempotency-key order-4711")]
    Run(RunFlags),
    /// List runs, of one workflow or of all
    #[command(after_help = "Example: minik8s workflow runs order")]
    Runs { workflow: Option<String> },
    /// Show what a run did: each step with its input, output, duration, and whether it waited for a cold start
    #[command(after_help = "Examples:
  minik8s workflow history order-x7k2p --logs
  minik8s workflow history order-x7k2p --events")]
    History {
        run: String,
        /// Every event, as AWS tells them, in JSON
        #[arg(long)]
        events: bool,
        /// What the functions wrote during each step, as far as their pods are there
        #[arg(long, conflicts_with = "events")]
        logs: bool,
    },
    /// End a run as Aborted
    #[command(after_help = "Example: minik8s workflow stop order-x7k2p --cause 'wrong customer'")]
    Stop {
        run: String,
        #[arg(long)]
        error: Option<String>,
        #[arg(long)]
        cause: Option<String>,
    },
    /// Let a failed, stopped or timed out run go on from the state where it ended
    #[command(after_help = "Example: minik8s workflow redrive order-x7k2p --wait")]
    Redrive {
        run: String,
        /// Until it is over again
        #[arg(long)]
        wait: bool,
    },
    /// Explain where a run stands: what it waits for, or why it failed
    #[command(after_help = "Example: minik8s workflow why order-x7k2p")]
    Why { run: String },
    /// Answer a task that waits for its token (.waitForTaskToken)
    #[command(after_help = "Examples:
  minik8s workflow answer TOKEN -d '{\"approved\": true}'
  minik8s workflow answer TOKEN --error Refused --cause 'too expensive'
  minik8s workflow answer TOKEN --heartbeat")]
    Answer(AnswerFlags),
}

#[derive(Debug, Args)]
pub struct FileFlag {
    /// The definition, in JSON or YAML; - for standard input
    #[arg(short, long = "file", value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Args)]
pub struct GraphFlags {
    /// The workflow
    name: Option<String>,
    /// A definition that is no workflow yet
    #[arg(short, long = "file", value_name = "FILE", conflicts_with = "run")]
    file: Option<PathBuf>,
    /// Show the path that this run has taken
    #[arg(long, value_name = "RUN", conflicts_with = "name")]
    run: Option<String>,
    /// As SVG instead of text
    #[arg(long)]
    svg: bool,
}

#[derive(Debug, Args)]
pub struct RunFlags {
    workflow: String,
    /// The input, in JSON, or @FILE
    #[arg(short, long = "data", value_name = "JSON|@FILE")]
    data: Option<String>,
    /// Wait until it is over, and print its output
    #[arg(long)]
    wait: bool,
    /// The same key is the same run: it is not started twice
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

#[derive(Debug, Args)]
pub struct AnswerFlags {
    token: String,
    /// What the task gives, in JSON, or @FILE
    #[arg(short, long = "data", value_name = "JSON|@FILE")]
    data: Option<String>,
    /// It failed by this error
    #[arg(long, conflicts_with = "data")]
    error: Option<String>,
    #[arg(long, requires = "error")]
    cause: Option<String>,
    /// It still runs
    #[arg(long, conflicts_with_all = ["data", "error"])]
    heartbeat: bool,
}

/// Does what was asked, and gives what is to be printed.
pub async fn run<C, F>(command: WorkflowCommand, locate: Locate, connect: C) -> anyhow::Result<String>
where
    C: FnOnce() -> F,
    F: Future<Output = anyhow::Result<(Client, String)>>,
{
    // These need no cluster.
    match &command {
        WorkflowCommand::Validate { file, workflow_type, .. } => {
            let definition = DefinitionFile::read(&file.file)?;
            definition.check(type_of(workflow_type), locate)?;
            return Ok(format!("{} is a {workflow_type} workflow\n", file.file.display()));
        }
        WorkflowCommand::Convert { file, .. } => return DefinitionFile::read(&file.file)?.converted(locate),
        WorkflowCommand::Graph(GraphFlags { file: Some(file), svg, .. }) => {
            let definition = DefinitionFile::read(file)?;
            return Ok(drawn(&definition.value, &[], *svg));
        }
        _ => {}
    }
    let (client, namespace) = connect().await?;
    let cluster = Cluster { client, namespace };
    match command {
        WorkflowCommand::Create { name, file, workflow_type } => {
            cluster.create(&name, &DefinitionFile::read(&file.file)?, type_of(&workflow_type), locate).await
        }
        WorkflowCommand::Graph(flags) => cluster.graph(flags).await,
        WorkflowCommand::Run(flags) => cluster.start(flags).await,
        WorkflowCommand::Runs { workflow } => cluster.list(workflow.as_deref()).await,
        WorkflowCommand::History { run, events, logs } => cluster.history(&run, events, logs).await,
        WorkflowCommand::Stop { run, error, cause } => {
            let stop = json!({"spec": {"stop": {"error": error, "cause": cause}}});
            cluster.change(&run, stop).await?;
            Ok(format!("workflowrun.minik8s.io/{run} stopped\n"))
        }
        WorkflowCommand::Redrive { run, wait } => cluster.redrive(&run, wait).await,
        WorkflowCommand::Why { run } => cluster.why(&run).await,
        WorkflowCommand::Answer(flags) => cluster.answer(flags).await,
        WorkflowCommand::Validate { .. } | WorkflowCommand::Convert { .. } => Ok(String::new()),
    }
}

fn type_of(text: &str) -> WorkflowType {
    if text == "Express" { WorkflowType::Express } else { WorkflowType::Standard }
}

fn drawn(definition: &Value, events: &[Value], svg: bool) -> String {
    let (graph, visits) = (graph::graph(definition), graph::visits(events));
    if svg { graph::svg(&graph, &visits) } else { graph::text(&graph, &visits) }
}

/// JSON, or the file that has it.
fn data(text: &str) -> anyhow::Result<Value> {
    let read = match text.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?,
        None => text.to_owned(),
    };
    serde_json::from_str(&read).with_context(|| format!("{text} is no JSON"))
}

/// The cluster and the namespace to work in.
struct Cluster {
    client: Client,
    namespace: String,
}

impl Cluster {
    fn workflows(&self) -> Api<Workflow> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn runs(&self) -> Api<WorkflowRun> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn create(
        &self,
        name: &str,
        file: &DefinitionFile,
        workflow_type: WorkflowType,
        locate: Locate,
    ) -> anyhow::Result<String> {
        file.check(workflow_type, locate)?;
        let mut workflow = Workflow {
            api_version: api_version::<Workflow>(),
            kind: kind::<Workflow>(),
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            spec: WorkflowSpec { workflow_type, definition: file.value.clone(), history: None },
        };
        let known = self.workflows().get_opt(name).await?;
        let done = match known {
            None => {
                self.workflows().create(&PostParams::default(), &workflow).await?;
                "created"
            }
            Some(known) => {
                workflow.spec.history = known.spec.history.clone();
                workflow.metadata = known.metadata;
                self.workflows().replace(name, &PostParams::default(), &workflow).await?;
                "configured"
            }
        };
        Ok(format!("workflow.minik8s.io/{name} {done}\n"))
    }

    async fn graph(&self, flags: GraphFlags) -> anyhow::Result<String> {
        if let Some(run) = &flags.run {
            let history = self.kept(run).await?;
            let events = history["events"].as_array().cloned().unwrap_or_default();
            return Ok(drawn(&history["definition"], &events, flags.svg));
        }
        let Some(name) = &flags.name else { bail!("name a workflow, --run RUN, or -f FILE") };
        let workflow = self.workflows().get_opt(name).await?;
        let workflow = workflow.with_context(|| self.no_such("workflow", name))?;
        let definition = match &workflow.spec.definition {
            Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
            value => value.clone(),
        };
        Ok(drawn(&definition, &[], flags.svg))
    }

    async fn start(&self, flags: RunFlags) -> anyhow::Result<String> {
        let workflow = self.workflows().get_opt(&flags.workflow).await?;
        let workflow = workflow.with_context(|| self.no_such("workflow", &flags.workflow))?;
        let input = flags.data.as_deref().map(data).transpose()?;
        let name = flags.idempotency_key.as_deref().map(|key| run_name(&flags.workflow, key));
        let owner = OwnerReference {
            api_version: api_version::<Workflow>(),
            kind: kind::<Workflow>(),
            name: flags.workflow.clone(),
            uid: workflow.metadata.uid.unwrap_or_default(),
            ..OwnerReference::default()
        };
        let run = WorkflowRun {
            api_version: api_version::<WorkflowRun>(),
            kind: kind::<WorkflowRun>(),
            metadata: ObjectMeta {
                generate_name: name.is_none().then(|| format!("{}-", flags.workflow)),
                name: name.clone(),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: WorkflowRunSpec {
                workflow: flags.workflow.clone(),
                input,
                idempotency_key: flags.idempotency_key.clone(),
                ..WorkflowRunSpec::default()
            },
            status: None,
        };
        let made = match self.runs().create(&PostParams::default(), &run).await {
            Err(kube::Error::Api(refused)) if refused.code == 409 && name.is_some() => {
                self.runs().get(name.as_deref().unwrap_or_default()).await?
            }
            made => made?,
        };
        let name = made.metadata.name.clone().unwrap_or_default();
        match flags.wait {
            false => Ok(format!("workflowrun.minik8s.io/{name} started\n")),
            true => follow::until_over(&self.runs(), &name, 0).await,
        }
    }

    async fn list(&self, workflow: Option<&str>) -> anyhow::Result<String> {
        let mut runs = self.runs().list(&ListParams::default()).await?.items;
        runs.retain(|run| workflow.is_none_or(|workflow| run.spec.workflow == workflow));
        runs.sort_by_key(|run| run.metadata.creation_timestamp.as_ref().map(|time| time.0));
        Ok(steps::runs(&runs, jiff::Timestamp::now().as_millisecond()))
    }

    async fn history(&self, run: &str, events: bool, logs: bool) -> anyhow::Result<String> {
        let history = self.kept(run).await?;
        if events {
            return Ok(format!("{:#}\n", json!({"events": history["events"]})));
        }
        let mut text = steps::table(&history);
        if logs {
            text += &step_logs::of(&self.client, &self.namespace, &steps::steps(&history)).await;
        }
        Ok(text)
    }

    /// All that is kept of a run.
    async fn kept(&self, run: &str) -> anyhow::Result<Value> {
        let path = format!("/apis/minik8s.io/v1/namespaces/{}/workflowruns/{run}/history", self.namespace);
        let request = http::Request::get(path).body(Vec::new())?;
        Ok(self.client.request(request).await?)
    }

    async fn change(&self, run: &str, patch: Value) -> anyhow::Result<WorkflowRun> {
        let found = self.runs().get_opt(run).await?;
        found.with_context(|| self.no_such("run", run))?;
        Ok(self.runs().patch(run, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    async fn redrive(&self, name: &str, wait: bool) -> anyhow::Result<String> {
        let run = self.runs().get_opt(name).await?.with_context(|| self.no_such("run", name))?;
        if !matches!(run.phase(), Some(phase) if phase.is_over() && phase != crate::kinds::Phase::Succeeded) {
            bail!(
                "run {name} is {}: only a run that failed, timed out or was stopped can go on",
                phase_of(&run)
            );
        }
        let count = run.spec.redrives.unwrap_or(0) + 1;
        self.change(name, json!({"spec": {"redrives": count, "stop": null}})).await?;
        match wait {
            true => follow::until_over(&self.runs(), name, count).await,
            false => Ok(format!("workflowrun.minik8s.io/{name} redriven\n")),
        }
    }

    async fn why(&self, name: &str) -> anyhow::Result<String> {
        let run = self.runs().get_opt(name).await?.with_context(|| self.no_such("run", name))?;
        let history = self.kept(name).await.ok();
        Ok(steps::why(&run, history.as_ref(), jiff::Timestamp::now().as_millisecond()))
    }

    async fn answer(&self, flags: AnswerFlags) -> anyhow::Result<String> {
        let mut parts = flags.token.rsplitn(3, '.');
        let Some(run) = parts.nth(2) else { bail!("that is no task token: it has the form RUN.TASK.PROOF") };
        let mut body = json!({"token": flags.token});
        match (&flags.data, &flags.error, flags.heartbeat) {
            (Some(output), None, false) => body["output"] = data(output)?,
            (None, Some(error), false) => {
                body["error"] = error.clone().into();
                body["cause"] = flags.cause.clone().into();
            }
            (None, None, true) => body["heartbeat"] = true.into(),
            _ => bail!(
                "say what the task gives (-d JSON), how it failed (--error NAME), or that it runs (--heartbeat)"
            ),
        }
        let path = format!("/apis/minik8s.io/v1/namespaces/{}/workflowruns/{run}/tasks", self.namespace);
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(body.to_string().into_bytes())?;
        self.client.request::<Value>(request).await?;
        Ok(format!("workflowrun.minik8s.io/{run} answered\n"))
    }

    fn no_such(&self, what: &str, name: &str) -> String {
        format!("there is no {what} {name} in namespace {}", self.namespace)
    }
}

fn phase_of(run: &WorkflowRun) -> String {
    run.phase().map_or("Pending".to_owned(), |phase| format!("{phase:?}"))
}
