//! `minik8s`: one binary, several roles. This crate reads flags and environment and wires the parts
//! together; everything else is in the libraries, which never read either.

mod address_ranges;
mod agent;
mod audit_flags;
mod authentication;
mod authority;
mod authorization;
mod backup;
mod cluster;
mod cluster_settings;
mod dashboard;
mod doctor;
mod encryption;
mod etcd_flags;
mod export;
pub mod features;
mod flags;
mod function;
mod gpu;
mod history_flag;
mod host;
mod housekeeping;
mod identity;
mod image;
mod join_token;
mod kubeconfig;
mod leftovers;
mod mesh;
mod mesh_switch;
mod monitoring;
mod network;
mod node;
mod node_certificate;
mod node_config;
mod output;
mod reference;
mod registry_hosts;
mod request_header_flags;
mod router;
mod server;
mod server_list;
mod service_account_flags;
mod simulate;
mod storage;
mod store_trouble;
mod teardown;
mod terminal_ui;
mod token;
mod trigger;
mod uninstall;
mod why;
mod workflow;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::{FromArgMatches, ValueEnum};
use minik8s_mesh::sidecar::Role;
use tokio::runtime::{Builder, Runtime};
use tracing_subscriber::EnvFilter;

use crate::flags::{Cli, Command};

/// What the program does when it is started.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(role) = sidecar_role(&arguments) {
        log();
        return ended(sidecar(role));
    }
    if minik8s_cli::is_kubectl(arguments.first()) {
        return minik8s_cli::main(arguments, minik8s_cli::command());
    }
    if minik8s_cli::claims(&arguments) {
        return minik8s_cli::main(arguments, flags::command_line());
    }
    let matches = flags::command_line().try_get_matches_from(&arguments);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => match minik8s_cli::plugin(&error, &arguments) {
            Some(trouble) => {
                eprintln!("minik8s: {trouble}");
                return ExitCode::FAILURE;
            }
            None => error.exit(),
        },
    };
    log();
    ended(run(cli))
}

fn ended(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("minik8s: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn log() {
    let filter = EnvFilter::try_from_env("MINIK8S_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    // Colours are for people: in a file they are noise.
    let colours =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .with_target(false);
    // On a full disk a log cannot be written, nor can a complaint about that: trying would end the program.
    log.log_internal_errors(false).init();
}

/// The proxy of a pod, as nodes start it. Every pod has one, and the commands for people are megabytes of memory.
fn sidecar_role(arguments: &[OsString]) -> Option<Role> {
    let words: Vec<&str> = arguments.iter().skip(1).map(|word| word.to_str()).collect::<Option<_>>()?;
    match words[..] {
        ["sidecar"] => Some(Role::First),
        ["sidecar", "--role", role] => Role::from_str(role, false).ok(),
        _ => None,
    }
}

/// One thread, since every pod has one.
fn sidecar(role: Role) -> anyhow::Result<()> {
    Ok(Builder::new_current_thread().enable_all().build()?.block_on(minik8s_mesh::sidecar::run(role))?)
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

/// containerd inherits it, and with a stricter one the roots of containers would be closed to their own users. What is
/// secret is made with a mode of its own.
fn set_umask() {
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
}

/// As many open files as the process may have: shells and units give few at first, for programs of old, and connections
/// are a share of them.
fn raise_file_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

fn run(Cli { global, command }: Cli) -> anyhow::Result<()> {
    match command {
        Command::Server(flags) => {
            set_umask();
            raise_file_limit();
            let runtime = runtime()?;
            let ended = runtime.block_on(server::run(*flags));
            // Threads that wait for a disk or a child must not delay the end.
            runtime.shutdown_background();
            match ended? {
                server::Ended::Told => Ok(()),
                server::Ended::Switched(setting) => Err(mesh_switch::restart(setting).into()),
            }
        }
        Command::Agent(flags) => {
            set_umask();
            raise_file_limit();
            let runtime = modest_runtime()?;
            let ended = runtime.block_on(agent::run(flags));
            runtime.shutdown_background();
            ended
        }
        Command::Doctor(flags) => doctor::run(&flags),
        Command::Token(command) => runtime()?.block_on(token::run(command, &global)),
        Command::Image(command) => runtime()?.block_on(image::run(command, &global)),
        Command::Function(command) => runtime()?.block_on(function::run(command, &global)),
        Command::Trigger(command) => runtime()?.block_on(trigger::run(command, &global)),
        Command::Cluster(command) => runtime()?.block_on(cluster::run(command, &global)),
        Command::Dashboard(flags) => runtime()?.block_on(dashboard::run(flags, &global)),
        Command::Ui(flags) => runtime()?.block_on(terminal_ui::run(flags, &global)),
        Command::Monitoring(command) => runtime()?.block_on(monitoring::run(command, &global)),
        Command::Storage(command) => runtime()?.block_on(storage::run(command, &global)),
        Command::Backup(flags) => runtime()?.block_on(backup::back_up(flags, &global)),
        Command::Restore(flags) => runtime()?.block_on(backup::restore(flags)),
        Command::Store(command) => runtime()?.block_on(backup::store(command)),
        Command::Simulate(flags) => runtime()?.block_on(simulate::run(flags, &global)),
        Command::Workflow(command) => runtime()?.block_on(workflow::run(command, &global)),
        Command::Gpu(command) => runtime()?.block_on(gpu::run(command, &global)),
        // One thread: a pod of each job runs this.
        Command::SlurmSubmit(flags) => {
            Builder::new_current_thread().enable_all().build()?.block_on(minik8s_slurm::program::run(flags))
        }
        Command::Mesh(command) => runtime()?.block_on(mesh::run(command, &global)),
        Command::Sidecar { role } => sidecar(role),
        Command::Why(flags) => runtime()?.block_on(why::run(flags, &global)),
        Command::Teardown(flags) => runtime()?.block_on(teardown::run(&flags)),
        Command::Uninstall(flags) => runtime()?.block_on(uninstall::run(flags)),
    }
}
