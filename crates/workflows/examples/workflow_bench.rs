//! How fast workflows run: `cargo run --release -p minik8s-workflows --example workflow_bench [-- RUNS]`.
//!
//! A whole API server with its store on disk, and the engine, in this process; tasks do nothing, so that what is
//! measured is the engine: the start of a run, what a durable step costs, many runs at once, and how soon runs go on
//! after a restart.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "../tests/world/mod.rs"]
mod world;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kube::Api;
use kube::api::{ListParams, PostParams};
use minik8s_asl::definition::{Definition, MachineType};
use minik8s_asl::engine::{Identity, Start};
use minik8s_workflows::engine::{Clock, Drive, Means};
use minik8s_workflows::journal::Beginning;
use minik8s_workflows::kinds::Workflow;
use minik8s_workflows::tasks::TaskContext;
use serde_json::json;
use world::{World, left, workflow};

#[tokio::main]
async fn main() {
    let count: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1000);
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    println!("{build} build, {} cores, {count} runs", std::thread::available_parallelism().unwrap());
    let dir = tempfile::TempDir::new().unwrap();
    let world = World::start(dir.path(), false).await;
    for (name, steps) in [("one", 1), ("five", 5), ("fifty", 50)] {
        let workflows: Api<Workflow> = Api::namespaced(world.client.clone(), "default");
        workflows.create(&PostParams::default(), &workflow(name, steps)).await.unwrap();
    }
    starts(&world).await;
    steps(&world).await;
    many(&world, count).await;
    timers(&world, count).await;
    world.end().await;
    let dir = tempfile::TempDir::new().unwrap();
    recovery(dir.path(), count).await;
}

/// From the request that creates a run to the start of its first task.
async fn starts(world: &World) {
    let mut times = Vec::new();
    for at in 0..100 {
        let (began, before) = (Instant::now(), world.tasks.started.load(Ordering::Relaxed));
        world.create(&format!("start-{at}"), "one").await;
        world.until(|world| world.tasks.started.load(Ordering::Relaxed) > before).await;
        times.push(began.elapsed());
        world.until(|world| world.is_over(&format!("start-{at}"))).await;
    }
    tell("start of a run (create to first task)", &mut times);
}

/// A chain of fifty tasks that do nothing: what a durable step costs.
async fn steps(world: &World) {
    let mut times = Vec::new();
    for at in 0..20 {
        let began = Instant::now();
        world.create(&format!("steps-{at}"), "fifty").await;
        world.until(|world| world.is_over(&format!("steps-{at}"))).await;
        times.push(began.elapsed() / 50);
    }
    tell("durable step (chain of 50)", &mut times);
}

/// Many runs of five steps, made by sixteen clients at once.
async fn many(world: &World, count: usize) {
    let began = Instant::now();
    let next = AtomicUsize::new(0);
    let clients = (0..16).map(|_| async {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return;
            }
            world.create(&format!("many-{at}"), "five").await;
        }
    });
    futures::future::join_all(clients).await;
    let over = |world: &World| {
        world.cache.list().iter().filter(|run| run.spec.workflow == "five" && run.is_over()).count()
    };
    while over(world) < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = began.elapsed();
    let bytes = world.runs().list(&ListParams::default()).await.unwrap().items;
    let bytes: Vec<i64> = bytes
        .iter()
        .filter(|run| run.spec.workflow == "five")
        .filter_map(|run| run.status.as_ref()?.history_bytes)
        .collect();
    println!(
        "{count} runs of 5 steps: {took:.2?}, {:.0} steps/s, {} bytes of history each",
        (count * 5) as f64 / took.as_secs_f64(),
        bytes.iter().sum::<i64>() / i64::try_from(bytes.len().max(1)).unwrap()
    );
}

/// How late the timers of many runs are that come due within one second, while another run keeps the engine busy.
async fn timers(world: &World, count: usize) {
    let machine = json!({"StartAt": "w", "States": {"w": {"Type": "Wait", "SecondsPath": "$", "End": true}}});
    let clock: Clock = Arc::new(|| jiff::Timestamp::now().as_millisecond());
    let means = Means { tasks: world.tasks.clone(), clock: clock.clone() };
    let mut late = Vec::new();
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..count {
        let definition = Definition::from_value(&machine, MachineType::Standard).unwrap();
        let start = Start { identity: Identity::default(), input: json!(2), time: clock(), seed: 1 };
        let due = start.time + 2000;
        let beginning = Beginning { definition: machine.clone(), start };
        let begun = Drive::begin(means.clone(), TaskContext::default(), definition, beginning, None);
        let (mut drive, clock) = (begun.await.unwrap(), clock.clone());
        waiting.spawn(async move {
            drive.next_event().await;
            Duration::from_millis((clock() - due).max(0).unsigned_abs())
        });
    }
    world.create("beside", "fifty").await;
    while let Some(one) = waiting.join_next().await {
        late.push(one.unwrap());
    }
    tell(&format!("timers of {count} runs, late by"), &mut late);
}

/// Runs that wait for a task when the server ends: until the next one has asked for all of them again.
async fn recovery(dir: &Path, count: usize) {
    let world = World::start(dir, true).await;
    let workflows: Api<Workflow> = Api::namespaced(world.client.clone(), "default");
    workflows.create(&PostParams::default(), &workflow("five", 5)).await.unwrap();
    let names: Vec<String> = (0..count).map(|at| format!("again-{at}")).collect();
    futures::future::join_all(names.iter().map(|name| world.create(name, "five"))).await;
    world.until(|world| world.tasks.started.load(Ordering::Relaxed) >= count).await;
    world.end().await;
    let left = left(dir);
    let world = World::start(left.path(), true).await;
    let began = Instant::now();
    world.until(|world| world.tasks.started.load(Ordering::Relaxed) >= count).await;
    println!("recovery of {count} running runs: {:.2?}", began.elapsed());
    world.end().await;
}

fn tell(what: &str, times: &mut [Duration]) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!("{what}: p50 {:.2?}, p95 {:.2?}, max {:.2?}", at(0.5), at(0.95), at(1.0));
}
