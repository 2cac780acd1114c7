//! `cordon`, `uncordon` and `taint`: what may be scheduled on nodes.

use clap::Args;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::flags::{DryRun, DryRunFlag, OutputFlag, SelectorFlags};
use crate::output;
use crate::print::Report;
use crate::select::{self, Filter, Target};
use crate::session::{MERGE, Session, Writing};

/// How often a node is looked at that others change meanwhile.
const TRIES: u32 = 10;

/// Which nodes.
#[derive(Debug, Clone, Args)]
pub struct Nodes {
    /// Names of nodes
    #[arg(value_name = "NODE")]
    names: Vec<String>,
    /// Only nodes with these labels
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    #[command(flatten)]
    pub dry_run: DryRunFlag,
}

impl Nodes {
    pub async fn find(&self, session: &Session) -> Result<Vec<Target>> {
        if self.names.is_empty() && self.selector.is_none() {
            return Err(Error::plain("USAGE: name a node, or give -l SELECTOR"));
        }
        let mut words = vec!["nodes".to_owned()];
        words.extend(self.names.iter().map(|name| name.trim_start_matches("node/").to_owned()));
        let selectors = SelectorFlags { selector: self.selector.clone(), ..SelectorFlags::default() };
        select::find_all(session, &words, &Filter { selectors, ..Filter::default() }).await
    }
}

/// Let no new pods onto nodes
#[derive(Debug, Args)]
#[command(after_help = "Example: minik8s cordon n1")]
pub struct Cordon {
    #[command(flatten)]
    nodes: Nodes,
}

/// Let pods onto nodes again
#[derive(Debug, Args)]
#[command(after_help = "Example: minik8s uncordon n1")]
pub struct Uncordon {
    #[command(flatten)]
    nodes: Nodes,
}

pub async fn cordon(session: &Session, verb: Cordon) -> Result<()> {
    for node in verb.nodes.find(session).await? {
        set_schedulable(session, &node, false, verb.nodes.dry_run.dry_run).await?;
    }
    Ok(())
}

pub async fn uncordon(session: &Session, verb: Uncordon) -> Result<()> {
    for node in verb.nodes.find(session).await? {
        set_schedulable(session, &node, true, verb.nodes.dry_run.dry_run).await?;
    }
    Ok(())
}

pub async fn set_schedulable(
    session: &Session,
    node: &Target,
    schedulable: bool,
    dry_run: DryRun,
) -> Result<()> {
    let done = if schedulable { "uncordoned" } else { "cordoned" };
    let is = node.object["spec"]["unschedulable"] == true;
    if is != schedulable {
        output::line(format_args!("node/{} already {done}{}", node.name, dry_run.suffix()));
        return Ok(());
    }
    if dry_run != DryRun::Client {
        let how = Writing { manager: "kubectl-cordon", dry_run, validation: None };
        let value = if schedulable { Value::Null } else { true.into() };
        session.patch(node.path(), MERGE, &json!({"spec": {"unschedulable": value}}), &how).await?;
    }
    output::line(format_args!("node/{} {done}{}", node.name, dry_run.suffix()));
    Ok(())
}

/// Set or remove taints of nodes
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s taint node n1 dedicated=gpu:NoSchedule
  minik8s taint node n1 dedicated:NoSchedule-
  minik8s taint nodes --all dedicated-")]
pub struct Taint {
    /// node NAME..., then KEY[=VALUE]:EFFECT or KEY[:EFFECT]-
    #[arg(value_name = "node NAME... TAINT...")]
    words: Vec<String>,
    /// Only nodes with these labels
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// All nodes
    #[arg(long)]
    all: bool,
    /// Change taints that are there already
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    dry_run: DryRunFlag,
    #[command(flatten)]
    output: OutputFlag,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Add { key: String, value: String, effect: String },
    Remove { key: String, effect: Option<String> },
}

impl Change {
    fn parse(text: &str) -> Result<Change> {
        let effect_of = |effect: &str| match effect {
            "NoSchedule" | "PreferNoSchedule" | "NoExecute" => Ok(effect.to_owned()),
            _ => Err(Error::plain(format!(
                "invalid taint effect: {effect}, unsupported taint effect: use NoSchedule, PreferNoSchedule or NoExecute"
            ))),
        };
        if let Some(rest) = text.strip_suffix('-') {
            let (key, effect) = match rest.split_once(':') {
                Some((key, effect)) => (key, Some(effect_of(effect)?)),
                None => (rest, None),
            };
            let key = key.split('=').next().unwrap_or(key);
            return Ok(Change::Remove { key: key.to_owned(), effect });
        }
        let (pair, effect) = text
            .rsplit_once(':')
            .ok_or_else(|| Error::plain(format!("invalid taint spec: {text}; write KEY=VALUE:EFFECT")))?;
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok(Change::Add { key: key.to_owned(), value: value.to_owned(), effect: effect_of(effect)? })
    }

