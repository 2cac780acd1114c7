//! The long script: what people do with kubectl in a day, gone through by every version there is.

use std::thread;

use super::{DEPLOYMENT, until_fails};
use crate::harness::{Kubectl, Server, installed, ours};

/// All versions at once, and our own program as one more: it must not matter to one what the others do.
#[test]
fn every_version_goes_through_the_long_script() {
    let server = Server::start();
    thread::scope(|scope| {
        let versions: Vec<_> = installed()
            .into_iter()
            .chain([ours(&server)])
            .map(|program| {
                let server = &server;
                scope.spawn(move || long_script(&Kubectl::new(server, &program, "script")))
            })
            .collect();
        let failed = versions.into_iter().filter_map(|version| version.join().err()).count();
        assert_eq!(failed, 0, "versions of kubectl that did not get through");
    });
}

fn long_script(k: &Kubectl) {
    look_around(k);
    create(k);
    apply(k);
    apply_on_the_server(k);
    patch(k);
    get(k);
    label_and_annotate(k);
    mistakes(k);
    quotas(k);
    custom_kinds(k);
    authority(k);
    wait_and_delete(k);
}

fn look_around(k: &Kubectl) {
    k.run("version").says("v1.37");
    k.run("api-resources").says("deployments deploy apps/v1 true Deployment");
    k.run("get namespaces").says("kube-system Active");
    k.run("explain deployment.spec.strategy").says("rollingUpdate");
    k.run("explain pod.spec.containers --recursive").says("readinessProbe");
}

fn create(k: &Kubectl) {
    k.run("create configmap settings --from-literal=a=1").says("configmap/settings created");
    k.run("create secret generic login --from-literal=user=me").says("secret/login created");
    k.run("create service clusterip inside --tcp=80:8080").says("service/inside created");
    k.run("create job once --image=busybox -- echo hi").says("job.batch/once created");
    k.run("run one --image=nginx --env=A=b").says("pod/one created");
    k.run("describe pod one").says("Status: Pending").says("A: b");
    k.fail("create configmap settings").says(r#"configmaps "settings" already exists"#);
}

fn apply(k: &Kubectl) {
    k.run_with(DEPLOYMENT, "apply -f -").says("deployment.apps/app created");
    k.run_with(DEPLOYMENT, "apply -f -").says("deployment.apps/app unchanged");
    let changed = DEPLOYMENT.replace("nginx:1", "nginx:2").replace("{name: A, value: \"1\"}, ", "");
    let diff = k.fail_with(&changed, "diff -f -");
    assert_eq!(diff.code, 1, "{diff:#?}");
    diff.says("-        image: nginx:1").says("+        image: nginx:2").says("-        - name: A");
    k.run_with(&changed, "apply -f -").says("deployment.apps/app configured");
    // The status belongs to what is compared.
    k.run("rollout status deployment app").says("successfully rolled out");
    k.run_with(&changed, "diff -f -").is("");
    k.run("get deployment app -o jsonpath='{.spec.template.spec.containers[0].env}'")
        .is(r#"[{"name":"B","value":"2"}]"#);
}

fn apply_on_the_server(k: &Kubectl) {
    let config = |data: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: shared}}\ndata: {{{data}}}\n")
    };
    let apply = |manager: &str| format!("apply --server-side --field-manager={manager} -f -");
    k.run_with(&config("a: '1', b: '2'"), &apply("one")).says("configmap/shared serverside-applied");
    k.fail_with(&config("a: '9'"), &apply("two")).says("conflict with \"one\": .data.a");
    k.run_with(&config("a: '9'"), &(apply("two") + " --force-conflicts"));
    k.run_with(&config(""), &apply("one"));
    k.run("get configmap shared -o jsonpath='{.data}'").is(r#"{"a":"9"}"#);
}

