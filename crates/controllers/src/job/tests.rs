use k8s_openapi::api::batch::v1::JobStatus;
use k8s_openapi::jiff::SignedDuration;
use minik8s_runtime::testing::{Actor, Kubelet, Simulation, World, check_convergence, set_pod_phase};
use minik8s_runtime::{Propagation, Target, key_of};
use serde_json::{Value, json};

use super::*;
use crate::pods;

fn job(change: Value) -> Job {
    let mut spec = json!({
        "parallelism": 2,
        "completions": 4,
        "backoffLimit": 6,
        "selector": {"matchLabels": {"job": "work"}},
        "template": {"metadata": {"labels": {"job": "work"}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}},
    });
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    serde_json::from_value(json!({"metadata": {"name": "work", "namespace": "ns"}, "spec": spec})).unwrap()
}

fn key() -> Key {
    Key::new("ns", "work")
}

fn world(change: Value) -> World {
    let mut world = World::default();
    world.insert(&job(change));
    world
}

fn simulate(world: World, kubelet: Actor) -> Simulation {
    Simulation::new(world).with(Jobs).with(LostJobPods).with_actor(kubelet)
}

fn ending_in(phase: &'static str) -> Actor {
    Kubelet { ends_in: Some(phase) }.actor()
}

/// Runs pods, ends those of some indexes badly and all others well.
fn failing_indexes(bad: &'static [i32]) -> Actor {
    Box::new(|world| {
        let pods = world.list::<Pod>();
        let next = pods.iter().find(|pod| !pods::is_finished(pod) || pods::is_terminating(pod));
        let Some(pod) = next else { return false };
        let is_bad = pod::index(pod).is_some_and(|index| bad.contains(&index));
        set_pod_phase(world, &key_of(pod), if is_bad { "Failed" } else { "Succeeded" });
        true
    })
}

fn status(world: &World) -> JobStatus {
    world.get::<Job>(&key()).unwrap().status.unwrap()
}

fn reason(world: &World, kind: &str) -> Option<String> {
    let conditions = status(world).conditions.unwrap_or_default();
    conditions.into_iter().find(|c| c.type_ == kind && c.status == "True").and_then(|c| c.reason)
}

fn created(world: &World) -> usize {
    world.log.iter().filter(|line| line.starts_with("create pods")).count()
}

#[test]
fn runs_to_completion_and_counts_exactly() {
    let build = || simulate(world(json!({})), ending_in("Succeeded"));
    check_convergence(build, |simulation| {
        let world = &simulation.world;
        let status = status(world);
        assert_eq!((status.succeeded, status.failed, status.active), (Some(4), None, None));
        assert_eq!(reason(world, "SuccessCriteriaMet").as_deref(), Some("CompletionsReached"));
        assert_eq!(reason(world, "Complete").as_deref(), Some("CompletionsReached"));
        assert!(status.completion_time.is_some());
        let pods = world.list::<Pod>();
        assert_eq!(pods.len(), 4, "no more than needed");
        assert!(pods.iter().all(|pod| !pod::is_tracked(pod)), "all are let go");
    });
}

#[test]
fn never_more_than_wanted_at_once() {
    let build = || {
        simulate(world(json!({"completions": 7, "parallelism": 3})), ending_in("Succeeded")).with_actor(
            Box::new(|world| {
                let active = world.list::<Pod>().iter().filter(|pod| pods::is_active(pod)).count();
                assert!(active <= 3, "{active} at once");
                false
            }),
        )
    };
    check_convergence(build, |simulation| assert_eq!(status(&simulation.world).succeeded, Some(7)));
}

#[test]
fn a_work_queue_ends_with_its_first_success() {
    let build = || simulate(world(json!({"completions": null, "parallelism": 3})), ending_in("Succeeded"));
    check_convergence(build, |simulation| {
        assert_eq!(status(&simulation.world).succeeded, Some(3));
        assert_eq!(created(&simulation.world), 3);
    });
}

#[test]
fn pods_that_always_fail_are_given_up_with_pauses() {
    let build = || simulate(world(json!({"backoffLimit": 3, "parallelism": 1})), ending_in("Failed"));
    check_convergence(build, |simulation| {
        let world = &simulation.world;
        assert_eq!(reason(world, "Failed").as_deref(), Some("BackoffLimitExceeded"));
        assert_eq!((status(world).failed, created(world) <= 4), (Some(4), true));
        // 10 + 20 + 40 seconds.
        let start = status(world).start_time.unwrap().0;
        assert!(world.now().duration_since(start) >= SignedDuration::from_secs(70), "pauses between tries");
    });
}

