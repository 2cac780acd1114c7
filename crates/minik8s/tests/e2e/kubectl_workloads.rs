//! What people type about workloads, with the real kubectl: rollouts, scaling, Jobs, draining. The server is
//! the real binary; its nodes are simulated.

use std::path::PathBuf;

use crate::harness::{Kubectl, Server, installed, ours};

/// On a server with three simulated nodes, with the oldest and the newest kubectl of this machine, and with our own program,
/// side by side.
fn case(name: &str, test: impl Fn(&Kubectl) + Sync) {
    let server = Server::start_with_nodes(3);
    let (server, test) = (&server, &test);
    std::thread::scope(|scope| {
        for program in programs(server) {
            scope.spawn(move || test(&Kubectl::new(server, &program, name)));
        }
    });
}

/// One after the other, where they would get in each other's way.
fn case_in_turn(name: &str, test: impl Fn(&Kubectl)) {
    let server = Server::start_with_nodes(3);
    for program in programs(&server) {
        test(&Kubectl::new(&server, &program, name));
    }
}

fn programs(server: &Server) -> Vec<PathBuf> {
    let mut installed = installed();
    let newest = installed.pop();
    installed.into_iter().take(1).chain(newest).chain([ours(server)]).collect()
}

#[test]
fn deployments_roll_forward_and_back() {
    case("roll", |k| {
        k.run("create deployment web --image=v1 --replicas=3");
        k.run("rollout status deployment/web --timeout=180s").says("successfully rolled out");
        k.run("wait --for=condition=Available deployment/web --timeout=180s").says("condition met");
        k.run("scale deployment/web --replicas=4").says("scaled");
        k.run("rollout status deployment/web --timeout=180s");
        k.run("get deployment web --no-headers").says("4/4");
        k.run("set image deployment/web v1=v2").says("image updated");
        k.run("rollout status deployment/web --timeout=180s").says("successfully rolled out");
        k.run("annotate deployment/web kubernetes.io/change-cause='to v2'");
        let history = k.run("rollout history deployment/web");
        history.says("REVISION").says("1 ").says("2 ");
        k.run("rollout history deployment/web --revision=1").says("Image:").says("v1");
        k.run("rollout undo deployment/web").says("rolled back");
        k.run("rollout status deployment/web --timeout=180s");
        k.run("get deployment web -o jsonpath='{.spec.template.spec.containers[0].image}'").is("v1");
        k.run("rollout pause deployment/web").says("paused");
        k.run("set image deployment/web v1=v3");
        k.fail("rollout undo deployment/web").says("paused");
        k.run("rollout resume deployment/web").says("resumed");
        k.run("rollout status deployment/web --timeout=180s");
        k.run("get pods -l app=web -o jsonpath='{.items[*].spec.containers[0].image}'").says("v3");
        k.run("rollout restart deployment/web").says("restarted");
        k.run("rollout status deployment/web --timeout=180s");
        k.run("rollout undo deployment/web --to-revision=2").says("rolled back");
        k.run("rollout status deployment/web --timeout=180s");
        k.run("get deployment web -o jsonpath='{.spec.template.spec.containers[0].image}'").is("v2");
        k.run("expose deployment/web --port=80 --target-port=8080").says("exposed");
        // What is not there cannot be waited for by every version.
        k.until("get endpoints web");
        k.run("wait --for=jsonpath='{.subsets[0].ports[0].port}'=8080 endpoints/web --timeout=180s")
            .says("condition met");
        k.run("describe deployment web")
            .says("ScalingReplicaSet")
            .says("4 desired | 4 updated | 4 total | 4 available");
        k.run("delete deployment web").says("deleted");
        k.run("wait --for=delete pods -l app=web --timeout=180s");
    });
}

