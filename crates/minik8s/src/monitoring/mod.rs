//! `minik8s monitoring`: runs Prometheus in the cluster, opens it, takes it away, and writes dashboards.
//!
//! What is made is decided by `minik8s-monitoring`; here it is applied through the API, as `kubectl apply` would.

mod enable;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use minik8s_cli::GlobalFlags;
use minik8s_monitoring::dashboards;
use minik8s_monitoring::install::{Engine, NAMESPACE, Settings};

use crate::{kubeconfig, output};

#[derive(Debug, Subcommand)]
pub enum MonitoringCommand {
    /// Run Prometheus or VictoriaMetrics, and Alertmanager, in the cluster; again to change how
    #[command(after_help = "Examples:
  minik8s monitoring enable
  minik8s monitoring enable --claim 20Gi --retention 30d
  minik8s monitoring enable --engine victoria-metrics --webhook http://alerts.example/hook")]
    Enable(EnableFlags),
    /// Forward a port of this machine to its page
    #[command(after_help = "Example: minik8s monitoring open --port 9090")]
    Open {
        /// Port of 127.0.0.1
        #[arg(long, value_name = "N", default_value_t = 9090)]
        port: u16,
    },
    /// Take it out of the cluster; what was measured stays in its claim
    #[command(after_help = "Examples:
  minik8s monitoring disable
  minik8s monitoring disable --purge")]
    Disable {
        /// Delete the claim with what was measured as well
        #[arg(long)]
        purge: bool,
    },
    /// Write dashboards for Grafana, and files that make it find them
    #[command(after_help = "Example: minik8s monitoring dashboards -o /etc/grafana/minik8s")]
    Dashboards {
        /// The folder to write to
        #[arg(short, long = "output", value_name = "DIR")]
        output: PathBuf,
        /// Where Grafana reaches the engine
        #[arg(long, value_name = "URL", default_value = "http://prometheus.monitoring.svc:9090")]
        url: String,
    },
}

#[derive(Debug, Args)]
pub struct EnableFlags {
    /// Who scrapes and answers
    #[arg(long, value_name = "prometheus|victoria-metrics", default_value = "prometheus")]
    engine: Engine,
    /// How long samples are kept
    #[arg(long, value_name = "TIME", default_value = "15d")]
    retention: String,
    /// How often targets are asked
    #[arg(long, value_name = "TIME", default_value = "15s")]
    scrape_interval: String,
    /// Keep samples in a claim of this size; without it they live as long as the pod
    #[arg(long, value_name = "SIZE")]
    claim: Option<String>,
    /// Send alerts to this address
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// Do not wait until it answers
    #[arg(long)]
    no_wait: bool,
}

pub async fn run(command: MonitoringCommand, global: &GlobalFlags) -> anyhow::Result<()> {
    match command {
        MonitoringCommand::Enable(flags) => {
            let settings = Settings {
                engine: flags.engine,
                retention: flags.retention,
                interval: flags.scrape_interval,
                claim: flags.claim,
                webhook: flags.webhook,
            };
            settings.check()?;
            let (client, _) = kubeconfig::client(global).await?;
            enable::enable(&client, &settings, flags.no_wait).await
        }
        MonitoringCommand::Disable { purge } => {
            let (client, _) = kubeconfig::client(global).await?;
            enable::disable(&client, purge).await
        }
        MonitoringCommand::Open { port } => open(global, port).await,
        MonitoringCommand::Dashboards { output, url } => write_dashboards(&output, &url),
    }
}

/// Becomes `minik8s port-forward`, which needs no more than the right to forward to that pod.
async fn open(global: &GlobalFlags, port: u16) -> anyhow::Result<()> {
    let (client, _) = kubeconfig::client(global).await?;
    let deployments: Api<Deployment> = Api::namespaced(client, NAMESPACE);
    if deployments.get_opt("prometheus").await?.is_none() {
        bail!("monitoring is not enabled in this cluster: run `minik8s monitoring enable`");
    }
    eprintln!("The engine's page is http://127.0.0.1:{port}/ as long as this runs; Ctrl-C ends it.");
    let mut command = std::process::Command::new("/proc/self/exe");
    command.args(same_cluster(global)).args(["-n", NAMESPACE, "port-forward", "service/prometheus"]);
    command.arg(format!("{port}:9090"));
    Err(command.exec()).context("cannot start the port-forward")
}

/// The flags that say which cluster, and as whom.
fn same_cluster(global: &GlobalFlags) -> Vec<OsString> {
    let texts = [
        ("--context", &global.context),
        ("--cluster", &global.cluster),
        ("--user", &global.user),
        ("--server", &global.server),
        ("--token", &global.token),
        ("--as", &global.as_user),
        ("--as-uid", &global.as_uid),
    ];
    let files = [
        ("--kubeconfig", &global.kubeconfig),
        ("--certificate-authority", &global.certificate_authority),
        ("--client-certificate", &global.client_certificate),
        ("--client-key", &global.client_key),
    ];
    let texts = texts.into_iter().filter_map(|(flag, value)| Some((flag, value.clone()?.into())));
    let files = files.into_iter().filter_map(|(flag, value)| Some((flag, value.clone()?.into_os_string())));
    let groups = global.as_group.iter().map(|group| ("--as-group", OsString::from(group)));
    let mut words: Vec<OsString> =
        texts.chain(files).chain(groups).flat_map(|(flag, value)| [flag.into(), value]).collect();
    if global.insecure_skip_tls_verify {
        words.push("--insecure-skip-tls-verify".into());
    }
    words
}

fn write_dashboards(folder: &std::path::Path, url: &str) -> anyhow::Result<()> {
    for (path, content) in dashboards::files(url) {
        let path = folder.join(path);
        let what = || format!("cannot write {}", path.display());
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).with_context(what)?;
        }
        std::fs::write(&path, content).with_context(what)?;
        output::line(path.display())?;
    }
    Ok(())
}
