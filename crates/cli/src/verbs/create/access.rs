//! Namespaces, service accounts, their tokens, roles and bindings.

use std::time::Duration;

use clap::Args;
use http::Method;
use serde_json::{Map, Value, json};

use super::{MakingFlags, labels};
use crate::client::Call;
use crate::error::{Error, Result};
use crate::flags::{OutputFlag, duration};
use crate::output;
use crate::print::{Form, render};
use crate::session::Session;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Create a namespace
#[derive(Debug, Args)]
#[command(after_help = "Example: minik8s create namespace team-a")]
pub struct Namespace {
    name: String,
    #[command(flatten)]
    pub making: MakingFlags,
}

impl Namespace {
    pub fn object(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}, "spec": {}, "status": {}})
    }
}

/// Create a service account
#[derive(Debug, Args)]
#[command(after_help = "Example: minik8s create serviceaccount robot")]
pub struct ServiceAccount {
    name: String,
    #[command(flatten)]
    pub making: MakingFlags,
}

impl ServiceAccount {
    pub fn object(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": self.name}})
    }
}

/// What a role allows.
#[derive(Debug, Args)]
struct Allowed {
    /// Verbs: get,list,watch,create,...
    #[arg(long, value_name = "VERB", value_delimiter = ',')]
    verb: Vec<String>,
    /// Resources: pods, deployments.apps, pods/log
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',')]
    resource: Vec<String>,
    /// Only objects of these names
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    resource_name: Vec<String>,
}

impl Allowed {
    /// One rule for each API group.
    async fn rules(&self, session: &Session) -> Result<Vec<Value>> {
        if self.verb.is_empty() {
            return Err(Error::plain("at least one verb must be specified"));
        }
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for resource in &self.resource {
            let (group, name) = resolve(session, resource).await?;
            match groups.iter_mut().find(|(known, _)| *known == group) {
                Some((_, names)) => names.push(name),
                None => groups.push((group, vec![name])),
            }
        }
        let rule = |(group, names): (String, Vec<String>)| {
            let mut rule = json!({"apiGroups": [group], "resources": names, "verbs": self.verb});
            if !self.resource_name.is_empty() {
                rule["resourceNames"] = json!(self.resource_name);
            }
            rule
        };
        Ok(groups.into_iter().map(rule).collect())
    }
}

/// Group and name of `deployments.apps` or `pods/log`.
async fn resolve(session: &Session, resource: &str) -> Result<(String, String)> {
    let (name, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (group, plural) = if name == "*" {
        (String::new(), name.to_owned())
    } else {
        let kind = session.kind(name).await?;
        (kind.group, kind.plural)
    };
    Ok((group, if subresource.is_empty() { plural } else { format!("{plural}/{subresource}") }))
}

/// Create a role in a namespace
#[derive(Debug, Args)]
#[command(
    after_help = "Example: minik8s create role reader --verb=get,list,watch --resource=pods,deployments.apps"
)]
pub struct Role {
    name: String,
    #[command(flatten)]
    allowed: Allowed,
    #[command(flatten)]
    pub making: MakingFlags,
}

impl Role {
    pub async fn object(&self, session: &Session) -> Result<Value> {
        if self.allowed.resource.is_empty() {
            return Err(Error::plain("at least one resource must be specified"));
        }
        Ok(role("Role", &self.name, self.allowed.rules(session).await?))
    }
}

/// Create a role for the whole cluster
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s create clusterrole watcher --verb=get,list --resource=nodes
  minik8s create clusterrole prober --verb=get --non-resource-url=/healthz")]
pub struct ClusterRole {
    name: String,
    #[command(flatten)]
    allowed: Allowed,
    /// Paths outside of resources
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    non_resource_url: Vec<String>,
    /// Take the rules of all roles with these labels
    #[arg(long, value_name = "LABELS", conflicts_with_all = ["verb", "resource", "non_resource_url"])]
    aggregation_rule: Option<String>,
    #[command(flatten)]
    pub making: MakingFlags,
}

impl ClusterRole {
    pub async fn object(&self, session: &Session) -> Result<Value> {
        if let Some(selector) = &self.aggregation_rule {
            let mut object = role("ClusterRole", &self.name, Vec::new());
            object["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": labels(selector)?}]});
            object["rules"] = Value::Null;
            return Ok(object);
        }
        if self.allowed.resource.is_empty() && self.non_resource_url.is_empty() {
            return Err(Error::plain("at least one resource must be specified"));
        }
        let mut rules = self.allowed.rules(session).await?;
        if !self.non_resource_url.is_empty() {
            rules.push(json!({"nonResourceURLs": self.non_resource_url, "verbs": self.allowed.verb}));
        }
        Ok(role("ClusterRole", &self.name, rules))
    }
}

