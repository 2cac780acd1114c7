//! Commands that change objects which are there: label, annotate, edit, replace, scale, set, wait.

use super::{DEPLOYMENT, case};
use crate::harness::Kubectl;

case![labels_and_annotations, edit_and_replace, scale_and_set, waiting];

fn labels_and_annotations(k: &Kubectl) {
    k.run("create configmap one");
    k.run("create configmap two");
    k.run("label configmap one color=red").says("configmap/one labeled");
    k.fail("label configmap one color=blue")
        .says("'color' already has a value (red), and --overwrite is false");
    k.run("label configmap one color=blue --overwrite").says("configmap/one labeled");
    k.run("label configmaps one two size=s");
    k.run("get configmaps -l size=s -o name").is("configmap/one\nconfigmap/two");
    k.run("label configmap one size-").says("configmap/one unlabeled");
    k.run("label configmap one --list").says("color=blue").silent_on("size");
    k.fail("label configmap one --overwrite 'bad key=x'").says("metadata.labels: Invalid value");
    k.run("annotate configmap one note='hello world'").says("configmap/one annotate");
    k.run("get configmap one -o jsonpath='{.metadata.annotations.note}'").is("hello world");
    k.run("annotate configmap one note-");
    k.run("get configmap one -o jsonpath='{.metadata.annotations}'").is("");
    k.fail("label configmap one x=y --resource-version=1").says("the object has been modified");
}

fn edit_and_replace(k: &Kubectl) {
    k.run("create configmap one --from-literal=key=old");
    let edit = |script: &str| {
        let mut command = k.command();
        command.args(["edit", "configmap", "one"]).env("EDITOR", format!("sed -i {script}"));
        let output = command.output().expect("kubectl starts");
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let (success, said) = edit("s/old/new/");
    assert!(success && said.contains("configmap/one edited"), "{said}");
    k.run("get configmap one -o jsonpath='{.data.key}'").is("new");
    let (success, said) = edit("s/nothing/nothing/");
    assert!(success && said.contains("Edit cancelled, no changes made"), "{said}");
    let config = |more: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: one}}\n{more}");
    k.run_with(&config("data: {other: x}"), "replace -f -").says("configmap/one replaced");
    k.run("get configmap one -o jsonpath='{.data}'").is(r#"{"other":"x"}"#);
    let uid = k.run("get configmap one -o jsonpath='{.metadata.uid}'").stdout;
    k.run_with(&config("immutable: true"), "replace --force -f -").says("configmap/one replaced");
    k.run("get configmap one -o jsonpath='{.metadata.uid}'").silent_on(&uid);
    k.fail_with(&config("immutable: true\ndata: {a: b}"), "replace -f -")
        .says("field is immutable when `immutable` is set");
    k.fail_with(&config("").replace("one", "two"), "replace -f -").says(r#"configmaps "two" not found"#);
    let stale = config("").replace("name: one", "name: one, resourceVersion: '1'");
    k.fail_with(&stale, "replace -f -")
        .says("the object has been modified; please apply your changes to the latest version");
}

fn scale_and_set(k: &Kubectl) {
    k.run_with(DEPLOYMENT, "create -f -");
    k.run("scale deployment app --replicas=2").says("deployment.apps/app scaled");
    k.run("get deployment app -o jsonpath='{.spec.replicas}'").is("2");
    k.fail("scale deployment app --replicas=3 --current-replicas=9").says("Expected replicas to be 9, was 2");
    k.fail("scale configmap nope --replicas=1");
    k.run("set image deployment/app main=nginx:9 side=busybox:9").says("image updated");
    k.run("set env deployment/app Z=26 A-").says("env updated");
    k.run("set env deployment/app --list").says("Z=26").says("B=2").silent_on("A=1");
    k.run("set resources deployment/app -c main --limits=cpu=1,memory=1Gi --requests=cpu=100m")
        .says("resource requirements updated");
    k.run("get deployment app -o jsonpath='{.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].resources}'")
        .is(r#"nginx:9 {"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"100m"}}"#);
    k.fail("set resources deployment/app -c main --limits=cpu=1 --requests=cpu=2")
        .says("must be less than or equal to cpu limit");
    k.run("set serviceaccount deployment app default").says("serviceaccount updated");
    k.run("create service clusterip app --tcp=80");
    k.run("set selector service app a=b").says("selector updated");
    k.run("create role reader --verb=get --resource=pods");
    k.run("create rolebinding readers --role=reader --user=one");
    k.run("set subject rolebinding readers --user=two").says("subjects updated");
    k.run("get rolebinding readers -o jsonpath='{.subjects[*].name}'").is("one two");
    k.run("autoscale deployment app --min=1 --max=3 --cpu-percent=50")
        .says("horizontalpodautoscaler.autoscaling/app autoscaled");
    k.run("get hpa app -o jsonpath='{.spec.metrics[0].resource.target}'")
        .is(r#"{"averageUtilization":50,"type":"Utilization"}"#);
    k.run("get horizontalpodautoscalers.v1.autoscaling app -o jsonpath='{.spec.targetCPUUtilizationPercentage}'").is("50");
    k.run("rollout pause deployment/app").says("deployment.apps/app paused");
    k.run("rollout resume deployment/app").says("deployment.apps/app resumed");
    k.run("rollout restart deployment/app").says("deployment.apps/app restarted");
    k.run("get deployment app -o jsonpath='{.spec.template.metadata.annotations}'")
        .says("kubectl.kubernetes.io/restartedAt");
}

fn waiting(k: &Kubectl) {
    k.run("create configmap one --from-literal=a=1");
    k.run("wait configmap/one --for=jsonpath='{.data.a}'=1 --timeout=60s")
        .says("configmap/one condition met");
    k.fail("wait configmap/one --for=jsonpath='{.data.a}'=2 --timeout=1s")
        .says("timed out waiting for the condition on configmaps/one");
    k.run("wait configmap/gone --for=delete --timeout=60s");
    let waiting = k
        .command()
        .args(["wait", "configmap/one", "--for=delete", "--timeout=120s"])
        .spawn()
        .expect("kubectl starts");
    k.run("delete configmap one");
    assert!(waiting.wait_with_output().expect("kubectl ends").status.success());
    k.run("run one --image=nginx");
    let mut command = k.command();
    let waiting = command
        .args(["wait", "pod/one", "--for=condition=Ready", "--timeout=120s"])
        .spawn()
        .expect("kubectl starts");
    k.run(r#"patch pod one --subresource=status --type=merge -p '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'"#);
    assert!(waiting.wait_with_output().expect("kubectl ends").status.success());
}
