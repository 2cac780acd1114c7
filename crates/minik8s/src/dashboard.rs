//! `minik8s dashboard`: the cluster in the browser, from any machine with a kubeconfig.

mod sessions;

use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, ensure};
use clap::Args;
use minik8s_cli::GlobalFlags;
use minik8s_ui::Proxy;

use crate::kubeconfig;
use crate::server::wait_for_signal;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s dashboard
  minik8s dashboard --print-url
  minik8s --context staging dashboard --port 8001
  minik8s dashboard --link --read-only --only-namespace shop --for 1h
  minik8s dashboard --sessions")]
pub struct DashboardFlags {
    /// Print the link and open no browser
    #[arg(long)]
    print_url: bool,
    /// Port of 127.0.0.1 to listen on; 0 is any that is free
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// Print a one-time link to the dashboard of the API server, and serve nothing here
    #[arg(long, conflicts_with = "port")]
    link: bool,
    /// The session of the link only reads, and sees no Secrets
    #[arg(long, requires = "link")]
    read_only: bool,
    /// The session of the link sees this namespace only
    #[arg(long, value_name = "NAMESPACE", requires = "link", default_value = "")]
    only_namespace: String,
    /// How long the session of the link lasts at most: 30m, 8h
    #[arg(long = "for", value_name = "DURATION", requires = "link")]
    lasts: Option<String>,
    /// List your sessions at the API server
    #[arg(long, conflicts_with = "link")]
    sessions: bool,
    /// End the session of this id at the API server
    #[arg(long, value_name = "ID", conflicts_with_all = ["link", "sessions"])]
    end: Option<String>,
}

/// Serves the dashboard to this machine until it is interrupted.
pub async fn run(flags: DashboardFlags, global: &GlobalFlags) -> anyhow::Result<()> {
    if flags.link || flags.sessions || flags.end.is_some() {
        return sessions::run(&flags, global).await;
    }
    ensure!(
        minik8s_ui::is_built(),
        "this minik8s was built without its dashboard: install nodejs and npm, run `make build`, and try again"
    );
    let (client, _) = kubeconfig::client(global).await?;
    let version = client.apiserver_version().await.context("the cluster does not answer")?;
    let listen = Proxy::listen(client, flags.port).await;
    let proxy = Arc::new(listen.with_context(|| format!("cannot listen on 127.0.0.1:{}", flags.port))?);
    let link = proxy.link().context("there is no code for a link")?;
    println!("{link}");
    eprintln!(
        "The link opens the dashboard of this cluster (Kubernetes {}) with your kubeconfig's rights.\n\
         It works once, within a minute, on this machine. Ctrl-C ends the dashboard.",
        version.git_version
    );
    if !flags.print_url {
        open_browser(&link);
    }
    tokio::select! {
        () = proxy.serve() => Ok(()),
        ended = wait_for_signal() => Ok(ended?),
    }
}

/// Where there is no browser, the printed link remains.
fn open_browser(link: &str) {
    let quiet = || {
        Command::new("xdg-open")
            .arg(link)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    };
    if quiet().is_err() {
        eprintln!("No browser was found: open the link yourself.");
    }
}
