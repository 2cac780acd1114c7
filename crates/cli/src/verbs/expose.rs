//! `expose` and `autoscale`: a Service, or an autoscaler, for a workload that is there.

use clap::Args;
use serde_json::{Value, json};

use super::create::{MakingFlags, labels, make_as};
use crate::error::{Error, Result};
use crate::flags::FileFlags;
use crate::select;
use crate::session::Session;

/// Make a Service for a workload
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s expose deployment web --port=80 --target-port=8080
  minik8s expose pod db --port=5432 --name=database --type=NodePort")]
pub struct Expose {
    /// TYPE NAME or TYPE/NAME
    #[arg(value_name = "WHAT")]
    words: Vec<String>,
    #[command(flatten)]
    files: FileFlags,
    /// Port of the Service; the containers' ports by default
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Port of the containers, a number or a name
    #[arg(long, value_name = "PORT")]
    target_port: Option<String>,
    /// TCP, UDP or SCTP
    #[arg(long, value_name = "PROTOCOL")]
    protocol: Option<String>,
    /// Name of the Service; the workload's by default
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// ClusterIP, NodePort, LoadBalancer or ExternalName
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// Labels of the pods; the workload's by default
    #[arg(long, value_name = "LABELS")]
    selector: Option<String>,
    /// Labels of the Service
    #[arg(short, long, value_name = "LABELS")]
    labels: Option<String>,
    /// Address of the Service, or None
    #[arg(long, value_name = "ADDRESS")]
    cluster_ip: Option<String>,
    /// An address from outside that leads here
    #[arg(long, value_name = "ADDRESS")]
    external_ip: Option<String>,
    /// None or ClientIP
    #[arg(long, value_name = "AFFINITY")]
    session_affinity: Option<String>,
    #[command(flatten)]
    making: MakingFlags,
}

pub async fn expose(session: &Session, verb: Expose) -> Result<()> {
    let target = select::find_one(session, &verb.words, Some(&verb.files)).await?;
    let object = &target.object;
    let selector = match &verb.selector {
        Some(text) => labels(text)?,
        None => selector_of(object)?,
    };
    let ports = verb.ports(object)?;
    let mut metadata = json!({"name": verb.name.clone().unwrap_or_else(|| target.name.clone())});
    match &verb.labels {
        Some(text) => metadata["labels"] = labels(text)?,
        None if object["metadata"]["labels"].is_object() => {
            metadata["labels"] = object["metadata"]["labels"].clone()
        }
        None => {}
    }
    let mut spec = json!({"ports": ports, "selector": selector});
    for (field, value) in
        [("type", &verb.kind), ("clusterIP", &verb.cluster_ip), ("sessionAffinity", &verb.session_affinity)]
    {
        if let Some(value) = value {
            spec[field] = value.clone().into();
        }
    }
    if let Some(address) = &verb.external_ip {
        spec["externalIPs"] = json!([address]);
    }
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec, "status": {"loadBalancer": {}}});
    make_as(session, service, &verb.making, "exposed").await
}

impl Expose {
    fn ports(&self, object: &Value) -> Result<Vec<Value>> {
        let protocol = self.protocol.as_deref();
        let target = |port: u16| match &self.target_port {
            None => json!(port),
            Some(text) => text.parse::<u16>().map_or_else(|_| json!(text), |number| json!(number)),
        };
        if let Some(port) = self.port {
            return Ok(vec![
                json!({"port": port, "protocol": protocol.unwrap_or("TCP"), "targetPort": target(port)}),
            ]);
        }
        let found = container_ports(object);
        if found.is_empty() {
            return Err(Error::plain("couldn't find port via --port flag or introspection"));
        }
        let several = found.len() > 1;
        let port = |(i, (port, own)): (usize, &(u16, String))| {
            let mut spec =
                json!({"port": port, "protocol": protocol.unwrap_or(own), "targetPort": target(*port)});
            if several {
                spec["name"] = format!("port-{}", i + 1).into();
            }
            spec
        };
        Ok(found.iter().enumerate().map(port).collect())
    }
}

