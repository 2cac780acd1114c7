//! `minik8s mesh`: the mesh from the command line. It talks to the API alone.

pub(crate) mod sight;
mod status;
mod tap;
mod why;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Subcommand;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use minik8s_meta::mesh::{
    MeshEndpoint, MeshGateway, MeshRoute, MeshService, PROGRAMMED, SubsetRoute, VirtualService,
    VirtualServiceSpec,
};
use serde_json::json;

use self::status::print;

#[derive(Debug, Subcommand)]
pub enum MeshCommand {
    /// Show who gets which requests, which policies there are, and which proxies do not follow yet
    #[command(after_help = "Example: minik8s mesh status")]
    Status,
    /// Split the requests to a Service by weight, and wait until every proxy does so
    #[command(after_help = "Examples:
  minik8s mesh split reviews v1=90 v3=10
  minik8s mesh split reviews v1=0 v3=1 --port 9080 --timeout 30s")]
    Split {
        #[arg(value_name = "SERVICE")]
        service: String,
        /// Subsets of its pods with their weights
        #[arg(required = true, value_name = "SUBSET=WEIGHT", value_parser = share)]
        shares: Vec<(String, i32)>,
        /// The Service's port, if it has several
        #[arg(long, value_name = "N")]
        port: Option<u16>,
        /// How many seconds to wait; 0 not to wait
        #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = seconds)]
        timeout: u64,
    },
    /// Show what proxies were told: addresses, and endpoints with their shares and service accounts
    #[command(after_help = "Example: minik8s mesh routes reviews")]
    Routes {
        #[arg(value_name = "SERVICE")]
        service: Option<String>,
    },
    /// Explain where a request of a pod would go, without sending it
    #[command(after_help = "Example: minik8s mesh why web-1 http://reviews:9080/reviews/1 -H end-user:jason")]
    Why {
        #[arg(value_name = "POD")]
        pod: String,
        #[arg(value_name = "URL")]
        url: http::Uri,
        /// A header of the request
        #[arg(short = 'H', long = "header", value_name = "NAME:VALUE", value_parser = header)]
        headers: Vec<(http::HeaderName, http::HeaderValue)>,
        /// The request's method
        #[arg(long, value_name = "METHOD", default_value = "GET")]
        method: String,
    },
    /// Show requests, errors and times between workloads and Services of all namespaces
    #[command(after_help = "Examples:
  minik8s mesh top
  minik8s mesh top --interval 5s")]
    Top {
        /// Count for so many seconds; since the proxies were started without it
        #[arg(long, value_name = "SECONDS", value_parser = seconds)]
        interval: Option<u64>,
    },
    /// Show requests as they pass the proxies of pods, until Ctrl-C
    #[command(after_help = "Examples:
  minik8s mesh tap
  minik8s mesh tap deploy/web --status 5xx
  minik8s mesh tap -l app=web --path '^/reviews/' --max 10")]
    Tap(tap::TapFlags),
    /// Show who calls whom
    #[command(after_help = "Example: minik8s mesh graph -o dot > mesh.dot")]
    Graph {
        /// Text, or dot for Graphviz
        #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "dot"])]
        output: String,
    },
}

fn header(text: &str) -> Result<(http::HeaderName, http::HeaderValue), String> {
    let wrong = || format!("{text} is not of the form NAME:VALUE, such as end-user:jason");
    let (name, value) = text.split_once(':').ok_or_else(wrong)?;
    Ok((name.trim().parse().map_err(|_| wrong())?, value.trim().parse().map_err(|_| wrong())?))
}

fn share(text: &str) -> Result<(String, i32), String> {
    let wrong = || format!("{text} is not of the form SUBSET=WEIGHT, such as v1=90");
    let (name, weight) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
    let weight: i32 = weight.parse().map_err(|_| wrong())?;
    if weight < 0 {
        Err(format!("the weight of {name} must be 0 or more"))
    } else {
        Ok((name.to_owned(), weight))
    }
}

/// `30` and `30s`.
fn seconds(text: &str) -> Result<u64, String> {
    text.trim_end_matches('s').parse().map_err(|_| "give a number of seconds, such as 30s".to_owned())
}

