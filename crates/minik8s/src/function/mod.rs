//! `minik8s function`: make, change, call and look at functions.
//!
//! All but calls go through the API, as `kubectl apply` of a Function would. A call goes to the router of a node, as
//! everybody else's does.

mod calls;
mod code;
mod dev;
mod invoke;
mod logs;
mod result;
mod show;
mod write;

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use kube::Api;
use kube::api::DeleteParams;
use minik8s_cli::GlobalFlags;
use minik8s_meta::function::Function;

pub use show::explain;

use crate::{kubeconfig, output};

#[derive(Debug, Subcommand)]
pub enum FunctionCommand {
    /// Make a function from a file, a folder or a zip archive, and wait until it answers
    #[command(after_help = "Examples:
  minik8s function create hello --from hello.py
  minik8s function create thumb --from ./thumb --env SIZE=64 --max 5
  minik8s function create web --image registry.example/web:1")]
    Create {
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        changes: Changes,
    },
    /// Change a function's code or settings; calls go to the new revision once it answers
    #[command(after_help = "Example: minik8s function update hello --from hello.py")]
    Update {
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        changes: Changes,
    },
    /// Delete functions with their instances and revisions
    #[command(after_help = "Example: minik8s function delete hello")]
    Delete {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// List the functions of a namespace
    #[command(after_help = "Example: minik8s function list")]
    List,
    /// Show a function: its state, instances, revisions and what went wrong
    #[command(after_help = "Example: minik8s function describe hello")]
    Describe {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// List the last calls of a function: how they were answered, how fast, and whether an instance had to be started (cold)
    #[command(after_help = "Example: minik8s function calls hello")]
    Calls {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Print what the instances of a function have written
    #[command(after_help = "Example: minik8s function logs hello -f")]
    Logs {
        #[arg(value_name = "NAME")]
        name: String,
        /// Go on printing what all instances write, also those that start later
        #[arg(short = 'f', long)]
        follow: bool,
        /// Lines from the end
        #[arg(long, value_name = "N", default_value_t = 100)]
        tail: i64,
    },
    /// Call a function and print its result
    #[command(
        visible_alias = "trigger",
        after_help = "Examples:
  minik8s function invoke hello -d '{\"name\": \"you\"}'
  minik8s function invoke hello -f params.yaml"
    )]
    Invoke(InvokeFlags),
    /// Print the result of a call that was made with --async
    #[command(after_help = "Example: minik8s function result hello-x7k2p")]
    Result {
        #[arg(value_name = "ID")]
        id: String,
        /// Wait until there is one
        #[arg(long)]
        wait: bool,
    },
    /// Run a function's code on this machine, and again whenever it changes; no cluster is needed
    #[command(after_help = "Example: minik8s function dev hello.py --port 8080")]
    Dev(DevFlags),
    /// Go back to a revision that served before
    #[command(after_help = "Example: minik8s function rollback hello --to 3")]
    Rollback {
        #[arg(value_name = "NAME")]
        name: String,
        /// Its number; the one before the newest by default
        #[arg(long, value_name = "N")]
        to: Option<i64>,
    },
}

/// What a function is to be like; what is not given stays as it is.
#[derive(Debug, Args)]
pub struct Changes {
    /// The code: a file, a folder, or a zip archive
    #[arg(long, value_name = "FILE|DIR|ZIP", conflicts_with = "image")]
    from: Option<PathBuf>,
    /// The language; by default that of the file
    #[arg(long, value_name = "NAME")]
    runtime: Option<String>,
    /// A container image that listens on $PORT, instead of code
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// MODULE.FUNCTION; found by itself where it has a usual name
    #[arg(long, value_name = "MODULE.FUNCTION")]
    handler: Option<String>,
    /// A variable of the instances; NAME- takes it away
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A claim that instances see at a path; CLAIM- takes it away
    #[arg(long, value_name = "CLAIM=PATH[:ro]")]
    volume: Vec<String>,
    /// Requests that an instance handles at once
    #[arg(long, value_name = "N")]
    concurrency: Option<i32>,
    /// Instances at least
    #[arg(long, value_name = "N")]
    min: Option<i32>,
    /// Instances at least while there are requests
    #[arg(long, value_name = "N")]
    min_active: Option<i32>,
    /// Instances at most
    #[arg(long, value_name = "N")]
    max: Option<i32>,
    /// Seconds without a request after which the last instance ends
    #[arg(long, value_name = "N")]
    idle_seconds: Option<i32>,
    /// Seconds that a request may take
    #[arg(long, value_name = "N")]
    timeout_seconds: Option<i32>,
    /// The part of the requests that an older revision gets, the newest getting the rest; `newest` for all
    #[arg(long, value_name = "REVISION=PERCENT|newest")]
    traffic: Vec<String>,
    /// Do not wait until it answers
    #[arg(long)]
    no_wait: bool,
}

#[derive(Debug, Args)]
pub struct InvokeFlags {
    #[arg(value_name = "NAME")]
    name: String,
    /// The body of the request, or @FILE
    #[arg(short = 'd', long, value_name = "JSON|@FILE", conflicts_with = "params")]
    data: Option<String>,
    /// A YAML or JSON file with the parameters
    #[arg(short = 'f', long, value_name = "FILE")]
    params: Option<PathBuf>,
    /// The router to ask, e.g. http://10.0.0.1; that of a ready node by default
    #[arg(long, value_name = "URL")]
    router: Option<String>,
    /// Do not wait for the result: print the id of the call, for `function result`
    #[arg(long = "async")]
    detached: bool,
    /// Also say how long it took, by which pod, and whether that had to be started (cold)
    #[arg(long)]
    timing: bool,
}

#[derive(Debug, Args)]
pub struct DevFlags {
    /// The code: a file or a folder
    #[arg(value_name = "FILE|DIR")]
    from: PathBuf,
    /// The language; by default that of the file
    #[arg(long, value_name = "NAME")]
    runtime: Option<String>,
    /// MODULE.FUNCTION; found by itself where it has a usual name
    #[arg(long, value_name = "MODULE.FUNCTION")]
    handler: Option<String>,
    /// A variable of the function
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Where to listen
    #[arg(long, value_name = "N", default_value_t = 8080)]
    port: u16,
}

pub async fn run(command: FunctionCommand, global: &GlobalFlags) -> anyhow::Result<()> {
    if let FunctionCommand::Dev(flags) = command {
        return dev::run(&flags).await;
    }
    let (client, namespace) = kubeconfig::client(global).await?;
    let functions: Api<Function> = Api::namespaced(client.clone(), &namespace);
    match command {
        FunctionCommand::Create { name, changes } => {
            write::create(&client, &namespace, &name, &changes).await
        }
        FunctionCommand::Update { name, changes } => {
            write::update(&client, &namespace, &name, &changes).await
        }
        FunctionCommand::Delete { names } => {
            for name in names {
                let deleted = functions.delete(&name, &DeleteParams::default()).await;
                deleted.with_context(|| format!("cannot delete function {name}"))?;
                output::line(format_args!("function {name} deleted"))?;
            }
            Ok(())
        }
        FunctionCommand::List => show::list(&functions, &namespace).await,
        FunctionCommand::Describe { name } => show::describe(&client, &namespace, &name).await,
        FunctionCommand::Calls { name } => calls::run(&client, &namespace, &name).await,
        FunctionCommand::Logs { name, follow, tail } => {
            logs::run(&client, &namespace, &name, follow, tail).await
        }
        FunctionCommand::Invoke(flags) => invoke::run(&client, &namespace, flags).await,
        FunctionCommand::Result { id, wait } => result::run(&client, &namespace, &id, wait).await,
        FunctionCommand::Dev(_) => Ok(()),
        FunctionCommand::Rollback { name, to } => write::rollback(&client, &namespace, &name, to).await,
    }
}

/// The function, or an error that names it.
async fn get(functions: &Api<Function>, namespace: &str, name: &str) -> anyhow::Result<Function> {
    let found = functions.get_opt(name).await.with_context(|| format!("cannot read function {name}"))?;
    found.with_context(|| {
        format!("there is no function {name} in namespace {namespace}; see `minik8s function list`")
    })
}
