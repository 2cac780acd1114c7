//! The pod that fetches packages. It is one of the function's namespace, with less rights than an instance: what it fetches
//! may run in it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minik8s_meta::Quantity;
use minik8s_meta::function::{BUILD_LABEL, Function, PORT, REVISION_LABEL, runtime};
use minik8s_runtime::owner_reference;
use serde_json::json;

use super::inputs::Inputs;
use crate::revision::{self, Code};

/// The container of every such pod.
pub const CONTAINER: &str = "build";
/// After which it is given up.
const LONGEST: i64 = 900;
/// Package clients need more than most functions do.
const LEAST_MEMORY: &str = "512Mi";
/// Of what it fetches and unpacks.
const MOST_SCRATCH: &str = "2Gi";

/// `settings`: what the operators of the cluster and of the namespace have set.
pub fn pod(
    function: &Function,
    hash: &str,
    inputs: &Inputs,
    code: &Code,
    settings: &BTreeMap<String, String>,
) -> Option<Pod> {
    let name = function.metadata.name.as_deref().unwrap_or_default();
    let runtime = function.spec.runtime.as_deref().and_then(runtime)?;
    let mut env = vec![
        json!({"name": "FN_BUILD", "value": inputs.told.to_string()}),
        // Known to those who may read the namespace's pods: nobody else is given the packages.
        json!({"name": "FN_BUILD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}),
    ];
    if !settings.is_empty() {
        env.push(json!({"name": "FN_SETTINGS", "value": json!(settings).to_string()}));
    }
    let pod = json!({
        "metadata": {},
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LONGEST,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "securityContext": revision::security(),
            "containers": [{
                "name": CONTAINER,
                "image": runtime.builder,
                "env": env,
                "ports": [{"name": "http", "containerPort": PORT}],
                "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1, "failureThreshold": 1},
                "resources": resources(function.spec.resources.clone().unwrap_or_default()),
                "securityContext": {
                    "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true,
                },
                "volumeMounts": [
                    {"name": "code", "mountPath": "/fn/code", "readOnly": true},
                    {"name": "scratch", "mountPath": "/tmp"},
                ],
            }],
            "volumes": [
                revision::code_volume(function, name, hash, code)?,
                {"name": "scratch", "emptyDir": {"sizeLimit": MOST_SCRATCH}},
            ],
        },
    });
    let mut pod: Pod = serde_json::from_value(pod).ok()?;
    let labels = [(BUILD_LABEL, inputs.key.as_str()), (REVISION_LABEL, hash)];
    pod.metadata = ObjectMeta {
        generate_name: Some(format!("{name}-build-")),
        namespace: function.metadata.namespace.clone(),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        owner_references: Some(vec![owner_reference(function)]),
        ..ObjectMeta::default()
    };
    Some(pod)
}

/// As an instance has them, so that quotas and limits apply, but with enough memory.
fn resources(mut resources: ResourceRequirements) -> ResourceRequirements {
    let bytes = |text: &str| Quantity::parse(text).map_or(0, |quantity| quantity.value());
    if let Some(memory) = resources.limits.as_mut().and_then(|limits| limits.get_mut("memory"))
        && bytes(&memory.0) < bytes(LEAST_MEMORY)
    {
        *memory = WireQuantity(LEAST_MEMORY.to_owned());
    }
    resources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_has_the_memory_it_needs() {
        let check = |given: Option<&str>, expected: Option<&str>| {
            let limits =
                given.map(|text| BTreeMap::from([("memory".to_owned(), WireQuantity(text.to_owned()))]));
            let made = resources(ResourceRequirements { limits, ..ResourceRequirements::default() });
            let found = made.limits.and_then(|limits| limits.get("memory").map(|memory| memory.0.clone()));
            assert_eq!(found.as_deref(), expected, "{given:?}");
        };
        check(None, None);
        check(Some("64Mi"), Some("512Mi"));
        check(Some("1Gi"), Some("1Gi"));
    }
}
