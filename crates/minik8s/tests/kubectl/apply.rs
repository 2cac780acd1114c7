//! `kubectl apply` and `diff` as most people use them: three-way merges made by the client.

use crate::harness::Kubectl;
use crate::{DEPLOYMENT, chapter};

chapter![only kubectl: creates_and_leaves_alone, changes_what_changed, many_objects_and_pruning, kustomizations];

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
