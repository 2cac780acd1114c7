//! `events`: what happened, in the order in which it happened.

use clap::Args;
use serde_json::Value;

use super::event_list::{last_time, seen};
use crate::client::Call;
use crate::error::{Error, Result};
use crate::flags::OutputFlag;
use crate::output;
use crate::print::table::{Style, plain};
use crate::print::{self, Form};
use crate::session::Session;
use crate::watch;

/// Show what happened
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s events
  minik8s events --for pod/web --watch
  minik8s events -A --types=Warning")]
pub struct Events {
    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Only of this object: TYPE/NAME
    #[arg(long = "for", value_name = "TYPE/NAME")]
    about: Option<String>,
    /// Only of these types: Normal, Warning
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,
    /// Go on as more happens
    #[arg(short, long)]
    watch: bool,
    /// Leave the heading out
    #[arg(long)]
    no_headers: bool,
    /// Accepted for compatibility with kubectl
    #[arg(long, hide = true)]
    chunk_size: Option<usize>,
    #[command(flatten)]
    output: OutputFlag,
}

pub async fn run(session: &Session, verb: Events) -> Result<()> {
    let namespace = session.namespace().await?;
    let path = match verb.all_namespaces {
        true => "/api/v1/events".to_owned(),
        false => format!("/api/v1/namespaces/{namespace}/events"),
    };
    let mut call = Call::get(path);
    if let Some(about) = &verb.about {
        let (kind, name) =
            about.split_once('/').ok_or_else(|| Error::plain("--for must be in resource/name form"))?;
        let kind = session.kind(kind).await?.kind;
        call = call.query("fieldSelector", format!("involvedObject.kind={kind},involvedObject.name={name}"));
    }
    let form = Form::parse(&verb.output)?;
    let client = session.client().await?;
    let list = client.send(call.clone()).await?;
    let wanted = |event: &Value| {
        verb.types.is_empty()
            || verb
                .types
                .iter()
                .any(|kind| event["type"].as_str().is_some_and(|own| own.eq_ignore_ascii_case(kind)))
    };
    let mut events: Vec<Value> =
        print::members(&list).iter().filter(|event| wanted(event)).cloned().collect();
    events.sort_by_key(last_time);
    if !form.is_table() {
        output::text(print::render(&form, &print::list(events), verb.output.show_managed_fields)?);
        return Ok(());
    }
    if events.is_empty() && !verb.watch {
        match verb.all_namespaces {
            true => eprintln!("No events found."),
            false => eprintln!("No events found in {namespace} namespace."),
        }
        return Ok(());
    }
    show(&verb, &events, verb.no_headers);
    if !verb.watch {
        return Ok(());
    }
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let mut watch = watch::open(client, call.query("resourceVersion", version)).await?;
    while let Some(event) = watch.next().await? {
        if matches!(event.kind.as_str(), "ADDED" | "MODIFIED") && wanted(&event.object) {
            show(&verb, &[event.object], true);
        }
    }
    Ok(())
}

fn show(verb: &Events, events: &[Value], no_headers: bool) {
    let mut columns = vec!["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"];
    if verb.all_namespaces {
        columns.insert(0, "NAMESPACE");
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().trim().replace('\n', " ");
    let row = |event: &Value| {
        let about = &event["involvedObject"];
        let object = format!("{}/{}", text(&about["kind"]), text(&about["name"]));
        let mut row =
            vec![seen(event), text(&event["type"]), text(&event["reason"]), object, text(&event["message"])];
        if verb.all_namespaces {
            row.insert(0, text(&event["metadata"]["namespace"]));
        }
        row
    };
    let style = Style { no_headers, ..Style::default() };
    output::text(plain(&columns, events.iter().map(row)).render(&style));
}
