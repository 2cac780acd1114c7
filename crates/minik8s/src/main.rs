//! `minik8s`: one binary, several roles. This crate reads flags and environment and wires the parts
//! together; everything else is in the libraries.

mod agent;
mod authority;
mod cluster;
mod cluster_settings;
mod doctor;
mod flags;
mod host;
mod housekeeping;
mod image;
mod join_token;
mod kubeconfig;
mod leftovers;
mod node;
mod node_config;
mod output;
mod router;
mod server;
mod simulate;
mod token;
mod why;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::flags::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_env("MINIK8S_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false).init();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("minik8s: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Version => {
            let version = minik8s_apiserver::version();
            let kubernetes = version["gitVersion"].as_str().unwrap_or_default();
            Ok(output::line(format_args!("minik8s {} (Kubernetes {kubernetes})", env!("CARGO_PKG_VERSION")))?)
        }
        Command::Server(flags) => {
            let runtime = runtime()?;
            let ended = runtime.block_on(server::run(flags));
            // Threads that wait for a disk or a child must not delay the end.
            runtime.shutdown_background();
            ended
        }
        Command::Agent(flags) => {
            let runtime = runtime()?;
            let ended = runtime.block_on(agent::run(flags));
            runtime.shutdown_background();
            ended
        }
        Command::Doctor(flags) => doctor::run(&flags),
        Command::Token(command) => runtime()?.block_on(token::run(command)),
        Command::Image(command) => runtime()?.block_on(image::run(command)),
        Command::Cluster(command) => runtime()?.block_on(cluster::run(command)),
        Command::Simulate(flags) => runtime()?.block_on(simulate::run(flags)),
        Command::Why(flags) => runtime()?.block_on(why::run(flags)),
        Command::Teardown(flags) => runtime()?.block_on(node::tear_down(&flags.data_dir)),
    }
}
