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
    for item in manifest::read_some(files, "reconcile")? {
        let target = select::of_item(session, &item).await?;
        if target.kind.group != "rbac.authorization.k8s.io" {
            continue;
        }
        match session.client().await?.find(target.path()).await? {
            None => {
                session.create(&target.kind, &target.object, &how).await?;
            }
            Some(live) => update(session, &target, live, &how).await?,
        }
        output::line(format_args!("{} reconciled{}", target.shown(), dry_run.suffix()));
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
