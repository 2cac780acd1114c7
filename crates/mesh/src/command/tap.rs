//! `minik8s mesh tap`: requests as they pass the proxies of some pods, also of pods that come later, until it is stopped.
//!
//! It follows the pods of one namespace and reads a stream for each that is wanted, with the rights of its user alone.
//! Pods behind addresses are named as far as they are of this namespace, since no others are asked for.

use std::collections::{BTreeMap, HashMap};
use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use kube::{Api, Client};
use minik8s_meta::LabelSelector;
use minik8s_meta::mesh::takes_inbound;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::no_mesh;
use crate::agent::workload;
use crate::tap::{self, TapEvent, TapFilter, TapLine};

/// Until a stream that ended is opened again: its node or server is being started anew.
const RETRY: Duration = Duration::from_secs(1);
/// Lines of all pods that wait to be shown.
const WAITING: usize = 256;

#[derive(Debug, Args)]
pub struct TapFlags {
    /// A pod, or what pods belong to: web-1, deploy/web; all of the namespace without it
    #[arg(value_name = "POD|KIND/NAME", value_parser = target)]
    pub target: Option<Target>,
    /// Pods with these labels
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "target")]
    pub selector: Option<String>,
    /// A regular expression that the path has a match of
    #[arg(long, value_name = "EXPRESSION")]
    pub path: Option<String>,
    /// Codes of answers, or classes of them
    #[arg(long, value_name = "404,5xx")]
    pub status: Option<String>,
    /// The method
    #[arg(long, value_name = "METHOD")]
    pub method: Option<String>,
    /// The Service that is asked, of this namespace or NAMESPACE/NAME
    #[arg(long, value_name = "SERVICE")]
    pub to: Option<String>,
    /// Ends after so many requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max: Option<u64>,
    /// Lines for people, or one object in JSON each
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    pub output: String,
}

/// Whose pods are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Pod(String),
    /// What the pods belong to: the kind of their controller, or Deployment, and its name.
    Workload(&'static str, String),
}

fn target(text: &str) -> Result<Target, String> {
    let Some((kind, name)) = text.split_once('/') else { return Ok(Target::Pod(text.to_owned())) };
    let kind = match kind.to_ascii_lowercase().as_str() {
        "po" | "pod" | "pods" => return Ok(Target::Pod(name.to_owned())),
        "deploy" | "deployment" | "deployments" | "deployment.apps" | "deployments.apps" => "Deployment",
        "sts" | "statefulset" | "statefulsets" | "statefulset.apps" => "StatefulSet",
        "ds" | "daemonset" | "daemonsets" | "daemonset.apps" => "DaemonSet",
        "rs" | "replicaset" | "replicasets" | "replicaset.apps" => "ReplicaSet",
        "job" | "jobs" | "job.batch" => "Job",
        other => return Err(format!("{other} has no pods to look at: pod, deploy, sts, ds, rs or job")),
    };
    Ok(Target::Workload(kind, name.to_owned()))
}

/// Which pods are looked at.
enum Chosen {
    Target(Target),
    Labels(LabelSelector),
}

impl Chosen {
    fn of(flags: &TapFlags) -> anyhow::Result<Self> {
        if let Some(target) = &flags.target {
            return Ok(Chosen::Target(target.clone()));
        }
        let labels = flags.selector.as_deref().unwrap_or_default();
        let labels = LabelSelector::parse(labels).map_err(|error| anyhow::anyhow!("--selector: {}", error.0));
        Ok(Chosen::Labels(labels?))
    }

    fn has(&self, pod: &Pod) -> bool {
        let is_of_mesh = pod.spec.as_ref().is_some_and(takes_inbound);
        let is_over = matches!(
            pod.status.as_ref().and_then(|status| status.phase.as_deref()),
            Some("Succeeded" | "Failed")
        );
        let is_meant = match self {
            Chosen::Target(Target::Pod(name)) => pod.metadata.name.as_deref() == Some(name),
            Chosen::Target(Target::Workload(kind, name)) => belongs(pod, kind, name),
            Chosen::Labels(selector) => selector.matches_labels(pod.metadata.labels.as_ref()),
        };
        let has_node = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        is_of_mesh && is_meant && has_node && !is_over
    }
}

fn belongs(pod: &Pod, kind: &str, name: &str) -> bool {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let Some(owner) = owners.find(|owner| owner.controller == Some(true)) else { return false };
    match kind {
        "Deployment" => owner.kind == "ReplicaSet" && owner.name != name && workload(pod) == name,
        kind => owner.kind == kind && owner.name == name,
    }
}