/// What the pods of a workload, a pod, or a Service are found by.
fn selector_of(object: &Value) -> Result<Value> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let selector = match kind {
        "Pod" => &object["metadata"]["labels"],
        "Service" | "ReplicationController" => &object["spec"]["selector"],
        _ => &object["spec"]["selector"]["matchLabels"],
    };
    if selector.as_object().is_none_or(serde_json::Map::is_empty) {
        return Err(Error::plain(format!("cannot expose a {kind}: couldn't retrieve selectors")));
    }
    Ok(selector.clone())
}

fn container_ports(object: &Value) -> Vec<(u16, String)> {
    if object["kind"] == "Service" {
        return ports(&object["spec"]["ports"], "port");
    }
    let spec = if object["kind"] == "Pod" { &object["spec"] } else { &object["spec"]["template"]["spec"] };
    let containers = spec["containers"].as_array().into_iter().flatten();
    containers.flat_map(|container| ports(&container["ports"], "containerPort")).collect()
}

fn ports(list: &Value, field: &str) -> Vec<(u16, String)> {
    let port = |port: &Value| {
        let number = u16::try_from(port[field].as_u64()?).ok()?;
        Some((number, port["protocol"].as_str().unwrap_or("TCP").to_owned()))
    };
    list.as_array().into_iter().flatten().filter_map(port).collect()
}

/// Make an autoscaler for a workload
#[derive(Debug, Args)]
#[command(after_help = "Example: minik8s autoscale deployment web --min=1 --max=5 --cpu-percent=60")]
pub struct Autoscale {
    /// TYPE NAME or TYPE/NAME
    #[arg(value_name = "WHAT")]
    words: Vec<String>,
    #[command(flatten)]
    files: FileFlags,
    /// At least this many pods
    #[arg(long, value_name = "N")]
    min: Option<u32>,
    /// At most this many pods
    #[arg(long, value_name = "N")]
    max: u32,
    /// Use of CPU to aim at, in percent of what the pods request
    #[arg(long, value_name = "PERCENT", conflicts_with = "cpu")]
    cpu_percent: Option<u32>,
    /// Use of CPU to aim at: a percentage (60%) or an amount (500m)
    #[arg(long, value_name = "USE")]
    cpu: Option<String>,
    /// Use of memory to aim at: a percentage (60%) or an amount (200Mi)
    #[arg(long, value_name = "USE")]
    memory: Option<String>,
    /// Name of the autoscaler; the workload's by default
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    making: MakingFlags,
}

pub async fn autoscale(session: &Session, verb: Autoscale) -> Result<()> {
    let target = select::find_one(session, &verb.words, Some(&verb.files)).await?;
    let mut metrics: Vec<Value> = Vec::new();
    let cpu = verb.cpu.clone().or(verb.cpu_percent.map(|percent| format!("{percent}%")));
    for (name, aim) in [("cpu", &cpu), ("memory", &verb.memory)] {
        if let Some(aim) = aim {
            metrics.push(json!({"type": "Resource", "resource": {"name": name, "target": aim_of(aim)?}}));
        }
    }
    let mut spec = json!({
        "maxReplicas": verb.max,
        "scaleTargetRef": {"apiVersion": target.kind.api_version(), "kind": target.kind.kind, "name": target.name},
    });
    if let Some(least) = verb.min.filter(|least| *least > 0) {
        spec["minReplicas"] = least.into();
    }
    if !metrics.is_empty() {
        spec["metrics"] = metrics.into();
    }
    let name = verb.name.clone().unwrap_or_else(|| target.name.clone());
    let object = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name}, "spec": spec,
    });
    make_as(session, object, &verb.making, "autoscaled").await
}

fn aim_of(text: &str) -> Result<Value> {
    match text.strip_suffix('%') {
        Some(percent) => {
            let percent: u32 =
                percent.parse().map_err(|_| Error::plain(format!("invalid percentage {text:?}")))?;
            Ok(json!({"type": "Utilization", "averageUtilization": percent}))
        }
        None => Ok(json!({"type": "AverageValue", "averageValue": text})),
    }
}
