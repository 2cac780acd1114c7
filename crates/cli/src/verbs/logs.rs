//! `logs`: of one container, of several, of several pods, as they come; and searched across all of them.

mod ended;
mod filter;
mod remote;
mod search;

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use futures::io::AsyncBufReadExt;
use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::Value;

use super::pod_target;
use crate::client::Call;
use crate::error::{Error, Result};
use crate::flags::{SelectorFlags, duration};
use crate::output;
use crate::session::Session;

/// Colours of the prefixes on a terminal.
const COLOURS: [u8; 6] = [36, 33, 32, 35, 34, 31];

/// Show what containers print
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s logs web
  minik8s logs -f deploy/web
  minik8s logs -l app=web --all-containers --tail=20
  minik8s logs web -c app --previous
  minik8s logs -l app=web --since 1h --grep 'timeout|refused'
  minik8s logs -l app=web -f --where level=error
  minik8s logs -A --until 10m --grep panic")]
pub struct Logs {
    /// POD or TYPE/NAME, and the container's name
    #[arg(value_name = "POD")]
    words: Vec<String>,
    /// The container
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// Of all containers
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true",
          action = clap::ArgAction::Set)]
    all_containers: bool,
    /// Of all pods of the workload
    #[arg(long)]
    all_pods: bool,
    /// Go on as more is printed
    #[arg(short, long)]
    follow: bool,
    /// Of the container's last life
    #[arg(short, long)]
    previous: bool,
    /// Only the last lines; -1 for all
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    tail: Option<i64>,
    /// Only what is newer than this
    #[arg(long, value_name = "TIME", value_parser = duration)]
    since: Option<Duration>,
    /// Only what is newer than this moment, e.g. 2026-01-31T12:00:00Z
    #[arg(long, value_name = "MOMENT")]
    since_time: Option<String>,
    /// Only the first bytes
    #[arg(long, value_name = "N")]
    limit_bytes: Option<u64>,
    /// Put the time before each line
    #[arg(long)]
    timestamps: bool,
    /// Put the pod and container before each line; on by itself where there are several, but not as kubectl
    #[arg(long)]
    prefix: bool,
    /// Do not stop at the first container whose logs cannot be had
    #[arg(long)]
    ignore_errors: bool,
    /// How many containers may be followed at once
    #[arg(long, value_name = "N", default_value_t = 5)]
    max_log_requests: usize,
    /// Only what is older than this, or than this moment; lines of several containers are merged by their time
    #[arg(long, value_name = "TIME|MOMENT")]
    until: Option<String>,
    /// Only lines in which this regular expression is found; merged likewise
    #[arg(long, value_name = "REGEX")]
    grep: Option<String>,
    /// Only lines that are JSON with this field, as level=error or http.code!=200; merged likewise
    #[arg(long = "where", value_name = "FIELD=VALUE")]
    fields: Vec<String>,
    /// Also of pods that are gone, where nodes keep them (--log-retention); needs nodes/proxy without --grep or --where
    #[arg(long)]
    ended: bool,
    /// Of pods of all namespaces; merged likewise
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    #[command(flatten)]
    selectors: SelectorFlags,
    /// Accepted for compatibility with kubectl
    #[arg(long, hide = true, value_parser = duration)]
    pod_running_timeout: Option<Duration>,
    /// Accepted for compatibility with kubectl
    #[arg(long, hide = true)]
    insecure_skip_tls_verify_backend: bool,
}

struct Source {
    call: Call,
    prefix: String,
}

pub async fn run(session: &Session, verb: Logs) -> Result<()> {
    let has_filter = verb.until.is_some() || verb.grep.is_some() || !verb.fields.is_empty();
    if has_filter || verb.all_namespaces || verb.ended {
        // Bad words are told before anybody is asked.
        let filter = filter::Filter::new(
            verb.until.as_deref(),
            verb.grep.as_deref(),
            &verb.fields,
            jiff::Timestamp::now(),
        )?;
        let pods = pods(session, &verb).await?;
        return search::run(session, &verb, &pods, &filter).await;
    }
    let pods = pods(session, &verb).await?;
    let sources = sources(session, &verb, &pods)?;
    if verb.follow && sources.len() > verb.max_log_requests {
        return Err(Error::plain(format!(
            "you are attempting to follow {} log streams, but maximum allowed concurrency is {}, use \
             --max-log-requests to increase the limit",
            sources.len(),
            verb.max_log_requests
        )));
    }
    if !verb.follow {
        for source in &sources {
            forgiven(show(session, source).await, &verb)?;
        }
        return Ok(());
    }
    let mut streams: FuturesUnordered<_> = sources.iter().map(|source| show(session, source)).collect();
    while let Some(ended) = streams.next().await {
        forgiven(ended, &verb)?;
    }
    Ok(())
}

fn forgiven(ended: Result<()>, verb: &Logs) -> Result<()> {
    match ended {
        Err(error) if verb.ignore_errors => {
            error.tell();
            Ok(())
        }
        ended => ended,
    }
}

