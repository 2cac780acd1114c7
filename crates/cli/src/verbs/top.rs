//! `top`: what nodes and pods use, from `metrics.k8s.io`.

use clap::{Args, Subcommand, ValueEnum};
use minik8s_meta::Quantity;
use serde_json::Value;

use crate::client::{Call, Client};
use crate::error::{Error, Result};
use crate::flags::SelectorFlags;
use crate::output;
use crate::print;
use crate::print::table::{Column, Style, Table};
use crate::session::Session;

const METRICS: &str = "/apis/metrics.k8s.io/v1beta1";

/// Show what nodes or pods use
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of them, for one command")]
pub enum Top {
    /// CPU and memory of nodes
    #[command(visible_aliases = ["nodes", "no"], after_help = "Example: minik8s top node --sort-by=memory")]
    Node(TopNode),
    /// CPU and memory of pods
    #[command(visible_aliases = ["pods", "po"], after_help = "Example: minik8s top pod -A --containers")]
    Pod(TopPod),
}

#[derive(Debug, Args)]
pub struct TopNode {
    /// Only this node
    name: Option<String>,
    #[command(flatten)]
    common: Common,
    /// Show the nodes' whole capacity as 100 %
    #[arg(long)]
    show_capacity: bool,
}

#[derive(Debug, Args)]
pub struct TopPod {
    /// Only this pod
    name: Option<String>,
    #[command(flatten)]
    common: Common,
    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Each container by itself
    #[arg(long)]
    containers: bool,
    /// The sum of all pods below them
    #[arg(long)]
    sum: bool,
}

#[derive(Debug, Args)]
struct Common {
    #[command(flatten)]
    selectors: SelectorFlags,
    /// The largest first: cpu or memory
    #[arg(long, value_name = "cpu|memory")]
    sort_by: Option<SortBy>,
    /// Leave the heading out
    #[arg(long)]
    no_headers: bool,
    /// Accepted for compatibility with kubectl
    #[arg(long, hide = true, num_args = 0..=1)]
    use_protocol_buffers: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SortBy {
    Cpu,
    Memory,
}

/// What something uses: thousandths of a core, and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Use {
    pub cpu: i64,
    pub memory: i64,
}

impl Use {
    pub fn of(usage: &Value) -> Use {
        let amount = |value: &Value| Quantity::from_json(value).ok();
        Use {
            cpu: amount(&usage["cpu"]).map_or(0, |cpu| cpu.milli()),
            memory: amount(&usage["memory"]).map_or(0, |memory| memory.value()),
        }
    }

    fn add(&mut self, other: Use) {
        self.cpu += other.cpu;
        self.memory += other.memory;
    }

    fn cells(self) -> [String; 2] {
        [format!("{}m", self.cpu), format!("{}Mi", self.memory / (1024 * 1024))]
    }
}

pub async fn run(session: &Session, verb: Top) -> Result<()> {
    match verb {
        Top::Node(flags) => nodes(session, &flags).await,
        Top::Pod(flags) => pods(session, &flags).await,
    }
}

/// The metrics of these objects.
async fn metrics(
    client: &Client,
    path: &str,
    name: Option<&str>,
    selectors: &SelectorFlags,
) -> Result<Vec<Value>> {
    let path = match name {
        Some(name) => format!("{METRICS}/{path}/{name}"),
        None => format!("{METRICS}/{path}"),
    };
    let call = Call::get(path)
        .maybe("labelSelector", selectors.selector.as_deref())
        .maybe("fieldSelector", selectors.field_selector.as_deref());
    let answer = client.send(call).await.map_err(|error| match &error {
        Error::Server(server) if server.code == 404 && !server.message.contains('"') => {
            Error::plain("Metrics API not available")
        }
        _ => error,
    })?;
    Ok(print::members(&answer).to_vec())
}

fn sort(rows: &mut [(Vec<String>, Use)], by: Option<SortBy>) {
    match by {
        Some(SortBy::Cpu) => rows.sort_by_key(|(_, used)| -used.cpu),
        Some(SortBy::Memory) => rows.sort_by_key(|(_, used)| -used.memory),
        None => rows.sort_by(|(a, _), (b, _)| a.cmp(b)),
    }
}

async fn nodes(session: &Session, flags: &TopNode) -> Result<()> {
    let client = session.client().await?;
    let found = metrics(client, "nodes", flags.name.as_deref(), &flags.common.selectors).await?;
    let field = if flags.show_capacity { "capacity" } else { "allocatable" };
    let mut rows = Vec::new();
    for metric in &found {
        let name = metric["metadata"]["name"].as_str().unwrap_or_default();
        let node = client.find(format!("/api/v1/nodes/{name}")).await?.unwrap_or_default();
        rows.push((
            node_row(name, Use::of(&metric["usage"]), Use::of(&node["status"][field])),
            Use::of(&metric["usage"]),
        ));
    }
    sort(&mut rows, flags.common.sort_by);
    let style = Style { no_headers: flags.common.no_headers, ..Style::default() };
    let columns = ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"];
    show(&columns, rows.into_iter().map(|(row, _)| row).collect(), &style);
    Ok(())
}

