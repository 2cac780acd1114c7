//! `exec` and `attach`.

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::pod_target;
use crate::client::Call;
use crate::error::{Error, Result};
use crate::flags::duration;
use crate::session::Session;
use crate::stream::{Ends, RawMode, carry};

/// Run a command in a container
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s exec web -- date
  minik8s exec -it deploy/web -- sh
  minik8s exec web -c side -- cat /etc/hosts")]
pub struct Exec {
    #[command(flatten)]
    whom: Whom,
    /// The command
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Connect to what runs in a container
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s attach web
  minik8s attach -it web -c shell")]
pub struct Attach {
    #[command(flatten)]
    whom: Whom,
}

#[derive(Debug, Args)]
struct Whom {
    /// POD or TYPE/NAME; what follows is the command where no -- stands before it
    #[arg(value_name = "POD", required = true)]
    words: Vec<String>,
    /// The container; the pod's first by default
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// Pass standard input to it
    #[arg(short = 'i', long)]
    stdin: bool,
    /// Standard input is a terminal
    #[arg(short = 't', long)]
    tty: bool,
    /// Say less
    #[arg(short, long)]
    quiet: bool,
    /// How long to wait for a running pod
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration)]
    pod_running_timeout: Duration,
}

pub async fn exec(session: &Session, verb: Exec) -> Result<()> {
    let mut command: Vec<String> = verb.whom.words[1..].to_vec();
    command.extend(verb.command);
    if command.is_empty() {
        return Err(Error::plain("you must specify at least one command for the container"));
    }
    let pod = pod(session, &verb.whom, "exec into").await?;
    let container = pod_target::container(session, &pod, verb.whom.container.as_deref(), verb.whom.quiet)?;
    let io = Io { stdin: verb.whom.stdin, tty: verb.whom.tty };
    ended(run(session, &pod, &container, "exec", io, &command).await?)
}

pub async fn attach(session: &Session, verb: Attach) -> Result<()> {
    if verb.whom.words.len() != 1 {
        return Err(Error::plain(
            "expected POD, TYPE/NAME, or TYPE NAME argument of attach; see 'minik8s attach -h'",
        ));
    }
    let pod = pod(session, &verb.whom, "attach").await?;
    let container = pod_target::container(session, &pod, verb.whom.container.as_deref(), verb.whom.quiet)?;
    let io = Io { stdin: verb.whom.stdin, tty: verb.whom.tty };
    if io.stdin && io.tty && !verb.whom.quiet {
        eprintln!("If you don't see a command prompt, try pressing enter.");
    }
    ended(run(session, &pod, &container, "attach", io, &[]).await?)
}

/// The pod, which must not be over; `doing` is what cannot be done then.
async fn pod(session: &Session, whom: &Whom, doing: &str) -> Result<Value> {
    let target = pod_target::named(session, &whom.words[0]).await?;
    let pod = pod_target::one_pod(session, &target, whom.pod_running_timeout).await?;
    if let Some(phase @ ("Succeeded" | "Failed")) = pod["status"]["phase"].as_str() {
        return Err(Error::plain(format!(
            "cannot {doing} a container in a completed pod; current phase is {phase}"
        )));
    }
    Ok(pod)
}

/// What of this side is passed on.
#[derive(Debug, Clone, Copy)]
pub struct Io {
    pub stdin: bool,
    pub tty: bool,
}

/// Connects this program's streams with a container's. Gives the exit code.
pub async fn run(
    session: &Session,
    pod: &Value,
    container: &str,
    how: &str,
    io: Io,
    command: &[String],
) -> Result<u8> {
    let tty = io.tty && std::io::stdin().is_terminal();
    if io.tty && !tty {
        eprintln!("Unable to use a TTY - input is not a terminal or the right kind of file");
    }
    let call = call(pod, container, how, Io { tty, ..io }, command);
    let connection = session.client().await?.connect(call).await?;
    let _raw = (tty && io.stdin).then(RawMode::enter);
    let ends = Ends {
        input: io.stdin.then(tokio::io::stdin),
        output: tokio::io::stdout(),
        errors: tokio::io::stderr(),
        terminal: tty,
    };
    carry(connection, ends).await
}

/// The request for a container's streams.
pub fn call(pod: &Value, container: &str, how: &str, io: Io, command: &[String]) -> Call {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
    let path = format!("/api/v1/namespaces/{}/pods/{}/{how}", text("namespace"), text("name"));
    let mut call = Call::get(path)
        .query("container", container)
        .query("stdin", io.stdin.to_string())
        .query("stdout", "true")
        .query("stderr", (!io.tty).to_string())
        .query("tty", io.tty.to_string());
    for word in command {
        call = call.query("command", word.clone());
    }
    call
}

/// A command that failed has said why; its code is ours.
pub fn ended(code: u8) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    eprintln!("command terminated with exit code {code}");
    Err(Error::Exit(code))
}