#[test]
fn every_index_gets_its_pod_and_variable() {
    let build = || simulate(world(json!({"completionMode": "Indexed"})), ending_in("Succeeded"));
    check_convergence(build, |simulation| {
        let world = &simulation.world;
        assert_eq!(status(world).completed_indexes.as_deref(), Some("0-3"));
        let pods = world.list::<Pod>();
        let mut indexes: Vec<_> = pods.iter().filter_map(pod::index).collect();
        indexes.sort_unstable();
        assert_eq!(indexes, [0, 1, 2, 3]);
        let pod = pods.iter().find(|pod| pod::index(pod) == Some(2)).unwrap();
        assert!(pod.metadata.name.as_ref().unwrap().starts_with("work-2-"));
        let spec = pod.spec.as_ref().unwrap();
        assert_eq!(spec.hostname.as_deref(), Some("work-2"));
        let variable = &spec.containers[0].env.as_ref().unwrap()[0];
        assert_eq!(variable.name, "JOB_COMPLETION_INDEX");
    });
}

#[test]
fn an_index_that_keeps_failing_does_not_stop_the_others() {
    let change = json!({"completionMode": "Indexed", "backoffLimitPerIndex": 1, "backoffLimit": i32::MAX});
    let build = || simulate(world(change.clone()), failing_indexes(&[1]));
    check_convergence(build, |simulation| {
        let status = status(&simulation.world);
        assert_eq!(status.completed_indexes.as_deref(), Some("0,2,3"));
        assert_eq!((status.failed_indexes.as_deref(), status.failed), (Some("1"), Some(2)));
        assert_eq!(reason(&simulation.world, "Failed").as_deref(), Some("FailedIndexes"));
    });
}

#[test]
fn too_many_failed_indexes_end_the_job() {
    let change = json!({"completionMode": "Indexed", "backoffLimitPerIndex": 0, "backoffLimit": i32::MAX,
        "maxFailedIndexes": 1, "parallelism": 1, "completions": 10});
    let build = || simulate(world(change.clone()), failing_indexes(&[0, 1]));
    check_convergence(build, |simulation| {
        assert_eq!(reason(&simulation.world, "Failed").as_deref(), Some("MaxFailedIndexesExceeded"));
        assert_eq!(created(&simulation.world), 2);
    });
}

#[test]
fn a_success_policy_ends_it_early() {
    let rules = json!({"rules": [{"succeededIndexes": "0", "succeededCount": 1}]});
    let change = json!({"completionMode": "Indexed", "parallelism": 4, "successPolicy": rules});
    // Only the first index ever ends by itself.
    let build = || {
        let leader_ends: Actor = Box::new(|world| {
            let pods = world.list::<Pod>();
            let leader = pods.iter().find(|pod| pod::index(pod) == Some(0) && pods::phase(pod) == "Running");
            leader.map(|pod| set_pod_phase(world, &key_of(pod), "Succeeded")).is_some()
        });
        simulate(world(change.clone()), Kubelet::default().actor()).with_actor(leader_ends)
    };
    check_convergence(build, |simulation| {
        let world = &simulation.world;
        assert_eq!(reason(world, "Complete").as_deref(), Some("SuccessPolicy"));
        assert_eq!((status(world).succeeded, status(world).failed), (Some(1), None));
        assert_eq!(world.list::<Pod>().len(), 1, "the others were not needed");
    });
}

#[test]
fn the_failure_policy_decides() {
    let check = |action: &str, expected: (&str, &str)| {
        let on = json!([{"type": "DisruptionTarget", "status": "True"}]);
        let rules = json!({"rules": [{"action": action, "onPodConditions": on}]});
        let change = json!({"completions": 1, "parallelism": 1, "backoffLimit": 0,
            "podReplacementPolicy": "Failed", "podFailurePolicy": rules});
        // The first pod is disrupted, the next one works.
        let kubelet: Actor = Box::new(|world| {
            let pods = world.list::<Pod>();
            let Some(pod) = pods.iter().find(|pod| !pods::is_finished(pod)) else { return false };
            let is_first = world.log.iter().filter(|line| line.starts_with("create pods")).count() == 1;
            set_pod_phase(world, &key_of(pod), if is_first { "Failed" } else { "Succeeded" });
            world.change::<Pod>(&key_of(pod), |pod| {
                let disrupted = json!({"type": "DisruptionTarget", "status": "True"});
                let conditions = pod.status.as_mut().unwrap().conditions.as_mut().unwrap();
                conditions.extend(is_first.then(|| serde_json::from_value(disrupted).unwrap()));
            });
            true
        });
        let mut simulation = simulate(world(change), kubelet);
        simulation.settle().unwrap();
        let (kind, why) = expected;
        assert_eq!(reason(&simulation.world, kind).as_deref(), Some(why), "{action}");
    };
    check("FailJob", ("Failed", "PodFailurePolicy"));
    check("Ignore", ("Complete", "CompletionsReached"));
    check("Count", ("Failed", "BackoffLimitExceeded"));
}