fn node_row(name: &str, used: Use, whole: Use) -> Vec<String> {
    let [cpu, memory] = used.cells();
    vec![name.to_owned(), cpu, percent(used.cpu, whole.cpu), memory, percent(used.memory, whole.memory)]
}

pub fn percent(part: i64, whole: i64) -> String {
    if whole <= 0 { "<unknown>".to_owned() } else { format!("{}%", part * 100 / whole) }
}

/// kubectl writes these headings in both cases.
fn show(columns: &[&str], rows: Vec<Vec<String>>, style: &Style) {
    let mut text = String::new();
    if !style.no_headers {
        text.push_str(&(columns.join("\t") + "\n"));
    }
    for row in rows {
        text.push_str(&(row.join("\t") + "\n"));
    }
    output::text(print::tabs::align(&text, print::tabs::TABLE));
}

async fn pods(session: &Session, flags: &TopPod) -> Result<()> {
    let namespace = session.namespace().await?;
    let path = if flags.all_namespaces { "pods".to_owned() } else { format!("namespaces/{namespace}/pods") };
    let found =
        metrics(session.client().await?, &path, flags.name.as_deref(), &flags.common.selectors).await?;
    if found.is_empty() {
        match flags.all_namespaces {
            true => eprintln!("No resources found"),
            false => eprintln!("No resources found in {namespace} namespace."),
        }
        return Ok(());
    }
    let (mut rows, mut total) = (Vec::new(), Use::default());
    for pod in &found {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
        let mut names = if flags.all_namespaces { vec![text("namespace")] } else { Vec::new() };
        names.push(text("name"));
        let mut whole = Use::default();
        for container in pod["containers"].as_array().into_iter().flatten() {
            let used = Use::of(&container["usage"]);
            whole.add(used);
            if flags.containers {
                let mut row = names.clone();
                row.push(container["name"].as_str().unwrap_or_default().to_owned());
                row.extend(used.cells());
                rows.push((row, used));
            }
        }
        if !flags.containers {
            names.extend(whole.cells());
            rows.push((names, whole));
        }
        total.add(whole);
    }
    sort(&mut rows, flags.common.sort_by);
    let mut columns = if flags.containers { vec!["POD", "NAME"] } else { vec!["NAME"] };
    if flags.all_namespaces {
        columns.insert(0, "NAMESPACE");
    }
    let names = columns.len();
    columns.extend(["CPU(cores)", "MEMORY(bytes)"]);
    let mut rows: Vec<Vec<String>> = rows.into_iter().map(|(row, _)| row).collect();
    if flags.sum {
        let blank = |width: usize| vec![String::new(); width];
        rows.push([blank(names), vec!["________".to_owned(); 2]].concat());
        rows.push([blank(names), total.cells().to_vec()].concat());
    }
    let style = Style { no_headers: flags.common.no_headers, ..Style::default() };
    show(&columns, rows, &style);
    Ok(())
}

/// Columns with the live use of nodes, where the cluster measures it.
pub async fn add_use(session: &Session, table: &mut Table) {
    let Ok(client) = session.client().await else { return };
    let Ok(found) = metrics(client, "nodes", None, &SelectorFlags::default()).await else { return };
    let Ok(nodes) = client.get("/api/v1/nodes").await else { return };
    let at = table.columns.iter().position(|column| column.name == "Version").unwrap_or(table.columns.len());
    for (i, name) in ["CPU", "Memory"].into_iter().enumerate() {
        table.columns.insert(at + i, Column { name: name.to_owned(), priority: 0 });
    }
    for row in &mut table.rows {
        let name = row.object["metadata"]["name"].clone();
        let of = |list: &[Value]| list.iter().find(|item| item["metadata"]["name"] == name).cloned();
        let (metric, node) = (of(&found), of(print::members(&nodes)).unwrap_or_default());
        let cells = match metric {
            Some(metric) => {
                let (used, whole) = (Use::of(&metric["usage"]), Use::of(&node["status"]["allocatable"]));
                let [cpu, memory] = used.cells();
                [
                    format!("{cpu} ({})", percent(used.cpu, whole.cpu)),
                    format!("{memory} ({})", percent(used.memory, whole.memory)),
                ]
            }
            None => ["<unknown>".to_owned(), "<unknown>".to_owned()],
        };
        for (i, cell) in cells.into_iter().enumerate() {
            row.cells.insert((at + i).min(row.cells.len()), cell);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts() {
        let used = Use::of(&json!({"cpu": "1500000000n", "memory": "2048Ki"}));
        assert_eq!(used, Use { cpu: 1500, memory: 2 * 1024 * 1024 });
        assert_eq!(used.cells(), ["1500m", "2Mi"]);
        assert_eq!((percent(1, 4), percent(1, 0)), ("25%".to_owned(), "<unknown>".to_owned()));
    }
}
