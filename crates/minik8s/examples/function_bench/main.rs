//! `make bench`, its part about functions: cold starts in a slot, without one and of a bare pod, what the router adds to a
//! warm call, what that costs against gunicorn behind nginx, a step from nothing to 64 connections, updates and
//! kills under load, random calls from zero, and what functions cost that nobody calls.
//!
//! Usage: `function_bench MINIK8S_BINARY [STARTS [INSTANCES]]`: random calls go on until so many instances were started. It
//! starts the binary as a control plane and as an agent, with data dirs of their own (below the current directory), and
//! removes everything at the end. Needs root, and Debian's python3.11; the peers are Debian's `nginx-light` and `gunicorn`.

mod bare;
#[path = "../pod_bench/cluster.rs"]
#[allow(dead_code, reason = "another measurement uses the rest")]
mod cluster;
mod cycles;
mod http;
mod ledger;
mod peer;
#[path = "../../../network/examples/dns_bench/process.rs"]
#[allow(dead_code, reason = "another measurement uses the rest")]
mod process;
mod update;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use minik8s_meta::function::{FUNCTION_LABEL, Function, FunctionEndpoints};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::http::Connection;

const WARM: usize = 2000;
const CONNECTIONS: usize = 64;
const CALLS_EACH: usize = 20;
const FUNCTIONS: usize = 1000;
/// Called at once while nothing of them has started.
const FRESH: usize = 50;
const IDLE: Duration = Duration::from_secs(20);
/// A slot is made in less.
const SETTLED: Duration = Duration::from_millis(1500);
/// Between two calls of a function that the router has not heard of: fifty clients that hurry would be the load.
const AGAIN: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(300);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);
const CODE: &str = "def main(params):\n    return params\n";

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let binary: PathBuf =
        arguments.next().context("usage: function_bench MINIK8S_BINARY [STARTS [INSTANCES]]")?.into();
    let starts = arguments.next().map_or(Ok(100), |text| text.parse()).context("STARTS is a whole number")?;
    let instances =
        arguments.next().map_or(Ok(100), |text| text.parse()).context("INSTANCES is a whole number")?;
    let mut cluster = Cluster::start(&binary)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let measured = runtime.block_on(measure(&mut cluster, starts, instances));
    cluster.tear_down();
    print!("{}", measured?);
    Ok(())
}

async fn measure(cluster: &mut Cluster, starts: usize, instances: usize) -> Result<String> {
    cluster.ready().await?;
    let bench = Bench { client: cluster.pods()?.into_client(), cluster };
    // What an interpreter reads when it starts keeps an instance out of slots.
    bench.create("slot", &[]).await?;
    bench.create("plain", &[json!({"name": "PYTHONOPTIMIZE", "value": "0"})]).await?;
    let (mut in_slot, mut plain, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..starts {
        bare.push(bench.bare().await?);
        plain.push(bench.cold("plain").await?);
        in_slot.push(bench.cold("slot").await?);
    }
    let mut told = format!(
        "cold start in a slot, p50 / p99 of {starts}: {}, target 50 / 100 ms\ncold start without: {}; of a bare pod with \
         its interpreter {}: {:.2} x, target 1.2\n",
        spread(in_slot),
        spread(plain.clone()),
        spread(bare.clone()),
        at(&plain, 0.5).as_secs_f64() / at(&bare, 0.5).as_secs_f64(),
    );
    told += &bench.warm().await?;
    told += &bench.against_gunicorn().await?;
    told += &bench.step().await?;
    told += &bench.updates().await?;
    told += &bench.cycles(instances).await?;
    told += &bench.fresh().await?;
    told += &bench.at_zero().await?;
    Ok(told)
}

struct Bench<'a> {
    client: Client,
    cluster: &'a Cluster,
}

