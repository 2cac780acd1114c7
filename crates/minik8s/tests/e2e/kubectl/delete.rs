//! `kubectl delete`: what is selected, what depends on it, and how long it takes.

use super::case;
use crate::harness::Kubectl;

case![selection, finalizers_hold, grace_periods, every_cascade];

fn selection(k: &Kubectl) {
    for name in ["a", "b", "c", "d"] {
        k.run(&format!("create configmap {name}"));
        k.run(&format!("label configmap {name} kind=x"));
    }
    k.run("delete configmap a").says("configmap \"a\" deleted");
    k.fail("delete configmap a").says(r#"Error from server (NotFound): configmaps "a" not found"#);
    k.run("delete configmap a --ignore-not-found").is("");
    k.run("delete configmap b --dry-run=server").says("deleted (server dry run)");
    k.run("delete configmap/b secret/none --ignore-not-found").says("configmap \"b\" deleted");
    k.run("delete configmaps -l kind=x --field-selector metadata.name=c").says("\"c\" deleted");
    k.run("get configmaps -l kind=x -o name").is("configmap/d");
    k.run("delete configmaps -l kind=x").says("\"d\" deleted");
    k.run("delete configmaps -l kind=x").says("No resources found");
    let object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: file}\n";
    k.run_with(object, "create -f -");
    k.run_with(object, "delete -f -").says("configmap \"file\" deleted");
    k.run("create secret generic one");
    k.run("delete secrets --all").says("secret \"one\" deleted");
}

fn finalizers_hold(k: &Kubectl) {
    k.run_with(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, finalizers: [example.com/hold]}\n",
        "create -f -",
    );
    k.run("delete configmap held --wait=false").says("configmap \"held\" deleted");
    k.run("get configmap held -o jsonpath='{.metadata.deletionTimestamp}'").says("T");
    k.fail(r#"patch configmap held --type=merge -p '{"metadata":{"finalizers":["example.com/hold","example.com/more"]}}'"#)
        .says("no new finalizers can be added if the object is being deleted");
    k.run(r#"patch configmap held --type=merge -p '{"metadata":{"finalizers":null}}'"#);
    k.fail("get configmap held").says("not found");
}

fn grace_periods(k: &Kubectl) {
    let node = k.unique("far");
    k.run_with(&format!("apiVersion: v1\nkind: Node\nmetadata: {{name: {node}}}\n"), "create -f -");
    k.run("run bound --image=nginx");
    bind(k, "bound", &node);
    k.run("delete pod bound --wait=false");
    k.run("get pod bound -o jsonpath='{.metadata.deletionGracePeriodSeconds}'").is("30");
    k.run("get pod bound").says("Terminating");
    k.run("delete pod bound --grace-period=5 --wait=false");
    k.run("get pod bound -o jsonpath='{.metadata.deletionGracePeriodSeconds}'").is("5");
    k.run("delete pod bound --grace-period=0 --force").says("force deleted");
    k.fail("get pod bound").says("not found");
    // Nothing runs yet, so nothing has to end.
    k.run("run unbound --image=nginx");
    k.run("delete pod unbound --timeout=120s").says("deleted");
    k.fail("get pod unbound");
}

/// Puts a pod on a node where nobody will run it.
fn bind(k: &Kubectl, pod: &str, node: &str) {
    let path = format!("/api/v1/namespaces/{}/pods/{pod}/binding", k.namespace);
    let binding = format!(
        r#"{{"apiVersion":"v1","kind":"Binding","metadata":{{"name":"{pod}"}},"target":{{"apiVersion":"v1","kind":"Node","name":"{node}"}}}}"#
    );
    k.run_with(&binding, &format!("create --raw {path} -f -"));
}

fn every_cascade(k: &Kubectl) {
    for policy in ["background", "foreground", "orphan"] {
        owner_and_dependent(k, policy);
        k.run(&format!("delete configmap owner-{policy} --cascade={policy} --timeout=120s")).says("deleted");
        k.fail(&format!("get configmap owner-{policy}"));
    }
    k.run("wait configmap/dependent-background --for=delete --timeout=120s");
    k.fail("get configmap dependent-foreground").says("not found");
    k.run("get configmap dependent-orphan -o jsonpath='{.metadata.ownerReferences}'").is("");
    k.fail("delete configmap any --cascade=sideways").says("invalid cascade value");
}

/// Two objects of which one owns the other.
fn owner_and_dependent(k: &Kubectl, name: &str) {
    k.run(&format!("create configmap owner-{name}"));
    let uid = k.run(&format!("get configmap owner-{name} -o jsonpath='{{.metadata.uid}}'")).stdout;
    let dependent = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: dependent-{name}\n  ownerReferences:\n  \
         - {{apiVersion: v1, kind: ConfigMap, name: owner-{name}, uid: {uid}, blockOwnerDeletion: true}}\n"
    );
    k.run_with(&dependent, "create -f -");
}
