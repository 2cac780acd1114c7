use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_api::{FieldErrors, Strategy};
use minik8s_meta::invocation::Invocation;
use minik8s_runtime::testing::{Kubelet, Simulation, World, check_convergence};
use minik8s_runtime::{Action, key_of};
use serde_json::{Value, json};

use super::*;

fn trigger(created: &str, spec: Value) -> Trigger {
    let metadata =
        json!({"name": "t", "namespace": "ns", "uid": "u", "creationTimestamp": created, "generation": 1});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn scheduled(created: &str, target: &Value) -> Trigger {
    let source = json!({"schedule": {"cron": "* * * * *"}});
    trigger(created, json!({"source": source, "target": target, "input": "{\"a\": 1}"}))
}

fn seen(trigger: &Trigger) -> Observed {
    Observed {
        trigger: Arc::new(trigger.clone()),
        made: BTreeSet::new(),
        running: BTreeSet::new(),
        failed: 0,
        pods: Vec::new(),
        router_port: 80,
    }
}

/// Names of the calls that a plan makes, and the trigger after it.
fn fired(trigger: &Trigger, now: Timestamp) -> (Vec<String>, Trigger) {
    let plan = plan::plan(&seen(trigger), now);
    let (mut names, mut after) = (Vec::new(), trigger.clone());
    for action in &plan.actions {
        match action {
            Action::Create { object, .. } => {
                let invocation: Invocation = serde_json::from_value(object.clone()).unwrap();
                assert_eq!(invocation.spec.payload.as_deref(), Some("{\"a\": 1}"));
                names.push(invocation.metadata.name.unwrap());
            }
            Action::Update { object, .. } => after = serde_json::from_value(object.clone()).unwrap(),
            other => panic!("{other:?}"),
        }
    }
    (names, after)
}

#[test]
fn schedule_fires_once_for_every_moment() {
    let start: Timestamp = "2026-11-17T10:00:30Z".parse().unwrap();
    let one = scheduled("2026-11-17T10:00:30Z", &json!({"function": "f"}));
    let (names, one) = fired(&one, start);
    assert_eq!(names, Vec::<String>::new(), "not before its first moment");
    assert_eq!(
        one.status.as_ref().unwrap().next_fire.as_ref().unwrap().0.to_string(),
        "2026-11-17T10:01:00Z"
    );
    let minute: Timestamp = "2026-11-17T10:01:00Z".parse().unwrap();
    let (names, again) = fired(&one, minute);
    assert_eq!(names.len(), 1);
    assert_eq!(fired(&one, minute).0, names, "a plan that is made again makes the same call");
    let (none, again) = fired(&again, minute + SignedDuration::from_secs(10));
    assert_eq!(none, Vec::<String>::new());
    let late = minute + SignedDuration::from_mins(7);
    let (later, again) = fired(&again, late);
    assert_ne!(later, names);
    assert_eq!(
        (later.len(), again.status.unwrap().fired),
        (1, 2),
        "of those that were missed only the newest"
    );
}

/// A moment that is left out is over: it is not made up for when the call before has ended.
#[test]
fn schedule_leaves_out_moments_while_a_call_runs_where_that_is_forbidden() {
    let calls = |policy: &str, running: &[&str]| {
        let schedule = json!({"cron": "* * * * *", "concurrencyPolicy": policy});
        let target = json!({"function": "f"});
        let one =
            trigger("2026-11-17T10:00:30Z", json!({"source": {"schedule": schedule}, "target": target}));
        let mut seen = seen(&one);
        seen.running = running.iter().map(|name| (*name).to_owned()).collect();
        let plan = plan::plan(&seen, "2026-11-17T10:01:05Z".parse().unwrap());
        let made = plan.actions.iter().find_map(|action| match action {
            Action::Create { object, .. } => object["metadata"]["name"].as_str().map(str::to_owned),
            _ => None,
        });
        let told = plan.actions.iter().find_map(|action| match action {
            Action::Update { object, .. } => Some(object["status"].clone()),
            _ => None,
        });
        let told = told.unwrap();
        assert_eq!(told["lastFired"], "2026-11-17T10:01:00Z", "{policy} {running:?}");
        assert_eq!(plan.events.len(), usize::from(made.is_none()), "{policy} {running:?}");
        (made, told["fired"].as_i64().unwrap_or_default())
    };
    let (made, fired) = calls("Forbid", &[]);
    let made = made.unwrap();
    assert_eq!(fired, 1);
    assert_eq!(calls("Forbid", &["t-before"]), (None, 0));
    assert_eq!(calls("Forbid", &[&made]).1, 1, "it is this call that runs");
    assert_eq!(calls("Allow", &["t-before"]).1, 1);
    assert_eq!(calls("", &["t-before"]).1, 1);
}

/// 29 March 2026 has no 02:30 in Berlin, and 25 October two of them.
#[test]
fn schedule_fires_by_the_clock_of_its_time_zone() {
    let check = |zone: &str, created: &str, expected: &[&str]| {
        let source = json!({"schedule": {"cron": "30 2 * * *", "timeZone": zone}});
        let spec = json!({"source": source, "target": {"function": "f"}, "input": "{\"a\": 1}"});
        let mut now: Timestamp = created.parse().unwrap();
        let mut trigger = trigger(created, spec);
        for (number, moment) in expected.iter().enumerate() {
            let (names, after) = fired(&trigger, now);
            assert_eq!(names.len(), usize::from(number > 0), "{zone} at {now}");
            let next = after.status.as_ref().unwrap().next_fire.as_ref().unwrap().0;
            assert_eq!(next.to_string(), *moment, "{zone} after {now}");
            (trigger, now) = (after, next);
        }
    };
    check("", "2026-03-28T12:00:00Z", &["2026-03-29T02:30:00Z", "2026-03-30T02:30:00Z"]);
    check("Asia/Shanghai", "2026-03-28T12:00:00Z", &["2026-03-28T18:30:00Z", "2026-03-29T18:30:00Z"]);
    let spring = ["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z", "2026-03-31T00:30:00Z"];
    check("Europe/Berlin", "2026-03-27T12:00:00Z", &spring);
    let autumn = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"];
    check("Europe/Berlin", "2026-10-24T12:00:00Z", &autumn);
}

#[test]
fn schedule_of_a_workflow_posts_its_event() {
    let one = scheduled("2026-11-17T10:00:30Z", &json!({"workflow": "w"}));
    let plan = plan::plan(&seen(&one), "2026-11-17T10:01:05Z".parse().unwrap());
    let [Action::Post { subresource: "events", body, .. }, Action::Update { .. }] = plan.actions.as_slice()
    else {
        panic!("{plan:?}")
    };
    assert_eq!(
        (&body["type"], &body["time"]),
        (&json!("io.minik8s.schedule"), &json!("2026-11-17T10:01:00Z"))
    );
}

#[test]
fn triggers_are_checked() {
    let check = |spec: Value, expected: &str| {
        let mut errors = FieldErrors::default();
        kind::Triggers.validate(&json!({"metadata": {"name": "t"}, "spec": spec}), &mut errors);
        let text = format!("{errors:?}");
        assert!(
            if expected.is_empty() { errors.is_empty() } else { text.contains(expected) },
            "{spec}: {text}"
        );
    };
    let to = |source: Value| json!({"source": source, "target": {"function": "f"}});
    let cron = |cron: &str, zone: &str| to(json!({"schedule": {"cron": cron, "timeZone": zone}}));
    check(cron("*/5 * * * *", "Europe/Berlin"), "");
    check(cron("every now and then", ""), "cron");
    check(cron("* * * * *", "Middle/Earth"), "unknown time zone");
    let policy = |policy: &str| json!({"schedule": {"cron": "* * * * *", "concurrencyPolicy": policy}});
    check(to(policy("Forbid")), "");
    check(to(policy("Replace")), "Allow");
    check(json!({"source": policy("Allow"), "target": {"workflow": "w"}}), "");
    check(json!({"source": policy("Forbid"), "target": {"workflow": "w"}}), "is for functions");
    check(to(json!({})), "exactly one of schedule, webhook");
    check(to(json!({"webhook": {"secretRef": {"name": "s"}}, "cloudEvents": {}})), "exactly one of");
    check(to(json!({"webhook": {"secretRef": {"name": "s"}}})), "");
    check(to(json!({"webhook": {}})), "secretRef.name");
    check(to(json!({"cloudEvents": {"types": ["a.*"]}})), "");
    check(to(json!({"object": {"apiVersion": "v1", "kind": "Pod", "events": ["Added"]}})), "");
    check(to(json!({"object": {"apiVersion": "v1", "kind": "Pod", "events": ["Sneezed"]}})), "Added");
    check(
        to(json!({"object": {"apiVersion": "minik8s.io/v1", "kind": "Invocation"}})),
        "each would fire the next",
    );
    check(
        to(json!({"file": {"claimName": "c", "path": "in", "pattern": "*.jpg", "events": ["Created"]}})),
        "",
    );
    check(to(json!({"file": {"claimName": "c", "path": "../etc"}})), "without ..");
    check(to(json!({"file": {"claimName": "c", "path": "/etc"}})), "without a slash");
    let source = json!({"schedule": {"cron": "* * * * *"}});
    check(json!({"source": source, "target": {}}), "name a function or a workflow");
    check(json!({"source": source, "target": {"function": "f", "workflow": "w"}}), "not both");
    check(json!({"source": source, "target": {"workflow": "w"}, "deadLetter": "f"}), "Retry and Catch");
    check(json!({"source": source, "target": {"function": "f"}, "input": {"a": "{% ( %}"}}), "{% ( %}");
    check(
        json!({"source": source, "target": {"function": "f"}, "retry": {"attempts": 0}}),
        "between 1 and 100",
    );
}

/// One pod looks at the files; another spec is another pod; a trigger that is suspended has none.
#[test]
fn file_trigger_keeps_one_pod() {
    let spec = json!({"source": {"file": {"claimName": "inbox", "path": "in"}}, "target": {"function": "f"}});
    let build = || {
        let mut world = World::default();
        world.insert(&trigger("2026-11-17T10:00:00Z", spec.clone()));
        Simulation::new(world).with(TriggerController).with_actor(Kubelet::default().actor())
    };
    check_convergence(build, |simulation| {
        let pods = simulation.world.list::<Pod>();
        assert_eq!(pods.len(), 1);
        let container = &pods[0].spec.as_ref().unwrap().containers[0];
        assert_eq!(container.volume_mounts.as_ref().unwrap()[0].read_only, Some(true));
        assert_eq!(pods[0].spec.as_ref().unwrap().automount_service_account_token, Some(false));
        let trigger: Trigger = simulation.world.get(&Key::new("ns", "t")).unwrap();
        assert_eq!(trigger.status.unwrap().conditions[0].reason, "Watching");
    });
    let mut simulation = build();
    simulation.settle().unwrap();
    let mut world = simulation.world;
    let before = world.list::<Pod>()[0].metadata.uid.clone();
    world.change::<Trigger>(&Key::new("ns", "t"), |trigger| {
        trigger.spec.source.file.as_mut().unwrap().path = Some("out".to_owned());
        trigger.metadata.generation = Some(2);
    });
    let mut simulation =
        Simulation::new(world).with(TriggerController).with_actor(Kubelet::default().actor());
    simulation.settle().unwrap();
    let pods = simulation.world.list::<Pod>();
    assert_eq!(pods.len(), 1);
    assert_ne!(pods[0].metadata.uid, before);
    let mut world = simulation.world;
    world.change::<Trigger>(&Key::new("ns", "t"), |trigger| trigger.spec.suspend = Some(true));
    let mut simulation =
        Simulation::new(world).with(TriggerController).with_actor(Kubelet::default().actor());
    simulation.settle().unwrap();
    let left = simulation.world.list::<Pod>();
    assert_eq!(left.iter().map(key_of).collect::<Vec<_>>(), []);
}
