//! Pods out of templates.

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use minik8s_runtime::{Object, OutcomeEvents, Regarding, owner_reference};

/// A pod as the template wants it, owned by `owner` and named by the server (`OWNER-xxxxx`).
pub fn pod_for<O: Object>(owner: &O, template: &PodTemplateSpec) -> Pod {
    let reference = owner_reference(owner);
    let prefix = format!("{}-", reference.name);
    let mut pod = pod_with(owner.meta(), template, reference);
    pod.metadata.generate_name = Some(prefix);
    pod
}

/// The same with a name of our own.
pub fn named_pod_for<O: Object>(owner: &O, template: &PodTemplateSpec, name: String) -> Pod {
    let mut pod = pod_with(owner.meta(), template, owner_reference(owner));
    pod.metadata.name = Some(name);
    pod
}

fn pod_with(owner: &ObjectMeta, template: &PodTemplateSpec, reference: OwnerReference) -> Pod {
    let wanted = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            namespace: owner.namespace.clone(),
            labels: wanted.labels,
            annotations: wanted.annotations,
            finalizers: wanted.finalizers,
            owner_references: Some(vec![reference]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// How pods that come are told of, on the owner.
pub fn creation_events<O: Object>(owner: &O) -> OutcomeEvents {
    OutcomeEvents {
        regarding: Regarding::of(owner),
        done: ("SuccessfulCreate", "Created pod: "),
        failed: ("FailedCreate", "Error creating: "),
    }
}

/// How pods that go are told of, on the owner.
pub fn deletion_events<O: Object>(owner: &O) -> OutcomeEvents {
    OutcomeEvents {
        regarding: Regarding::of(owner),
        done: ("SuccessfulDelete", "Deleted pod: "),
        failed: ("FailedDelete", "Error deleting: "),
    }
}
