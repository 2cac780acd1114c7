use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerSpec;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

fn spec(least: i32, most: i32, more: Value) -> HorizontalPodAutoscalerSpec {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
    let mut spec =
        json!({"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most, "metrics": [cpu]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(spec).unwrap()
}

/// A pod that requests one core and has been ready for long.
fn pod(name: &str, change: Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "100"}}}]},
        "status": {
            "phase": "Running", "startTime": (now() - SignedDuration::from_hours(1)).to_string(),
            "conditions": [{"type": "Ready", "status": "True",
                            "lastTransitionTime": (now() - SignedDuration::from_mins(59)).to_string()}],
        },
    });
    for (key, value) in change.as_object().unwrap() {
        pod[key.as_str()].as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn sample(cpu_milli: i64) -> PodSample {
    let amounts = BTreeMap::from([("cpu".to_owned(), cpu_milli), ("memory".to_owned(), 50_000)]);
    PodSample {
        at: now(),
        window: SignedDuration::from_secs(5),
        containers: BTreeMap::from([("c".to_owned(), amounts)]),
        whole: BTreeMap::new(),
        own: BTreeMap::from([("requests".to_owned(), cpu_milli * 10)]),
    }
}

fn pods(use_of_each: &[i64]) -> (Vec<Arc<Pod>>, BTreeMap<String, PodSample>) {
    let names = (0..use_of_each.len()).map(|i| format!("p{i}"));
    let samples = names.clone().zip(use_of_each.iter().map(|milli| sample(*milli))).collect();
    (names.map(|name| pod(&name, json!({}))).collect(), samples)
}

/// What is asked for, before anything holds it back.
fn unhurried(more: Value) -> HorizontalPodAutoscalerSpec {
    let fast = json!({"stabilizationWindowSeconds": 0, "policies": [{"type": "Percent", "value": 900, "periodSeconds": 15}]});
    let down = json!({"stabilizationWindowSeconds": 0, "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]});
    let mut all = json!({"behavior": {"scaleUp": fast, "scaleDown": down}});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec(1, 20, all)
}

fn desired(
    spec: &HorizontalPodAutoscalerSpec,
    pods: &[Arc<Pod>],
    samples: &BTreeMap<String, PodSample>,
) -> Decision {
    let replicas = i32::try_from(pods.len()).unwrap();
    decide(
        &Seen { spec, namespace: "default", replicas, pods, samples, remote: &Answers::new() },
        &mut Memory::default(),
        now(),
    )
}

#[test]
fn utilization_by_upstreams_rule() {
    let check = |used: &[i64], expected: i32| {
        let (pods, samples) = pods(used);
        assert_eq!(desired(&unhurried(json!({})), &pods, &samples).desired, expected, "{used:?}");
    };
    check(&[500, 500], 2);
    check(&[1000, 1000], 4);
    check(&[540, 540], 2);
    check(&[551, 551], 3);
    check(&[460, 460, 460], 3);
    check(&[250, 250, 250, 250], 2);
    check(&[100, 0, 0], 1);
    check(&[1500], 3);
}

#[test]
fn pods_that_do_not_count_only_dampen() {
    let check = |what: &str, change: Value, measured: bool, used: i64, expected: i32| {
        let (mut pods, mut samples) = pods(&[used, used, used]);
        pods[2] = pod("p2", change);
        if !measured {
            samples.remove("p2");
        }
        assert_eq!(desired(&unhurried(json!({})), &pods, &samples).desired, expected, "{what}");
    };
    check("all measured", json!({}), true, 1000, 6);
    check("a missing one counts as idle when more are needed", json!({}), false, 1000, 4);
    check("and as busy when fewer are", json!({}), false, 100, 3);
    check("a pending one counts as idle", json!({"status": {"phase": "Pending"}}), false, 1000, 4);
    check("and not at all when fewer are needed", json!({"status": {"phase": "Pending"}}), false, 100, 1);
    let young = json!({"status": {"startTime": (now() - SignedDuration::from_secs(20)).to_string(),
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": now().to_string()}]}});
    check("one that starts up", young, true, 1000, 4);
    check("a failed one is none", json!({"status": {"phase": "Failed"}}), true, 1000, 4);
    let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    check("nor is one that leaves", leaving, true, 1000, 4);
}

#[test]
fn every_kind_of_metric_and_the_largest_wins() {
    let value = |kind: &str, source: Value| {
        json!({"type": kind, (match kind {
        "Resource" => "resource", "ContainerResource" => "containerResource", _ => "pods" }): source})
    };
    let average = |amount: &str| json!({"type": "AverageValue", "averageValue": amount});
    let cpu = value("Resource", json!({"name": "cpu", "target": average("200m")}));
    let memory = value(
        "Resource",
        json!({"name": "memory", "target": {"type": "Utilization", "averageUtilization": 25}}),
    );
    let container =
        value("ContainerResource", json!({"name": "cpu", "container": "c", "target": average("100m")}));
    let own = value("Pods", json!({"metric": {"name": "requests"}, "target": average("500m")}));
    let check = |metrics: Value, expected: i32, name: &str| {
        let (pods, samples) = pods(&[400, 400]);
        let decision = desired(&unhurried(json!({"metrics": metrics})), &pods, &samples);
        assert_eq!(decision.verdict, Verdict::Scale { to: expected, reason: format!("{name} above target") });
    };
    check(json!([cpu]), 4, "cpu resource");
    check(json!([memory]), 4, "memory resource utilization (percentage of request)");
    check(json!([container]), 8, "cpu container resource");
    check(json!([own]), 16, "pods metric requests");
    check(json!([cpu, container, memory]), 8, "cpu container resource");
}

#[test]
fn what_cannot_be_told_changes_nothing() {
    let (two, samples) = pods(&[100, 100]);
    let unknown = json!({"type": "External", "external": {"metric": {"name": "x"}, "target": {"type": "Value", "value": "1"}}});
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
    let check = |metrics: Value,
                 pods: &[Arc<Pod>],
                 samples: &BTreeMap<String, PodSample>,
                 reason: &str,
                 part: &str| {
        let decision = desired(&unhurried(json!({"metrics": metrics})), pods, samples);
        assert!(
            matches!(&decision.verdict, Verdict::Unknown { message, .. } if message.contains(part)),
            "{decision:?}"
        );
        assert_eq!(decision.conditions[0].reason.as_deref(), Some(reason));
        assert_eq!(decision.desired, i32::try_from(pods.len()).unwrap());
    };
    check(json!([unknown]), &two, &samples, "FailedGetExternalMetric", "1 invalid out of 1");
    check(json!([cpu, unknown]), &two, &samples, "FailedGetExternalMetric", "1 invalid out of 2");
    check(
        json!([cpu]),
        &two,
        &BTreeMap::new(),
        "FailedGetResourceMetric",
        "did not receive metrics for targeted pods",
    );
    let bare = vec![pod("p0", json!({"spec": {"containers": [{"name": "c"}]}}))];
    check(
        json!([cpu]),
        &bare,
        &samples,
        "FailedGetResourceMetric",
        "missing request for cpu in container c of Pod p0",
    );
    // More is granted even if one metric is unknown.
    let (two, samples) = pods(&[1000, 1000]);
    let decision = desired(&unhurried(json!({"metrics": [cpu, unknown]})), &two, &samples);
    assert_eq!(decision.desired, 4);
}

#[test]
fn bounds_hold_at_once_and_zero_means_off() {
    let check = |replicas: i32, expected: i32| {
        let decision = decide(
            &Seen {
                spec: &spec(2, 4, json!({})),
                namespace: "default",
                replicas,
                pods: &[],
                samples: &BTreeMap::new(),
                remote: &Answers::new(),
            },
            &mut Memory::default(),
            now(),
        );
        assert_eq!(decision.desired, expected);
    };
    check(9, 4);
    check(1, 2);
    check(0, 0);
    check(3, 3);
}

/// Wishes one after the other, each at its second, and what was made of them.
fn run(spec: &HorizontalPodAutoscalerSpec, start: i32, wishes: &[(i64, i32)]) -> Vec<i32> {
    let mut memory = Memory::default();
    let mut replicas = start;
    let step = |(second, wish): &(i64, i32)| {
        let at = now() + SignedDuration::from_secs(*second);
        let paced = pace(spec, &mut memory, replicas, *wish, at);
        if paced.replicas != replicas {
            memory.changed(at, paced.replicas - replicas);
        }
        replicas = paced.replicas;
        replicas
    };
    wishes.iter().map(step).collect()
}

#[test]
fn the_pace() {
    let usual = spec(1, 100, json!({}));
    assert_eq!(
        run(&usual, 1, &[(0, 50), (1, 50), (16, 50), (32, 50)]),
        [5, 5, 10, 20],
        "four more, then twice as many"
    );
    assert_eq!(
        run(&usual, 10, &[(0, 10), (10, 2), (200, 2), (311, 2)]),
        [10, 10, 10, 2],
        "the highest of five minutes"
    );
    assert_eq!(run(&usual, 10, &[(0, 2), (299, 2), (301, 2)]), [10, 10, 2], "also after a start");
    let slow = spec(
        1,
        100,
        json!({"behavior": {
            "scaleUp": {"stabilizationWindowSeconds": 30, "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]},
            "scaleDown": {"stabilizationWindowSeconds": 0, "policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]},
        }}),
    );
    assert_eq!(run(&slow, 4, &[(0, 9), (31, 9), (32, 9), (92, 9)]), [4, 6, 6, 8]);
    assert_eq!(run(&slow, 20, &[(0, 1), (30, 1), (61, 1)]), [18, 18, 16]);
    let off = spec(1, 100, json!({"behavior": {"scaleDown": {"selectPolicy": "Disabled"}}}));
    assert_eq!(run(&off, 8, &[(0, 1), (1000, 1)]), [8, 8]);
    let least = spec(
        1,
        100,
        json!({"behavior": {"scaleUp": {"selectPolicy": "Min", "policies": [
        {"type": "Pods", "value": 1, "periodSeconds": 60}, {"type": "Percent", "value": 100, "periodSeconds": 60}]}}}),
    );
    assert_eq!(run(&least, 4, &[(0, 50)]), [5]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is measured, the bounds hold.
    #[test]
    fn never_outside_the_bounds(
        used in prop::collection::vec(0i64..5000, 1..12),
        least in 1i32..5,
        more in 0i32..10,
        target in 1i32..200,
    ) {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": target}}});
        let spec = spec(least, least + more, json!({"metrics": [cpu]}));
        let (pods, samples) = pods(&used);
        let decision = desired(&spec, &pods, &samples);
        prop_assert!((least..=least + more).contains(&decision.desired));
    }

    /// A steady load, shared by however many pods there are, leads to one number and stays there.
    #[test]
    fn a_steady_load_does_not_oscillate(load in 1i64..4_000, start in 1i32..12) {
        let spec = spec(1, 100, json!({"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}));
        let mut memory = Memory::default();
        let mut replicas = start;
        let mut seen = Vec::new();
        for turn in 0..16i64 {
            let share = load / i64::from(replicas);
            let (pods, samples) = pods(&vec![share; usize::try_from(replicas).unwrap()]);
            let at = now() + SignedDuration::from_secs(turn * 20);
            let seen_now = Seen {
                spec: &spec,
                namespace: "default",
                replicas,
                pods: &pods,
                samples: &samples,
                remote: &Answers::new(),
            };
            replicas = decide(&seen_now, &mut memory, at).desired;
            seen.push(replicas);
        }
        let settled = &seen[10..];
        prop_assert!(settled.iter().all(|replicas| *replicas == settled[0]), "{seen:?}");
    }
}
