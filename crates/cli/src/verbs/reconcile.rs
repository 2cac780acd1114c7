//! `auth reconcile`: roles and bindings of files, added to what is there. Nothing is taken from anybody.

use http::Method;
use serde_json::Value;

use crate::client::Call;
use crate::error::{Error, Result};
use crate::flags::{DryRun, FileFlags};
use crate::manifest;
use crate::output;
use crate::select::{self, Target};
use crate::session::{Session, Writing};

pub async fn run(session: &Session, files: &FileFlags, dry_run: DryRun) -> Result<()> {
    let how = Writing { manager: "kubectl-auth", dry_run, validation: None };
    for item in manifest::read_some(files, "reconcile").await? {
        let target = select::of_item(session, &item).await?;
        if target.kind.group != "rbac.authorization.k8s.io" {
            continue;
        }
        let live = session.client().await?.find(target.path()).await?;
        let told = account(&target.object, live.as_ref());
        match live {
            None => {
                session.create(&target.kind, &target.object, &how).await?;
            }
            Some(live) => update(session, &target, live, &how).await?,
        }
        output::line(format_args!("{} reconciled{}", target.shown(), dry_run.suffix()));
        told.iter().for_each(output::remark);
    }
    Ok(())
}

async fn update(session: &Session, target: &Target, live: Value, how: &Writing<'_>) -> Result<()> {
    if live["roleRef"] != target.object["roleRef"] {
        return Err(Error::plain(format!(
            "{} refers to another role; delete it first, since the role of a binding cannot be changed",
            target.shown()
        )));
    }
    let merged = merged(&target.object, &live);
    if merged == live || how.dry_run == DryRun::Client {
        return Ok(());
    }
    let call = Call::new(Method::PUT, target.path()).json(&merged);
    session.client().await?.send(how.parameters(call)).await.map(|_| ())
}

/// What had to be done, in kubectl's words.
fn account(wanted: &Value, live: Option<&Value>) -> Vec<String> {
    let mut lines = Vec::new();
    for (list, show) in [("rules", rule as fn(&Value) -> String), ("subjects", subject)] {
        let there = live.and_then(|live| live[list].as_array()).map(Vec::as_slice).unwrap_or_default();
        let missing: Vec<&Value> =
            wanted[list].as_array().into_iter().flatten().filter(|entry| !there.contains(entry)).collect();
        if !missing.is_empty() {
            lines.push(format!("\tmissing {list} added:"));
            lines.extend(missing.into_iter().map(|entry| format!("\t\t{}", show(entry))));
        }
    }
    match live {
        None => lines.insert(0, "\treconciliation required create".to_owned()),
        Some(_) if !lines.is_empty() => lines.insert(0, "\treconciliation required update".to_owned()),
        Some(_) => {}
    }
    lines
}

/// As Go shows the fields of a rule.
fn rule(rule: &Value) -> String {
    let list = |field: &str| {
        let words: Vec<&str> =
            rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        words.join(" ")
    };
    format!(
        "{{Verbs:[{}] APIGroups:[{}] Resources:[{}] ResourceNames:[{}] NonResourceURLs:[{}]}}",
        list("verbs"),
        list("apiGroups"),
        list("resources"),
        list("resourceNames"),
        list("nonResourceURLs")
    )
}

fn subject(subject: &Value) -> String {
    let text = |field: &str| subject[field].as_str().unwrap_or_default();
    let (kind, group) = (text("kind"), text("apiGroup"));
    format!("{{Kind:{kind} APIGroup:{group} Name:{} Namespace:{}}}", text("name"), text("namespace"))
}

/// What is there, with what the file wants besides.
fn merged(wanted: &Value, live: &Value) -> Value {
    let mut object = live.clone();
    for list in ["rules", "subjects"] {
        let mut entries = live[list].as_array().cloned().unwrap_or_default();
        for entry in wanted[list].as_array().into_iter().flatten() {
            if !entries.contains(entry) {
                entries.push(entry.clone());
            }
        }
        if !entries.is_empty() {
            object[list] = entries.into();
        }
    }
    for field in ["labels", "annotations"] {
        for (key, value) in wanted["metadata"][field].as_object().into_iter().flatten() {
            object["metadata"][field][key] = value.clone();
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_told() {
        let wanted = json!({"rules": [{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}]});
        let rule = "\t\t{Verbs:[get list] APIGroups:[] Resources:[pods] ResourceNames:[] NonResourceURLs:[]}";
        assert_eq!(
            account(&wanted, None),
            ["\treconciliation required create", "\tmissing rules added:", rule]
        );
        let other = json!({"rules": []});
        assert_eq!(
            account(&wanted, Some(&other)),
            ["\treconciliation required update", "\tmissing rules added:", rule]
        );
        assert!(account(&wanted, Some(&wanted)).is_empty());
    }

    #[test]
    fn only_adds() {
        let wanted =
            json!({"rules": [{"verbs": ["get"]}, {"verbs": ["list"]}], "metadata": {"labels": {"a": "b"}}});
        let live = json!({"rules": [{"verbs": ["watch"]}, {"verbs": ["get"]}], "metadata": {"name": "x"}});
        let expected = json!({
            "rules": [{"verbs": ["watch"]}, {"verbs": ["get"]}, {"verbs": ["list"]}],
            "metadata": {"name": "x", "labels": {"a": "b"}},
        });
        assert_eq!(merged(&wanted, &live), expected);
    }
}
