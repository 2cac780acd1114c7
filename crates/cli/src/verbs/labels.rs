//! `label` and `annotate`: the same work on two maps of the metadata.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::flags::{DryRun, DryRunFlag, OutputFlag, ReachFlags, TargetFlags};
use crate::output;
use crate::print::Report;
use crate::select::{self, Filter, Target};
use crate::session::{MERGE, Session, Writing};

/// Set or remove labels
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s label pod web tier=front
  minik8s label pods --all checked=yes --overwrite
  minik8s label node n1 disk-")]
pub struct Label {
    #[command(flatten)]
    change: Change,
}

/// Set or remove annotations
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s annotate pod web note='hello world'
  minik8s annotate pod web note-")]
pub struct Annotate {
    #[command(flatten)]
    change: Change,
}

#[derive(Debug, Args)]
#[command(mut_arg("words", |words| words
    .value_name("WHAT KEY=VALUE|KEY-")
    .help("TYPE NAME... or TYPE/NAME..., then KEY=VALUE... or KEY-...")))]
struct Change {
    #[command(flatten)]
    targets: TargetFlags,
    #[command(flatten)]
    reach: ReachFlags,
    /// Change values that are there already
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true",
          action = clap::ArgAction::Set)]
    overwrite: bool,
    /// Show what is set
    #[arg(long)]
    list: bool,
    /// Only if the object is at this version
    #[arg(long, value_name = "VERSION")]
    resource_version: Option<String>,
    /// The name under which the fields are managed
    #[arg(long, value_name = "NAME")]
    field_manager: Option<String>,
    #[command(flatten)]
    dry_run: DryRunFlag,
    #[command(flatten)]
    output: OutputFlag,
}

struct Words {
    field: &'static str,
    one: &'static str,
    done: &'static str,
    undone: &'static str,
    manager: &'static str,
}

const LABELS: Words =
    Words { field: "labels", one: "label", done: "labeled", undone: "unlabeled", manager: "kubectl-label" };
const ANNOTATIONS: Words = Words {
    field: "annotations",
    one: "annotation",
    done: "annotated",
    undone: "annotated",
    manager: "kubectl-annotate",
};

pub async fn label(session: &Session, verb: Label) -> Result<()> {
    run(session, verb.change, &LABELS).await
}

pub async fn annotate(session: &Session, verb: Annotate) -> Result<()> {
    run(session, verb.change, &ANNOTATIONS).await
}

async fn run(session: &Session, change: Change, words: &Words) -> Result<()> {
    let (what, changes) = split(&change.targets.words);
    let changes = parse(&changes, words)?;
    if changes.is_empty() && !change.list {
        return Err(Error::plain(format!("at least one {} update is required", words.one)));
    }
    let filter = Filter { all_namespaces: change.reach.all_namespaces, ..change.targets.filter() };
    let named = what.len() > 1 || what.iter().any(|word| word.contains('/'));
    let selects = change.reach.all || change.targets.selectors.is_set();
    if !named && !selects && !change.targets.files.is_set() {
        return Err(Error::plain(
            "one or more resources must be specified as <resource> <name> or <resource>/<name>",
        ));
    }
    let targets = select::find_all(session, &what, &filter).await?;
    let report = Report::new(&change.output)?;
    for target in &targets {
        if change.list {
            show(target, words, targets.len() > 1);
            continue;
        }
        change_one(session, &change, target, &changes, words, &report).await?;
    }
    Ok(())
}

/// What names objects, and what names labels.
fn split(words: &[String]) -> (Vec<String>, Vec<String>) {
    let is_change = |word: &String| {
        (word.contains('=') && !word.starts_with('=')) || (word.ends_with('-') && word.as_str() != "-")
    };
    let first = words.iter().position(is_change).unwrap_or(words.len());
    (words[..first].to_vec(), words[first..].to_vec())
}

/// Keys with their values; None removes.
fn parse(changes: &[String], words: &Words) -> Result<Vec<(String, Option<String>)>> {
    let mut parsed: Vec<(String, Option<String>)> = Vec::new();
    for change in changes {
        let (key, value) = match change.split_once('=') {
            Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
            None => match change.strip_suffix('-') {
                Some(key) => (key.to_owned(), None),
                None => return Err(Error::plain(format!("unknown {} spec: {change}", words.one))),
            },
        };
        if parsed.iter().any(|(known, before)| *known == key && before.is_some() != value.is_some()) {
            return Err(Error::plain(format!(
                "can not both modify and remove a {} in the same command",
                words.one
            )));
        }
        parsed.push((key, value));
    }
    Ok(parsed)
}

fn show(target: &Target, words: &Words, several: bool) {
    if several {
        output::line(format_args!("Listing {} for {}/{}:", words.field, target.kind.kind, target.name));
    }
    let mut pairs: Vec<String> = Vec::new();
    for (key, value) in target.object["metadata"][words.field].as_object().into_iter().flatten() {
        pairs.push(format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    pairs.sort();
    pairs.iter().for_each(output::line);
}

async fn change_one(
    session: &Session,
    change: &Change,
    target: &Target,
    changes: &[(String, Option<String>)],
    words: &Words,
    report: &Report,
) -> Result<()> {
    let before = &target.object["metadata"][words.field];
    let (mut patch, mut removes_only) = (Map::new(), true);
    for (key, value) in changes {
        let old = before[key].as_str();
        match (value, old) {
            (Some(new), Some(old)) if !change.overwrite && new != old => {
                return Err(Error::plain(format!(
                    "'{key}' already has a value ({old}), and --overwrite is false"
                )));
            }
            (Some(new), old) if old != Some(new) => {
                patch.insert(key.clone(), new.clone().into());
                removes_only = false;
            }
            (Some(_), _) => removes_only = false,
            (None, Some(_)) => {
                patch.insert(key.clone(), Value::Null);
            }
            (None, None) => output::line(format_args!("{} {key:?} not found.", words.one)),
        }
    }
    let done = match (patch.is_empty(), removes_only) {
        (true, _) if words.one == "label" => "not labeled",
        (_, true) => words.undone,
        _ => words.done,
    };
    let suffix = change.dry_run.dry_run.suffix();
    if (patch.is_empty() && change.resource_version.is_none()) || change.dry_run.dry_run == DryRun::Client {
        return report.done(&target.shown(), done, suffix, &target.object);
    }
    let mut metadata = json!({words.field: patch});
    if let Some(version) = &change.resource_version {
        metadata["resourceVersion"] = version.clone().into();
    }
    let manager = change.field_manager.as_deref().unwrap_or(words.manager);
    let how = Writing { manager, dry_run: change.dry_run.dry_run, validation: None };
    let after = session.patch(target.path(), MERGE, &json!({"metadata": metadata}), &how).await?;
    report.done(&target.shown(), done, suffix, &after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_apart() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(split(&words("pod a b x=y z-")), (words("pod a b"), words("x=y z-")));
        assert_eq!(split(&words("pod/a x=")), (words("pod/a"), words("x=")));
        assert!(parse(&words("a=1 a-"), &LABELS).is_err());
        assert_eq!(parse(&words("a="), &LABELS).unwrap(), [("a".to_owned(), Some(String::new()))]);
    }
}
