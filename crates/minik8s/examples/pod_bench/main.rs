//! `make bench`, its part about pods: how much longer than the bare runtime calls a pod takes to start.
//!
//! Usage: `pod_bench MINIK8S_BINARY [PODS]`. It starts the binary as a control plane and as an agent, with data dirs
//! of their own (below the current directory), measures bare CRI calls and pods through the API in turn on the same
//! containerd, and removes everything at the end. Needs root.

mod bare;
#[allow(dead_code, reason = "another measurement uses the rest")]
mod cluster;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::bare::Bare;
use crate::cluster::Cluster;

/// Starts one after the other, of each kind.
const IN_TURN: usize = 20;
const IDLE: Duration = Duration::from_secs(20);

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let binary: PathBuf = arguments.next().context("usage: pod_bench MINIK8S_BINARY [PODS]")?.into();
    let pods = arguments.next().map_or(Ok(100), |text| text.parse()).context("PODS is a whole number")?;
    let mut cluster = Cluster::start(&binary)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let measured = runtime.block_on(measure(&mut cluster, pods));
    cluster.tear_down();
    print!("{}", measured?);
    Ok(())
}

async fn measure(cluster: &mut Cluster, pods: usize) -> anyhow::Result<String> {
    cluster.ready().await?;
    let bare = Bare::new(cluster.config());
    let (mut alone, mut through_api) = (Vec::new(), Vec::new());
    for n in 0..IN_TURN {
        let begun = Instant::now();
        bare.start(&format!("bare-{n}")).await?;
        alone.push(begun.elapsed());
        bare.remove_all().await?;
        through_api.push(cluster.run_pods(&format!("one-{n}-"), 1).await?);
        cluster.delete_pods(&format!("one-{n}-"), 1).await?;
    }
    let (alone, through_api) = (median(alone), median(through_api));

    let begun = Instant::now();
    let names: Vec<_> = (0..pods).map(|n| format!("many-{n}")).collect();
    futures::future::try_join_all(names.iter().map(|name| bare.start(name))).await?;
    let bare_rate = pods as f64 / begun.elapsed().as_secs_f64();
    bare.remove_all().await?;
    let rate = pods as f64 / cluster.run_pods("many-", pods).await?.as_secs_f64();

    tokio::time::sleep(Duration::from_secs(5)).await;
    let cpu = || -> anyhow::Result<_> { Ok((cluster.agent().cpu()?, cluster.server().cpu()?)) };
    let before = cpu()?;
    tokio::time::sleep(IDLE).await;
    let after = cpu()?;
    let share = |used: Duration| used.as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    let (agent, server) = (cluster.agent().rss_mb()?, cluster.server().rss_mb()?);
    Ok(format!(
        "pod start, p50 of {IN_TURN}: {through_api:.1?}, bare CRI calls {alone:.1?}: {:.2} x\n\
         {pods} pods at once: {rate:.1}/s, bare CRI calls {bare_rate:.1}/s: {:.2} x\n\
         with {pods} pods, agent: {:.1} MB resident ({:.1} of it heap and stacks), {:.2} % of a core idle\n\
         with {pods} pods, control plane: {:.1} MB resident, {:.2} % of a core idle\n",
        through_api.as_secs_f64() / alone.as_secs_f64(),
        rate / bare_rate,
        agent.0,
        agent.1,
        share(after.0 - before.0),
        server.0,
        share(after.1 - before.1),
    ))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
