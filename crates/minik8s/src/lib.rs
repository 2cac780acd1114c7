//! `minik8s`: one binary, several roles. This crate reads flags and environment and wires the parts
//! together; everything else is in the libraries.

mod agent;
mod authority;
mod backup;
mod cluster;
mod cluster_settings;
mod doctor;
mod etcd_flags;
mod flags;
mod host;
mod housekeeping;
mod identity;
mod image;
mod join_token;
mod kubeconfig;
mod leftovers;
mod node;
mod node_certificate;
mod node_config;
mod output;
mod reference;
mod remembered;
mod router;
mod server;
mod server_list;
mod simulate;
mod store_trouble;
mod token;
mod why;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::FromArgMatches;
use tokio::runtime::{Builder, Runtime};
use tracing_subscriber::EnvFilter;

use crate::flags::{Cli, Command};

/// What the program does when it is started.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if minik8s_cli::is_kubectl(arguments.first()) {
        return minik8s_cli::main(arguments, minik8s_cli::command());
    }
    if minik8s_cli::claims(&arguments) {
        return minik8s_cli::main(arguments, flags::command_line());
    }
    let cli = match Cli::from_arg_matches(&flags::command_line().get_matches_from(arguments)) {
        Ok(cli) => cli,
        Err(error) => error.exit(),
    };
    let filter = EnvFilter::try_from_env("MINIK8S_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // On a full disk a log cannot be written, nor can a complaint about that: trying would end the program.
    log.log_internal_errors(false).init();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("minik8s: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Threads that wait for files live only while there is such work: something happens every second, and each of them
/// would otherwise stay for the next one, with memory of its own.
const IDLE_THREAD: Duration = Duration::from_millis(200);

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().thread_keep_alive(IDLE_THREAD).build()
}

/// The machine's cores are for its pods: an agent takes half of them at most, and each thread less is memory less.
fn modest_runtime() -> std::io::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, Into::into);
    let threads = (cores / 2).clamp(1, 4);
    Builder::new_multi_thread().worker_threads(threads).enable_all().thread_keep_alive(IDLE_THREAD).build()
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Server(flags) => {
            let runtime = runtime()?;
            let ended = runtime.block_on(server::run(flags));
            // Threads that wait for a disk or a child must not delay the end.
            runtime.shutdown_background();
            ended
        }
        Command::Agent(flags) => {
            let runtime = modest_runtime()?;
            let ended = runtime.block_on(agent::run(flags));
            runtime.shutdown_background();
            ended
        }
        Command::Doctor(flags) => doctor::run(&flags),
        Command::Token(command) => runtime()?.block_on(token::run(command)),
        Command::Image(command) => runtime()?.block_on(image::run(command)),
        Command::Cluster(command) => runtime()?.block_on(cluster::run(command)),
        Command::Backup(flags) => runtime()?.block_on(backup::back_up(flags)),
        Command::Restore(flags) => runtime()?.block_on(backup::restore(flags)),
        Command::Store(command) => runtime()?.block_on(backup::store(command)),
        Command::Simulate(flags) => runtime()?.block_on(simulate::run(flags)),
        Command::Why(flags) => runtime()?.block_on(why::run(flags)),
        Command::Teardown(flags) => runtime()?.block_on(node::tear_down(&flags.data_dir)),
    }
}
