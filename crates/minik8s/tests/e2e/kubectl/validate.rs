//! Objects with mistakes: the message names the field, and what was probably meant.

use super::{DEPLOYMENT, case};
use crate::harness::Kubectl;

case![unknown_fields, wrong_values, dry_runs];

fn unknown_fields(k: &Kubectl) {
    let wrong =
        DEPLOYMENT.replace("replicas: 0", "replicass: 0").replace("image: busybox", "imagee: busybox");
    k.fail_with(&wrong, "create -f - --validate=strict")
        .says(r#"unknown field "spec.replicass""#)
        .says("imagee");
    k.fail_with(&wrong, "create -f -").says("replicass");
    let warned = DEPLOYMENT.replace("replicas: 0", "replicass: 0");
    k.run_with(&warned, "create -f - --validate=warn")
        .says(r#"unknown field "spec.replicass", did you mean "spec.replicas"?"#);
    k.run("delete deployment app");
    k.run_with(&warned, "create -f - --validate=ignore --dry-run=server").silent_on("replicass");
    k.fail_with(&DEPLOYMENT.replace("replicas: 0", "replicas: many"), "create -f -").says("replicas");
    k.fail_with(&DEPLOYMENT.replace("kind: Deployment", "kind: Deploiment"), "create -f -")
        .says(r#"no matches for kind "Deploiment" in version "apps/v1""#);
    k.fail_with(&DEPLOYMENT.replace("apps/v1", "apps/v9"), "create -f -")
        .says(r#"no matches for kind "Deployment" in version "apps/v9""#);
    k.fail_with("a: [", "create -f -").says("error");
}

fn wrong_values(k: &Kubectl) {
    for (wrong, with, says) in [
        (
            "replicas: 0",
            "replicas: -1",
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "name: app,",
            "name: App_1,",
            "metadata.name: Invalid value: \"App_1\": a lowercase RFC 1123 subdomain must consist of",
        ),
        (
            "containerPort: 80}",
            "containerPort: 70000}",
            "spec.template.spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        ("name: side", "name: main", "spec.template.spec.containers[1].name: Duplicate value: \"main\""),
        ("        image: busybox:1\n", "", "spec.template.spec.containers[1].image: Required value"),
        ("{name: A,", "{name: 'A=B',", "env[0].name: Invalid value"),
        (
            "labels: {app: app}}",
            "labels: {app: other}}",
            "spec.template.metadata.labels: Invalid value: {\"app\":\"other\"}: `selector` does not match template `labels`",
        ),
        (
            "containers:",
            "restartPolicy: Never\n      containers:",
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
        ),
    ] {
        let changed = DEPLOYMENT.replacen(wrong, with, 1);
        assert_ne!(changed, DEPLOYMENT, "{wrong}");
        k.fail_with(&changed, "create -f -").says(says).says("is invalid");
    }
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {clusterIP: 1.2.3.4, ports: [{port: 80}]}\n";
    k.fail_with(service, "create -f -")
        .says("spec.clusterIPs: Invalid value")
        .says("is not in the valid range");
    k.fail_with(&service.replace("1.2.3.4", "10.96.0.1"), "create -f -")
        .says("provided IP is already allocated");
    k.fail_with(
        &service.replace("clusterIP: 1.2.3.4, ports: [{port: 80}]", "type: Strange, ports: [{port: 0}]"),
        "create -f -",
    )
    .says("spec.type: Unsupported value: \"Strange\"")
    .says("spec.ports[0].port: Invalid value: 0");
    k.fail("create namespace kube_system").says("metadata.name: Invalid value");
    k.fail("create configmap one -n nowhere").says(r#"namespaces "nowhere" not found"#);
    k.fail("delete namespace default").says("this namespace may not be deleted");
    k.fail_with("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: '***'}\n", "create -f -")
        .says("into field data[a] of type base64");
}

fn dry_runs(k: &Kubectl) {
    k.run_with(DEPLOYMENT, "create -f - --dry-run=server")
        .says("deployment.apps/app created (server dry run)");
    k.run_with(
        DEPLOYMENT,
        "create -f - --dry-run=server -o jsonpath='{.spec.strategy.type} {.metadata.uid}'",
    )
    .says("RollingUpdate ");
    k.fail("get deployment app").says("not found");
    k.fail_with(&DEPLOYMENT.replace("replicas: 0", "replicas: -1"), "create -f - --dry-run=server")
        .says("spec.replicas");
    k.run("create deployment web --image=nginx --dry-run=client -o yaml").says("kind: Deployment");
    k.fail("get deployment web");
}
