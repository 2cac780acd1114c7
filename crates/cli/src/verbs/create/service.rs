//! Services and Ingresses.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::MakingFlags;
use crate::error::{Error, Result};

/// Create a Service
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of them, for one command")]
pub enum Service {
    /// With an address inside of the cluster
    #[command(after_help = "Example: minik8s create service clusterip web --tcp=80:8080")]
    Clusterip(Plain),
    /// With a port on every node
    #[command(after_help = "Example: minik8s create service nodeport web --tcp=80:8080 --node-port=30080")]
    Nodeport(Plain),
    /// With an address for the world
    #[command(after_help = "Example: minik8s create service loadbalancer web --tcp=80:8080")]
    Loadbalancer(Plain),
    /// Another name for a host outside
    #[command(after_help = "Example: minik8s create service externalname db --external-name=db.example.com")]
    Externalname {
        #[command(flatten)]
        plain: Plain,
        /// The host's name
        #[arg(long, value_name = "HOST")]
        external_name: String,
    },
}

#[derive(Debug, Args)]
pub struct Plain {
    name: String,
    /// PORT or PORT:TARGET; may be repeated
    #[arg(long, value_name = "PORT[:TARGET]", value_delimiter = ',')]
    tcp: Vec<String>,
    /// The address, or None for no address
    #[arg(long, value_name = "ADDRESS")]
    clusterip: Option<String>,
    /// Port on the nodes
    #[arg(long, value_name = "PORT")]
    node_port: Option<u16>,
    #[command(flatten)]
    making: MakingFlags,
}

impl Service {
    fn parts(&self) -> (&Plain, &'static str) {
        match self {
            Service::Clusterip(plain) => (plain, "ClusterIP"),
            Service::Nodeport(plain) => (plain, "NodePort"),
            Service::Loadbalancer(plain) => (plain, "LoadBalancer"),
            Service::Externalname { plain, .. } => (plain, "ExternalName"),
        }
    }

    pub fn making(&self) -> &MakingFlags {
        &self.parts().0.making
    }

    pub fn object(&self) -> Result<Value> {
        let (plain, kind) = self.parts();
        let labels = json!({"app": plain.name});
        let mut spec = json!({"selector": labels, "type": kind});
        let ports: Vec<Value> =
            plain.tcp.iter().map(|text| port(text, plain.node_port)).collect::<Result<_>>()?;
        if ports.is_empty() && kind != "ExternalName" && plain.clusterip.as_deref() != Some("None") {
            return Err(Error::plain("at least one tcp port specifier must be provided"));
        }
        if !ports.is_empty() {
            spec["ports"] = ports.into();
        }
        if let Some(address) = &plain.clusterip {
            spec["clusterIP"] = address.clone().into();
        }
        if let Service::Externalname { external_name, .. } = self {
            spec["externalName"] = external_name.clone().into();
        }
        Ok(json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": plain.name, "labels": labels},
            "spec": spec,
            "status": {"loadBalancer": {}},
        }))
    }
}

/// `80` or `80:8080` or `80:http`.
fn port(text: &str, node_port: Option<u16>) -> Result<Value> {
    let (port, target) = text.split_once(':').unwrap_or((text, text));
    let wrong = |_| Error::plain(format!("unable to parse port {text:?}: expected PORT or PORT:TARGET"));
    let number: u16 = port.parse().map_err(wrong)?;
    let target = target.parse::<u16>().map_or_else(|_| json!(target), |number| json!(number));
    let mut spec =
        json!({"name": text.replace(':', "-"), "port": number, "protocol": "TCP", "targetPort": target});
    if let Some(port) = node_port {
        spec["nodePort"] = port.into();
    }
    Ok(spec)
}

/// Create an Ingress
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s create ingress web --rule='shop.example/*=web:80'
  minik8s create ingress web --rule='shop.example/api=api:8080,tls=cert' --class=minik8s")]
pub struct Ingress {
    name: String,
    /// HOST/PATH=SERVICE:PORT[,tls[=SECRET]]; a path that ends in * is a prefix
    #[arg(long, value_name = "RULE")]
    rule: Vec<String>,
    /// SERVICE:PORT for everything else
    #[arg(long, value_name = "SERVICE:PORT")]
    default_backend: Option<String>,
    /// The ingress class
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    /// Annotations, key=value
    #[arg(long, value_name = "KEY=VALUE")]
    annotation: Vec<String>,
    #[command(flatten)]
    pub making: MakingFlags,
}

impl Ingress {
    pub fn object(&self) -> Result<Value> {
        if self.rule.is_empty() && self.default_backend.is_none() {
            return Err(Error::plain(
                "not enough information provided: every ingress has to either specify a default-backend (which catches all traffic) or a list of rules (which catch specific paths)",
            ));
        }
        let (mut rules, mut tls): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
        for text in &self.rule {
            add_rule(text, &mut rules, &mut tls)?;
        }
        let mut spec = json!({});
        for (field, list) in [("rules", rules), ("tls", tls)] {
            if !list.is_empty() {
                spec[field] = list.into();
            }
        }
        if let Some(class) = &self.class {
            spec["ingressClassName"] = class.clone().into();
        }
        if let Some(text) = &self.default_backend {
            spec["defaultBackend"] = backend(text)?;
        }
        let mut metadata = json!({"name": self.name});
        for text in &self.annotation {
            let (key, value) = crate::flags::pair(text, "--annotation")?;
            metadata["annotations"][key] = value.into();
        }
        Ok(json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata, "spec": spec,
            "status": {"loadBalancer": {}},
        }))
    }
}

fn backend(text: &str) -> Result<Value> {
    let (name, port) = text
        .split_once(':')
        .ok_or_else(|| Error::plain(format!("{text} is not in the form SERVICE:PORT")))?;
    let port = port.parse::<u16>().map_or_else(|_| json!({"name": port}), |number| json!({"number": number}));
    Ok(json!({"service": {"name": name, "port": port}}))
}

fn add_rule(text: &str, rules: &mut Vec<Value>, tls: &mut Vec<Value>) -> Result<()> {
    let wrong = || {
        Error::plain(format!(
            "rule {text} is invalid and should be in format host/path=svcname:svcport[,tls[=secret]]"
        ))
    };
    let (address, rest) = text.split_once('=').ok_or_else(wrong)?;
    let mut parts = rest.split(',');
    let service = backend(parts.next().unwrap_or_default()).map_err(|_| wrong())?;
    let (host, path) = match address.split_once('/') {
        Some((host, path)) => (host, format!("/{path}")),
        None => return Err(wrong()),
    };
    let (path, kind) = match path.strip_suffix('*') {
        Some(prefix) => (prefix.to_owned(), "Prefix"),
        None => (path, "Exact"),
    };
    let entry = json!({"backend": service, "path": path, "pathType": kind});
    let known = rules.iter_mut().find(|rule| rule["host"].as_str().unwrap_or_default() == host);
    match known.and_then(|rule| rule["http"]["paths"].as_array_mut()) {
        Some(paths) => paths.push(entry),
        None => {
            let mut rule = json!({"http": {"paths": [entry]}});
            if !host.is_empty() {
                rule["host"] = host.into();
            }
            rules.push(rule);
        }
    }
    for part in parts.filter(|part| part.starts_with("tls")) {
        let mut entry = json!({});
        if !host.is_empty() {
            entry["hosts"] = json!([host]);
        }
        if let Some((_, secret)) = part.split_once('=') {
            entry["secretName"] = secret.into();
        }
        if !tls.contains(&entry) {
            tls.push(entry);
        }
    }
    Ok(())
}