/// What a pod's stream says, and its end for good.
enum Said {
    Line(String, Box<TapLine>),
    Refused(anyhow::Error),
}

pub async fn run(flags: TapFlags, client: Client, namespace: &str) -> anyhow::Result<()> {
    let chosen = Chosen::of(&flags)?;
    let service =
        |name: &String| if name.contains('/') { name.clone() } else { format!("{namespace}/{name}") };
    let filter = TapFilter {
        path: flags.path.clone(),
        status: flags.status.clone(),
        method: flags.method.clone(),
        to: flags.to.as_ref().map(service),
    };
    filter.compile().map_err(anyhow::Error::msg)?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut events = watcher(pods, watcher::Config::default()).boxed();
    let (sender, mut said) = mpsc::channel(WAITING);
    let mut view = View { is_json: flags.output == "json", ..View::default() };
    let mut open: BTreeMap<String, AbortHandle> = BTreeMap::new();
    let mut left = flags.max;
    let mut is_listed = false;
    while left != Some(0) {
        tokio::select! {
            event = events.try_next() => {
                let event = match event {
                    Err(error) if is_listed && !is_refused(&error) => {
                        tokio::time::sleep(RETRY).await;
                        continue;
                    }
                    event => event.context("cannot follow pods")?,
                };
                match event {
                    Some(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => {
                        view.name(&pod);
                        let (name, uid) = name_of(&pod);
                        if chosen.has(&pod) {
                            open.entry(uid).or_insert_with(|| {
                                let stream = (client.clone(), namespace.to_owned(), name, filter.query());
                                tokio::spawn(follow(stream, sender.clone())).abort_handle()
                            });
                        } else if let Some(task) = open.remove(&uid) {
                            task.abort();
                        }
                    }
                    Some(watcher::Event::Delete(pod)) => {
                        if let Some(task) = open.remove(&name_of(&pod).1) {
                            task.abort();
                        }
                    }
                    Some(watcher::Event::InitDone) if !is_listed => {
                        is_listed = true;
                        view.begin(open.len())?;
                    }
                    Some(watcher::Event::Init | watcher::Event::InitDone) => {}
                    None => bail!("pods cannot be followed any more"),
                }
            }
            Some(one) = said.recv() => match one {
                Said::Line(pod, line) => {
                    let TapLine { request, dropped } = *line;
                    view.left_out(&pod, dropped)?;
                    if let Some(request) = request {
                        view.show(&pod, namespace, &request)?;
                        left = left.map(|left| left - 1);
                    }
                }
                Said::Refused(error) => return Err(error),
            },
        }
    }
    Ok(())
}

/// Who may not need not ask again; all else passes.
fn is_refused(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchStartFailed};
    match error {
        InitialListFailed(kube::Error::Api(status)) | WatchStartFailed(kube::Error::Api(status)) => {
            matches!(status.code, 401 | 403)
        }
        _ => false,
    }
}

fn name_of(pod: &Pod) -> (String, String) {
    (pod.metadata.name.clone().unwrap_or_default(), pod.metadata.uid.clone().unwrap_or_default())
}

