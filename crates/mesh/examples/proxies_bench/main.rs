//! How long a change to a VirtualService takes until the last of 1,000 proxies has said that it routes by it: from the
//! PATCH until `status.proxies` counts all of them.
//!
//! Usage: `proxies_bench MINIK8S_BINARY [CHANGES]`, as root. The server is the real program. The ten nodes are the mesh's
//! part of an agent each, in this process; their proxies speak the real protocol over the real sockets and make the table
//! that a proxy makes, but serve nobody. Pods are objects alone. It makes rules for Services, so run it in a network of its
//! own: `unshare --net`.

mod cluster;
mod proxies;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cluster::Cluster;
use futures::TryStreamExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::runtime::watcher;
use serde_json::{Value, json};

const NODES: usize = 10;
const PROXIES: usize = 1000;
const TIMEOUT: Duration = Duration::from_secs(120);
/// The first changes find caches and pages cold.
const WARM_UP: usize = 5;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let binary: PathBuf = arguments.next().context("usage: proxies_bench MINIK8S_BINARY [CHANGES]")?.into();
    let changes =
        arguments.next().map_or(Ok(200), |text| text.parse()).context("CHANGES is a whole number")?;
    // In a network of its own not even this is there.
    let _ = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(&Cluster::start(&binary)?, changes))
}

async fn measure(cluster: &Cluster, changes: usize) -> Result<()> {
    let client = cluster.client(None).await?;
    cluster.populate(&client).await?;
    let _proxies = proxies::start(cluster, &client).await?;
    let routes: Api<DynamicObject> =
        Api::namespaced_with(client, cluster::NAMESPACE, &cluster::virtual_service());
    let mut events = std::pin::pin!(watcher(routes.clone(), watcher::Config::default()));
    let mut took = Vec::new();
    for number in 0..changes + WARM_UP {
        let begun = Instant::now();
        let weight = 1 + number % 2 * 98;
        let subsets = json!([{"name": "v1", "weight": weight}, {"name": "v2", "weight": 100 - weight}]);
        let patch = Patch::Merge(json!({"spec": {"subsets": subsets}}));
        let patched = routes.patch("reviews", &PatchParams::default(), &patch).await?;
        let generation = patched.metadata.generation.unwrap_or_default();
        let programmed = async {
            loop {
                let event = events.try_next().await?.context("the watch has ended")?;
                if let watcher::Event::Apply(seen) | watcher::Event::InitApply(seen) = event
                    && is_programmed(&seen.data["status"], generation)
                {
                    return anyhow::Ok(());
                }
            }
        };
        tokio::time::timeout(TIMEOUT, programmed).await.context("not all proxies follow")??;
        took.push(begun.elapsed());
    }
    took.drain(..WARM_UP);
    took.sort();
    ensure!(!took.is_empty(), "no change was made");
    let at = |percent: usize| took[(took.len() * percent / 100).min(took.len() - 1)].as_secs_f64() * 1000.0;
    for (percent, most) in [(50, 50.0), (99, 250.0)] {
        let (figure, word) = (at(percent), if at(percent) <= most { "ok" } else { "short" });
        println!(
            "change to the last of {PROXIES} proxies, p{percent}: {figure:.0} ms, target ≤ {most}   {word}"
        );
    }
    Ok(())
}

fn is_programmed(status: &Value, generation: i64) -> bool {
    let condition =
        status["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == "Programmed");
    let counts = &status["proxies"];
    status["observedGeneration"] == generation
        && condition.is_some_and(|one| one["status"] == "True" && one["observedGeneration"] == generation)
        && counts["total"] == PROXIES
        && counts["applied"] == PROXIES
}
