//! `kubectl get` in every form of output and selection, and watches.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use super::case;
use crate::harness::Kubectl;

case![forms_of_output, selection, tables_people_know, watching];

fn three_config_maps(k: &Kubectl) {
    for (name, size) in [("b", "2"), ("a", "1"), ("c", "3")] {
        k.run(&format!("create configmap {name} --from-literal=size={size}"));
        k.run(&format!("label configmap {name} size={size} app=x"));
    }
}

fn forms_of_output(k: &Kubectl) {
    three_config_maps(k);
    let table = k.run("get configmaps -l app=x");
    assert_eq!(table.header(), ["NAME", "DATA", "AGE"]);
    assert_eq!(table.stdout.lines().count(), 4, "{table:#?}");
    k.run("get configmaps -l app=x -o name").is("configmap/a\nconfigmap/b\nconfigmap/c");
    k.run("get configmap a --no-headers").says("a 1 ");
    k.run("get configmap a --show-labels").says("LABELS").says("app=x,size=1");
    k.run("get configmap a -L app").says("APP").says("x");
    k.run("get configmap a -o yaml").says("kind: ConfigMap").says("size: \"1\"").silent_on("managedFields");
    k.run("get configmap a -o yaml --show-managed-fields").says("manager: kubectl-create");
    let object = k.run("get configmap a -o json").json();
    assert_eq!((&object["kind"], &object["data"]["size"]), (&"ConfigMap".into(), &"1".into()));
    let list = k.run("get configmaps -l app=x -o json").json();
    assert_eq!((&list["kind"], list["items"].as_array().map(Vec::len)), (&"List".into(), Some(3)));
    k.run("get configmaps -l app=x -o jsonpath='{.items[*].data.size}'").is("1 2 3");
    k.run("get configmaps -l app=x -o jsonpath='{range .items[?(@.data.size==\"2\")]}{.metadata.name}{end}'")
        .is("b");
    k.run("get configmaps -l app=x -o custom-columns=WHO:.metadata.name,HOW:.data.size")
        .is("WHO   HOW\na     1\nb     2\nc     3");
    k.run("get configmap a -o go-template='{{.metadata.name}}={{.data.size}}'").is("a=1");
    k.run("get configmap/a serviceaccount/default").says("configmap/a").says("serviceaccount/default");
}

fn selection(k: &Kubectl) {
    three_config_maps(k);
    k.run("get configmaps -l 'size in (1,2)' -o name").is("configmap/a\nconfigmap/b");
    k.run("get configmaps -l 'size notin (1,2),app' -o name").is("configmap/c");
    k.run("get configmaps -l '!size,app' -o name").is("");
    k.run("get configmaps -l app=x,size!=1 -o name").is("configmap/b\nconfigmap/c");
    k.run("get configmaps --field-selector metadata.name=b -o name").is("configmap/b");
    k.run("get configmaps -l app=x --field-selector metadata.name!=b -o name").is("configmap/a\nconfigmap/c");
    k.run("get configmaps -l app=x --sort-by={.data.size} -o name")
        .is("configmap/a\nconfigmap/b\nconfigmap/c");
    k.run("get configmaps -l app=x --chunk-size=1 -o name").is("configmap/a\nconfigmap/b\nconfigmap/c");
    k.run("get configmaps -A -l app=x,size=1").says("NAMESPACE").says(&k.namespace);
    k.run("get secrets").says(&format!("No resources found in {} namespace.", k.namespace));
    k.run("get configmap nope --ignore-not-found").is("");
    k.fail("get configmap nope").says(r#"Error from server (NotFound): configmaps "nope" not found"#);
    k.fail("get configmap a -n nowhere").says(r#"namespaces "nowhere" not found"#);
    k.fail("get nonsense").says(r#"the server doesn't have a resource type "nonsense""#);
    k.fail("get configmaps -l 'a=('").says("unable to parse requirement: found '(', expected: identifier");
    k.fail("get configmaps --field-selector data.size=1").says("field label not supported: data.size");
}

fn tables_people_know(k: &Kubectl) {
    k.run("run one --image=nginx --labels=app=one");
    k.run("create deployment web --image=nginx --replicas=0");
    k.run("create job once --image=busybox");
    k.run("create cronjob often --image=busybox --schedule='@daily'");
    k.run("autoscale deployment web --min=1 --max=3 --cpu-percent=50");
    k.run("create pdb guard --selector=app=web --min-available=1");
    for (what, header) in [
        ("pods", "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES"),
        ("deployments", "NAME READY UP-TO-DATE AVAILABLE AGE CONTAINERS IMAGES SELECTOR"),
        ("jobs", "NAME STATUS COMPLETIONS DURATION AGE CONTAINERS IMAGES SELECTOR"),
        ("cronjobs", "NAME SCHEDULE TIMEZONE SUSPEND ACTIVE LAST SCHEDULE AGE CONTAINERS IMAGES SELECTOR"),
        ("hpa", "NAME REFERENCE TARGETS MINPODS MAXPODS REPLICAS AGE"),
        ("pdb", "NAME MIN AVAILABLE MAX UNAVAILABLE ALLOWED DISRUPTIONS AGE"),
        ("serviceaccounts", "NAME SECRETS AGE"),
        ("namespaces", "NAME STATUS AGE"),
        ("clusterroles", "NAME CREATED AT"),
        ("priorityclasses", "NAME VALUE GLOBAL-DEFAULT AGE PREEMPTIONPOLICY"),
    ] {
        assert_eq!(k.run(&format!("get {what} -o wide")).header().join(" "), header, "{what}");
    }
    k.run("get pod one").says("0/1     Pending   0");
    k.run("get hpa web").says("Deployment/web").says("<unknown>/50%");
    k.run("get pods --field-selector status.phase=Pending,spec.restartPolicy=Always -l app=one -o name")
        .is("pod/one");
    k.run("get pods --field-selector status.phase=Running -o name").is("");
    k.run("get all")
        .says("pod/one")
        .says("deployment.apps/web")
        .says("job.batch/once")
        .says("cronjob.batch/often");
    k.run("get deployment web --subresource=scale").says("DESIRED");
}

fn watching(k: &Kubectl) {
    k.run("create configmap seen --from-literal=a=1");
    let mut watch = k
        .command()
        .args([
            "get",
            "configmaps",
            "--watch",
            "--output-watch-events",
            "--field-selector=metadata.name=seen",
        ])
        .args(["-o", "jsonpath={.type} {.object.data.a}{\"\\n\"}"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kubectl starts");
    let lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let mut lines = lines.map(|line| line.expect("text"));
    // It has begun before the changes, and shows each of them.
    assert_eq!(lines.next().as_deref(), Some("ADDED 1"));
    k.run("patch configmap seen -p '{\"data\":{\"a\":\"2\"}}'");
    k.run("create configmap unseen");
    k.run("delete configmap seen");
    let changes: Vec<String> = lines.by_ref().take(2).collect();
    assert_eq!(changes, ["MODIFIED 2", "DELETED 2"]);
    // Time for what is not to be shown.
    std::thread::sleep(Duration::from_millis(300));
    watch.kill().expect("kubectl is still there");
    assert_eq!(lines.collect::<Vec<_>>(), [""; 0]);
    let ended = watch.wait_with_output().expect("kubectl ends");
    assert!(ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
    k.run("get configmaps --watch --request-timeout=5s --field-selector=metadata.name=unseen -o name")
        .says("configmap/unseen");
}
