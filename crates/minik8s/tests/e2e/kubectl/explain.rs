//! `kubectl explain`: the schemas, as people read them.

use super::case;
use crate::harness::Kubectl;

case![built_in_kinds];

fn built_in_kinds(k: &Kubectl) {
    k.run("explain pod")
        .says("KIND:")
        .says("VERSION:")
        .says("Pod is a collection of containers")
        .says("spec");
    k.run("explain pod.spec.containers.resources")
        .says("limits")
        .says("Requests describes the minimum amount");
    k.run("explain deployment.spec.strategy --recursive")
        .says("rollingUpdate")
        .says("maxSurge")
        .says("maxUnavailable");
    k.run("explain hpa.spec").says("maxReplicas").says("metrics");
    k.run("explain hpa.spec --api-version=autoscaling/v1").says("targetCPUUtilizationPercentage");
    k.run("explain ingress.spec.rules.http.paths.backend.service.port").says("number");
    k.run("explain crd.spec.versions.schema").says("openAPIV3Schema");
    k.fail("explain pod.spec.nonsense").says(r#"field "nonsense" does not exist"#);
    k.fail("explain nonsense").says("nonsense");
}
