//! `tree`: an object with everything that it owns, down to the pods, each with its state. What owns what is read from
//! owner references alone, so custom kinds are shown like any other.

use std::collections::HashMap;
use std::fmt::Write;

use clap::Args;
use futures::future::join_all;
use serde_json::Value;

use crate::client::{AS_TABLE, Call};
use crate::discovery::Kind;
use crate::error::Result;
use crate::output;
use crate::select;
use crate::session::Session;

/// Show an object and everything that it owns
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s tree deployment/web
  minik8s tree cronjob/backup -n ops")]
pub struct Tree {
    /// TYPE/NAME or TYPE NAME
    #[arg(required = true, value_name = "WHAT")]
    words: Vec<String>,
}

/// A row of a table, as far as the tree needs it.
#[derive(Debug, Clone, PartialEq)]
struct Relative {
    uid: String,
    owners: Vec<String>,
    /// `Pod/web-1`.
    shown: String,
    state: String,
}

pub async fn run(session: &Session, verb: Tree) -> Result<()> {
    let target = select::find_one(session, &verb.words, None).await?;
    let namespace = target.namespace.as_deref();
    let discovery = session.discovery().await?;
    let kinds: Vec<&Kind> = discovery
        .preferred()
        .into_iter()
        .filter(|kind| kind.can("list") && (namespace.is_none() || kind.namespaced) && kind.kind != "Event")
        .collect();
    let client = session.client().await?;
    let tables = join_all(kinds.iter().map(|kind| async move {
        // A kind that this user may not list is not shown.
        let table = client.send(Call::get(kind.path(namespace, None)).accept(AS_TABLE)).await;
        table.map(|table| relatives(kind, &table)).unwrap_or_default()
    }));
    let all: Vec<Relative> = tables.await.into_iter().flatten().collect();
    let uid = target.object["metadata"]["uid"].as_str().unwrap_or_default();
    output::text(draw(uid, &format!("{}/{}", target.kind.kind, target.name), &all));
    Ok(())
}

fn relatives(kind: &Kind, table: &Value) -> Vec<Relative> {
    let rows = table["rows"].as_array().into_iter().flatten();
    rows.map(|row| {
        let metadata = &row["object"]["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        Relative {
            uid: text(&metadata["uid"]),
            owners: owners.map(|owner| text(&owner["uid"])).collect(),
            shown: format!("{}/{}", kind.kind, text(&metadata["name"])),
            state: state(table, row),
        }
    })
    .collect()
}

/// `2/3 ready`, `Running`, or nothing: what the table says of it.
fn state(table: &Value, row: &Value) -> String {
    let columns = table["columnDefinitions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let cell = |name: &str| -> Option<String> {
        let at = columns.iter().position(|column| column["name"] == name)?;
        match &row["cells"][at] {
            Value::String(text) => Some(text.clone()),
            Value::Null => None,
            other => Some(other.to_string()),
        }
    };
    if let Some(status) = cell("Status") {
        return status;
    }
    match (cell("Ready"), cell("Desired").or_else(|| cell("Completions"))) {
        (Some(ready), Some(desired)) => format!("{ready}/{desired} ready"),
        (Some(ready), None) => format!("{ready} ready"),
        (None, Some(completions)) => format!("{completions} complete"),
        (None, None) => String::new(),
    }
}

/// The tree below one object. Pure.
fn draw(uid: &str, shown: &str, all: &[Relative]) -> String {
    let mut children: HashMap<&str, Vec<&Relative>> = HashMap::new();
    for one in all {
        for owner in &one.owners {
            children.entry(owner).or_default().push(one);
        }
    }
    let own = all.iter().find(|one| one.uid == uid).map(|one| one.state.as_str()).unwrap_or_default();
    let mut lines = vec![(shown.to_owned(), own.to_owned())];
    add(uid, "", &children, &mut lines, 0);
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    let mut text = String::new();
    for (name, state) in lines {
        let _ = writeln!(text, "{}", format!("{name:width$}   {state}").trim_end());
    }
    text
}

/// Owners that own each other would go round for ever.
const DEEPEST: usize = 16;

fn add(
    uid: &str,
    before: &str,
    children: &HashMap<&str, Vec<&Relative>>,
    lines: &mut Vec<(String, String)>,
    depth: usize,
) {
    let Some(below) = children.get(uid).filter(|_| depth < DEEPEST) else { return };
    for (i, child) in below.iter().enumerate() {
        let is_last = i + 1 == below.len();
        let (branch, rest) = if is_last { ("└─", "  ") } else { ("├─", "│ ") };
        lines.push((format!("{before}{branch}{}", child.shown), child.state.clone()));
        add(&child.uid, &format!("{before}{rest}"), children, lines, depth + 1);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(uid: &str, owner: &str, shown: &str, state: &str) -> Relative {
        let owners = Some(owner.to_owned()).filter(|owner| !owner.is_empty()).into_iter().collect();
        Relative { uid: uid.into(), owners, shown: shown.into(), state: state.into() }
    }

    #[test]
    fn tree_of_a_deployment() {
        let all = [
            one("d", "", "Deployment/web", "1/2 ready"),
            one("r", "d", "ReplicaSet/web-1", "1/2 ready"),
            one("p", "r", "Pod/web-1-a", "Running"),
            one("q", "r", "Pod/web-1-b", "Pending"),
            one("x", "", "Pod/other", "Running"),
        ];
        let expected = "\
Deployment/web       1/2 ready
└─ReplicaSet/web-1   1/2 ready
  ├─Pod/web-1-a      Running
  └─Pod/web-1-b      Pending
";
        assert_eq!(draw("d", "Deployment/web", &all), expected);
    }

    #[test]
    fn owners_in_a_circle_end() {
        let all = [one("a", "b", "A/a", ""), one("b", "a", "B/b", "")];
        assert!(draw("a", "A/a", &all).lines().count() <= DEEPEST + 1);
    }

    #[test]
    fn state_is_what_the_table_says() {
        let check = |columns: &[&str], cells: Value, expected: &str| {
            let columns: Vec<Value> = columns.iter().map(|name| json!({"name": name})).collect();
            assert_eq!(state(&json!({"columnDefinitions": columns}), &json!({"cells": cells})), expected);
        };
        check(&["Name", "Ready", "Status"], json!(["a", "0/1", "Pending"]), "Pending");
        check(&["Name", "Desired", "Current", "Ready"], json!(["a", 3, 3, 2]), "2/3 ready");
        check(&["Name", "Ready"], json!(["a", "2/2"]), "2/2 ready");
        check(&["Name", "Completions"], json!(["a", "0/1"]), "0/1 complete");
        check(&["Name", "Age"], json!(["a", "5m"]), "");
    }
}
