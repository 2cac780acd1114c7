//! `describe`: an object told at length, with what belongs to it and its events in time order.
//!
//! Kinds with a text of their own are listed in [`kinds::writer`]; all others get the generic one.

mod generic;
mod kinds;
mod page;

use clap::Args;
use serde_json::Value;

use super::event_list;
use crate::error::{Error, Result};
use crate::flags::TargetFlags;
use crate::output;
use crate::print::tabs;
use crate::select::{self, Filter, Target, Want};
use crate::session::Session;
use page::Page;

pub use kinds::template;

/// Tell all about objects
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s describe pod web
  minik8s describe pods -l app=web
  minik8s describe node/n1")]
pub struct Describe {
    #[command(flatten)]
    targets: TargetFlags,
    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// With the object's events
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true",
          action = clap::ArgAction::Set)]
    show_events: bool,
    /// Accepted for compatibility with kubectl
    #[arg(long, hide = true)]
    chunk_size: Option<usize>,
}

pub async fn run(session: &Session, verb: Describe) -> Result<()> {
    let filter = Filter { all_namespaces: verb.all_namespaces, ..verb.targets.filter() };
    let (mut found, mut errors) = select::find(session, &verb.targets.words, &filter).await?;
    if found.is_empty() && errors.iter().all(Error::is_not_found) {
        (found, errors) = by_prefix(session, &verb, errors).await?;
    }
    for (i, target) in found.iter().enumerate() {
        let text = describe(session, target, verb.show_events).await?;
        output::text(if i == 0 { text } else { format!("\n\n{text}") });
    }
    if found.is_empty() && errors.is_empty() {
        let namespace = session.namespace().await?;
        eprintln!("No resources found in {namespace} namespace.");
    }
    Error::from_all(errors)
}

/// A name that does not exist may be the beginning of others: `describe pod web` for `web-6f7c`.
async fn by_prefix(
    session: &Session,
    verb: &Describe,
    errors: Vec<Error>,
) -> Result<(Vec<Target>, Vec<Error>)> {
    if verb.targets.files.is_set() {
        return Ok((Vec::new(), errors));
    }
    let mut found = Vec::new();
    for want in select::wants(session, &verb.targets.words).await? {
        if let Want::Object { kind, name } = want {
            let all = select::list(session, &kind, &Filter::default()).await?;
            let begins = |object: &Value| {
                object["metadata"]["name"].as_str().is_some_and(|own| own.starts_with(&name))
            };
            found.extend(all.into_iter().filter(begins).map(|object| Target::new(kind.clone(), object)));
        }
    }
    let errors = if found.is_empty() { errors } else { Vec::new() };
    Ok((found, errors))
}

/// The whole text of one object.
pub async fn describe(session: &Session, target: &Target, show_events: bool) -> Result<String> {
    let mut page = Page::default();
    let has_events = match kinds::writer(&target.kind.group, &target.kind.kind) {
        Some(write) => write(session, target, &mut page).await?,
        None => {
            generic::write(&target.object, &mut page);
            true
        }
    };
    if show_events && has_events {
        // Who may see the object need not be allowed to see events.
        let events = event_list::of_object(session, &target.object).await.unwrap_or_default();
        page.events(&events);
    }
    Ok(tabs::align(&page.into_text(), tabs::DESCRIPTION))
}
