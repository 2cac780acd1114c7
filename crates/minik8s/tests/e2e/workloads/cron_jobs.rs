//! CronJobs.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::api::{DeleteParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

use super::cluster::{Cluster, eventually, name, without_conflict};

/// Every second starts a Job that runs for long.
fn cron(change: Value) -> Value {
    let pod = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}});
    let mut spec = json!({"schedule": "@every 1s", "jobTemplate": {"metadata": {"labels": {"from": "tick"}}, "spec": {"template": pod}}});
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": "tick", "labels": {"test": "cron"}}, "spec": spec})
}

async fn jobs(cluster: &Cluster) -> Vec<Job> {
    let mut jobs = cluster.list::<Job>("from=tick").await;
    jobs.retain(|job| job.metadata.deletion_timestamp.is_none());
    jobs
}

async fn until_jobs(cluster: &Cluster, what: &str, are: impl Fn(&[Job]) -> bool) -> Vec<Job> {
    eventually(what, async || {
        let jobs = jobs(cluster).await;
        if are(&jobs) { Ok(jobs) } else { Err(format!("{} jobs", jobs.len())) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn suspended_ones_start_nothing() {
    let cluster = Cluster::start().await;
    cluster.create::<CronJob>(cron(json!({"suspend": true}))).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert!(jobs(&cluster).await.is_empty());
    cluster.patch::<CronJob>("tick", json!({"spec": {"suspend": false}})).await;
    until_jobs(&cluster, "started", |jobs| !jobs.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_runs_overlap() {
    let cluster = Cluster::start().await;
    cluster.create::<CronJob>(cron(json!({"concurrencyPolicy": "Allow"}))).await;
    until_jobs(&cluster, "several", |jobs| jobs.len() >= 2).await;
    let active = |cron: &CronJob| cron.status.clone().unwrap_or_default().active.unwrap_or_default().len();
    cluster.until::<CronJob>("tick", "several active", |cron| active(cron) >= 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_runs_wait() {
    let cluster = Cluster::start().await;
    cluster.create::<CronJob>(cron(json!({"concurrencyPolicy": "Forbid"}))).await;
    until_jobs(&cluster, "one", |jobs| jobs.len() == 1).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(jobs(&cluster).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_runs_go_first() {
    let cluster = Cluster::start().await;
    cluster.create::<CronJob>(cron(json!({"concurrencyPolicy": "Replace"}))).await;
    let first = until_jobs(&cluster, "one", |jobs| jobs.len() == 1).await.remove(0);
    until_jobs(&cluster, "another", |jobs| {
        assert!(jobs.len() <= 1, "two at once");
        jobs.len() == 1 && name(&jobs[0]) != name(&first)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_runs_are_kept_to_a_number() {
    let cluster = Cluster::start().await;
    let mut quick = cron(json!({"successfulJobsHistoryLimit": 1}));
    quick["spec"]["jobTemplate"]["spec"]["template"]["metadata"] =
        json!({"annotations": {"minik8s.io/run-seconds": "0"}});
    cluster.create::<CronJob>(quick).await;
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 4 {
        seen.extend(jobs(&cluster).await.iter().map(|job| name(job).to_owned()));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Those that came are over at some time, and no more come.
    cluster.patch::<CronJob>("tick", json!({"spec": {"suspend": true}})).await;
    let is_over = |job: &Job| job.status.as_ref().is_some_and(|status| status.completion_time.is_some());
    until_jobs(&cluster, "one is kept", |jobs| jobs.len() == 1 && is_over(&jobs[0])).await;
    cluster
        .until::<CronJob>("tick", "says when one went well", |cron| {
            cron.status.as_ref().is_some_and(|status| status.last_successful_time.is_some())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_schedules_and_zones_are_refused() {
    let cluster = Cluster::with_nodes(0).await;
    for (change, field) in [
        (json!({"schedule": "61 * * * *"}), "spec.schedule"),
        (json!({"schedule": ""}), "spec.schedule"),
        (json!({"timeZone": "Mars/Base"}), "spec.timeZone"),
        (json!({"concurrencyPolicy": "Maybe"}), "spec.concurrencyPolicy"),
    ] {
        let object: CronJob = serde_json::from_value(cron(change.clone())).unwrap();
        let error = cluster.api::<CronJob>().create(&PostParams::default(), &object).await.unwrap_err();
        assert!(error.to_string().contains(field), "{change}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operations_of_the_api() {
    let cluster = Cluster::with_nodes(0).await;
    let api = cluster.api::<CronJob>();
    let watched = api.watch(&WatchParams::default().labels("test=cron"), "0").await.unwrap();
    cluster.create::<CronJob>(cron(json!({"suspend": true}))).await;
    let seen = without_conflict(async || {
        let mut seen = api.get("tick").await?;
        seen.spec.schedule = "@hourly".to_owned();
        api.replace("tick", &PostParams::default(), &seen).await
    })
    .await;
    assert_eq!(seen.spec.schedule, "@hourly");
    cluster.patch::<CronJob>("tick", json!({"metadata": {"annotations": {"patched": "yes"}}})).await;
    cluster.patch_status::<CronJob>("tick", json!({"lastScheduleTime": "2030-01-01T00:00:00Z"})).await;
    let seen = without_conflict(async || {
        let mut seen = api.get_status("tick").await?;
        assert!(seen.status.as_ref().unwrap().last_schedule_time.is_some());
        seen.status.as_mut().unwrap().last_schedule_time = None;
        api.replace_status("tick", &PostParams::default(), &seen).await
    })
    .await;
    assert_eq!(seen.status.unwrap_or_default().last_schedule_time, None);
    assert_eq!(cluster.list::<CronJob>("test=cron").await.len(), 1);
    cluster.create::<CronJob>(named("tock")).await;
    cluster.delete::<CronJob>("tock", DeleteParams::default()).await;
    assert!(api.get_opt("tock").await.unwrap().is_none());
    super::collections::delete_all::<CronJob>(&cluster, "test=cron").await;
    // The watch has seen all of it, up to the end of both.
    let mut events = Vec::new();
    let mut watched = std::pin::pin!(watched);
    while events.iter().filter(|event: &&String| event.starts_with("deleted")).count() < 2 {
        events.push(match watched.next().await.unwrap().unwrap() {
            WatchEvent::Added(cron) => format!("added {}", name(&cron)),
            WatchEvent::Modified(cron) => format!("modified {}", name(&cron)),
            WatchEvent::Deleted(cron) => format!("deleted {}", name(&cron)),
            WatchEvent::Bookmark(_) => continue,
            other => format!("{other:?}"),
        });
    }
    assert_eq!(events[0], "added tick");
    for event in ["modified tick", "added tock", "deleted tock", "deleted tick"] {
        assert!(events.iter().any(|seen| seen == event), "{event}: {events:?}");
    }
}

fn named(name: &str) -> Value {
    let mut cron = cron(json!({"suspend": true}));
    cron["metadata"]["name"] = name.into();
    cron
}
