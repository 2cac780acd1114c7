//! `minik8s storage`: sets up volumes that every node shares, shows how they are, and takes the set-up away.
//!
//! All of it is objects: a Secret with the set-up, which the server hands to the nodes, and the classes.

mod objects;
mod setup;
mod status;

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Secret};
use kube::api::ListParams;
use kube::{Api, Client};
use minik8s_cli::GlobalFlags;
use minik8s_meta::shared_storage::{CLASS, CONFIG_KEY, DRIVER, SECRET, SharedStorage};

use crate::{kubeconfig, output};

/// Servers start in seconds; a busy machine takes longer.
const TIMEOUT: Duration = Duration::from_secs(180);
const LOOK: Duration = Duration::from_millis(500);

#[derive(Debug, Subcommand)]
pub enum StorageCommand {
    /// Set up a class of volumes; again to add nodes or change the copies
    #[command(after_help = "Example: minik8s storage enable shared --nodes node1,node2 --copies 2")]
    Enable(EnableFlags),
    /// Show servers, space, copies and what is not whole
    #[command(after_help = "Example: minik8s storage status")]
    Status,
    /// Make another node the master, after the machine of the old one is lost
    #[command(after_help = "Example: minik8s storage recover shared --master node2")]
    Recover {
        class: EnabledClass,
        /// A node that has logged what the master did
        #[arg(long, value_name = "NODE")]
        master: String,
        /// Although the old master may still run: what is written there from now on is lost
        #[arg(long)]
        force: bool,
    },
    /// Take a class away; no volume of it may be left. Data on the nodes' disks stays
    #[command(after_help = "Example: minik8s storage disable shared")]
    Disable { class: EnabledClass },
}

