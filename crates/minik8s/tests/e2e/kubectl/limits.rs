//! ResourceQuota and LimitRange: what a namespace may use.

use super::case;
use crate::harness::Kubectl;

case![quotas, limit_ranges];

fn quotas(k: &Kubectl) {
    k.run("create quota few --hard=services=1,count/secrets=1,requests.cpu=1");
    k.run("create service clusterip one --tcp=80");
    k.fail("create service clusterip two --tcp=80")
        .says("exceeded quota: few, requested: services=1, used: services=1, limited: services=1");
    k.run("create secret generic one");
    k.fail("create secret generic two").says("exceeded quota: few, requested: count/secrets=1");
    let pod = |name: &str, cpu: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]}}\n"
        )
    };
    k.fail_with(&pod("large", "1500m"), "create -f -")
        .says("requested: requests.cpu=1500m, used: requests.cpu=0, limited: requests.cpu=1");
    k.run_with(&pod("small", "600m"), "create -f -");
    k.fail_with(&pod("again", "600m"), "create -f -").says("used: requests.cpu=600m");
    k.run("delete pod small --now");
    k.fail("run none --image=i").says("must specify requests.cpu");
}

fn limit_ranges(k: &Kubectl) {
    let range = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: sizes}\nspec:\n  limits:\n  - type: Container\n    \
        default: {cpu: 500m}\n    defaultRequest: {cpu: 100m}\n    max: {cpu: '1'}\n    min: {cpu: 50m}\n";
    k.run_with(range, "create -f -").says("limitrange/sizes created");
    k.run("get limits").says("sizes");
    k.run("describe limits sizes").says("Container").says("cpu").says("500m");
    k.run("run plain --image=i");
    k.run("get pod plain -o jsonpath='{.spec.containers[0].resources}'")
        .is(r#"{"limits":{"cpu":"500m"},"requests":{"cpu":"100m"}}"#);
    let pod = |cpu: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: own}}\nspec: {{containers: [{{name: c, image: i, resources: {{limits: {{cpu: {cpu}}}, requests: {{cpu: {cpu}}}}}}}]}}\n"
        )
    };
    k.fail_with(&pod("'2'"), "create -f -").says("maximum cpu usage per Container is 1, but limit is 2");
    k.fail_with(&pod("10m"), "create -f -")
        .says("minimum cpu usage per Container is 50m, but request is 10m");
    k.run_with(&pod("200m"), "create -f -");
}
