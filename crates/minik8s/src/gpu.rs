//! `minik8s gpu`: the commands are the feature's; which cluster they talk to, and how progress is shown, is ours.

use minik8s_cli::{GlobalFlags, Progress, bar};
use minik8s_slurm::command::{self, GpuCommand};

use crate::kubeconfig;

pub async fn run(command: GpuCommand, global: &GlobalFlags) -> anyhow::Result<()> {
    let (client, namespace) = kubeconfig::client(global).await?;
    let line = match command {
        GpuCommand::Results { .. } => Progress::begin("fetching"),
        _ => Progress::hidden(),
    };
    let show = move |name: &str, done: i64, total: i64| {
        line.say(format_args!("{name}  {} {:3} %", bar::bar(done, total), bar::percent(done, total)));
    };
    command::run(command, client, &namespace, Box::new(show)).await
}