fn patch(k: &Kubectl) {
    k.run(r#"patch deployment app -p '{"spec":{"template":{"spec":{"containers":[{"name":"side","$patch":"delete"}]}}}}'"#);
    k.run(r#"patch deployment app --type=merge -p '{"metadata":{"labels":{"tier":null,"new":"x"}}}'"#);
    k.run(r#"patch deployment app --type=json -p '[{"op":"add","path":"/spec/paused","value":true},{"op":"test","path":"/spec/replicas","value":0}]'
        --dry-run=server"#);
    k.run("get deployment app -o jsonpath='{.spec.template.spec.containers[*].name} {.metadata.labels} {.spec.paused}'")
        .is(r#"main {"app":"app","new":"x"} "#.trim_end());
    k.run("scale deployment app --replicas=1").says("scaled");
    k.run("set image deployment/app main=nginx:9").says("image updated");
    k.run("rollout pause deployment/app").says("paused");
}

fn get(k: &Kubectl) {
    assert_eq!(k.run("get configmap settings").header(), ["NAME", "DATA", "AGE"]);
    k.run("get deployment app -o wide").says("CONTAINERS").says("nginx:9");
    k.run("get configmap settings -o yaml").says("kind: ConfigMap").silent_on("managedFields");
    assert_eq!(k.run("get configmap settings -o json").json()["data"]["a"], "1");
    k.run("get configmap settings -o name").is("configmap/settings");
    k.run("get configmap settings -o go-template='{{.data.a}}'").is("1");
    k.run("get configmap settings -o custom-columns=WHO:.metadata.name").is("WHO\nsettings");
    k.run("get configmaps -A --field-selector metadata.name=settings --chunk-size=2").says(&k.namespace);
    k.run("get all")
        .says("pod/one")
        .says("deployment.apps/app")
        .says("service/inside")
        .says("job.batch/once");
    k.fail("get configmap nope").says(r#"Error from server (NotFound): configmaps "nope" not found"#);
}

fn label_and_annotate(k: &Kubectl) {
    k.run("label configmap settings color=red").says("labeled");
    k.fail("label configmap settings color=blue").says("--overwrite is false");
    k.run("annotate configmap settings note='hello world'");
    k.run("get configmaps -l 'color in (red,green)' -o jsonpath='{.items[*].metadata.annotations.note}'")
        .is("hello world");
}

fn mistakes(k: &Kubectl) {
    let wrong = DEPLOYMENT.replace("name: app,", "name: wrong,").replace("replicas: 0", "replicass: 0");
    k.fail_with(&wrong, "create -f - --validate=strict").says(r#"unknown field "spec.replicass""#);
    k.run_with(&wrong, "create -f - --validate=warn --dry-run=server")
        .says(r#"did you mean "spec.replicas"?"#);
    k.fail_with(&wrong.replace("replicass: 0", "replicas: -1"), "create -f -")
        .says("spec.replicas: Invalid value: -1");
}

fn quotas(k: &Kubectl) {
    k.run("create quota few --hard=count/services=1").says("resourcequota/few created");
    k.run("wait quota/few --for=jsonpath='{.status.used.count/services}'=1 --timeout=120s");
    k.fail("create service clusterip two --tcp=80").says("exceeded quota: few, requested: count/services=1");
}

fn custom_kinds(k: &Kubectl) {
    let group = format!("{}.example.com", k.namespace);
    let definition = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: gadgets.{group}}}\nspec:\n  \
         group: {group}\n  scope: Namespaced\n  names: {{plural: gadgets, singular: gadget, kind: Gadget}}\n  versions:\n  \
         - name: v1\n    served: true\n    storage: true\n    additionalPrinterColumns: [{{name: Size, type: integer, jsonPath: .spec.size}}]\n    \
         schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n          \
         spec: {{type: object, properties: {{size: {{type: integer, maximum: 3, default: 1}}}}}}\n"
    );
    let gadget = |size: u32| {
        format!("apiVersion: {group}/v1\nkind: Gadget\nmetadata: {{name: g}}\nspec: {{size: {size}}}\n")
    };
    k.run_with(&definition, "apply -f -").says("created");
    k.run(&format!("wait crd/gadgets.{group} --for=condition=Established --timeout=120s"));
    k.run_with(&gadget(2), "apply -f -").says("created");
    k.run(&format!("get gadgets.{group}")).says("NAME SIZE").says("g 2");
    k.fail_with(&gadget(4), "apply -f -").says("spec.size in body should be less than or equal to 3");
    k.run(&format!("delete crd gadgets.{group} --timeout=120s")).says("deleted");
    until_fails(k, &format!("get gadgets.{group}"));
}

fn authority(k: &Kubectl) {
    k.run("auth can-i create pods").is("yes");
    k.fail("auth can-i list pods --as=bob").is("no");
    k.run("create role reader --verb=get,list --resource=pods");
    k.run("create rolebinding readers --role=reader --user=bob");
    // Rules hold a moment after they are written.
    k.until("auth can-i list pods --as=bob").is("yes");
    k.fail("get secrets --as=bob").says(r#"secrets is forbidden: User "bob" cannot list resource "secrets""#);
}

fn wait_and_delete(k: &Kubectl) {
    k.run("wait configmap/settings --for=jsonpath='{.data.a}'=1 --timeout=60s").says("condition met");
    for policy in ["background", "foreground", "orphan"] {
        k.run(&format!("create configmap owner-{policy}"));
        let uid = k.run(&format!("get configmap owner-{policy} -o jsonpath='{{.metadata.uid}}'")).stdout;
        let dependent = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: dependent-{policy}\n  ownerReferences:\n  \
             - {{apiVersion: v1, kind: ConfigMap, name: owner-{policy}, uid: {uid}, blockOwnerDeletion: true}}\n"
        );
        k.run_with(&dependent, "create -f -");
        k.run(&format!("delete configmap owner-{policy} --cascade={policy} --timeout=120s")).says("deleted");
    }
    k.run("wait configmap/dependent-background --for=delete --timeout=120s");
    k.run("get configmap dependent-orphan -o jsonpath='{.metadata.ownerReferences}'").is("");
    k.run("delete pod one --now").says("deleted");
    k.run(&format!("delete namespace {} --timeout=180s", k.namespace)).says("deleted");
}