async fn pods(session: &Session, verb: &Logs) -> Result<Vec<Value>> {
    if let Some(name) = verb.words.first().filter(|_| verb.ended) {
        // It may be gone, or both: one that is there now and others of that name before it.
        let call = Call::get(format!("/api/v1/namespaces/{}/pods", session.namespace().await?));
        let call = call.query("fieldSelector", format!("metadata.name={}", ended::plain_name(name)));
        return Ok(crate::print::members(&session.client().await?.send(call).await?).to_vec());
    }
    if verb.selectors.selector.is_some() || verb.all_namespaces {
        if !verb.words.is_empty() {
            return Err(Error::plain("only a selector (-l) or a POD name is allowed"));
        }
        let list = session.client().await?.send(list_call(session, verb).await?).await?;
        let pods = crate::print::members(&list).to_vec();
        if pods.is_empty() && !verb.all_namespaces {
            eprintln!("No resources found in {} namespace.", session.namespace().await?);
        }
        return Ok(pods);
    }
    let Some(word) = verb.words.first() else {
        return Err(Error::plain(
            "expected 'logs [-f] [-p] (POD | TYPE/NAME) [-c CONTAINER]'; name a pod or give -l SELECTOR",
        ));
    };
    let target = match pod_target::named(session, word).await {
        Err(Error::Server(server)) if server.code == 404 => {
            let namespace = session.namespace().await?;
            return Err(Error::plain(format!(
                "error from server (NotFound): {} in namespace {namespace:?}",
                server.message
            )));
        }
        target => target?,
    };
    if target.kind.plural == "pods" {
        return Ok(vec![target.object]);
    }
    let mut pods = pod_target::pods(session, &target).await?;
    pods.sort_by_key(|pod| pod["metadata"]["creationTimestamp"].to_string());
    if pods.is_empty() {
        return Err(Error::plain(format!("{} has no pods", target.shown())));
    }
    if !verb.all_pods {
        if pods.len() > 1 {
            let name = pods[0]["metadata"]["name"].as_str().unwrap_or_default();
            eprintln!("Found {} pods, using pod/{name}", pods.len());
        }
        pods.truncate(1);
    }
    Ok(pods)
}

/// The pods that are selected.
async fn list_call(session: &Session, verb: &Logs) -> Result<Call> {
    let path = match verb.all_namespaces {
        true => "/api/v1/pods".to_owned(),
        false => format!("/api/v1/namespaces/{}/pods", session.namespace().await?),
    };
    Ok(Call::get(path)
        .maybe("labelSelector", verb.selectors.selector.as_deref())
        .maybe("fieldSelector", verb.selectors.field_selector.as_deref()))
}

/// The container that is meant, in the words that kubectl has for logs.
fn container(session: &Session, verb: &Logs, pod: &Value) -> Result<String> {
    let asked = verb.container.as_deref().or(verb.words.get(1).map(String::as_str));
    let all = pod_target::containers(pod);
    match asked.filter(|asked| !all.iter().any(|known| known == asked)) {
        Some(asked) => Err(Error::plain(format!(
            "container {asked} is not valid for pod {}{}",
            pod["metadata"]["name"].as_str().unwrap_or_default(),
            pod_target::the_others(session, &all)
        ))),
        None => {
            let is_one_of_many = verb.selectors.selector.is_some() || verb.all_namespaces;
            pod_target::container(session, pod, asked, is_one_of_many)
        }
    }
}

fn sources(session: &Session, verb: &Logs, pods: &[Value]) -> Result<Vec<Source>> {
    let mut chosen: Vec<(&Value, String)> = Vec::new();
    for pod in pods {
        let names = match verb.all_containers {
            true => pod_target::containers(pod),
            false => vec![container(session, verb, pod)?],
        };
        chosen.extend(names.into_iter().map(|name| (pod, name)));
    }
    let several = chosen.len() > 1;
    let prefixed = verb.prefix || (several && !session.as_kubectl);
    // Of many pods people want to see the end, as kubectl has it.
    let tail = verb.tail.or((verb.selectors.selector.is_some()).then_some(10)).filter(|tail| *tail >= 0);
    let source = |(i, (pod, container)): (usize, (&Value, String))| {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
        let path = format!("/api/v1/namespaces/{}/pods/{}/log", text("namespace"), text("name"));
        let call = Call::get(path)
            .query("container", container.as_str())
            .maybe("follow", verb.follow.then_some("true"))
            .maybe("previous", verb.previous.then_some("true"))
            .maybe("timestamps", verb.timestamps.then_some("true"))
            .maybe("tailLines", tail.map(|tail| tail.to_string()))
            .maybe("sinceSeconds", verb.since.map(|since| since.as_secs_f64().ceil().to_string()))
            .maybe("sinceTime", verb.since_time.clone())
            .maybe("limitBytes", verb.limit_bytes.map(|limit| limit.to_string()))
            .accept("*/*");
        let prefix = match prefixed {
            true => coloured(&format!("[pod/{}/{container}]", text("name")), i),
            false => String::new(),
        };
        Source { call, prefix }
    };
    Ok(chosen.into_iter().enumerate().map(source).collect())
}

fn coloured(prefix: &str, i: usize) -> String {
    match std::io::stdout().is_terminal() {
        true => format!("\u{1b}[{}m{prefix}\u{1b}[0m ", COLOURS[i % COLOURS.len()]),
        false => format!("{prefix} "),
    }
}

/// Line by line, so that those of several containers do not mix.
async fn show(session: &Session, source: &Source) -> Result<()> {
    let mut stream = session.client().await?.stream(source.call.clone()).await?;
    let mut line = Vec::new();
    loop {
        line.clear();
        if stream.read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        if !source.prefix.is_empty() {
            line.splice(0..0, source.prefix.bytes());
        }
        output::bytes(&line);
    }
}
