//! `kubectl apply --server-side`: who owns which field.

use super::{DEPLOYMENT, case};
use crate::harness::Kubectl;

case![owners_and_conflicts, after_client_side_apply, creates_and_checks];

fn config(data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: shared}}\ndata: {{{data}}}\n")
}

fn owners_and_conflicts(k: &Kubectl) {
    let as_one = "apply --server-side --field-manager=one -f -";
    let as_two = "apply --server-side --field-manager=two -f -";
    k.run_with(&config("a: '1', b: '2'"), as_one).says("configmap/shared serverside-applied");
    k.fail_with(&config("a: '9'"), as_two)
        .says("Apply failed with 1 conflict: conflict with \"one\": .data.a")
        .says("--force-conflicts");
    // The same value is shared, not fought over.
    k.run_with(&config("a: '1'"), as_two);
    k.run_with(&config("a: '9'"), &format!("{as_two} --force-conflicts"));
    k.run("get configmap shared -o jsonpath='{.data}'").is(r#"{"a":"9","b":"2"}"#);
    // What an owner no longer names goes, unless another one has it.
    k.run_with(&config("").replace("data: {}\n", ""), as_one);
    k.run("get configmap shared -o jsonpath='{.data}'").is(r#"{"a":"9"}"#);
    let managers =
        "get configmap shared --show-managed-fields -o jsonpath='{.metadata.managedFields[*].manager}'";
    k.run(managers).silent_on("one").says("two");
    // Plain updates own too.
    k.run("patch configmap shared --field-manager=three -p '{\"data\":{\"c\":\"3\"}}'");
    k.fail_with(&config("c: '4'"), as_two).says("conflict with \"three\" using v1: .data.c");
}

fn after_client_side_apply(k: &Kubectl) {
    k.run_with(DEPLOYMENT, "apply -f -");
    let changed = DEPLOYMENT.replace("nginx:1", "nginx:2").replace("{name: A, value: \"1\"}, ", "");
    k.run_with(&changed, "apply --server-side -f -").says("deployment.apps/app serverside-applied");
    k.run("get deployment app -o jsonpath='{.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].env}'")
        .is(r#"nginx:2 [{"name":"B","value":"2"}]"#);
    let managers = "get deployment app --show-managed-fields \
        -o jsonpath='{range .metadata.managedFields[*]}{.manager}/{.operation} {end}'";
    k.run(managers).says("kubectl/Apply").silent_on("kubectl-client-side-apply");
    let diff = k.fail_with(&changed.replace("nginx:2", "nginx:3"), "diff --server-side -f -");
    diff.says("+        image: nginx:3");
    k.run_with(&changed, "diff --server-side -f -");
}

fn creates_and_checks(k: &Kubectl) {
    k.run_with(DEPLOYMENT, "apply --server-side -f - --dry-run=server")
        .says("serverside-applied (server dry run)");
    k.fail("get deployment app");
    k.run_with(DEPLOYMENT, "apply --server-side -f -");
    k.fail_with(&DEPLOYMENT.replace("replicas: 0", "replicas: -1"), "apply --server-side -f -")
        .says("spec.replicas: Invalid value: -1: must be greater than or equal to 0");
    k.fail_with(&DEPLOYMENT.replace("replicas: 0", "replikas: 1"), "apply --server-side -f -")
        .says("replikas");
    k.run("get deployment app -o jsonpath='{.spec.replicas}'").is("0");
}