pub async fn run(command: MeshCommand, client: Client, namespace: &str) -> anyhow::Result<()> {
    let api: Api<VirtualService> = Api::namespaced(client.clone(), namespace);
    match command {
        MeshCommand::Status => status::show(&api, client, namespace).await,
        MeshCommand::Split { service, shares, port, timeout } => {
            let services = Api::namespaced(client, namespace);
            let one = split(&api, &services, &service, &shares, port).await?;
            match timeout {
                0 => print(&one),
                seconds => wait(&api, one, Duration::from_secs(seconds)).await,
            }
        }
        MeshCommand::Routes { service } => routes(client, namespace, service.as_deref()).await,
        MeshCommand::Why { pod, url, headers, method } => {
            let headers = headers.into_iter().collect();
            explain(client, namespace, &pod, (&url, &method, &headers)).await
        }
        MeshCommand::Top { interval } => {
            let mut before = BTreeMap::new();
            if let Some(seconds) = interval {
                before = sight::read(&sight::pages(&client).await?);
                tokio::time::sleep(Duration::from_secs(seconds)).await;
            }
            let after = sight::read(&sight::pages(&client).await?);
            say(&sight::top(&before, &after, interval))
        }
        MeshCommand::Tap(flags) => tap::run(flags, client, namespace).await,
        MeshCommand::Graph { output } => {
            let edges = sight::read(&sight::pages(&client).await?);
            say(&sight::graph(&edges, output == "dot"))
        }
    }
}

fn say(text: &str) -> anyhow::Result<()> {
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

async fn routes(client: Client, namespace: &str, service: Option<&str>) -> anyhow::Result<()> {
    let all = ListParams::default();
    let routes = Api::<MeshRoute>::namespaced(client.clone(), namespace).list(&all).await.map_err(no_mesh)?;
    let services = Api::<MeshService>::namespaced(client, namespace).list(&all).await.map_err(no_mesh)?;
    let is_wanted = |name: &str| {
        service.is_none_or(|wanted| name.split_once('/').is_some_and(|(_, name)| name == wanted))
    };
    let mut text = String::new();
    for route in routes.items.iter().filter(|route| is_wanted(&route.spec.service)) {
        let name = route.metadata.name.as_deref().unwrap_or_default();
        if let Some(gateway) = &route.spec.gateway {
            text += &by_gateway(&route.spec.addresses, gateway);
            continue;
        }
        text += &format!("{} by VirtualService {name}\n", route.spec.addresses.join(", "));
        for rule in &route.spec.rules {
            let headers = rule.headers.iter().map(|(name, value)| format!("{name}: {value}"));
            let all: Vec<String> = rule.url.iter().map(|url| format!("url {url}")).chain(headers).collect();
            let which = if all.is_empty() { "all requests".to_owned() } else { all.join(", ") };
            text += &format!("  {which}\n{}", shares(&rule.endpoints));
        }
    }
    let known = |address: &String| routes.items.iter().any(|route| route.spec.addresses.contains(address));
    for service in services.items.iter().filter(|service| is_wanted(&service.spec.service)) {
        for port in &service.spec.ports {
            let is_plain = !port.addresses.is_empty() && !port.addresses.iter().any(known);
            if is_plain {
                let how = if port.http { "request by request" } else { "connection by connection" };
                text += &format!("{}, {how}\n{}", port.addresses.join(", "), shares(&port.endpoints));
            }
        }
    }
    if text.is_empty() {
        text = "no Service of this namespace has pods of the mesh\n".to_owned();
    }
    say(&text)
}

fn by_gateway(addresses: &[String], gateway: &MeshGateway) -> String {
    let mut text = format!("{} by routes of the Gateway API\n", addresses.join(", "));
    for rule in &gateway.rules {
        text += &format!("  {}\n", rule.route);
        for backend in &rule.backends {
            let target = &backend.target;
            let problem = target.problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default();
            let place = format!("{}/{}:{}", target.namespace, target.service, target.port);
            text += &format!("    weight {} to {place}{problem}\n", backend.weight);
        }
    }
    text
}

fn shares(endpoints: &[MeshEndpoint]) -> String {
    let sum: u64 = endpoints.iter().map(|endpoint| endpoint.weight).sum();
    let line = |one: &MeshEndpoint| {
        let share = one.weight as f64 * 100.0 / sum.max(1) as f64;
        let account = one.service_account.as_deref().unwrap_or("no proxy");
        format!("    {share:5.1}% {:21} {} ({account})\n", one.address, one.pod)
    };
    endpoints.iter().map(line).collect()
}

fn no_mesh(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(error) if error.code == 404 => {
            anyhow::anyhow!("this cluster has no mesh: start its servers with minik8s server --mesh")
        }
        other => other.into(),
    }
}