fn role(kind: &str, name: &str, rules: Vec<Value>) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": {"name": name}, "rules": rules})
}

/// To whom.
#[derive(Debug, Args)]
pub struct Subjects {
    /// A user; may be repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    user: Vec<String>,
    /// A group; may be repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    group: Vec<String>,
    /// A service account, NAMESPACE:NAME; may be repeated
    #[arg(long, value_name = "NAMESPACE:NAME", value_delimiter = ',')]
    serviceaccount: Vec<String>,
}

impl Subjects {
    pub fn list(&self) -> Result<Vec<Value>> {
        let named = |kind: &str, name: &String| json!({"apiGroup": RBAC, "kind": kind, "name": name});
        let mut list: Vec<Value> = self.user.iter().map(|name| named("User", name)).collect();
        list.extend(self.group.iter().map(|name| named("Group", name)));
        for account in &self.serviceaccount {
            let (namespace, name) = account
                .split_once(':')
                .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty())
                .ok_or_else(|| Error::plain("serviceaccount must be <namespace>:<name>"))?;
            list.push(json!({"kind": "ServiceAccount", "name": name, "namespace": namespace}));
        }
        Ok(list)
    }
}

/// Give a role to somebody in a namespace
#[derive(Debug, Args)]
#[command(
    after_help = "Example: minik8s create rolebinding readers --role=reader --user=jane --serviceaccount=default:robot"
)]
pub struct RoleBinding {
    name: String,
    /// The role
    #[arg(
        long,
        value_name = "NAME",
        required_unless_present = "clusterrole",
        conflicts_with = "clusterrole"
    )]
    role: Option<String>,
    /// The cluster's role
    #[arg(long, value_name = "NAME")]
    clusterrole: Option<String>,
    #[command(flatten)]
    subjects: Subjects,
    #[command(flatten)]
    pub making: MakingFlags,
}

impl RoleBinding {
    pub fn object(&self) -> Result<Value> {
        let (kind, name) = match (&self.role, &self.clusterrole) {
            (Some(role), _) => ("Role", role.as_str()),
            (None, role) => ("ClusterRole", role.as_deref().unwrap_or_default()),
        };
        binding("RoleBinding", &self.name, kind, name, &self.subjects)
    }
}

/// Give a role to somebody in the whole cluster
#[derive(Debug, Args)]
#[command(
    after_help = "Example: minik8s create clusterrolebinding admins --clusterrole=cluster-admin --group=ops"
)]
pub struct ClusterRoleBinding {
    name: String,
    /// The role
    #[arg(long, value_name = "NAME")]
    clusterrole: String,
    #[command(flatten)]
    subjects: Subjects,
    #[command(flatten)]
    pub making: MakingFlags,
}

impl ClusterRoleBinding {
    pub fn object(&self) -> Result<Value> {
        binding("ClusterRoleBinding", &self.name, "ClusterRole", &self.clusterrole, &self.subjects)
    }
}

fn binding(kind: &str, name: &str, role_kind: &str, role: &str, subjects: &Subjects) -> Result<Value> {
    Ok(json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role},
        "subjects": subjects.list()?,
    }))
}

/// Make a token of a service account
#[derive(Debug, Args)]
#[command(after_help = "Example: minik8s create token robot --duration=1h")]
pub struct Token {
    /// The service account
    name: String,
    /// For whom the token is; may be repeated
    #[arg(long, value_name = "AUDIENCE", value_delimiter = ',')]
    audience: Vec<String>,
    /// How long it is good
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    #[command(flatten)]
    output: OutputFlag,
}

pub async fn token(session: &Session, flags: &Token) -> Result<()> {
    let mut spec = Map::new();
    if !flags.audience.is_empty() {
        spec.insert("audiences".to_owned(), json!(flags.audience));
    }
    if let Some(duration) = flags.duration {
        spec.insert("expirationSeconds".to_owned(), duration.as_secs().into());
    }
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    let path =
        format!("/api/v1/namespaces/{}/serviceaccounts/{}/token", session.namespace().await?, flags.name);
    let answer = session.client().await?.send(Call::new(Method::POST, path).json(&request)).await;
    let answer = answer.map_err(|error| match error {
        Error::Server(server) => Error::plain(format!("failed to create token: {}", server.message)),
        other => other,
    })?;
    match Form::parse(&flags.output)? {
        Form::Table { .. } => {
            output::text(answer["status"]["token"].as_str().unwrap_or_default());
            // kubectl leaves a person's prompt on the same line.
            if !session.as_kubectl {
                output::line("");
            }
        }
        form => output::text(render(&form, &answer, true)?),
    }
    Ok(())
}
