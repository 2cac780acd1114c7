//! How containers start, are found ill, end, and start again.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::health_service::HealthService;
use super::space::{IDLE, Space, condition, idle, is_ready, once, shell, state};

pub async fn crash_loop(space: Space) {
    space.pod("crash", json!({"containers": [shell("main", "exit 3")]})).await;
    let pod = space.waiting("crash", "CrashLoopBackOff").await;
    let status = &pod["status"]["containerStatuses"][0];
    assert!(status["restartCount"].as_u64() >= Some(1));
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 3);
    assert_eq!(pod["status"]["phase"], "Running");
    assert!(!is_ready(&pod));
    let message = status["state"]["waiting"]["message"].as_str().unwrap();
    let back_off = format!("back-off 10s restarting failed container=main pod=crash_{}(", space.name);
    assert!(message.starts_with(&back_off), "{message}");
    let row = space.kubectl(&["get", "pod", "crash", "--no-headers"]).await;
    assert!(row.contains("CrashLoopBackOff") && row.contains("0/1"), "{row}");
    space.delete("crash", 1).await;
    space.deleted("crash").await;
}

pub async fn restart_policies(space: Space) {
    let volume = json!([{"name": "v", "emptyDir": {}}]);
    let mut fails_once = shell("main", "test -e /v/once && exit 0; touch /v/once; exit 1");
    fails_once["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let spec = |policy: &str, container: &Value| json!({"restartPolicy": policy, "containers": [container], "volumes": volume});
    space.pod("on-failure", spec("OnFailure", &fails_once)).await;
    space.pod("never", spec("Never", &fails_once)).await;
    space.pod("always", spec("Always", &shell("main", "sleep 0.3"))).await;
    let pod = space.phase("on-failure", "Succeeded").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 1);
    assert_eq!(state(&pod)["terminated"]["reason"], "Completed");
    let pod = space.phase("never", "Failed").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    assert_eq!(state(&pod)["terminated"]["reason"], "Error");
    assert_eq!(state(&pod)["terminated"]["exitCode"], 1);
    let again = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_u64() >= Some(1);
    let pod = space.until("always", "restarted", again).await;
    assert_eq!(pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 0);
}

pub async fn deadline(space: Space) {
    let mut spec = idle();
    spec["activeDeadlineSeconds"] = 2.into();
    space.pod("late", spec).await;
    let pod = space.phase("late", "Failed").await;
    assert_eq!(pod["status"]["reason"], "DeadlineExceeded");
    assert!(pod["status"]["message"].as_str().unwrap().contains("longer than the specified deadline"));
}

/// Termination messages: from the file, from the log, from another file, none after success.
pub async fn termination_message(space: Space) {
    space.pod("file", once("printf sorry > /dev/termination-log; exit 1")).await;
    let with = |script: &str, field: &str, value: &str| {
        let mut spec = once(script);
        spec["containers"][0][field] = value.into();
        spec
    };
    space
        .pod("log", with("echo one; echo two; exit 1", "terminationMessagePolicy", "FallbackToLogsOnError"))
        .await;
    space.pod("good", with("echo one; exit 0", "terminationMessagePolicy", "FallbackToLogsOnError")).await;
    let mut other = with("printf DONE > /dev/own-message", "terminationMessagePath", "/dev/own-message");
    other["containers"][0]["securityContext"] = json!({"runAsUser": 1000});
    space.pod("other", other).await;
    let message = async |name: &str, phase: &str| {
        state(&space.phase(name, phase).await)["terminated"]["message"].clone()
    };
    assert_eq!(message("file", "Failed").await, "sorry");
    assert_eq!(message("log", "Failed").await, "one\ntwo\n");
    assert_eq!(message("good", "Succeeded").await, Value::Null);
    assert_eq!(message("other", "Succeeded").await, "DONE");
}

/// Hooks run when they should, and a container that ends in time is not killed.
pub async fn hooks_and_grace(space: Space) {
    let dir = tempfile::tempdir().unwrap();
    let script = "trap 'echo term >> /v/log; sleep 0.5; echo end >> /v/log; exit 0' TERM; sleep 1000 & wait";
    let mut main = shell("main", script);
    main["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    main["lifecycle"] = json!({
        "postStart": {"exec": {"command": ["sh", "-c", "echo began >> /v/log"]}},
        "preStop": {"exec": {"command": ["sh", "-c", "echo before stop >> /v/log; sleep 0.3; echo stop >> /v/log"]}},
    });
    let volumes = json!([{"name": "v", "hostPath": {"path": dir.path()}}]);
    space.pod("hooked", json!({"containers": [main.clone()], "volumes": volumes})).await;
    let mut broken = shell("main", IDLE);
    broken["lifecycle"] = json!({"postStart": {"exec": {"command": ["false"]}}});
    space.pod("broken", json!({"restartPolicy": "Never", "containers": [broken]})).await;
    let mut asks = shell("main", IDLE);
    asks["lifecycle"] = json!({"preStop": {"httpGet": {"port": 1, "path": "/"}}});
    space.pod("asks", json!({"containers": [asks]})).await;

    space.ready("hooked").await;
    let log = || std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert_eq!(log(), "began\n");
    space.kubectl(&["delete", "pod", "hooked", "--grace-period=20"]).await;
    assert_eq!(log(), "began\nbefore stop\nstop\nterm\nend\n");
    space.until("broken", "ended", |pod| state(pod)["terminated"].is_object()).await;
    space.event("broken", "FailedPostStartHook", "PostStartHook failed").await;
    space.ready("asks").await;
    space.delete("asks", 5).await;
    space.event("asks", "FailedPreStopHook", "PreStopHook failed").await;
    space.deleted("asks").await;
}

