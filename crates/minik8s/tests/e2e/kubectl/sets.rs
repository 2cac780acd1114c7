//! Many objects at once: lists, directories with a kustomization, and what is no longer among them.

use super::{DEPLOYMENT, case};
use crate::harness::Kubectl;

case![many_objects_and_pruning, kustomizations];

fn many_objects_and_pruning(k: &Kubectl) {
    let config = |name: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{set: one}}}}\ndata: {{a: b}}\n---\n"
        )
    };
    k.run_with(&(config("one") + &config("two")), "apply -f -")
        .says("configmap/one created")
        .says("configmap/two created");
    let allow = "apply -f - --prune -l set=one --prune-allowlist=core/v1/ConfigMap";
    k.run_with(&config("two"), allow).says("configmap/two unchanged").says("configmap/one pruned");
    k.run("get configmaps -l set=one -o name").is("configmap/two");
    let list = r#"{"apiVersion":"v1","kind":"List","items":[
        {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"three"}},
        {"apiVersion":"v1","kind":"Secret","metadata":{"name":"three"},"stringData":{"a":"b"}}]}"#;
    k.run_with(list, "apply -f -").says("configmap/three created").says("secret/three created");
    k.run("get secret three -o jsonpath='{.data.a}'").is("Yg==");
}

fn kustomizations(k: &Kubectl) {
    let dir = k.dir().join("kustomize");
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join("app.yaml"), DEPLOYMENT).expect("a file");
    let kustomization = "resources: [app.yaml]\nnamePrefix: my-\nimages: [{name: nginx, newTag: '7'}]\n\
        configMapGenerator: [{name: made, literals: [a=b]}]\n";
    std::fs::write(dir.join("kustomization.yaml"), kustomization).expect("a file");
    k.run(&format!("apply -k {}", dir.display()))
        .says("deployment.apps/my-app created")
        .says("configmap/my-made-");
    k.run("get deployment my-app -o jsonpath='{.spec.template.spec.containers[0].image}'").is("nginx:7");
    k.run(&format!("delete -k {}", dir.display())).says("my-app");
}