/// Reads what is told of one pod, and again when that ends, until whoever has started it ends it.
async fn follow((client, namespace, pod, query): (Client, String, String, String), said: mpsc::Sender<Said>) {
    loop {
        let request = http::Request::get(format!("{}?{query}", tap::path(&namespace, &pod)));
        let Ok(request) = request.body(Vec::new()) else { return };
        match client.request_stream(request).await {
            Ok(lines) => {
                let mut lines = std::pin::pin!(lines.lines());
                while let Some(Ok(line)) = lines.next().await {
                    let Ok(line) = serde_json::from_str(&line) else { continue };
                    if said.send(Said::Line(pod.clone(), line)).await.is_err() {
                        return;
                    }
                }
            }
            // Who may not, or asks where there is no mesh, need not ask again; a pod that is only coming may be.
            Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => {
                let _ = said.send(Said::Refused(kube::Error::Api(status).into())).await;
                return;
            }
            Err(kube::Error::Api(status)) if status.code == 404 && !status.message.contains(&pod) => {
                let _ = said.send(Said::Refused(no_mesh(kube::Error::Api(status)))).await;
                return;
            }
            Err(_) => {}
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// What is shown of requests.
#[derive(Default)]
struct View {
    is_json: bool,
    /// By address: the pod, and what it belongs to.
    pods: HashMap<String, (String, String)>,
    /// By the pod's name.
    workloads: HashMap<String, String>,
}

impl View {
    fn name(&mut self, pod: &Pod) {
        let (name, workload) = (name_of(pod).0, workload(pod));
        self.workloads.insert(name.clone(), workload.clone());
        let is_of_host = pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true));
        let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
        if let Some(ip) = ip.filter(|_| !is_of_host) {
            self.pods.insert(ip, (name, workload));
        }
    }

    fn begin(&self, count: usize) -> anyhow::Result<()> {
        let text = match count {
            0 => "no pod of the mesh is meant yet; waiting for one".to_owned(),
            1 => "looking at the requests of 1 pod".to_owned(),
            count => format!("looking at the requests of {count} pods"),
        };
        writeln!(std::io::stderr(), "{text}")?;
        if !self.is_json && std::io::stdout().is_terminal() {
            writeln!(
                std::io::stdout(),
                "TIME         FROM -> TO              METHOD PATH  STATUS  TIME  BYTES  RULE"
            )?;
        }
        Ok(())
    }

    fn left_out(&self, pod: &str, count: u64) -> anyhow::Result<()> {
        if count > 0 {
            writeln!(std::io::stderr(), "{count} requests of {pod} are not shown: there were too many")?;
        }
        Ok(())
    }

    fn show(&self, pod: &str, namespace: &str, event: &TapEvent) -> anyhow::Result<()> {
        let line = match self.is_json {
            true => self.object(pod, namespace, event),
            false => self.line(pod, namespace, event),
        };
        let mut out = std::io::stdout().lock();
        out.write_all(line.as_bytes())?;
        Ok(out.flush()?)
    }

    fn workload<'a>(&'a self, pod: &'a str) -> &'a str {
        self.workloads.get(pod).map_or(pod, String::as_str)
    }

    /// The pod at an address with or without a port, and what it belongs to.
    fn behind(&self, address: &str) -> Option<&(String, String)> {
        let ip = address.rsplit_once(':').map_or(address, |(ip, _)| ip);
        self.pods.get(ip)
    }

    /// Who has asked, and who was asked.
    fn ends(&self, pod: &str, namespace: &str, event: &TapEvent) -> (String, String) {
        let own = self.workload(pod).to_owned();
        if event.inbound {
            let known = self.behind(&event.client).map(|(_, workload)| workload.clone());
            let proved = (!event.identity.is_empty()).then(|| event.identity.clone());
            let from = known.or(proved).unwrap_or_else(|| event.client.clone());
            return (from, format!("{own} ({pod})"));
        }
        let own_namespace = format!("{namespace}/");
        let service = event.service.strip_prefix(&own_namespace).unwrap_or(&event.service);
        let behind = match self.behind(&event.endpoint) {
            Some((pod, _)) => format!(" ({pod})"),
            None if event.endpoint.is_empty() => String::new(),
            None => format!(" ({})", event.endpoint),
        };
        let service = if service.is_empty() { "-" } else { service };
        (format!("{own} ({pod})"), format!("{service}{behind}"))
    }

    fn line(&self, pod: &str, namespace: &str, event: &TapEvent) -> String {
        let (from, to) = self.ends(pod, namespace, event);
        let at = i64::try_from(event.at).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
        let at = at.unwrap_or_default().to_zoned(TimeZone::UTC).strftime("%H:%M:%S%.3f").to_string();
        let milliseconds = event.microseconds as f64 / 1000.0;
        let words = [
            at,
            from,
            "->".to_owned(),
            to,
            event.method.clone(),
            event.path.clone(),
            event.code.to_string(),
            format!("{milliseconds:.1}ms"),
            format!("{}B", event.bytes),
            event.rule.clone(),
        ];
        let shown: Vec<String> =
            words.iter().filter(|word| !word.is_empty()).map(|word| tame(word)).collect();
        shown.join(" ") + "\n"
    }

    fn object(&self, pod: &str, namespace: &str, event: &TapEvent) -> String {
        let mut object = serde_json::to_value(event).unwrap_or_default();
        object["pod"] = format!("{namespace}/{pod}").into();
        object["workload"] = self.workload(pod).into();
        let other = if event.inbound { &event.client } else { &event.endpoint };
        if let Some((pod, workload)) = self.behind(other) {
            object["peerPod"] = pod.as_str().into();
            object["peerWorkload"] = workload.as_str().into();
        }
        object.to_string() + "\n"
    }
}

/// Clients write paths, and a terminal must not obey them.
fn tame(text: &str) -> String {
    text.chars().map(|sign| if sign.is_control() { '?' } else { sign }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, ip: &str, owner: Value) -> Pod {
        let env = json!([{"name": minik8s_meta::mesh::INBOUND_ENV, "value": "1"}]);
        let image = minik8s_meta::mesh::SIDECAR_IMAGE;
        let pod = json!({
            "metadata": {"name": name, "uid": name, "ownerReferences": [owner],
                "labels": {"app": "x", "pod-template-hash": "6d4f"}},
            "spec": {"nodeName": "n", "containers": [],
                "initContainers": [{"name": "minik8s-proxy", "image": image, "env": env}]},
            "status": {"podIP": ip, "phase": "Running"},
        });
        serde_json::from_value(pod).unwrap()
    }

    fn owner(kind: &str, name: &str) -> Value {
        json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": true})
    }

    #[test]
    fn pods_are_chosen_by_name_owner_and_labels() {
        let web = pod("web-6d4f-abc", "10.0.0.1", owner("ReplicaSet", "web-6d4f"));
        let database = pod("db-0", "10.0.0.2", owner("StatefulSet", "db"));
        let check = |chosen: &Chosen, expected: (bool, bool)| {
            assert_eq!((chosen.has(&web), chosen.has(&database)), expected);
        };
        for (text, expected) in [
            ("web-6d4f-abc", (true, false)),
            ("pod/db-0", (false, true)),
            ("deploy/web", (true, false)),
            ("deploy/web-6d4f", (false, false)),
            ("rs/web-6d4f", (true, false)),
            ("sts/db", (false, true)),
            ("deploy/db", (false, false)),
        ] {
            check(&Chosen::Target(target(text).unwrap()), expected);
        }
        check(&Chosen::Labels(LabelSelector::parse("app=x").unwrap()), (true, true));
        check(&Chosen::Labels(LabelSelector::parse("app=y").unwrap()), (false, false));
        assert!(target("svc/web").unwrap_err().contains("no pods"));
        let mut without = web;
        without.spec.as_mut().unwrap().init_containers = None;
        assert!(!Chosen::Labels(LabelSelector::everything()).has(&without), "not of the mesh");
    }

    #[test]
    fn lines_name_both_ends_and_obey_no_client() {
        let mut view = View::default();
        view.name(&pod("web-6d4f-abc", "10.0.0.1", owner("ReplicaSet", "web-6d4f")));
        view.name(&pod("reviews-6d4f-x", "10.0.0.2", owner("ReplicaSet", "reviews-6d4f")));
        let event = TapEvent {
            at: 1_700_000_000_123,
            service: "shop/reviews".to_owned(),
            endpoint: "10.0.0.2:9080".to_owned(),
            method: "GET".to_owned(),
            path: "/reviews/\u{1b}[2J".to_owned(),
            code: 200,
            microseconds: 1234,
            bytes: 56,
            rule: "subset v1".to_owned(),
            ..TapEvent::default()
        };
        let line = view.line("web-6d4f-abc", "shop", &event);
        assert_eq!(
            line,
            "22:13:20.123 web (web-6d4f-abc) -> reviews (reviews-6d4f-x) GET /reviews/?[2J 200 1.2ms 56B subset v1\n"
        );
        let other =
            TapEvent { service: "bank/till".to_owned(), endpoint: "10.0.0.9:1".to_owned(), ..event.clone() };
        assert!(view.line("web-6d4f-abc", "shop", &other).contains("-> bank/till (10.0.0.9:1) GET"));
        let inbound = TapEvent {
            inbound: true,
            client: "10.0.0.1".to_owned(),
            service: String::new(),
            rule: String::new(),
            ..event
        };
        let line = view.line("reviews-6d4f-x", "shop", &inbound);
        assert!(line.contains("123 web -> reviews (reviews-6d4f-x) GET"), "{line}");
        let object: Value = serde_json::from_str(&view.object("reviews-6d4f-x", "shop", &inbound)).unwrap();
        assert_eq!((&object["pod"], &object["peerWorkload"]), (&json!("shop/reviews-6d4f-x"), &json!("web")));
    }
}
