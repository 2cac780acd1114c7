//! `kubectl patch` in every form.

use super::{DEPLOYMENT, case};
use crate::harness::Kubectl;

case![strategic_merge, merge_and_json, subresources];

fn strategic_merge(k: &Kubectl) {
    k.run_with(DEPLOYMENT, "create -f -");
    let containers = |containers: &str| {
        format!(
            "patch deployment app -p '{{\"spec\":{{\"template\":{{\"spec\":{{\"containers\":{containers}}}}}}}}}'"
        )
    };
    k.run(&containers(r#"[{"name":"side","$patch":"delete"}]"#)).says("deployment.apps/app patched");
    k.run("get deployment app -o jsonpath='{.spec.template.spec.containers[*].name}'").is("main");
    k.run(&containers(r#"[{"name":"main","env":[{"name":"A","value":"9"},{"name":"C","value":"3"}]}]"#));
    k.run("get deployment app -o jsonpath='{range .spec.template.spec.containers[0].env[*]}{.name}={.value} {end}'")
        .says("A=9").says("B=2").says("C=3");
    k.run(&containers(r#"[{"name":"main","env":[{"$patch":"replace"},{"name":"D","value":"4"}]}]"#));
    k.run("get deployment app -o jsonpath='{.spec.template.spec.containers[0].env[*].name}'").is("D");
    k.run(r#"patch deployment app -p '{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}'"#);
    k.run("get deployment app -o jsonpath='{.spec.strategy}'").is(r#"{"type":"Recreate"}"#);
    // Else its controller could be what changes it.
    k.run("rollout status deployment app --timeout=60s");
    k.run("patch deployment app -p '{}'").says("deployment.apps/app patched (no change)");
    k.run("patch deployment app --dry-run=server -p '{\"spec\":{\"replicas\":9}}'");
    k.run("get deployment app -o jsonpath='{.spec.replicas}'").is("0");
}

fn merge_and_json(k: &Kubectl) {
    k.run_with(DEPLOYMENT, "create -f -");
    k.run(r#"patch deployment app --type=merge -p '{"metadata":{"labels":{"new":"x","tier":null}}}'"#);
    k.run("get deployment app -o jsonpath='{.metadata.labels}'").is(r#"{"app":"app","new":"x"}"#);
    k.run(
        r#"patch deployment app --type=json -p '[{"op":"test","path":"/spec/replicas","value":0},
        {"op":"add","path":"/spec/template/spec/containers/0/args","value":["x"]},
        {"op":"remove","path":"/spec/template/spec/containers/1"}]'"#,
    );
    k.run("get deployment app -o jsonpath='{.spec.template.spec.containers[*].name} {.spec.template.spec.containers[0].args}'")
        .is(r#"main ["x"]"#);
    k.fail(r#"patch deployment app --type=json -p '[{"op":"test","path":"/spec/replicas","value":7}]'"#)
        .says("The request is invalid");
    k.fail(r#"patch deployment app --type=json -p '[{"op":"remove","path":"/spec/nothing"}]'"#)
        .says("nothing");
    k.fail(r#"patch deployment app --type=json -p '{"a":1}'"#).says("BadRequest");
    k.fail(r#"patch deployment app -p '{"spec":{"replicas":"many"}}'"#).says("spec.replicas");
    k.fail(r#"patch deployment app -p '{"spec":{"replicas":-1}}'"#)
        .says("The Deployment \"app\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0");
    k.fail(r#"patch deployment app -p '{"spec":{"selector":{"matchLabels":{"app":"other"}}}}'"#)
        .says("spec.selector");
    k.fail("patch deployment nope -p '{}'").says(r#"deployments.apps "nope" not found"#);
    k.run(r#"patch deployment app -p '{"spec":{"replicass":1}}'"#)
        .says(r#"Warning: unknown field "spec.replicass", did you mean "spec.replicas"?"#);
}

const BALANCED: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: LoadBalancer, loadBalancerClass: example.com/other, selector: {app: web}, ports: [{port: 80}]}
"#;

fn subresources(k: &Kubectl) {
    // Of somebody else's class, so that no controller of ours writes.
    k.run_with(BALANCED, "create -f -");
    k.run(r#"patch service web --subresource=status --type=merge
        -p '{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}},"spec":{"sessionAffinity":"ClientIP"}}'"#);
    k.run("get service web -o jsonpath='{.status.loadBalancer.ingress[0].ip} {.spec.sessionAffinity}'")
        .is("192.0.2.1 None");
    k.run(r#"patch service web --type=merge -p '{"status":{"loadBalancer":{"ingress":null}}}'"#);
    k.run("get service web").says("192.0.2.1");
    k.run_with(DEPLOYMENT, "create -f -");
    k.run(r#"patch deployment app --subresource=scale --type=merge -p '{"spec":{"replicas":2}}'"#);
    k.run("get deployment app -o jsonpath='{.spec.replicas}'").is("2");
    k.run("get deployment app --subresource=scale -o jsonpath='{.kind} {.spec.replicas} {.status.selector}'")
        .is("Scale 2 app=app");
}
