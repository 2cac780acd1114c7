//! The engine on a real API server and store: runs go through, go on, and leave nothing behind.

#![allow(clippy::unwrap_used)]

mod world;

use std::sync::atomic::Ordering;

use kube::Api;
use kube::api::{DeleteParams, PostParams};
use minik8s_store::Range;
use minik8s_workflows::kinds::{Phase, Workflow};
use world::{World, left, workflow};

/// How many records of all runs the store has.
async fn records(world: &World) -> usize {
    let range = Range { prefix: "/records/".to_owned(), ..Range::default() };
    world.store.range(range).await.unwrap().entries.len()
}

async fn with_workflow(world: &World) {
    let workflows: Api<Workflow> = Api::namespaced(world.client.clone(), "default");
    workflows.create(&PostParams::default(), &workflow("five", 5)).await.unwrap();
}

#[tokio::test]
async fn deleting_a_run_deletes_all_that_was_kept_of_it() {
    let dir = tempfile::TempDir::new().unwrap();
    let world = World::start(dir.path(), false).await;
    with_workflow(&world).await;
    world.create("one", "five").await;
    world.until(|world| world.is_over("one")).await;
    let run = world.runs().get("one").await.unwrap();
    assert_eq!(run.phase(), Some(Phase::Succeeded));
    assert_eq!(records(&world).await, 1);
    assert!(run.status.unwrap().history_bytes.unwrap() < 2048);
    world.runs().delete("one", &DeleteParams::default()).await.unwrap();
    assert_eq!(records(&world).await, 0);
    // One that still runs, too: nothing comes back.
    world.tasks.held.store(true, Ordering::Relaxed);
    let before = world.tasks.started.load(Ordering::Relaxed);
    world.create("two", "five").await;
    world.until(|world| world.tasks.started.load(Ordering::Relaxed) > before).await;
    assert_eq!(records(&world).await, 1);
    world.runs().delete("two", &DeleteParams::default()).await.unwrap();
    assert_eq!(records(&world).await, 0);
    world.end().await;
}

#[tokio::test]
async fn runs_go_on_on_the_next_server() {
    let dir = tempfile::TempDir::new().unwrap();
    let world = World::start(dir.path(), true).await;
    with_workflow(&world).await;
    for name in ["a", "b", "c"] {
        world.create(name, "five").await;
    }
    world.until(|world| world.tasks.started.load(Ordering::Relaxed) >= 3).await;
    world.end().await;
    let left = left(dir.path());
    let world = World::start(left.path(), false).await;
    world.until(|world| ["a", "b", "c"].iter().all(|name| world.is_over(name))).await;
    assert_eq!(world.tasks.started.load(Ordering::Relaxed), 15);
    world.end().await;
}
