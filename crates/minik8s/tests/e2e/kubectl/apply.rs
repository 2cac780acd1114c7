//! `kubectl apply` and `diff` as most people use them: three-way merges made by the client.

use super::{DEPLOYMENT, case};
use crate::harness::Kubectl;

case![only kubectl: creates_and_leaves_alone, changes_what_changed];

fn creates_and_leaves_alone(k: &Kubectl) {
    k.run_with(DEPLOYMENT, "apply -f -").says("deployment.apps/app created");
    k.run_with(DEPLOYMENT, "diff -f -").is("");
    k.run_with(DEPLOYMENT, "apply -f -").says("deployment.apps/app unchanged");
    k.run("apply view-last-applied deployment/app").says("tier: front");
    k.run_with(DEPLOYMENT, "apply -f - --dry-run=client").says("deployment.apps/app configured (dry run)");
    k.run_with(&DEPLOYMENT.replace("nginx:1", "nginx:2"), "apply -f - --dry-run=server")
        .says("deployment.apps/app configured (server dry run)");
    k.run(
        "get deployment app -o jsonpath='{.spec.template.spec.containers[0].image} {.metadata.generation}'",
    )
    .is("nginx:1 1");
}

fn changes_what_changed(k: &Kubectl) {
    k.run_with(DEPLOYMENT, "apply -f -");
    // Another writer's fields stay.
    k.run("annotate deployment app note=mine");
    k.run("set env deployment/app C=3 --containers=main");
    let changed = DEPLOYMENT
        .replace("replicas: 0", "paused: true")
        .replace(", tier: front", ", level: one")
        .replace("{name: A, value: \"1\"}, ", "")
        .replace("{containerPort: 80}, ", "")
        .replace("nginx:1", "nginx:2")
        .replace("      - name: side\n        image: busybox:1\n", "");
    let diff = k.fail_with(&changed, "diff -f -");
    assert_eq!(diff.code, 1, "{diff:#?}");
    diff.says("-        image: nginx:1")
        .says("+        image: nginx:2")
        .says("-    tier: front")
        .says("+    level: one");
    diff.says("-        - name: A").says("-        - containerPort: 80").says("-      - image: busybox:1");
    k.run_with(&changed, "apply -f -").says("deployment.apps/app configured");
    let object = k.run("get deployment app -o json").json();
    let container = &object["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "nginx:2");
    assert_eq!(container["env"].to_string(), r#"[{"name":"B","value":"2"},{"name":"C","value":"3"}]"#);
    assert_eq!(container["ports"].to_string(), r#"[{"containerPort":443,"name":"https","protocol":"TCP"}]"#);
    assert_eq!(object["spec"]["template"]["spec"]["containers"].as_array().map(Vec::len), Some(1));
    assert_eq!(object["metadata"]["labels"].to_string(), r#"{"app":"app","level":"one"}"#);
    assert_eq!(object["metadata"]["annotations"]["note"], "mine");
    assert_eq!(object["spec"]["replicas"], 1, "a field no longer set gets its default again");
    k.run_with(&changed, "diff -f -");
}
