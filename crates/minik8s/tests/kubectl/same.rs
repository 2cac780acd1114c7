//! What our program prints is what kubectl prints, byte for byte.

use crate::DEPLOYMENT;
use crate::harness::{Kubectl, Server, installed, ours};

/// Commands whose output has not changed between versions of kubectl, and does not depend on the moment.
const COMMANDS: &[&str] = &[
    "get configmaps,secrets,services,deployments -o name",
    "get configmap settings -o yaml",
    "get configmap settings -o json",
    "get deployment app -o yaml",
    "get deployments -o json",
    "get service inside -o jsonpath='{.spec.ports[0]}{\"\\n\"}{.spec.selector}'",
    "get configmaps -l color=red -o jsonpath='{range .items[*]}{.metadata.name}={.data.a} {end}'",
    "get configmaps settings other -o custom-columns=NAME:.metadata.name,DATA:.data,COLOR:.metadata.labels.color",
    "get configmap settings -o go-template='{{range $k, $v := .data}}{{$k}}={{$v}};{{end}}'",
    "get deployments,services --no-headers -o custom-columns=KIND:.kind,NAME:.metadata.name",
    "get configmaps --sort-by=.data.a -o name",
    "get configmap nope",
    "get nonsense",
    "get pods",
    "get clusterroles view -o yaml",
    "api-resources --api-group=apps",
    "api-versions",
    "describe configmap other",
    "describe secret login",
    "describe service inside",
    "describe role reader",
    "describe rolebinding readers",
    "describe deployment app",
    "describe priorityclass system-node-critical",
    "explain deployment",
    "explain pod.spec.containers.resources",
    "explain deployment.spec.strategy --recursive",
    "create deployment web --image=nginx --replicas=2 --port=80 --dry-run=client -o name",
    "create quota few --hard=pods=10,cpu=4 --dry-run=server",
    "auth can-i create pods",
    "auth can-i create pods --as=bob",
    "auth can-i --list",
    "set env deployment/app --list",
    "label configmap settings --list",
    "rollout history deployment/app",
    "config view",
    "config get-contexts",
    "config current-context",
];

#[test]
fn byte_for_byte() {
    let server = Server::start();
    let kubectl = installed().pop().expect("a kubectl");
    let theirs = Kubectl::new(&server, &kubectl, "same");
    prepare(&theirs);
    let mut own = Kubectl::new(&server, &ours(&server), "other");
    own.namespace.clone_from(&theirs.namespace);
    let mut different = Vec::new();
    for command in COMMANDS {
        // An event's age may change between the two: asked again, they agree.
        let mut tries = (0..4).map(|_| compare(&theirs, &own, command));
        if let Err(difference) = tries.by_ref().next().expect("a try")
            && !tries.any(|again| again.is_ok())
        {
            different.push(difference);
        }
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n\n"));
}

fn compare(theirs: &Kubectl, own: &Kubectl, command: &str) -> Result<(), String> {
    let (expected, printed) = (theirs.output(command, ""), own.output(command, ""));
    let same = (expected.code, &expected.stdout, &expected.stderr)
        == (printed.code, &printed.stdout, &printed.stderr);
    if same { Ok(()) } else { Err(format!("{expected:#?}\n{printed:#?}")) }
}

fn prepare(k: &Kubectl) {
    k.run("create configmap settings --from-literal=a=1 --from-literal=text='two words: #1'");
    k.run("create configmap other --from-literal=a=2");
    k.run("label configmap settings color=red");
    k.run("create secret generic login --from-literal=user=me");
    k.run("create service clusterip inside --tcp=80:8080");
    k.run("create role reader --verb=get,list --resource=pods,deployments.apps");
    k.run("create rolebinding readers --role=reader --user=jane");
    k.run_with(DEPLOYMENT, "create -f -");
    k.run("rollout status deployment/app --timeout=20s");
}
