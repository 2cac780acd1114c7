//! `minik8s gpu`: jobs from the command line. It talks to the API alone, never to a cluster of Slurm's.

mod flat;
mod logs;
mod results;
mod submit;

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Subcommand;
use jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::kinds::{self, GpuJob, SlurmCluster};
use crate::script;

pub use submit::SubmitArguments;

#[derive(Debug, Subcommand)]
pub enum GpuCommand {
    /// Bring a program to a Slurm cluster, compile and run it there
    #[command(after_help = "Examples:
  minik8s gpu submit matmul.cu --gpus 1 --build 'nvcc -O2 -o matmul matmul.cu' --run './matmul 1024'
  minik8s gpu submit -f job.yaml")]
    Submit(SubmitArguments),
    /// List the jobs, as `kubectl get gpujobs` does
    #[command(after_help = "Example: minik8s gpu list")]
    List,
    /// Print a job's output, as far as it is
    #[command(after_help = "Example: minik8s gpu logs -f matmul")]
    Logs {
        #[arg(value_name = "NAME")]
        name: String,
        /// Go on as it grows, to the job's end
        #[arg(short, long)]
        follow: bool,
    },
    /// Write the files that were brought back into a folder
    #[command(after_help = "Example: minik8s gpu results matmul -o out")]
    Results {
        #[arg(value_name = "NAME")]
        name: String,
        /// The folder, made if it is not there
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
    },
    /// End a job on its cluster; the object stays
    #[command(after_help = "Example: minik8s gpu cancel matmul")]
    Cancel {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Print the script that sbatch gets
    #[command(after_help = "Example: minik8s gpu script matmul")]
    Script {
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// Shows how far a transfer is (name, bytes done, bytes in all) until it is dropped.
pub type Progress = Box<dyn Fn(&str, i64, i64) + Send + Sync>;

pub async fn run(command: GpuCommand, client: Client, namespace: &str, show: Progress) -> anyhow::Result<()> {
    let jobs: Api<GpuJob> = Api::namespaced(client.clone(), namespace);
    match command {
        GpuCommand::Submit(arguments) => submit::run(arguments, &jobs).await,
        GpuCommand::List => list(&jobs).await,
        GpuCommand::Logs { name, follow } => logs::run(client, &jobs, &name, follow).await,
        GpuCommand::Results { name, output } => {
            let job = get(&jobs, &name).await?;
            results::run(client, &job, &output, show).await
        }
        GpuCommand::Cancel { names } => {
            for name in names {
                let patch = Patch::Merge(json!({"spec": {"cancelled": true}}));
                get(&jobs, &name).await?;
                jobs.patch(&name, &PatchParams::default(), &patch).await?;
                say(&format!("gpujob.minik8s.io/{name} cancelled\n"))?;
            }
            Ok(())
        }
        GpuCommand::Script { name } => {
            let job = get(&jobs, &name).await?;
            let cluster = cluster(&client, &job).await?;
            say(&script::batch(&job, &cluster))
        }
    }
}

async fn get(jobs: &Api<GpuJob>, name: &str) -> anyhow::Result<GpuJob> {
    let job = jobs.get_opt(name).await?;
    job.with_context(|| format!("there is no GPUJob {name} here; `minik8s gpu list` shows those that are"))
}

/// The cluster whose defaults the job has.
async fn cluster(client: &Client, job: &GpuJob) -> anyhow::Result<SlurmCluster> {
    let api: Api<SlurmCluster> = Api::namespaced(client.clone(), job.namespace());
    let named =
        job.status.as_ref().and_then(|status| status.cluster.as_deref()).or(job.spec.cluster.as_deref());
    match named {
        Some(name) => api.get_opt(name).await?.with_context(|| format!("there is no SlurmCluster {name}")),
        None => match &mut api.list(&ListParams::default()).await?.items[..] {
            [only] => Ok(only.clone()),
            _ => bail!("the job names no SlurmCluster, and there is not just one"),
        },
    }
}

async fn list(jobs: &Api<GpuJob>) -> anyhow::Result<()> {
    let jobs = jobs.list(&ListParams::default()).await?.items;
    if jobs.is_empty() {
        eprintln!("There are no GPU jobs in this namespace.");
        return Ok(());
    }
    let strategy = kinds::gpu_jobs().strategy;
    let columns = strategy.columns().unwrap_or_default();
    let shown: Vec<usize> = (0..columns.len()).filter(|at| columns[*at].priority == 0).collect();
    let mut rows = vec![shown.iter().map(|at| columns[*at].name.to_uppercase()).collect::<Vec<_>>()];
    for job in jobs {
        let cells = strategy.row(&serde_json::to_value(&job)?, Timestamp::now());
        let text = |at: &usize| cells[*at].as_str().map_or_else(|| cells[*at].to_string(), str::to_owned);
        rows.push(shown.iter().map(text).collect());
    }
    say(&table(&rows))
}

/// Columns as wide as their widest cell, three spaces apart.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}   "));
        format!("{}\n", cells.collect::<String>().trim_end())
    };
    rows.iter().map(line).collect()
}

fn say(text: &str) -> anyhow::Result<()> {
    write(text.as_bytes())
}

/// A reader that has seen enough ends the command quietly.
fn write(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => Ok(written?),
    }
}