/// A container that ignores its signal is killed when its time is over.
pub async fn forced_termination(space: Space) {
    space
        .pod(
            "deaf",
            // By itself it would outlast everybody's timeout.
            json!({"containers": [shell("main", "trap '' TERM; echo up; while :; do sleep 0.2; done")],
                "terminationGracePeriodSeconds": 600}),
        )
        .await;
    space.ready("deaf").await;
    let begun = Instant::now();
    space.delete("deaf", 2).await;
    let pod = space.until("deaf", "ending", |pod| pod["metadata"]["deletionTimestamp"].is_string()).await;
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 2);
    space.deleted("deaf").await;
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(1800), "{took:?}");
}

fn every_second(mut probe: Value) -> Value {
    probe["periodSeconds"] = 1.into();
    probe["failureThreshold"] = 1.into();
    probe
}

/// A web server whose page goes, or whatever else is told, after a while.
fn web_server(after: f32, then: &str) -> Value {
    let serve = "mkdir /tmp/w; echo ok > /tmp/w/index.html";
    let mut container =
        shell("main", &format!("{serve}; (sleep {after}; {then}) & exec httpd -f -p 8080 -h /tmp/w"));
    container["livenessProbe"] =
        every_second(json!({"httpGet": {"path": "/", "port": 8080}, "initialDelaySeconds": 1}));
    container
}

/// A container that falls ill again and again is restarted each time, and the count only grows.
pub async fn liveness_again_and_again(space: Space) {
    let mut main = web_server(1.5, "rm /tmp/w/index.html");
    // It is the page that is missing, not the machine that is busy.
    main["livenessProbe"]["timeoutSeconds"] = 20.into();
    space.pod("ill", json!({"containers": [main], "terminationGracePeriodSeconds": 1})).await;
    let counts = RefCell::new(Vec::new());
    let five = |pod: &Value| {
        let count = pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or(0);
        counts.borrow_mut().push(count);
        count >= 5
    };
    space.until("ill", "restarted five times", five).await;
    let counts = counts.into_inner();
    assert!(counts.is_sorted(), "{counts:?}");
    space.event("ill", "Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 404").await;
    space.delete("ill", 0).await;
    space.deleted("ill").await;
}

pub async fn liveness(space: Space) {
    let restarted = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_u64() >= Some(1);
    let exec = |script: &str| every_second(json!({"exec": {"command": ["sh", "-c", script]}}));
    let mut falls_ill = shell("main", &format!("(sleep 1; touch /tmp/ill) & {IDLE}"));
    falls_ill["livenessProbe"] = exec("! test -e /tmp/ill");
    // The page goes, the socket stays.
    let mut open = web_server(2.0, "rm /tmp/w/index.html");
    open["livenessProbe"] = every_second(json!({"tcpSocket": {"port": 8080}, "initialDelaySeconds": 1}));
    let mut stays_well = shell("main", IDLE);
    stays_well["livenessProbe"] = exec("true");
    let mut deaf = shell("main", IDLE);
    deaf["livenessProbe"] = every_second(json!({"tcpSocket": {"port": 9}}));
    let mut slow = shell("main", IDLE);
    slow["livenessProbe"] = every_second(json!({"exec": {"command": ["sleep", "30"]}, "timeoutSeconds": 1}));
    let all = [
        ("exec", falls_ill),
        ("well", stays_well),
        ("http", web_server(2.0, "rm /tmp/w/index.html")),
        ("http-well", web_server(2.0, "true")),
        ("tcp", deaf),
        ("tcp-well", open),
        ("slow", slow),
    ];
    for (name, mut container) in all {
        container["name"] = "main".into();
        if name.contains("well") {
            // Also on a busy machine, where it may listen late.
            container["livenessProbe"]["timeoutSeconds"] = 20.into();
            container["startupProbe"] = container["livenessProbe"].clone();
            container["startupProbe"]["failureThreshold"] = 60.into();
        }
        space.pod(name, json!({"containers": [container], "terminationGracePeriodSeconds": 1})).await;
    }
    for name in ["exec", "http", "tcp", "slow"] {
        space.until(name, "restarted", restarted).await;
    }
    space.event("exec", "Killing", "Container main failed liveness probe, will be restarted").await;
    space.event("exec", "Unhealthy", "Liveness probe failed").await;
    for name in ["well", "http-well", "tcp-well"] {
        let pod = space.ready(name).await;
        assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0, "{name}");
    }
}

