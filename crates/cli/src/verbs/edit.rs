//! `edit`: objects in the user's editor; what changed is sent as a patch.

use std::process::Command;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::flags::{OutputFlag, TargetFlags};
use crate::manifest;
use crate::output;
use crate::print::{self, Report, yaml};
use crate::select::{self, Target};
use crate::session::{MERGE, Session, Writing};

/// Change objects in an editor
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s edit deployment/web
  EDITOR=nano minik8s edit configmap settings")]
pub struct Edit {
    #[command(flatten)]
    targets: TargetFlags,
    /// Edit a subresource, such as status
    #[arg(long, value_name = "NAME")]
    subresource: Option<String>,
    /// The name under which the fields are managed
    #[arg(long, value_name = "NAME", default_value = "kubectl-edit")]
    field_manager: String,
    #[command(flatten)]
    output: OutputFlag,
}

const HEAD: &str = "# Please edit the object below. Lines beginning with a '#' will be ignored,
# and an empty file will abort the edit. If an error occurs while saving this file will be
# reopened with the relevant failures.
#
";

pub async fn run(session: &Session, verb: Edit) -> Result<()> {
    let report = Report::new(&verb.output)?;
    for target in select::find_all(session, &verb.targets.words, &verb.targets.filter()).await? {
        one(session, &verb, &target, &report).await?;
    }
    Ok(())
}

async fn one(session: &Session, verb: &Edit, target: &Target, report: &Report) -> Result<()> {
    let before = print::without_managed_fields(&target.object);
    let mut text = format!("{HEAD}{}", yaml::to_string(&before));
    loop {
        let edited = in_editor(&text)?;
        if edited == text || content(&edited).is_empty() {
            output::line("Edit cancelled, no changes made.");
            return Ok(());
        }
        let trouble = match send(session, verb, target, &before, &edited).await {
            Ok(None) => {
                output::line("Edit cancelled, no changes made.");
                return Ok(());
            }
            Ok(Some(after)) => return report.done(&target.shown(), "edited", "", &after),
            Err(error) => error.to_string(),
        };
        let again = format!("{HEAD}# {}\n#\n{}", trouble.replace('\n', "\n# "), content(&edited));
        if again == text {
            // The same mistake twice: the user gives up.
            let kept = keep(&edited)?;
            return Err(Error::plain(format!(
                "{trouble}\nA copy of your changes has been stored to {kept:?}"
            )));
        }
        text = again;
    }
}

/// The text without its comments at the top.
fn content(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

fn keep(text: &str) -> Result<String> {
    let file = tempfile::Builder::new().prefix("minik8s-edit-").suffix(".yaml").tempfile()?;
    std::fs::write(file.path(), text)?;
    let (_, path) = file.keep().map_err(|error| Error::plain(error.to_string()))?;
    Ok(path.display().to_string())
}

fn in_editor(text: &str) -> Result<String> {
    let file = tempfile::Builder::new().prefix("minik8s-edit-").suffix(".yaml").tempfile()?;
    std::fs::write(file.path(), text)?;
    let editor =
        ["KUBE_EDITOR", "EDITOR"].iter().find_map(|name| std::env::var(name).ok()).filter(|e| !e.is_empty());
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    // The variable may hold arguments, as shells allow.
    let line = format!("{editor} \"$0\"");
    let status = Command::new("sh").args(["-c", &line]).arg(file.path()).status()?;
    if !status.success() {
        return Err(Error::plain(format!("there was a problem with the editor {editor:?}")));
    }
    Ok(std::fs::read_to_string(file.path())?)
}

/// None: nothing changed.
async fn send(
    session: &Session,
    verb: &Edit,
    target: &Target,
    before: &Value,
    edited: &str,
) -> Result<Option<Value>> {
    let documents = manifest::yaml::parse(edited)
        .map_err(|error| manifest::mistake::syntax("the edited file", edited, &error))?;
    let after = documents.into_iter().next().map(|document| document.value).unwrap_or_default();
    if after["metadata"]["name"] != before["metadata"]["name"] || after["kind"] != before["kind"] {
        return Err(Error::plain("name and kind of an object cannot be changed"));
    }
    let Some(patch) = difference(before, &after) else { return Ok(None) };
    let mut path = target.path();
    if let Some(subresource) = &verb.subresource {
        path = format!("{path}/{subresource}");
    }
    let how = Writing { manager: &verb.field_manager, validation: Some("Strict"), ..Writing::default() };
    session.patch(path, MERGE, &patch, &how).await.map(Some)
}

/// The merge patch from one to the other; None if they are equal.
pub fn difference(before: &Value, after: &Value) -> Option<Value> {
    let (Some(old), Some(new)) = (before.as_object(), after.as_object()) else {
        return (before != after).then(|| after.clone());
    };
    let mut patch = Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(known) => patch.extend(difference(known, value).map(|change| (key.clone(), change))),
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    (!patch.is_empty()).then(|| json!(patch))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::verbs::run_pod::merge;

    #[test]
    fn differences() {
        let before = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1]});
        assert_eq!(difference(&before, &before), None);
        let after = json!({"a": 1, "b": {"c": 9}, "e": [1, 2], "f": 4});
        assert_eq!(difference(&before, &after), Some(json!({"b": {"c": 9, "d": null}, "e": [1, 2], "f": 4})));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..9i64).prop_map(Value::from)];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        /// The patch leads where it should.
        #[test]
        fn patches_lead_there(before in value(), after in value()) {
            let mut patched = before.clone();
            if let Some(patch) = difference(&before, &after) {
                merge(&mut patched, &patch);
            }
            prop_assert_eq!(patched, after);
        }
    }
}
