//! `kubectl describe` for what people look at most.

use super::{DEPLOYMENT, case};
use crate::harness::Kubectl;

case![workloads, everything_else];

fn workloads(k: &Kubectl) {
    k.run_with(DEPLOYMENT, "create -f -");
    k.run("describe deployment app")
        .says("StrategyType:           RollingUpdate")
        .says("25% max unavailable, 25% max surge")
        .says("Image:       nginx:1");
    k.run("run one --image=nginx --env=A=b");
    k.run("describe pod one")
        .says("Status:           Pending")
        .says("Image:        nginx")
        .says("A:  b")
        .says("QoS Class:                   BestEffort")
        .says("node.kubernetes.io/not-ready:NoExecute op=Exists for 300s")
        .says("/var/run/secrets/kubernetes.io/serviceaccount");
    k.run("create job once --image=busybox");
    k.run("describe job once").says("Parallelism: 1").says("Completion Mode:  NonIndexed");
    k.run("create cronjob often --image=busybox --schedule='*/5 * * * *'");
    k.run("describe cronjob often").says("Concurrency Policy:            Allow");
    k.run("autoscale deployment app --min=1 --max=3 --cpu-percent=50");
    k.run("describe hpa app").says("<unknown> / 50%").says("Max replicas:");
    k.fail("describe pod nope").says(r#"pods "nope" not found"#);
}

fn everything_else(k: &Kubectl) {
    k.run("create configmap settings --from-literal=a=1");
    k.run("describe configmap settings").says("Data\n====\na:\n----\n1\n");
    k.run("create secret generic login --from-literal=user=me");
    k.run("describe secret login").says("user:  2 bytes");
    k.run("create service clusterip inside --tcp=80:8080");
    k.run("describe service inside")
        .says("TargetPort:")
        .says("8080/TCP")
        .says("IP Family Policy:")
        .says("SingleStack");
    k.run("create ingress hosts --rule='foo.example/bar=inside:80'");
    k.run("describe ingress hosts").says("foo.example").says("inside:80");
    k.run("create role reader --verb=get --resource=pods");
    k.run("describe role reader").says("pods       []                 []              [get]");
    k.run("create rolebinding readers --role=reader --user=jane");
    k.run("describe rolebinding readers").says("User  jane");
    k.run("create quota few --hard=pods=10");
    k.run("describe quota few").says("Resource    Used  Hard");
    k.run("create pdb guard --selector=app=web --min-available=1");
    k.run("describe pdb guard").says("Min available:  1");
    k.run(&format!("describe namespace {}", k.namespace)).says("Status:       Active").says("Name:     few");
    k.run("describe serviceaccount default").says("Name:                default");
    k.run("describe priorityclass system-node-critical").says("2000001000");
    let event = format!(
        "apiVersion: v1\nkind: Event\nmetadata: {{name: told}}\ninvolvedObject: {{apiVersion: v1, kind: ConfigMap, namespace: {}, name: settings}}\n\
         reason: Told\nmessage: something happened\ntype: Normal\nsource: {{component: test}}\n\
         firstTimestamp: '2026-01-01T00:00:00Z'\nlastTimestamp: '2026-01-01T00:00:00Z'\ncount: 2\n",
        k.namespace
    );
    k.run_with(&event, "create -f -");
    k.run("get events --field-selector involvedObject.name=settings")
        .says("configmap/settings")
        .says("something happened");
    k.run("events --for configmap/settings").says("something happened");
}
