use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::SignedDuration;
use minik8s_runtime::testing::{Kubelet, Simulation, World, check_convergence};
use serde_json::{Value, json};

use super::*;
use crate::job::{Jobs, LostJobPods};

fn cron(change: Value) -> CronJob {
    let labels = json!({"cron": "tick"});
    let job = json!({
        "completions": 1, "parallelism": 1, "backoffLimit": 0,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}},
    });
    let mut spec = json!({
        "schedule": "* * * * *",
        "successfulJobsHistoryLimit": 2,
        "failedJobsHistoryLimit": 1,
        "jobTemplate": {"metadata": {"labels": {"from": "tick"}}, "spec": job},
    });
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    serde_json::from_value(json!({"metadata": {"name": "tick", "namespace": "ns"}, "spec": spec})).unwrap()
}

fn key() -> Key {
    Key::new("ns", "tick")
}

/// Runs for some minutes; the world starts 20 seconds before a full minute.
fn simulate(change: Value, ends_in: Option<&'static str>, minutes: i64) -> Simulation {
    let mut world = World::default();
    world.insert(&cron(change));
    let mut simulation = Simulation::new(world)
        .with(CronJobs)
        .with(Jobs)
        .with(LostJobPods)
        .with_actor(Kubelet { ends_in }.actor());
    simulation.stop_at(SignedDuration::from_secs(minutes * 60));
    simulation
}

fn started(simulation: &Simulation) -> usize {
    simulation.world.log.iter().filter(|line| line.starts_with("create jobs")).count()
}

fn status(simulation: &Simulation) -> k8s_openapi::api::batch::v1::CronJobStatus {
    simulation.world.get::<CronJob>(&key()).unwrap().status.unwrap_or_default()
}

#[test]
fn runs_once_a_minute_and_keeps_some_history() {
    check_convergence(
        || simulate(json!({}), Some("Succeeded"), 5),
        |simulation| {
            assert_eq!(started(simulation), 5, "never twice, whatever crashes");
            let jobs = simulation.world.list::<Job>();
            assert_eq!(jobs.len(), 2, "the newest successes");
            assert_eq!(jobs[1].metadata.labels.as_ref().unwrap()["from"], "tick");
            let status = status(simulation);
            assert!(status.last_schedule_time.is_some() && status.last_successful_time.is_some());
            assert_eq!(status.active, None);
        },
    );
}

#[test]
fn concurrency() {
    let check = |policy: &str, runs: usize, active: usize| {
        let mut simulation = simulate(json!({"concurrencyPolicy": policy}), None, 4);
        simulation.settle().unwrap();
        let seen = status(&simulation).active.map_or(0, |active| active.len());
        assert_eq!((started(&simulation), seen), (runs, active), "{policy}");
    };
    check("Allow", 4, 4);
    check("Forbid", 1, 1);
    check("Replace", 4, 1);
}

#[test]
fn suspended_and_broken_ones_start_nothing() {
    for change in [
        json!({"suspend": true}),
        json!({"schedule": "x"}),
        json!({"timeZone": "Mars/Base"}),
        json!({"schedule": "0 0 30 2 *"}),
    ] {
        let mut simulation = simulate(change.clone(), None, 3);
        simulation.settle().unwrap();
        assert_eq!(started(&simulation), 0, "{change}");
    }
}

#[test]
fn failed_runs_have_a_history_of_their_own() {
    let mut simulation = simulate(json!({}), Some("Failed"), 4);
    simulation.settle().unwrap();
    assert_eq!((started(&simulation), simulation.world.list::<Job>().len()), (4, 1));
    assert_eq!(status(&simulation).last_successful_time, None);
    assert!(simulation.world.list::<Pod>().len() <= 4);
}

#[test]
fn after_a_long_sleep_only_the_latest_run_is_made_up_for() {
    let check = |deadline: Option<i64>, expected: usize| {
        let mut simulation = simulate(json!({"startingDeadlineSeconds": deadline}), Some("Succeeded"), 0);
        simulation.settle().unwrap();
        let sleep = SignedDuration::from_secs(3600 * 24);
        simulation.world.advance_to(simulation.world.now() + sleep);
        simulation
            .world
            .change::<CronJob>(&key(), |cron| cron.metadata.labels = Some([("a".into(), "b".into())].into()));
        simulation.settle().unwrap();
        assert_eq!(started(&simulation), expected, "{deadline:?}");
    };
    check(None, 1);
    check(Some(3600), 1);
    check(Some(0), 0);
}
