//! From caches and metrics to actions: what the controller makes of what it sees.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_metrics::{ContainerLayout, Decisions, History, Layout, PodLayout, Reading};
use minik8s_runtime::testing::{Simulation, World, check_convergence};
use minik8s_runtime::{Action, Controller, Key, Plan};
use serde_json::{Value, json};

use super::Autoscalers;
use crate::resource_metrics::Wants;
use minik8s_runtime::Catalog;

struct Fixture {
    world: World,
    history: Arc<History>,
    wants: Arc<Wants>,
    decisions: Arc<Decisions>,
    controller: Autoscalers,
    now: Timestamp,
}

fn key() -> Key {
    Key::new("ns", "web")
}

impl Fixture {
    /// A Deployment of two pods that request a tenth of a core each, and an autoscaler at 50 %.
    fn new(change: Value) -> Fixture {
        let (history, wants, decisions) = <(Arc<History>, Arc<Wants>, Arc<Decisions>)>::default();
        let catalog = Arc::new(Catalog::default());
        let controller = Autoscalers::new(
            None,
            catalog,
            history.clone(),
            wants.clone(),
            decisions.clone(),
            Arc::default(),
        );
        let now = Timestamp::now();
        let mut fixture = Fixture { world: World::default(), history, wants, decisions, controller, now };
        let labels = json!({"app": "web"});
        let deployment = json!({
            "metadata": {"name": "web", "namespace": "ns"},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}}},
            "status": {"replicas": 2},
        });
        fixture.world.insert(&serde_json::from_value::<Deployment>(deployment).unwrap());
        for name in ["web-0", "web-1"] {
            let long_ago = (now - SignedDuration::from_hours(1)).to_string();
            let pod = json!({
                "metadata": {"name": name, "namespace": "ns", "labels": labels},
                "spec": {"nodeName": "n1", "containers": [
                    {"name": "c", "resources": {"requests": {"cpu": "100m"}}}]},
                "status": {"phase": "Running", "startTime": long_ago,
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": long_ago}]},
            });
            fixture.world.insert(&serde_json::from_value::<Pod>(pod).unwrap());
        }
        fixture.autoscaler("web", change);
        fixture
    }

    fn autoscaler(&mut self, name: &str, change: Value) {
        let mut spec = json!({
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1, "maxReplicas": 10,
            "metrics": [{"type": "Resource", "resource":
                {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
        });
        spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let object = json!({"metadata": {"name": name, "namespace": "ns", "generation": 1}, "spec": spec});
        self.world.insert(&serde_json::from_value::<HorizontalPodAutoscaler>(object).unwrap());
    }

    /// Both pods have used so much CPU time, in nanoseconds, up to then.
    fn record(&self, used: u64, at: Timestamp) {
        let pod = |name: &str| PodLayout {
            namespace: "ns".into(),
            name: name.into(),
            uid: name.into(),
            containers: vec![ContainerLayout { name: "c".into(), id: "1".into() }],
        };
        let layout = Layout { pods: vec![pod("web-0"), pod("web-1")] };
        let one = [None, None, Some(used), Some(1 << 20), None, None];
        let reading = Reading { values: [one, one].concat(), ..Reading::default() };
        self.history.record("n1", &layout, &reading, at, &|_, _| true);
    }

    /// Both pods use so many thousandths of a core, as measured up to so many seconds ago.
    fn measure(&self, millis: u64, ago: i64) {
        for second in 0..5u64 {
            let at = self.now - SignedDuration::from_secs(ago + 4 - i64::try_from(second).unwrap());
            self.record(second * millis * 1_000_000, at);
        }
    }

    /// One round; its status is written, its scale is not.
    fn round(&mut self, after: i64) -> Plan {
        let now = self.now + SignedDuration::from_millis(after);
        let seen = self.controller.observe(self.world.caches(), &key()).unwrap();
        let plan = self.controller.plan(&seen, now);
        for action in &plan.actions {
            if matches!(action, Action::Update { .. }) {
                self.world.apply(action).unwrap();
            }
        }
        plan
    }

    fn status(&self) -> HorizontalPodAutoscalerStatus {
        self.world.get::<HorizontalPodAutoscaler>(&key()).unwrap().status.unwrap_or_default()
    }

    fn condition(&self, kind: &str) -> (String, String, String) {
        let found = self.status().conditions.unwrap().into_iter().find(|c| c.type_ == kind).unwrap();
        (found.status, found.reason.unwrap(), found.message.unwrap())
    }
}

/// The size that a plan asks for.
fn asked(plan: &Plan) -> Option<i64> {
    plan.actions.iter().find_map(|action| match action {
        Action::Patch { subresource: Some("scale"), patch, .. } => patch["spec"]["replicas"].as_i64(),
        _ => None,
    })
}

fn reasons(plan: &Plan) -> Vec<&'static str> {
    plan.events.iter().map(|event| event.reason).collect()
}

#[test]
fn load_is_answered_once() {
    let mut fixture = Fixture::new(json!({}));
    fixture.measure(100, 0);
    let plan = fixture.round(0);
    assert_eq!((asked(&plan), reasons(&plan).is_empty()), (Some(4), true));
    assert_eq!(fixture.condition("AbleToScale").1, "SucceededRescale");
    let status = fixture.status();
    assert_eq!((status.current_replicas, status.desired_replicas), (Some(2), 4));
    assert_eq!(status.observed_generation, Some(1));
    assert!(status.last_scale_time.is_some());
    let current = status.current_metrics.unwrap()[0].resource.clone().unwrap().current;
    assert_eq!(current.average_utilization, Some(100));

    assert_eq!(asked(&fixture.round(100)), None, "the new size is on its way");
    fixture.world.change::<Deployment>(&key(), |d| d.spec.replicas = Some(4));
    let plan = fixture.round(200);
    assert_eq!((asked(&plan), reasons(&plan)), (None, vec!["SuccessfulRescale"]));
    assert!(plan.events[0].message.starts_with("New size: 4; reason: cpu resource utilization"));
    assert_eq!(fixture.condition("ScalingActive").1, "ValidMetricFound");
    let decided = fixture.decisions.in_namespace("ns");
    assert_eq!(
        (&decided[0]["target"], &decided[0]["metrics"][0]["current"]),
        (&json!("Deployment/web"), &json!("100% (100m a pod)"))
    );
}

/// From idle to all of what the pods request: the first reading above the target is answered at once, and three
/// seconds after the step the answer is the whole of it.
#[test]
fn a_step_of_load_is_answered_within_three_seconds() {
    let mut fixture = Fixture::new(json!({}));
    let (step, mut answers) = (5, Vec::new());
    for second in 0..=8u64 {
        let used = second.saturating_sub(step) * 100_000_000;
        let ago = SignedDuration::from_secs(i64::try_from(8 - second).unwrap());
        fixture.record(used, fixture.now - ago);
        let asked = asked(&fixture.round(i64::try_from(second).unwrap() * 1000 - 8000));
        let decided = fixture.decisions.in_namespace("ns").pop();
        let ratio = decided.and_then(|decided| decided["metrics"][0]["ratio"].as_f64()).unwrap_or_default();
        // Two readings make a rate: before, nothing can be known.
        assert_eq!(asked.is_some(), ratio > 1.1, "{second}: {ratio} is answered by {asked:?}");
        if let Some(replicas) = asked {
            answers.push((second - step, replicas));
            fixture.world.change::<Deployment>(&key(), |d| d.spec.replicas = i32::try_from(replicas).ok());
        }
    }
    assert_eq!(answers.first().map(|(after, _)| *after), Some(2), "{answers:?}");
    assert_eq!(answers.last(), Some(&(3, 4)), "{answers:?}");
}

#[test]
fn a_size_that_was_not_taken_is_asked_for_again() {
    let mut fixture = Fixture::new(json!({}));
    fixture.measure(100, 0);
    assert_eq!(asked(&fixture.round(0)), Some(4));
    assert_eq!(asked(&fixture.round(1000)), None);
    assert_eq!(asked(&fixture.round(2500)), Some(4));
    let seen = fixture.controller.observe(fixture.world.caches(), &key()).unwrap();
    let plan = fixture.controller.plan_failure(&seen, "no room", fixture.now);
    assert_eq!(reasons(&plan), ["FailedRescale"]);
    assert_eq!(asked(&fixture.round(2600)), Some(4), "nothing is remembered of a change that was refused");
}

#[test]
fn what_is_wrong_is_told_once() {
    let check = |mut fixture: Fixture, kind: &str, reason: &str, part: &str| {
        let plan = fixture.round(0);
        assert_eq!(asked(&plan), None, "{reason}");
        assert!(reasons(&plan).contains(&reason), "{:?}", plan.events);
        let (status, found, message) = fixture.condition(kind);
        assert_eq!((status.as_str(), found.as_str()), ("False", reason));
        assert!(message.contains(part), "{message}");
        let again = fixture.round(10_000);
        assert!(again.is_empty(), "{again:?}");
    };
    let other = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "gone"});
    let fixture = Fixture::new(json!({"scaleTargetRef": other}));
    check(fixture, "AbleToScale", "FailedGetScale", "deployments.apps \"gone\" not found");

    let mut fixture = Fixture::new(json!({}));
    fixture.autoscaler("rival", json!({}));
    fixture.measure(100, 0);
    check(fixture, "ScalingActive", "AmbiguousSelector", "ns/rival");

    let fixture = Fixture::new(json!({}));
    check(fixture, "ScalingActive", "FailedGetResourceMetric", "did not receive metrics");

    let memory = json!({"type": "Resource", "resource":
        {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 50}}});
    let fixture = Fixture::new(json!({"metrics": [memory]}));
    fixture.measure(100, 0);
    check(fixture, "ScalingActive", "FailedGetResourceMetric", "missing request for memory in container c");

    let odd = json!({"type": "Resource", "resource":
        {"name": "luck", "target": {"type": "AverageValue", "averageValue": "1"}}});
    let fixture = Fixture::new(json!({"metrics": [odd]}));
    fixture.measure(100, 0);
    check(fixture, "ScalingActive", "FailedGetResourceMetric", "nobody measures it; known are cpu, memory");
}

