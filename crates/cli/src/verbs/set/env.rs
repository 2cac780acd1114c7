//! `set env`.

use clap::Args;
use serde_json::{Value, json};

use super::{Which, template};
use crate::error::{Error, Result};
use crate::output;
use crate::select::{self, Target};
use crate::session::{STRATEGIC, Session};

#[derive(Debug, Args)]
pub struct Env {
    #[command(flatten)]
    which: Which,
    /// Only these containers; * at an end stands for anything
    #[arg(short, long, value_name = "NAME", default_value = "*")]
    containers: String,
    /// Show what is set
    #[arg(long)]
    list: bool,
    /// Take the keys of configmap/NAME or secret/NAME
    #[arg(long, value_name = "TYPE/NAME")]
    from: Option<String>,
    /// Put before each key that is taken
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,
    /// Take only these keys
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    keys: Vec<String>,
    /// KEY=VALUE; may be repeated
    #[arg(short, long, value_name = "KEY=VALUE")]
    env: Vec<String>,
}

pub async fn run(session: &Session, flags: &Env) -> Result<()> {
    let (words, changes) = flags.which.split();
    let mut changes = parse(changes.iter().chain(&flags.env))?;
    if let Some(from) = &flags.from {
        changes.extend(taken(session, flags, from).await?);
    }
    if changes.is_empty() && !flags.list {
        return Err(Error::plain("at least one environment variable must be provided"));
    }
    for target in flags.which.find(session, words).await? {
        let names = template::containers(&target.object, &flags.containers)?;
        if names.is_empty() {
            return Err(Error::plain(format!(
                "{} has no containers matching {:?}",
                target.shown(),
                flags.containers
            )));
        }
        if flags.list {
            list(&target, &names)?;
            continue;
        }
        let parts: Vec<(String, Value)> =
            names.into_iter().map(|name| (name, json!({"env": changes}))).collect();
        let patch = template::patch(&target.object, &parts)?;
        flags.which.change(session, &target, STRATEGIC, &patch, "env updated").await?;
    }
    Ok(())
}

/// `KEY=VALUE` sets, `KEY-` removes.
fn parse<'a>(words: impl Iterator<Item = &'a String>) -> Result<Vec<Value>> {
    let entry = |word: &String| match (word.split_once('='), word.strip_suffix('-')) {
        (Some((name, value)), _) if !name.is_empty() => {
            Ok(json!({"name": name, "value": value, "valueFrom": null}))
        }
        (None, Some(name)) => Ok(json!({"name": name, "$patch": "delete"})),
        _ => Err(Error::plain(format!("environment variables must be of the form key=value: {word}"))),
    };
    words.map(entry).collect()
}

async fn taken(session: &Session, flags: &Env, from: &str) -> Result<Vec<Value>> {
    let source = select::find_one(session, &[from.to_owned()], None).await?;
    let field = match source.kind.kind.as_str() {
        "ConfigMap" => "configMapKeyRef",
        "Secret" => "secretKeyRef",
        other => return Err(Error::plain(format!("unsupported resource specified in --from: {other}"))),
    };
    let mut keys: Vec<&String> =
        source.object["data"].as_object().into_iter().flatten().map(|(key, _)| key).collect();
    keys.retain(|key| flags.keys.is_empty() || flags.keys.contains(key));
    keys.sort();
    let entry = |key: &String| {
        let name: String = format!("{}{key}", flags.prefix).to_uppercase();
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        json!({"name": name, "value": null, "valueFrom": {field: {"key": key, "name": source.name}}})
    };
    Ok(keys.into_iter().map(entry).collect())
}

fn list(target: &Target, names: &[String]) -> Result<()> {
    let spec = template::spec(&target.object)?;
    let all = ["initContainers", "containers"]
        .map(|list| spec[list].as_array().cloned().unwrap_or_default())
        .concat();
    for container in all.iter().filter(|container| names.iter().any(|name| container["name"] == *name)) {
        let name = container["name"].as_str().unwrap_or_default();
        output::line(format_args!("# {} {}, container {name}", target.kind.kind, target.name));
        for entry in container["env"].as_array().into_iter().flatten() {
            let key = entry["name"].as_str().unwrap_or_default();
            let from = &entry["valueFrom"];
            let of = |field: &str, word: &str| {
                let reference = from[field].as_object()?;
                let text = |name: &str| reference.get(name).and_then(Value::as_str).unwrap_or_default();
                Some(format!("# {key} from {word} {}, key {}", text("name"), text("key")))
            };
            let line = of("configMapKeyRef", "configmap")
                .or_else(|| of("secretKeyRef", "secret"))
                .or_else(|| {
                    let path = from["fieldRef"]["fieldPath"].as_str()?;
                    Some(format!("# {key} from field path {path}"))
                })
                .unwrap_or_else(|| format!("{key}={}", entry["value"].as_str().unwrap_or_default()));
            output::line(line);
        }
    }
    Ok(())
}