pub async fn readiness(space: Space) {
    let mut main = shell("main", &format!("sleep 4; touch /tmp/up; {IDLE}"));
    main["readinessProbe"] = every_second(json!({"exec": {"command": ["test", "-e", "/tmp/up"]}}));
    let mut gated = json!({"containers": [main]});
    gated["readinessGates"] = json!([{"conditionType": "example.org/open"}]);
    space.pod("gated", gated).await;
    let pod = space.phase("gated", "Running").await;
    assert_eq!(condition(&pod, "ContainersReady")["status"], "False", "{:#}", pod["status"]);
    let pod = space.until("gated", "up", |pod| condition(pod, "ContainersReady")["status"] == "True").await;
    assert!(!is_ready(&pod));
    assert_eq!(condition(&pod, "Ready")["reason"], "ReadinessGatesNotReady");
    let mut conditions = pod["status"]["conditions"].as_array().unwrap().clone();
    conditions.push(json!({"type": "example.org/open", "status": "True"}));
    space.change("pods", "gated/status", json!({"status": {"conditions": conditions}})).await;
    space.ready("gated").await;
    space.kubectl(&["exec", "gated", "--", "rm", "/tmp/up"]).await;
    let pod = space.until("gated", "unready again", |pod| !is_ready(pod)).await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
}

/// Before its delay is over a probe says nothing, so the container is not ready.
pub async fn readiness_with_a_delay(space: Space) {
    let mut main = shell("main", IDLE);
    main["readinessProbe"] =
        json!({"exec": {"command": ["true"]}, "initialDelaySeconds": 3, "periodSeconds": 1});
    space.pod("pod", json!({"containers": [main]})).await;
    let pod = space.phase("pod", "Running").await;
    assert!(!is_ready(&pod));
    let pod = space.ready("pod").await;
    let time = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let started = time(&state(&pod)["running"]["startedAt"]);
    let ready = time(&condition(&pod, "Ready")["lastTransitionTime"]);
    // Times in statuses are whole seconds.
    assert!(ready.duration_since(started).as_secs() >= 2, "{started} {ready}");
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
}

/// Until the startup probe succeeds, no other probe counts.
pub async fn slow_start(space: Space) {
    let mut main = shell("main", &format!("sleep 4; touch /tmp/up; {IDLE}"));
    let probe = json!({"exec": {"command": ["test", "-e", "/tmp/up"]}});
    main["startupProbe"] = json!({"exec": probe["exec"], "periodSeconds": 1, "failureThreshold": 60});
    main["livenessProbe"] = every_second(probe);
    space.pod("slow", json!({"containers": [main]})).await;
    let pod = space.phase("slow", "Running").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["started"], false);
    let pod = space.ready("slow").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["started"], true);
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
}

/// Probes that ask a gRPC server. It runs beside the test, on the node's network as the pods are.
pub async fn grpc(space: Space) {
    let server = HealthService::start().await;
    let pod = async |name: &str, kind: &str, service: &str| {
        let mut main = shell("main", IDLE);
        main[kind] = every_second(json!({"grpc": {"port": server.port, "service": service}}));
        // Also on a busy machine.
        main[kind]["timeoutSeconds"] = 20.into();
        let spec = json!({"containers": [main], "hostNetwork": true, "terminationGracePeriodSeconds": 1});
        space.pod(name, spec).await;
    };
    pod("well", "livenessProbe", "well").await;
    pod("ill", "livenessProbe", "ill").await;
    pod("late", "readinessProbe", "late").await;
    let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or(0);
    space.until("ill", "restarted", |pod| restarts(pod) >= 1).await;
    space.event("ill", "Unhealthy", "Liveness probe failed: service unhealthy").await;
    let late = space.phase("late", "Running").await;
    assert!(!is_ready(&late));
    server.late.store(true, std::sync::atomic::Ordering::Relaxed);
    space.ready("late").await;
    server.late.store(false, std::sync::atomic::Ordering::Relaxed);
    let late = space.until("late", "unready again", |pod| !is_ready(pod)).await;
    assert_eq!(restarts(&late), 0);
    assert_eq!(restarts(&space.ready("well").await), 0);
}