#[test]
fn the_deadline_ends_what_still_runs() {
    let build = || simulate(world(json!({"activeDeadlineSeconds": 30})), Kubelet::default().actor());
    check_convergence(build, |simulation| {
        let world = &simulation.world;
        assert_eq!(reason(world, "FailureTarget").as_deref(), Some("DeadlineExceeded"));
        assert_eq!(reason(world, "Failed").as_deref(), Some("DeadlineExceeded"));
        assert!(world.list::<Pod>().iter().all(|pod| !pods::is_active(pod)));
        assert_eq!(status(world).failed, Some(2));
    });
}

#[test]
fn suspended_jobs_wait_and_resume_without_failures() {
    let mut simulation = simulate(world(json!({})), Kubelet::default().actor());
    simulation.settle().unwrap();
    assert_eq!(status(&simulation.world).active, Some(2));
    let set = |world: &mut World, to: bool| {
        world.change::<Job>(&key(), |job| job.spec.as_mut().unwrap().suspend = Some(to));
    };
    set(&mut simulation.world, true);
    simulation.settle().unwrap();
    assert_eq!(reason(&simulation.world, "Suspended").as_deref(), Some("JobSuspended"));
    let seen = status(&simulation.world);
    assert_eq!((seen.active, seen.failed, seen.start_time), (None, None, None));
    assert!(simulation.world.list::<Pod>().is_empty());
    let start = simulation.world;
    let build = || {
        let mut world = start.copy();
        set(&mut world, false);
        simulate(world, ending_in("Succeeded"))
    };
    check_convergence(build, |simulation| {
        let status = status(&simulation.world);
        assert_eq!((status.succeeded, status.failed), (Some(4), None));
        assert_eq!(reason(&simulation.world, "Suspended"), None);
    });
}

#[test]
fn fewer_workers_are_no_failures() {
    let mut simulation = simulate(world(json!({"parallelism": 4})), Kubelet::default().actor());
    simulation.settle().unwrap();
    simulation.world.change::<Job>(&key(), |job| job.spec.as_mut().unwrap().parallelism = Some(1));
    simulation.settle().unwrap();
    let status = status(&simulation.world);
    assert_eq!((status.active, status.failed), (Some(1), None));
}

#[test]
fn a_deleted_pod_counts_as_failed_and_is_replaced() {
    let mut simulation = simulate(world(json!({})), Kubelet::default().actor());
    simulation.settle().unwrap();
    let victim = key_of(&simulation.world.list::<Pod>()[0]);
    simulation.world.delete::<Pod>(&victim);
    simulation.settle().unwrap();
    let status = status(&simulation.world);
    assert_eq!((status.active, status.failed), (Some(2), Some(1)));
    assert!(simulation.world.get::<Pod>(&victim).is_none(), "its finalizer is gone");
}

#[test]
fn jobs_that_are_over_go_after_their_time() {
    let build = || {
        let job = world(json!({"ttlSecondsAfterFinished": 60, "completions": 1}));
        // In place of the garbage collector.
        let collector: Actor = Box::new(|world| {
            let going = world.get::<Job>(&key()).is_some_and(|job| job.metadata.deletion_timestamp.is_some());
            if going {
                world.erase::<Job>(&key());
            }
            going
        });
        simulate(job, ending_in("Succeeded")).with_actor(collector)
    };
    check_convergence(build, |simulation| assert!(simulation.world.get::<Job>(&key()).is_none()));
}

#[test]
fn pods_of_a_job_that_is_gone_are_let_go() {
    let mut simulation = simulate(world(json!({})), Kubelet::default().actor());
    simulation.settle().unwrap();
    assert!(simulation.world.list::<Pod>().iter().all(pod::is_tracked));
    let target = Target::of(&simulation.world.get::<Job>(&key()).unwrap());
    let delete = minik8s_runtime::Action::Delete {
        target,
        propagation: Some(Propagation::Background),
        grace_seconds: None,
        told: None,
    };
    simulation.world.apply(&delete).unwrap();
    simulation.settle().unwrap();
    let left = simulation.world.list::<Pod>();
    assert_eq!((left.len(), left.iter().any(pod::is_tracked)), (2, false));
}

#[test]
fn jobs_of_other_managers_are_left_alone() {
    let mut simulation = simulate(world(json!({"managedBy": "example.com/mine"})), ending_in("Succeeded"));
    simulation.settle().unwrap();
    assert_eq!(simulation.world.log, [""; 0]);
}
