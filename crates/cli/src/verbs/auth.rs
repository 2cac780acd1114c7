//! `auth`: what one may do, and who one is.

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use super::{reconcile, rules};
use crate::client::Call;
use crate::error::{Error, Result};
use crate::flags::{DryRunFlag, FileFlags, OutputFlag};
use crate::output;
use crate::print::table::{Style, plain};
use crate::print::{Form, render, tabs};
use crate::session::Session;

/// Ask what is allowed, and as whom
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of them, for one command")]
pub enum Auth {
    /// Ask whether something is allowed
    #[command(after_help = "Examples:
  minik8s auth can-i create pods
  minik8s auth can-i list secrets --as=bob -n team-a
  minik8s auth can-i --list")]
    CanI(CanI),
    /// Show as whom the server knows you
    #[command(after_help = "Example: minik8s auth whoami")]
    Whoami(WhoAmI),
    /// Add the roles and bindings of files to what is there
    #[command(after_help = "Example: minik8s auth reconcile -f roles.yaml")]
    Reconcile(Reconcile),
}

#[derive(Debug, Args)]
pub struct Reconcile {
    #[command(flatten)]
    files: FileFlags,
    #[command(flatten)]
    dry_run: DryRunFlag,
}

#[derive(Debug, Args)]
pub struct CanI {
    /// The verb: get, list, create, ...
    verb: Option<String>,
    /// The resource, TYPE or TYPE/NAME, or a path that begins with /
    what: Option<String>,
    /// A name, where it does not stand after the type
    name: Option<String>,
    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// A subresource, such as log
    #[arg(long, value_name = "NAME")]
    subresource: Option<String>,
    /// Say nothing; the exit code tells
    #[arg(short, long)]
    quiet: bool,
    /// List everything that is allowed
    #[arg(long)]
    list: bool,
    /// Leave the heading of the list out
    #[arg(long)]
    no_headers: bool,
}

#[derive(Debug, Args)]
pub struct WhoAmI {
    #[command(flatten)]
    output: OutputFlag,
}

pub async fn run(session: &Session, verb: Auth) -> Result<()> {
    match verb {
        Auth::CanI(flags) if flags.list => list(session, &flags).await,
        Auth::CanI(flags) => can_i(session, &flags).await,
        Auth::Whoami(flags) => who_am_i(session, &flags).await,
        Auth::Reconcile(flags) => reconcile::run(session, &flags.files, flags.dry_run.dry_run).await,
    }
}

async fn review(session: &Session, kind: &str, plural: &str, spec: Value) -> Result<Value> {
    let (group, version) = match kind {
        "SelfSubjectReview" => ("authentication.k8s.io", "v1"),
        _ => ("authorization.k8s.io", "v1"),
    };
    let mut body = json!({"apiVersion": format!("{group}/{version}"), "kind": kind});
    if !spec.is_null() {
        body["spec"] = spec;
    }
    let path = format!("/apis/{group}/{version}/{plural}");
    session.client().await?.send(Call::new(Method::POST, path).json(&body)).await
}

async fn can_i(session: &Session, flags: &CanI) -> Result<()> {
    let (Some(verb), Some(what)) = (&flags.verb, &flags.what) else {
        return Err(Error::plain(
            "you must specify two arguments: verb resource or verb resource/resourceName.\nSee 'minik8s auth can-i -h' for help and examples.",
        ));
    };
    let spec = if what.starts_with('/') {
        json!({"nonResourceAttributes": {"verb": verb, "path": what}})
    } else {
        json!({"resourceAttributes": attributes(session, flags, verb, what).await?})
    };
    let answer = review(session, "SelfSubjectAccessReview", "selfsubjectaccessreviews", spec).await?;
    let status = &answer["status"];
    let allowed = status["allowed"] == true;
    if !flags.quiet {
        let mut text = if allowed { "yes".to_owned() } else { "no".to_owned() };
        if let Some(reason) = status["reason"].as_str().filter(|reason| !reason.is_empty() && !allowed) {
            text = format!("{text} - {reason}");
        }
        output::line(text);
    }
    if allowed { Ok(()) } else { Err(Error::Exit(1)) }
}

async fn attributes(session: &Session, flags: &CanI, verb: &str, what: &str) -> Result<Value> {
    let (word, name) = what.split_once('/').unwrap_or((what, ""));
    let name = if name.is_empty() { flags.name.as_deref().unwrap_or_default() } else { name };
    let (group, resource, namespaced) = match session.kind(word).await {
        Ok(kind) => (kind.group, kind.plural, kind.namespaced),
        Err(_) if word == "*" => ("*".to_owned(), word.to_owned(), true),
        Err(_) => {
            eprintln!("Warning: the server doesn't have a resource type '{word}'\n");
            let (resource, group) = word.split_once('.').unwrap_or((word, ""));
            (group.to_owned(), resource.to_owned(), true)
        }
    };
    if !namespaced && !flags.all_namespaces {
        eprintln!("Warning: resource '{resource}' is not namespace scoped{}\n", in_group(&group));
    }
    let mut attributes = json!({"verb": verb, "group": group, "resource": resource});
    if !flags.all_namespaces {
        attributes["namespace"] = session.namespace().await?.into();
    }
    if !name.is_empty() {
        attributes["name"] = name.into();
    }
    if let Some(subresource) = &flags.subresource {
        attributes["subresource"] = subresource.clone().into();
    }
    Ok(attributes)
}

fn in_group(group: &str) -> String {
    if group.is_empty() { String::new() } else { format!(" in group '{group}'") }
}

async fn list(session: &Session, flags: &CanI) -> Result<()> {
    let spec = json!({"namespace": session.namespace().await?});
    let answer = review(session, "SelfSubjectRulesReview", "selfsubjectrulesreviews", spec).await?;
    let of = |field: &str| answer["status"][field].as_array().into_iter().flatten();
    let rows = rules::rows(of("resourceRules").chain(of("nonResourceRules")));
    let mut text = String::new();
    if !flags.no_headers {
        text.push_str(&(rules::COLUMNS.join("\t") + "\n"));
    }
    for row in rows {
        text.push_str(&(row.join("\t") + "\n"));
    }
    output::text(tabs::align(&text, tabs::TABLE));
    Ok(())
}

async fn who_am_i(session: &Session, flags: &WhoAmI) -> Result<()> {
    let answer = review(session, "SelfSubjectReview", "selfsubjectreviews", Value::Null).await?;
    let form = Form::parse(&flags.output)?;
    if !form.is_table() {
        output::text(render(&form, &answer, true)?);
        return Ok(());
    }
    let user = &answer["status"]["userInfo"];
    let joined = |value: &Value| {
        let words: Vec<&str> = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        format!("[{}]", words.join(" "))
    };
    let mut rows =
        vec![vec!["Username".to_owned(), user["username"].as_str().unwrap_or_default().to_owned()]];
    if let Some(uid) = user["uid"].as_str().filter(|uid| !uid.is_empty()) {
        rows.push(vec!["UID".to_owned(), uid.to_owned()]);
    }
    rows.push(vec!["Groups".to_owned(), joined(&user["groups"])]);
    for (key, values) in user["extra"].as_object().into_iter().flatten() {
        rows.push(vec![format!("Extra: {key}"), joined(values)]);
    }
    output::text(plain(&["ATTRIBUTE", "VALUE"], rows).render(&Style::default()));
    Ok(())
}