#[derive(Debug, Args)]
pub struct EnableFlags {
    class: EnabledClass,
    /// Nodes that hold the data; the first also knows where it is
    #[arg(long, value_name = "NODE,...", value_delimiter = ',', required = true)]
    nodes: Vec<String>,
    /// How many of them hold each piece of data; two where there are two nodes or more
    #[arg(long, value_name = "N")]
    copies: Option<u32>,
    /// Do not wait until its servers run
    #[arg(long)]
    no_wait: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EnabledClass {
    /// Volumes that every node reaches, on MooseFS
    Shared,
}

pub async fn run(command: StorageCommand, global: &GlobalFlags) -> anyhow::Result<()> {
    let (client, _) = kubeconfig::client(global).await?;
    match command {
        StorageCommand::Enable(flags) => enable(&client, flags).await,
        StorageCommand::Status => status::show(&client).await,
        StorageCommand::Recover { master, force, .. } => recover(&client, &master, force).await,
        StorageCommand::Disable { .. } => disable(&client).await,
    }
}

async fn enable(client: &Client, flags: EnableFlags) -> anyhow::Result<()> {
    let nodes = nodes(client).await?;
    let before = read(client).await?;
    let setup = setup::planned(&nodes, &flags.nodes, flags.copies, before.as_ref())?;
    objects::apply(client, &setup).await?;
    let names: Vec<&str> = setup.servers.iter().map(|server| server.node.as_str()).collect();
    output::line(format_args!(
        "shared storage: master on {}, data on {}, {} of each piece",
        setup.master.node,
        names.join(", "),
        if setup.copies == 1 { "one copy".to_owned() } else { format!("{} copies", setup.copies) }
    ))?;
    if setup.copies == 1 {
        output::line("with one copy, what is on a machine is lost with it: give --copies 2 and two nodes")?;
    }
    if flags.no_wait {
        return Ok(());
    }
    wait(client, &setup).await?;
    output::line(format_args!("it is ready: claims of class {CLASS:?} get volumes that every node reaches"))?;
    Ok(())
}

/// Until every server of the set-up runs; ends with what a node says where that cannot come.
async fn wait(client: &Client, setup: &SharedStorage) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let mut waits = String::new();
        for server in &setup.servers {
            let told = status::of_node(client, &server.node).await;
            match told {
                Ok(told) if told.id.as_deref() != Some(&*setup.id) => {
                    waits = format!("{} has not heard of it yet", server.node);
                }
                Ok(told) => match told.problem {
                    Some(problem) if problem.contains("is not installed") => {
                        bail!("on node {}: {problem}", server.node);
                    }
                    Some(problem) => waits = format!("on node {}: {problem}", server.node),
                    None if told.daemons.is_empty() || told.daemons.iter().any(|one| one.pid.is_none()) => {
                        waits = format!("the servers of {} are starting", server.node);
                    }
                    // Only a master knows the whole: one that has not heard of its new part does not.
                    None if server.node == setup.master.node && told.cluster.is_none() => {
                        waits = format!("{} is not the master yet", server.node);
                    }
                    None if told.cluster.is_some_and(|all| all.servers.len() < setup.servers.len()) => {
                        waits = "the master does not know all servers yet".to_owned();
                    }
                    None => {}
                },
                Err(error) => waits = format!("node {} does not answer: {error}", server.node),
            }
        }
        if waits.is_empty() {
            return Ok(());
        }
        if begun.elapsed() > TIMEOUT {
            bail!("shared storage is not ready after {} s: {waits}", TIMEOUT.as_secs());
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn recover(client: &Client, master: &str, is_forced: bool) -> anyhow::Result<()> {
    let before = read(client).await?.context(NOT_ENABLED)?;
    let nodes = nodes(client).await?;
    let setup = setup::recovered(&nodes, master, &before)?;
    if !is_forced {
        let told = status::of_node(client, &before.master.node).await;
        setup::check_master_is_dead(&nodes, &before, told.ok().as_ref())?;
    }
    let told = status::of_node(client, master).await.with_context(|| format!("{master} does not answer"))?;
    setup::check_has_logged(master, &before, &told)?;
    objects::apply(client, &setup).await?;
    output::line(format_args!("{master} becomes the master, with what it has logged"))?;
    wait(client, &SharedStorage { servers: vec![setup.master.clone()], ..setup.clone() }).await?;
    output::line(
        "it is ready. Pods that use shared volumes must be deleted once, so that they mount them anew",
    )?;
    Ok(())
}

const NOT_ENABLED: &str =
    "shared storage is not enabled: run `minik8s storage enable shared --nodes NODE,...`";

async fn disable(client: &Client) -> anyhow::Result<()> {
    let Some(setup) = read(client).await? else {
        output::line("shared storage was not enabled")?;
        return Ok(());
    };
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let volumes = volumes.list(&ListParams::default()).await?;
    let is_its = |volume: &&PersistentVolume| {
        let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
        csi.is_some_and(|csi| csi.driver == DRIVER)
    };
    let left: Vec<&str> =
        volumes.iter().filter(is_its).filter_map(|volume| volume.metadata.name.as_deref()).collect();
    if !left.is_empty() {
        bail!("volumes of it are left: {}. Delete their claims first, or move their data", left.join(", "));
    }
    let mut places = Vec::new();
    for server in &setup.servers {
        let told = status::of_node(client, &server.node).await.ok().and_then(|told| told.directory);
        places.extend(told.map(|place| format!("{place} on {}", server.node)));
    }
    objects::remove(client).await?;
    output::line("shared storage is disabled; its servers stop within seconds")?;
    for place in places {
        output::line(format_args!("its files stay in {place}"))?;
    }
    Ok(())
}

async fn nodes(client: &Client) -> anyhow::Result<Vec<Node>> {
    let nodes: Api<Node> = Api::all(client.clone());
    Ok(nodes.list(&ListParams::default()).await.context("cannot list the nodes")?.items)
}

/// The set-up that there is.
async fn read(client: &Client) -> anyhow::Result<Option<SharedStorage>> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    let Some(secret) = secrets.get_opt(SECRET).await.context("cannot read how shared storage is set up")?
    else {
        return Ok(None);
    };
    let text = secret.data.unwrap_or_default().remove(CONFIG_KEY).unwrap_or_default();
    Ok(Some(serde_json::from_slice(&text.0).with_context(|| format!("the Secret {SECRET} cannot be read"))?))
}