impl Bench<'_> {
    fn functions(&self) -> Api<Function> {
        Api::default_namespaced(self.client.clone())
    }

    async fn post(&self, name: &str, env: &[Value]) -> Result<()> {
        self.post_code(name, CODE, env).await
    }

    async fn post_code(&self, name: &str, code: &str, env: &[Value]) -> Result<()> {
        let spec = json!({
            "runtime": "python3.11", "code": {"source": code}, "env": env,
            "scale": {"idleSeconds": 1, "scaleDownSeconds": 1, "max": 8}, "concurrency": 8,
        });
        let function = json!({"metadata": {"name": name}, "spec": spec});
        self.functions().create(&PostParams::default(), &serde_json::from_value(function)?).await?;
        Ok(())
    }

    async fn create(&self, name: &str, env: &[Value]) -> Result<()> {
        self.post(name, env).await?;
        self.until_served(name).await
    }

    async fn until_served(&self, name: &str) -> Result<()> {
        let serves = async || {
            let status = self.functions().get_status(name).await?.status.unwrap_or_default();
            Ok(status.serving_revision > 0)
        };
        until("its first instance answers", serves, PAUSE).await
    }

    async fn instances(&self, name: &str) -> Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        Ok(pods.list(&ListParams::default().labels(&format!("{FUNCTION_LABEL}={name}"))).await?.items)
    }

    /// The first call of a function that has no instance, while slots wait and none is being made.
    async fn cold(&self, name: &str) -> Result<Duration> {
        until("it has no instance", async || Ok(self.instances(name).await?.is_empty()), PAUSE).await?;
        let slots_wait = async || {
            let before = self.waiting_slots();
            tokio::time::sleep(SETTLED).await;
            Ok(before > 0 && self.waiting_slots() == before)
        };
        until("slots wait", slots_wait, PAUSE).await?;
        let begun = Instant::now();
        let port = self.cluster.http_port();
        let path = format!("/fn/default/{name}");
        let status =
            tokio::task::spawn_blocking(move || Connection::open("127.0.0.1", port)?.call(&path, "{}"))
                .await??;
        if status != 200 {
            bail!("the first call of {name} was answered {status}");
        }
        Ok(begun.elapsed())
    }

    fn waiting_slots(&self) -> usize {
        let entries = std::fs::read_dir(self.cluster.config().slots_dir()).into_iter().flatten().flatten();
        let records = entries.filter_map(|entry| {
            serde_json::from_slice::<Value>(&std::fs::read(entry.path().join("slot.json")).ok()?).ok()
        });
        records.filter(|slot| slot["adoption"].is_null() && slot["container"] != "").count()
    }

    /// The same call on one connection through the router, and straight to the instance.
    async fn warm(&self) -> Result<String> {
        self.cold("slot").await?;
        let pods = self.instances("slot").await?;
        let ip =
            pods.into_iter().find_map(|pod| pod.status?.pod_ip).context("the instance has no address")?;
        let port = self.cluster.http_port();
        let measured = tokio::task::spawn_blocking(move || -> Result<_> {
            let mut through = Connection::open("127.0.0.1", port)?;
            let mut straight = Connection::open(&ip, minik8s_meta::function::PORT)?;
            let (mut routed, mut direct) = (Vec::new(), Vec::new());
            for _ in 0..WARM {
                for (connection, path, times) in
                    [(&mut through, "/fn/default/slot", &mut routed), (&mut straight, "/", &mut direct)]
                {
                    let begun = Instant::now();
                    let status = connection.call(path, "{}")?;
                    if status != 200 {
                        bail!("a warm call was answered {status}");
                    }
                    times.push(begun.elapsed());
                }
            }
            Ok((routed, direct))
        });
        let (routed, direct) = measured.await??;
        let added = |part: f64| {
            let (through, straight) = (at(&routed, part), at(&direct, part));
            (through.as_secs_f64() - straight.as_secs_f64()) * 1000.0
        };
        Ok(format!(
            "warm call of {WARM}: through the router {}, straight {}; added p50 / p99 {:.2} / {:.2} ms, target 0.3 / 1\n",
            spread(routed.clone()),
            spread(direct.clone()),
            added(0.5),
            added(0.99),
        ))
    }

    /// All at once, where there is no instance.
    async fn step(&self) -> Result<String> {
        until("it has no instance", async || Ok(self.instances("slot").await?.is_empty()), PAUSE).await?;
        let port = self.cluster.http_port();
        let begun = Instant::now();
        let one = move || -> Result<(Duration, usize)> {
            let mut connection = Connection::open("127.0.0.1", port)?;
            let mut failed = usize::from(connection.call("/fn/default/slot", "{}")? != 200);
            let first = begun.elapsed();
            for _ in 1..CALLS_EACH {
                failed += usize::from(connection.call("/fn/default/slot", "{}")? != 200);
            }
            Ok((first, failed))
        };
        let tasks: Vec<_> = (0..CONNECTIONS).map(|_| std::thread::spawn(one)).collect();
        let mut answered = Vec::new();
        let mut failed = 0;
        for task in tasks {
            let (first, errors) = task.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
            answered.push(first);
            failed += errors;
        }
        Ok(format!(
            "0 to {CONNECTIONS} connections: all answered once after {:.2} s, {} calls in {:.2} s, {failed} failed; target 1 s, 0\n",
            at(&answered, 1.0).as_secs_f64(),
            CONNECTIONS * CALLS_EACH,
            begun.elapsed().as_secs_f64(),
        ))
    }

    /// Each called once as soon as it has been made. A router that has not heard of one yet says so (404) and is asked
    /// again; the time counts from when the function was there.
    async fn fresh(&self) -> Result<String> {
        let port = self.cluster.http_port();
        let mut tasks = Vec::new();
        for n in 0..FRESH {
            let name = format!("fresh-{n}");
            self.post(&name, &[]).await?;
            let begun = Instant::now();
            tasks.push(std::thread::spawn(move || -> Result<(Duration, bool)> {
                let path = format!("/fn/default/{name}");
                loop {
                    match Connection::open("127.0.0.1", port)?.call(&path, "{}")? {
                        404 if begun.elapsed() < TIMEOUT => std::thread::sleep(AGAIN),
                        status => return Ok((begun.elapsed(), status == 200)),
                    }
                }
            }));
        }
        let (mut answered, mut failed) = (Vec::new(), 0);
        for task in tasks {
            let (time, is_good) = task.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
            answered.push(time);
            failed += usize::from(!is_good);
        }
        for n in 0..FRESH {
            self.functions().delete(&format!("fresh-{n}"), &DeleteParams::default()).await?;
        }
        Ok(format!(
            "{FRESH} new functions called at once: p50 / p99 {}, {failed} failed; target p99 2000 ms, 0\n",
            spread(answered)
        ))
    }

    /// What the agent of a node pays for functions that nobody calls.
    async fn at_zero(&self) -> Result<String> {
        let agent = self.cluster.agent();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let (_, before) = agent.rss_mb()?;
        let endpoints: Api<FunctionEndpoints> = Api::default_namespaced(self.client.clone());
        for n in 0..FUNCTIONS {
            let spec = json!({
                "uid": format!("00000000-0000-0000-0000-{n:012}"), "concurrency": 1, "timeoutSeconds": 60,
                "queueSeconds": 30, "queueMax": 200, "idleSeconds": 60, "scaleDownSeconds": 30, "runtime": "python3.11",
            });
            let object = json!({"metadata": {"name": format!("quiet-{n}")}, "spec": spec});
            endpoints.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (_, after) = agent.rss_mb()?;
        let cpu = agent.cpu()?;
        tokio::time::sleep(IDLE).await;
        let share = (agent.cpu()? - cpu).as_secs_f64() / IDLE.as_secs_f64() * 100.0;
        endpoints.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        Ok(format!(
            "{FUNCTIONS} functions at zero: {:.1} KB each in the agent, target 4; the agent then uses {share:.2} % of a core\n",
            (after - before).max(0.0) * 1024.0 / FUNCTIONS as f64,
        ))
    }
}

async fn until(what: &str, is_so: impl AsyncFn() -> Result<bool>, pause: Duration) -> Result<()> {
    let begun = Instant::now();
    while !is_so().await? {
        if begun.elapsed() > TIMEOUT {
            bail!("not within {TIMEOUT:?}: {what}");
        }
        tokio::time::sleep(pause).await;
    }
    Ok(())
}

/// The value below which so large a part lies.
fn at(times: &[Duration], part: f64) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    let place = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or_default()
}

fn spread(times: Vec<Duration>) -> String {
    let milliseconds = |part: f64| at(&times, part).as_secs_f64() * 1000.0;
    format!("{:.1} / {:.1} ms", milliseconds(0.5), milliseconds(0.99))
}
