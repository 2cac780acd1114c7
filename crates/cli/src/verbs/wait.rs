//! `wait`: until a condition holds, a field has a value, or objects are there or gone.

use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tokio::time::Instant;

use super::gone::{self, timed_out};
use crate::error::{Error, Result};
use crate::flags::{OutputFlag, ReachFlags, TargetFlags, duration};
use crate::print::jsonpath::{Path, show};
use crate::print::{Report, bar};
use crate::select::{self, Filter, Target, Want};
use crate::session::Session;

/// Wait until objects are as they should be
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s wait pod/web --for=condition=Ready --timeout=60s
  minik8s wait deployment -l app=web --for=condition=Available
  minik8s wait pod/web --for=jsonpath='{.status.phase}'=Running
  minik8s wait pod/web --for=delete")]
pub struct Wait {
    #[command(flatten)]
    targets: TargetFlags,
    #[command(flatten)]
    reach: ReachFlags,
    /// condition=NAME[=VALUE], jsonpath='{PATH}'=VALUE, create, or delete
    #[arg(long = "for", value_name = "WHAT")]
    until: String,
    /// How long to wait for each object; 0 to look once
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration, allow_negative_numbers = true)]
    timeout: Duration,
    #[command(flatten)]
    output: OutputFlag,
}

#[derive(Debug, Clone, PartialEq)]
enum Until {
    Condition { name: String, value: String },
    Path { path: Path, value: Option<String> },
    Created,
    Deleted,
}

impl Until {
    fn parse(text: &str) -> Result<Until> {
        if text.eq_ignore_ascii_case("delete") {
            return Ok(Until::Deleted);
        }
        if text.eq_ignore_ascii_case("create") {
            return Ok(Until::Created);
        }
        if let Some(rest) = text.strip_prefix("condition=") {
            let (name, value) = rest.split_once('=').unwrap_or((rest, "true"));
            return Ok(Until::Condition { name: name.to_owned(), value: value.to_owned() });
        }
        if let Some(rest) = text.strip_prefix("jsonpath=") {
            // The value follows the braces, or the last single sign of equality without them.
            let (path, value) = match rest.rfind('}') {
                Some(end) => (&rest[..=end], rest[end + 1..].strip_prefix('=')),
                None => rest.split_once('=').map_or((rest, None), |(path, value)| (path, Some(value))),
            };
            let path = Path::parse_relaxed(path)
                .map_err(|error| Error::plain(format!("error parsing {rest}: {error}")))?;
            let value = value.map(|value| value.trim_matches(['\'', '"']).to_owned());
            return Ok(Until::Path { path, value });
        }
        Err(Error::plain(format!(
            "unrecognized condition: {text:?}; use condition=NAME, jsonpath='{{PATH}}'=VALUE, create or delete"
        )))
    }

    fn holds(&self, object: &Value) -> bool {
        match self {
            Until::Condition { name, value } => {
                let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
                let mut of_name = conditions.filter(|condition| same(condition["type"].as_str(), name));
                of_name.any(|condition| {
                    same(condition["status"].as_str(), value) && is_current(object, condition)
                })
            }
            Until::Path { path, value } => {
                let found = path.find(object).unwrap_or_default();
                match value {
                    None => !found.is_empty(),
                    Some(value) => found.len() == 1 && show(found[0]).trim() == value.trim(),
                }
            }
            Until::Created => true,
            Until::Deleted => false,
        }
    }
}

fn same(a: Option<&str>, b: &str) -> bool {
    a.is_some_and(|a| a.eq_ignore_ascii_case(b))
}

/// A condition that was written before the last change of the spec says nothing about it.
fn is_current(object: &Value, condition: &Value) -> bool {
    let generation = object["metadata"]["generation"].as_i64();
    let observed =
        condition["observedGeneration"].as_i64().or(object["status"]["observedGeneration"].as_i64());
    match (generation, observed) {
        (Some(generation), Some(observed)) => observed >= generation,
        _ => true,
    }
}

pub async fn run(session: &Session, verb: Wait) -> Result<()> {
    let until = Until::parse(&verb.until)?;
    let report = Report::new(&verb.output)?;
    let deadline = Instant::now() + verb.timeout.max(Duration::from_millis(1));
    let targets = targets(session, &verb, &until, deadline).await?;
    if targets.is_empty() && until != Until::Deleted {
        return Err(Error::plain("no matching resources found"));
    }
    let mut errors = Vec::new();
    let progress = session.progress("");
    for (done, target) in targets.iter().enumerate() {
        let share = bar::of(done, targets.len(), "done");
        progress.say(format_args!("{share}  waiting for {} of {}", verb.until, target.shown()));
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match wait_for(session, target, &until, left).await {
            Ok(object) => report.done(&target.shown(), "condition met", "", &object)?,
            Err(error) => errors.push(error),
        }
    }
    Error::from_all(errors)
}

async fn targets(session: &Session, verb: &Wait, until: &Until, deadline: Instant) -> Result<Vec<Target>> {
    if verb.targets.files.is_set() {
        return select::of_files(session, &verb.targets.files).await;
    }
    let wants = select::wants(session, &verb.targets.words).await?;
    let mut targets = Vec::new();
    for want in wants {
        match want {
            Want::Object { kind, name } => {
                let target = select::named(session, kind, name).await?;
                // What does not exist is an error, unless that is what one waits for.
                match until {
                    Until::Created => targets.push(target),
                    Until::Deleted => {
                        let found = session.client().await?.find(target.path()).await?;
                        targets.extend(found.map(|object| Target::new(target.kind.clone(), object)));
                    }
                    _ => targets.push(select::fetch(session, target).await?),
                }
            }
            Want::List { kind } => loop {
                let filter = Filter { all_namespaces: verb.reach.all_namespaces, ..verb.targets.filter() };
                let objects = select::list(session, &kind, &filter).await?;
                let found = !objects.is_empty();
                targets.extend(objects.into_iter().map(|object| Target::new(kind.clone(), object)));
                if found || *until != Until::Created || Instant::now() > deadline {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(250)).await;
            },
        }
    }
    Ok(targets)
}

async fn wait_for(session: &Session, target: &Target, until: &Until, timeout: Duration) -> Result<Value> {
    if *until == Until::Deleted {
        let uid = target.object["metadata"]["uid"].as_str();
        gone::wait(session, target, uid, timeout).await?;
        return Ok(target.object.clone());
    }
    match tokio::time::timeout(timeout, gone::until(session, target, |object| until.holds(object))).await {
        Ok(object) => object,
        Err(_) => Err(timed_out(target)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions() {
        let object = json!({
            "metadata": {"generation": 2},
            "status": {
                "phase": "Running", "used": {"count/services": "1"},
                "conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "True", "observedGeneration": 1}],
            },
        });
        let check = |text: &str, expected: bool| {
            assert_eq!(Until::parse(text).unwrap().holds(&object), expected, "{text}");
        };
        check("condition=Ready", true);
        check("condition=ready=false", false);
        check("condition=Old", false);
        check("jsonpath={.status.phase}=Running", true);
        check("jsonpath={.status.phase}='Pending'", false);
        check("jsonpath={.status.used.count/services}=1", true);
        check("jsonpath=.status.phase", true);
        check("jsonpath={.status.missing}", false);
        check("jsonpath={.status.conditions[?(@.type==\"Ready\")].status}=True", true);
        assert!(Until::parse("nonsense").is_err());
    }
}
