//! What the server says of itself: `version`, `api-resources`, `api-versions`, `cluster-info`.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::dump::{self, Dump};
use crate::client::Call;
use crate::discovery::Kind;
use crate::error::{Error, Result};
use crate::flags::OutputFlag;
use crate::output;
use crate::print::table::{Style, plain};
use crate::print::{Form, json as json_form, yaml};
use crate::session::Session;

/// The Kubernetes version this program speaks.
const KUBERNETES: (&str, &str) = ("1", "37");

/// Show the versions of this program and the server
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s version
  minik8s version --client -o json")]
pub struct Version {
    /// Only of this program
    #[arg(long)]
    client: bool,
    #[command(flatten)]
    output: OutputFlag,
}

pub async fn version(session: &Session, verb: Version) -> Result<()> {
    let (major, minor) = KUBERNETES;
    let own = env!("CARGO_PKG_VERSION");
    let client = json!({
        "major": major, "minor": minor, "gitVersion": format!("v{major}.{minor}.0+minik8s-{own}"),
        "platform": format!("{}/{}", std::env::consts::OS, go_architecture()),
    });
    let form = Form::parse(&verb.output)?;
    let server = if verb.client { Ok(None) } else { server_version(session).await.map(Some) };
    let mut all = json!({"clientVersion": client, "kustomizeVersion": "v5.5.0"});
    if let Ok(Some(server)) = &server {
        all["serverVersion"] = server.clone();
    }
    match form {
        Form::Json => output::text(json_form::pretty(&all)),
        Form::Yaml => output::text(yaml::to_string(&all)),
        _ => {
            if !session.as_kubectl {
                output::line(format_args!("minik8s {own} (Kubernetes v{major}.{minor}.0)"));
            } else {
                output::line(format_args!(
                    "Client Version: {}",
                    client["gitVersion"].as_str().unwrap_or_default()
                ));
            }
            if let Ok(Some(server)) = &server {
                output::line(format_args!(
                    "Server Version: {}",
                    server["gitVersion"].as_str().unwrap_or_default()
                ));
            }
        }
    }
    match server {
        // Without a cluster this program still has a version.
        Err(_) if !session.as_kubectl => Ok(()),
        server => server.map(|_| ()),
    }
}

async fn server_version(session: &Session) -> Result<Value> {
    session.client().await?.get("/version").await
}

fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// List the kinds that the server knows
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s api-resources
  minik8s api-resources --namespaced=false --verbs=list -o name")]
pub struct ApiResources {
    /// Only kinds that are, or are not, in namespaces
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    namespaced: Option<bool>,
    /// Only of this group
    #[arg(long, value_name = "GROUP")]
    api_group: Option<String>,
    /// Only with all of these verbs
    #[arg(long, value_name = "VERB", value_delimiter = ',')]
    verbs: Vec<String>,
    /// Only of these categories
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    categories: Vec<String>,
    /// Sort by name or kind
    #[arg(long, value_name = "name|kind")]
    sort_by: Option<SortBy>,
    /// Leave the heading out
    #[arg(long)]
    no_headers: bool,
    /// wide or name
    #[arg(short, long, value_name = "FORM")]
    output: Option<String>,
    /// Accepted for compatibility with kubectl
    #[arg(long, hide = true)]
    cached: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SortBy {
    Name,
    Kind,
}

pub async fn api_resources(session: &Session, verb: ApiResources) -> Result<()> {
    let discovery = session.discovery().await?;
    let wanted = |kind: &&Kind| {
        verb.namespaced.is_none_or(|namespaced| kind.namespaced == namespaced)
            && verb.api_group.as_ref().is_none_or(|group| kind.group == *group)
            && verb.verbs.iter().all(|verb| kind.can(verb))
            && verb.categories.iter().all(|category| kind.categories.contains(category))
            && !kind.verbs.is_empty()
    };
    let mut kinds: Vec<&Kind> = discovery.preferred().into_iter().filter(wanted).collect();
    match verb.sort_by {
        Some(SortBy::Name) => kinds.sort_by(|a, b| a.plural.cmp(&b.plural)),
        Some(SortBy::Kind) => kinds.sort_by(|a, b| a.kind.cmp(&b.kind)),
        None => kinds.sort_by(|a, b| (&a.group, &a.plural).cmp(&(&b.group, &b.plural))),
    }
    let row = |kind: &Kind| {
        let mut row = vec![
            kind.plural.clone(),
            kind.short.join(","),
            kind.api_version(),
            kind.namespaced.to_string(),
            kind.kind.clone(),
        ];
        if verb.output.as_deref() == Some("wide") {
            row.extend([kind.verbs.join(","), kind.categories.join(",")]);
        }
        row
    };
    let mut columns = vec!["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"];
    match verb.output.as_deref() {
        Some("name") => {
            kinds.iter().for_each(|kind| output::line(kind.plural_qualified()));
            return Ok(());
        }
        Some("wide") => columns.extend(["VERBS", "CATEGORIES"]),
        None | Some("") => {}
        Some(other) => {
            return Err(Error::plain(format!("--output {other} is not available: use wide or name")));
        }
    }
    let style = Style { no_headers: verb.no_headers, ..Style::default() };
    output::text(plain(&columns, kinds.into_iter().map(row)).render(&style));
    Ok(())
}

/// List the API versions that the server knows
#[derive(Debug, Args)]
#[command(after_help = "Example: minik8s api-versions")]
pub struct ApiVersions {}

pub async fn api_versions(session: &Session, _: ApiVersions) -> Result<()> {
    let mut versions = session.discovery().await?.versions.clone();
    versions.sort();
    versions.iter().for_each(output::line);
    Ok(())
}

/// Show where the cluster is
#[derive(Debug, Args)]
#[command(after_help = "Example: minik8s cluster-info", args_conflicts_with_subcommands = true)]
pub struct ClusterInfo {
    #[command(subcommand)]
    more: Option<ClusterInfoMore>,
}

#[derive(Debug, Subcommand)]
enum ClusterInfoMore {
    Dump(Dump),
}

pub async fn cluster_info(session: &Session, verb: ClusterInfo) -> Result<()> {
    if let Some(ClusterInfoMore::Dump(verb)) = verb.more {
        return dump::run(session, verb).await;
    }
    let client = session.client().await?;
    let namespace = session.flags.namespace.as_deref().unwrap_or("kube-system");
    let services = Call::get(format!("/api/v1/namespaces/{namespace}/services"))
        .query("labelSelector", "kubernetes.io/cluster-service=true");
    let services = client.send(services).await?;
    let paint = |text: &str, colour: u8| match output::is_terminal() {
        true => format!("\u{1b}[0;{colour}m{text}\u{1b}[0m"),
        false => text.to_owned(),
    };
    let line = |name: &str, url: &str| {
        output::line(format_args!("{} is running at {}", paint(name, 32), paint(url, 33)))
    };
    line("Kubernetes control plane", &client.url);
    for service in crate::print::members(&services) {
        let name = service["metadata"]["name"].as_str().unwrap_or_default();
        let label = service["metadata"]["labels"]["kubernetes.io/name"].as_str().unwrap_or(name);
        let port =
            service["spec"]["ports"][0]["name"].as_str().map(|port| format!(":{port}")).unwrap_or_default();
        line(label, &format!("{}/api/v1/namespaces/{namespace}/services/{name}{port}/proxy", client.url));
    }
    output::line(match session.as_kubectl {
        true => "\nTo further debug and diagnose cluster problems, use 'kubectl cluster-info dump'.",
        false => "\nWhat is unhealthy and why: minik8s status",
    });
    Ok(())
}