#[test]
fn a_gap_never_shrinks() {
    let now_down = json!({"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}});
    let mut fixture = Fixture::new(now_down.clone());
    fixture.measure(1, 0);
    assert_eq!(asked(&fixture.round(0)), Some(1), "idle pods");
    let mut fixture = Fixture::new(now_down);
    fixture.measure(1, 60);
    assert_eq!(asked(&fixture.round(0)), None, "idle a minute ago, unknown now");
}

#[test]
fn after_a_restart_policies_still_hold() {
    let mut fixture = Fixture::new(json!({}));
    fixture.measure(100, 0);
    let recently = fixture.now - SignedDuration::from_secs(5);
    fixture.world.change::<HorizontalPodAutoscaler>(&key(), |autoscaler| {
        let last_scale_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(recently));
        autoscaler.status = Some(HorizontalPodAutoscalerStatus {
            last_scale_time,
            ..HorizontalPodAutoscalerStatus::default()
        });
    });
    assert_eq!(
        asked(&fixture.round(0)),
        None,
        "what was changed five seconds ago may be all there is to change"
    );
    assert_eq!(asked(&fixture.round(10_500)), Some(4));
}

#[test]
fn own_metrics_are_asked_for() {
    let hits = json!({"type": "Pods", "pods": {"metric": {"name": "hits", "selector": {"matchLabels": {"code": "200"}}},
        "target": {"type": "AverageValue", "averageValue": "10"}}});
    let mut fixture = Fixture::new(json!({"metrics": [hits]}));
    fixture.measure(1, 0);
    assert_eq!(asked(&fixture.round(0)), None);
    let query = fixture.wants.of_node("n1").unwrap();
    assert!(query.starts_with("pod=ns/web-0&pod=ns/web-1&metric=hits%7Bcode"), "{query}");
    for pod in ["web-0", "web-1"] {
        let values = [("hits{code=\"200\"}".to_owned(), 25.0)].into();
        fixture.history.record_own("ns", pod, values, fixture.now);
    }
    assert_eq!(asked(&fixture.round(0)), Some(5));
    fixture.world.erase::<HorizontalPodAutoscaler>(&key());
    assert!(fixture.controller.observe(fixture.world.caches(), &key()).is_none());
    assert_eq!(fixture.wants.of_node("n1"), None);
    assert!(fixture.decisions.in_namespace("").is_empty());
}

#[tokio::test]
async fn autoscaler_converges_on_its_bounds() {
    let build = || {
        let Fixture { world, controller, .. } = Fixture::new(json!({"minReplicas": 3}));
        let mut simulation = Simulation::new(world).with(controller);
        simulation.stop_at(SignedDuration::from_mins(2));
        simulation
    };
    check_convergence(build, |simulation| {
        let deployment = simulation.world.get::<Deployment>(&key()).unwrap();
        assert_eq!(deployment.spec.replicas, Some(3));
    });
}
