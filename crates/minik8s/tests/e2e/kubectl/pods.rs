//! What people do to single pods, none of which runs.

use super::case;
use crate::harness::Kubectl;

case![labels, replacing, dry_runs];

fn labels(k: &Kubectl) {
    k.run("run one --image=nginx");
    k.run("label pod one testing-label=value").says("pod/one labeled");
    k.run("get pod one -L testing-label").says("value");
    k.run("get pods -l testing-label=value -o name").is("pod/one");
    k.run("label pod one testing-label-").says("unlabeled");
    k.run("get pod one -L testing-label").silent_on("value");
    k.run("get pods -l testing-label -o name").is("");
}

fn replacing(k: &Kubectl) {
    k.run("run one --image=nginx:1 --labels=app=one");
    let pod = k.run("get pod one -o json").stdout;
    k.run_with(&pod.replace("nginx:1", "nginx:2"), "replace -f -").says("pod/one replaced");
    k.run("get pod one -o jsonpath='{.spec.containers[0].image}'").is("nginx:2");
    let uid = k.run("get pod one -o jsonpath='{.metadata.uid}'").stdout;
    let fresh = "apiVersion: v1\nkind: Pod\nmetadata: {name: one}\nspec: {containers: [{name: c, image: 'nginx:3'}]}\n";
    k.run_with(fresh, "replace --force --grace-period=0 -f -").says("pod/one replaced");
    k.run("get pod one -o jsonpath='{.spec.containers[0].image} {.metadata.uid}'")
        .says("nginx:3")
        .silent_on(&uid);
}

fn dry_runs(k: &Kubectl) {
    k.run("run one --image=nginx:1");
    let patch = r#"{"spec":{"containers":[{"name":"one","image":"busybox:1"}]}}"#;
    k.run(&format!("patch pod one -p '{patch}' --dry-run=server")).says("patched");
    k.run("get pod one -o jsonpath='{.spec.containers[0].image}'").is("nginx:1");
}
