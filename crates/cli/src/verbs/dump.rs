//! `cluster-info dump`: what is needed to understand a cluster elsewhere, as files or on standard output.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use crate::client::Call;
use crate::error::{Error, Result};
use crate::output;
use crate::print::{json, members, without_managed_fields, yaml};
use crate::session::Session;

/// Print what is needed to diagnose a cluster
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s cluster-info dump --output-directory=/tmp/state
  minik8s cluster-info dump --namespaces default,shop")]
pub struct Dump {
    /// Of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Of these; by default of the current one and kube-system
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    namespaces: Vec<String>,
    /// Write a file for each, below this directory; - for standard output
    #[arg(long, value_name = "DIR", default_value = "-")]
    output_directory: String,
    /// json or yaml
    #[arg(short, long, value_name = "FORM", default_value = "json")]
    output: String,
}

/// What is told of each namespace.
const KINDS: [(&str, &str); 7] = [
    ("events", "/api/v1"),
    ("replicationcontrollers", "/api/v1"),
    ("services", "/api/v1"),
    ("daemonsets", "/apis/apps/v1"),
    ("deployments", "/apis/apps/v1"),
    ("replicasets", "/apis/apps/v1"),
    ("pods", "/api/v1"),
];

pub async fn run(session: &Session, verb: Dump) -> Result<()> {
    let place = match verb.output_directory.as_str() {
        "-" | "" => None,
        directory => Some(PathBuf::from(directory)),
    };
    let form = match verb.output.as_str() {
        "json" => Form { extension: "json", write: json::pretty },
        "yaml" => Form { extension: "yaml", write: yaml::to_string },
        other => return Err(Error::plain(format!("--output {other} is not available: use json or yaml"))),
    };
    let client = session.client().await?;
    let put = |name: &str, value: &Value| {
        let text = (form.write)(&without_managed_fields(value));
        write(place.as_deref(), &format!("{name}.{}", form.extension), text.as_bytes())
    };
    put("nodes", &client.get("/api/v1/nodes").await?)?;
    for namespace in namespaces(session, &verb).await? {
        let mut pods = Value::Null;
        for (plural, group) in KINDS {
            let list = client.get(format!("{group}/namespaces/{namespace}/{plural}")).await?;
            put(&format!("{namespace}/{plural}"), &list)?;
            pods = list;
        }
        for pod in members(&pods) {
            logs(session, &namespace, pod, place.as_deref()).await?;
        }
    }
    if let Some(place) = place {
        output::line(format_args!("Cluster info dumped to {}", place.display()));
    }
    Ok(())
}

struct Form {
    extension: &'static str,
    write: fn(&Value) -> String,
}

async fn namespaces(session: &Session, verb: &Dump) -> Result<Vec<String>> {
    if verb.all_namespaces {
        let list = session.client().await?.get("/api/v1/namespaces").await?;
        let names = members(&list).iter().filter_map(|one| one["metadata"]["name"].as_str());
        return Ok(names.map(str::to_owned).collect());
    }
    if !verb.namespaces.is_empty() {
        return Ok(verb.namespaces.clone());
    }
    let mut names = vec![session.namespace().await?.to_owned()];
    if names[0] != "kube-system" {
        names.push("kube-system".to_owned());
    }
    Ok(names)
}

/// The logs of a pod's containers. One that has none says so in their place.
async fn logs(session: &Session, namespace: &str, pod: &Value, place: Option<&Path>) -> Result<()> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let containers = ["initContainers", "containers"]
        .into_iter()
        .flat_map(|list| pod["spec"][list].as_array().into_iter().flatten())
        .filter_map(|container| container["name"].as_str());
    let mut text = Vec::new();
    for container in containers {
        text.extend(
            format!("==== START logs for container {container} of pod {namespace}/{name} ====\n").bytes(),
        );
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/log");
        match session.client().await?.bytes(Call::get(path).query("container", container)).await {
            Ok(bytes) => text.extend(bytes),
            Err(error) => text.extend(format!("{error}\n").bytes()),
        }
        text.extend(
            format!("==== END logs for container {container} of pod {namespace}/{name} ====\n").bytes(),
        );
    }
    write(place, &format!("{namespace}/{name}/logs.txt"), &text)
}

fn write(place: Option<&Path>, name: &str, bytes: &[u8]) -> Result<()> {
    let Some(place) = place else {
        output::bytes(bytes);
        return Ok(());
    };
    let file = place.join(name);
    let written =
        file.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&file, bytes));
    written.map_err(|error| Error::plain(format!("cannot write {}: {error}", file.display())))
}