async fn explain(
    client: Client,
    namespace: &str,
    pod: &str,
    (uri, method, headers): (&http::Uri, &str, &http::HeaderMap),
) -> anyhow::Result<()> {
    let all = ListParams::default();
    let pods = Api::<Pod>::all(client.clone()).list(&all).await?.items;
    let is_it = |one: &&Pod| {
        one.metadata.name.as_deref() == Some(pod) && one.metadata.namespace.as_deref() == Some(namespace)
    };
    let asking = pods.iter().find(is_it).cloned();
    let asking = asking.with_context(|| format!("there is no pod {pod} in namespace {namespace}"))?;
    let world = why::World {
        services: Api::all(client.clone()).list(&all).await?.items,
        routes: Api::all(client.clone()).list(&all).await.map_err(no_mesh)?.items,
        mesh_services: Api::all(client.clone()).list(&all).await.map_err(no_mesh)?.items,
        policies: Api::all(client).list(&all).await.map_err(no_mesh)?.items,
        pods,
    };
    let question = why::Question { pod: &asking, uri, method, headers };
    say(&why::explain(&world, &question).map_err(anyhow::Error::msg)?)
}

async fn list(api: &Api<VirtualService>) -> anyhow::Result<Vec<VirtualService>> {
    match api.list(&ListParams::default()).await {
        Err(kube::Error::Api(error)) if error.code == 404 => {
            bail!("this cluster has no mesh: start its servers with minik8s server --mesh")
        }
        other => Ok(other?.items),
    }
}

/// Changes the VirtualService of that Service, or makes one of its name.
async fn split(
    api: &Api<VirtualService>,
    services: &Api<Service>,
    service: &str,
    shares: &[(String, i32)],
    port: Option<u16>,
) -> anyhow::Result<VirtualService> {
    let subsets: Vec<SubsetRoute> = shares
        .iter()
        .map(|(name, weight)| SubsetRoute {
            name: name.clone(),
            weight: Some(*weight),
            ..SubsetRoute::default()
        })
        .collect();
    let is_meant = |one: &VirtualService| {
        one.spec.service_ref == service && port.is_none_or(|port| i32::from(port) == one.spec.port)
    };
    let mut known: Vec<VirtualService> = list(api).await?.into_iter().filter(is_meant).collect();
    known.sort_by_key(|one| one.metadata.creation_timestamp.clone());
    if let Some(name) = known.first().and_then(|one| one.metadata.name.clone()) {
        let patch = Patch::Merge(json!({"spec": {"subsets": subsets}}));
        return Ok(api.patch(&name, &PatchParams::default(), &patch).await?);
    }
    let found = services.get_opt(service).await?.with_context(|| format!("there is no Service {service}"))?;
    let ports = found.spec.and_then(|spec| spec.ports).unwrap_or_default();
    let port = match (port, ports.as_slice()) {
        (Some(port), _) => i32::from(port),
        (None, [one]) => one.port,
        (None, _) => bail!("Service {service} has several ports: say which with --port"),
    };
    let made = VirtualService {
        metadata: ObjectMeta { name: Some(service.to_owned()), ..ObjectMeta::default() },
        spec: VirtualServiceSpec {
            service_ref: service.to_owned(),
            port,
            subsets,
            ..VirtualServiceSpec::default()
        },
        ..VirtualService::default()
    };
    Ok(api.create(&PostParams::default(), &made).await?)
}

async fn wait(api: &Api<VirtualService>, one: VirtualService, timeout: Duration) -> anyhow::Result<()> {
    let name = one.metadata.name.clone().unwrap_or_default();
    let generation = one.metadata.generation;
    let holds = |object: Option<&VirtualService>| {
        let conditions = object.and_then(|object| object.status.as_ref()).map(|status| &status.conditions);
        conditions.into_iter().flatten().any(|condition| {
            condition.type_ == PROGRAMMED
                && condition.status == "True"
                && condition.observed_generation >= generation
        })
    };
    let waited = tokio::time::timeout(timeout, await_condition(api.clone(), &name, holds)).await;
    let newest = api.get(&name).await?;
    print(&newest)?;
    match waited {
        Ok(ended) => Ok(ended.map(drop)?),
        Err(_) => bail!("not all proxies route so after {} s", timeout.as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        assert_eq!(share("v1=90"), Ok(("v1".to_owned(), 90)));
        for wrong in ["v1", "=1", "v1=", "v1=x", "v1=-1"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
        assert_eq!((seconds("30s"), seconds("0")), (Ok(30), Ok(0)));
    }
}