    fn is_taint(word: &str) -> bool {
        word.contains('=') || word.contains(':') || word.ends_with('-')
    }
}

pub async fn taint(session: &Session, verb: Taint) -> Result<()> {
    let first = verb.words.iter().position(|word| Change::is_taint(word)).unwrap_or(verb.words.len());
    let (what, changes) = verb.words.split_at(first);
    let changes: Vec<Change> = changes.iter().map(|text| Change::parse(text)).collect::<Result<_>>()?;
    if changes.is_empty() {
        return Err(Error::plain("at least one taint update is required"));
    }
    let selectors = SelectorFlags { selector: verb.selector.clone(), ..SelectorFlags::default() };
    let report = Report::new(&verb.output)?;
    if what.len() < 2 && !what.iter().any(|word| word.contains('/')) && !verb.all && verb.selector.is_none() {
        return Err(Error::plain("must specify names of nodes, a selector, or --all"));
    }
    for node in select::find_all(session, what, &Filter { selectors, ..Filter::default() }).await? {
        if node.kind.kind != "Node" {
            return Err(Error::plain(format!(
                "invalid resource type {}, only node(s) is supported",
                node.kind.plural
            )));
        }
        let (done, after) = taint_one(session, &verb, &changes, node.clone()).await?;
        report.done(&node.shown(), done, verb.dry_run.dry_run.suffix(), &after)?;
    }
    Ok(())
}

/// The word for what was done, and the node afterwards. Controllers taint nodes, too: none of theirs is lost.
async fn taint_one(
    session: &Session,
    verb: &Taint,
    changes: &[Change],
    mut node: Target,
) -> Result<(&'static str, Value)> {
    let how = Writing { manager: "kubectl-taint", dry_run: verb.dry_run.dry_run, validation: None };
    let mut tries = TRIES;
    loop {
        let (taints, done) = changed(&node, changes, verb.overwrite)?;
        if how.dry_run == DryRun::Client {
            return Ok((done, node.object));
        }
        let patch = json!({"metadata": {"resourceVersion": node.object["metadata"]["resourceVersion"]}, "spec": {"taints": taints}});
        tries -= 1;
        match session.patch(node.path(), MERGE, &patch, &how).await {
            Err(error) if error.is_conflict() && tries > 0 => node = select::fetch(session, node).await?,
            after => return Ok((done, after?)),
        }
    }
}

/// The node's taints afterwards, and the word for what was done.
fn changed(node: &Target, changes: &[Change], overwrite: bool) -> Result<(Vec<Value>, &'static str)> {
    let mut taints: Vec<Value> = node.object["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let (mut added, mut removed, mut replaced) = (false, false, false);
    for change in changes {
        match change {
            Change::Add { key, value, effect } => {
                let is_it = |taint: &Value| taint["key"] == *key && taint["effect"] == *effect;
                if taints.iter().any(is_it) && !overwrite {
                    return Err(Error::plain(format!(
                        "node {} already has {key} taint(s) with same effect(s) and --overwrite is false",
                        node.name
                    )));
                }
                replaced |= taints.iter().any(is_it);
                taints.retain(|taint| !is_it(taint));
                let mut taint = json!({"key": key, "effect": effect});
                if !value.is_empty() {
                    taint["value"] = value.clone().into();
                }
                taints.push(taint);
                added = true;
            }
            Change::Remove { key, effect } => {
                let before = taints.len();
                taints.retain(|taint| {
                    taint["key"] != *key || effect.as_ref().is_some_and(|effect| taint["effect"] != *effect)
                });
                if taints.len() == before {
                    let effect = effect.as_ref().map(|effect| format!(":{effect}")).unwrap_or_default();
                    return Err(Error::plain(format!("taint \"{key}{effect}\" not found")));
                }
                removed = true;
            }
        }
    }
    let done = match (added, removed) {
        (true, true) => "modified",
        (true, false) if replaced => "modified",
        (false, true) => "untainted",
        _ => "tainted",
    };
    Ok((taints, done))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints() {
        let add = |key: &str, value: &str, effect: &str| Change::Add {
            key: key.into(),
            value: value.into(),
            effect: effect.into(),
        };
        assert_eq!(Change::parse("a=b:NoSchedule").unwrap(), add("a", "b", "NoSchedule"));
        assert_eq!(Change::parse("x.io/a:NoExecute").unwrap(), add("x.io/a", "", "NoExecute"));
        assert_eq!(Change::parse("a-").unwrap(), Change::Remove { key: "a".into(), effect: None });
        assert_eq!(
            Change::parse("a:NoExecute-").unwrap(),
            Change::Remove { key: "a".into(), effect: Some("NoExecute".into()) }
        );
        assert!(Change::parse("a=b").is_err() && Change::parse("a=b:Never").is_err());
    }
}
