mod compiled;
mod documents;
mod reader;

use std::sync::Arc;

use k8s_openapi::api::{
    admissionregistration, apps, autoscaling, batch, certificates, coordination, core, discovery, events,
    flowcontrol, networking, node, policy, rbac, resource, scheduling, storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;
use serde_json::{Value, json};

use crate::{Definition, Plain, Resource};

macro_rules! resources {
    ($($ty:ty),* $(,)?) => { vec![$(Resource::of::<$ty>(Plain)),*] };
}

/// A resource of every large type there is, and a custom one.
pub(super) fn all() -> Vec<Resource> {
    let mut all = resources![
        core::v1::ConfigMap,
        core::v1::Endpoints,
        core::v1::Event,
        core::v1::LimitRange,
        core::v1::Namespace,
        core::v1::Node,
        core::v1::PersistentVolume,
        core::v1::PersistentVolumeClaim,
        core::v1::PodTemplate,
        core::v1::ReplicationController,
        core::v1::ResourceQuota,
        core::v1::Secret,
        core::v1::Service,
        core::v1::ServiceAccount,
        apps::v1::ControllerRevision,
        apps::v1::DaemonSet,
        apps::v1::ReplicaSet,
        apps::v1::StatefulSet,
        autoscaling::v1::HorizontalPodAutoscaler,
        autoscaling::v2::HorizontalPodAutoscaler,
        batch::v1::CronJob,
        batch::v1::Job,
        certificates::v1::CertificateSigningRequest,
        coordination::v1::Lease,
        discovery::v1::EndpointSlice,
        events::v1::Event,
        flowcontrol::v1::FlowSchema,
        flowcontrol::v1::PriorityLevelConfiguration,
        networking::v1::Ingress,
        networking::v1::IngressClass,
        networking::v1::NetworkPolicy,
        networking::v1::ServiceCIDR,
        node::v1::RuntimeClass,
        policy::v1::PodDisruptionBudget,
        rbac::v1::ClusterRole,
        rbac::v1::ClusterRoleBinding,
        rbac::v1::Role,
        rbac::v1::RoleBinding,
        resource::v1::DeviceClass,
        resource::v1::ResourceClaim,
        resource::v1::ResourceClaimTemplate,
        resource::v1::ResourceSlice,
        scheduling::v1::PriorityClass,
        storage::v1::CSIDriver,
        storage::v1::CSINode,
        storage::v1::CSIStorageCapacity,
        storage::v1::StorageClass,
        storage::v1::VolumeAttachment,
        admissionregistration::v1::MutatingWebhookConfiguration,
        admissionregistration::v1::ValidatingAdmissionPolicy,
        admissionregistration::v1::ValidatingAdmissionPolicyBinding,
        admissionregistration::v1::ValidatingWebhookConfiguration,
        apiextensions::v1::CustomResourceDefinition,
        apiregistration::v1::APIService,
    ];
    all.push(pod());
    all.push(Resource::of::<apps::v1::Deployment>(Plain).status().scale());
    all.push(cron_tab());
    all
}

fn pod() -> Resource {
    Resource::of::<core::v1::Pod>(Plain)
        .status()
        .with("eviction", "Eviction", &["create"])
        .with("exec", "PodExecOptions", &["connect"])
        .with("log", "Pod", &["get"])
}

/// A custom kind that uses what only custom kinds can.
fn cron_tab() -> Resource {
    let schema = json!({
        "type": "object",
        "description": "A table of times.",
        "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}}},
            "spec": {
                "type": "object",
                "required": ["times"],
                "properties": {
                    "times": {"type": "string", "pattern": "^[0-9 *]+$", "description": "When."},
                    "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                    "replicas": {"type": "integer", "default": 1, "nullable": true},
                    "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                            "properties": {"a": {"type": "string"}}},
                },
            },
        },
    });
    Resource {
        group: "stable.example.com".to_owned(),
        kind: "CronTab".to_owned(),
        plural: "crontabs".to_owned(),
        singular: "crontab".to_owned(),
        definition: Definition::Custom(Arc::new(schema)),
        ..Resource::of::<core::v1::ConfigMap>(Plain)
    }
}

/// Every `$ref` in a document.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                match value {
                    Value::String(reference) if name == "$ref" => found.push(reference.clone()),
                    value => references(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}