#[test]
fn a_rollout_that_cannot_progress_says_so() {
    case("stuck", |k| {
        k.run("create deployment web --image=v1 --replicas=2");
        k.run("rollout status deployment/web --timeout=180s");
        k.run(r#"patch deployment web -p '{"spec":{"progressDeadlineSeconds":1,"template":{"spec":{"nodeSelector":{"nowhere":"true"}}}}}'"#);
        k.fail("rollout status deployment/web --timeout=180s").says("exceeded its progress deadline");
        // The way back may take longer.
        k.run(r#"patch deployment web -p '{"spec":{"progressDeadlineSeconds":600}}'"#);
        k.run("rollout undo deployment/web");
        k.run("rollout status deployment/web --timeout=180s").says("successfully rolled out");
    });
}

const SETS: &str = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: v1}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: c, image: v1}]}}
"#;

#[test]
fn stateful_and_daemon_sets_roll_too() {
    case("sets", |k| {
        k.run_with(SETS, "apply -f -");
        for set in ["statefulset/db", "daemonset/agent"] {
            k.run(&format!("rollout status {set} --timeout=180s"));
            k.run(&format!("set image {set} c=v2")).says("image updated");
            k.run(&format!("rollout status {set} --timeout=180s"));
            k.run(&format!("rollout history {set}")).says("1 ").says("2 ");
            k.run(&format!("rollout history {set} --revision=1")).says("v1");
            k.run(&format!("rollout undo {set}")).says("rolled back");
            k.run(&format!("rollout status {set} --timeout=180s"));
            k.run(&format!("get {set} -o jsonpath='{{.spec.template.spec.containers[0].image}}'")).is("v1");
            k.run(&format!("rollout restart {set}")).says("restarted");
            k.run(&format!("rollout status {set} --timeout=180s"));
        }
        k.run("get pods -l app=db -o name").is("pod/db-0\npod/db-1\npod/db-2");
        k.run("get daemonset agent --no-headers").says("3         3         3       3            3");
        k.run("scale statefulset/db --replicas=1").says("scaled");
        k.run("wait --for=delete pod/db-1 pod/db-2 --timeout=180s");
        k.run("delete statefulset/db daemonset/agent");
    });
}

const QUICK: &str = r#"
apiVersion: batch/v1
kind: CronJob
metadata: {name: tick}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate:
    spec:
      completions: 2
      template:
        metadata: {annotations: {minik8s.io/run-seconds: "0"}}
        spec: {restartPolicy: Never, containers: [{name: c, image: x}]}
"#;

#[test]
fn jobs_run_and_are_waited_for() {
    case("jobs", |k| {
        k.run_with(QUICK, "apply -f -");
        k.run("get cronjob tick").says("0 0 1 1 *").says("False");
        k.run("create job now --from=cronjob/tick").says("created");
        k.run("wait --for=condition=complete job/now --timeout=180s").says("condition met");
        k.run("get job now --no-headers").says("Complete").says("2/2");
        k.run("describe job now").says("2 Succeeded / 0 Failed").says("SuccessfulCreate").says("Completed");
        k.run("create job stays --image=x");
        k.run("wait --for=jsonpath='{.status.ready}'=1 job/stays --timeout=180s");
        k.run("delete job now stays");
        k.run("wait --for=delete pods -l batch.kubernetes.io/job-name --timeout=180s");
        k.fail("create cronjob bad --image=x --schedule='61 * * * *'").says("spec.schedule");
    });
}

#[test]
fn draining_respects_the_budget() {
    case_in_turn("drain", |k| {
        k.run("create deployment web --image=v1 --replicas=3");
        k.run("create pdb web --selector=app=web --min-available=2").says("created");
        k.run("rollout status deployment/web --timeout=180s");
        k.run("wait --for=jsonpath='{.status.disruptionsAllowed}'=1 pdb/web --timeout=180s");
        k.run("get pdb web --no-headers").says("2               N/A               1");
        let node = k.run("get pods -l app=web -o jsonpath='{.items[0].spec.nodeName}'").stdout;
        k.run(&format!("drain {node} --ignore-daemonsets --timeout=180s")).says("drained");
        k.run("rollout status deployment/web --timeout=180s");
        k.run(&format!(
            "get pods -l app=web --field-selector spec.nodeName={node},status.phase=Running -o name"
        ))
        .is("");
        k.run(&format!("uncordon {node}"));
        k.run("delete deployment/web pdb/web");
    });
}
