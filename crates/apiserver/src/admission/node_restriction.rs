//! What a node writes is about itself: the part of the node's rights that only the object can tell.
//!
//! The authorizer has compared names in paths; here are the bodies. As upstream's plugin of this name, and
//! beyond it: a node does not choose its pods' addresses, or it could take over those of another.

use async_trait::async_trait;
use serde_json::Value;

use super::{Admission, Operation, Request};
use crate::error::{ApiError, Result};
use crate::object::Object;
use crate::registry::Registry;

pub struct NodeRestriction;

#[async_trait]
impl Admission for NodeRestriction {
    async fn admit(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        let call = request.call;
        let Some(node) = call.user.node_name() else { return Ok(()) };
        let resource = (call.served.group.as_str(), call.served.plural.as_str());
        let mut answer = check(node, resource, request.operation, request.object, request.old);
        if answer.is_ok() && resource == CERTIFICATE_REQUESTS && request.operation == Operation::Create {
            let spec = &request.object["spec"];
            let pod = named(registry, &call.namespace, "pods", &spec["podName"]).await?;
            let account =
                named(registry, &call.namespace, "serviceaccounts", &spec["serviceAccountName"]).await?;
            answer = own_certificate(node, spec, &pod, &account);
        }
        answer.map_err(|why| {
            let name = request.object.name().to_owned();
            ApiError::forbidden(Some(call.served.resource()), &name, why)
        })
    }
}

const CERTIFICATE_REQUESTS: (&str, &str) = ("certificates.k8s.io", "podcertificaterequests");

/// An object of the core group, or null.
async fn named(registry: &Registry, namespace: &str, plural: &str, name: &Value) -> Result<Value> {
    let served = registry.built_in("", "v1", plural)?;
    match registry.look(&served, namespace, name.as_str().unwrap_or_default()).await {
        Err(e) if e.code == 404 => Ok(Value::Null),
        found => found,
    }
}

/// A certificate says who a pod is: a node asks for it only for a pod that runs on it, as that pod's own account.
fn own_certificate(node: &str, spec: &Value, pod: &Value, account: &Value) -> Answer {
    let uid = |object: &Value| object["metadata"]["uid"].clone();
    refuse_unless(spec["nodeName"] == node, || format!("node {node:?} may ask for itself only"))?;
    refuse_unless(pod["spec"]["nodeName"] == node, || {
        format!("node {node:?} may ask for certificates of pods that run on it only")
    })?;
    let is_mirror = pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_string();
    refuse_unless(!is_mirror, || "a mirror pod has no certificate".to_owned())?;
    refuse_unless(uid(pod) == spec["podUID"], || "podUID is not the pod's".to_owned())?;
    refuse_unless(pod["spec"]["serviceAccountName"] == spec["serviceAccountName"], || {
        "serviceAccountName is not the pod's".to_owned()
    })?;
    refuse_unless(account.is_object() && uid(account) == spec["serviceAccountUID"], || {
        "serviceAccountUID is not the service account's".to_owned()
    })
}

type Answer = std::result::Result<(), String>;

fn check(
    node: &str,
    resource: (&str, &str),
    operation: Operation,
    object: &Value,
    old: Option<&Value>,
) -> Answer {
    match resource {
        ("", "nodes") => own_node(node, operation, object, old),
        ("", "pods") => own_pod(node, operation, object, old),
        ("", "persistentvolumes") => image_gone(node, object, old),
        ("", "persistentvolumeclaims") => own_claim(node, object, old),
        ("coordination.k8s.io", "leases") => {
            let is_own = object.name() == node && object.namespace() == "kube-node-lease";
            refuse_unless(is_own, || format!("node {node:?} may write its own lease in kube-node-lease only"))
        }
        ("storage.k8s.io", "csinodes") => {
            refuse_unless(object.name() == node, || format!("node {node:?} may write its own CSINode only"))
        }
        ("storage.k8s.io", "csistoragecapacities") => {
            let of = minik8s_meta::local_volume::parse_capacity_name(object.namespace(), object.name());
            refuse_unless(of == Some(node), || {
                format!("node {node:?} may write its own CSIStorageCapacity of the class local only")
            })
        }
        ("resource.k8s.io", "resourceslices") => refuse_unless(object["spec"]["nodeName"] == node, || {
            format!("node {node:?} may write its own ResourceSlices only")
        }),
        _ => Ok(()),
    }
}

fn own_node(node: &str, operation: Operation, object: &Value, old: Option<&Value>) -> Answer {
    refuse_unless(object.name() == node, || format!("node {node:?} is not allowed to write another node"))?;
    if operation == Operation::Delete {
        return Ok(());
    }
    let nothing = Value::Null;
    let before = old.unwrap_or(&nothing);
    for field in ["podCIDR", "podCIDRs"] {
        refuse_unless(before["spec"][field] == object["spec"][field], || {
            format!("node {node:?} is not allowed to choose its {field}")
        })?;
    }
    if operation == Operation::Update {
        let same = |field: &str| before["spec"][field] == object["spec"][field];
        refuse_unless(same("taints"), || format!("node {node:?} is not allowed to modify taints"))?;
        let owners = |object: &Value| object["metadata"]["ownerReferences"].clone();
        refuse_unless(owners(before) == owners(object), || {
            format!("node {node:?} is not allowed to modify ownerReferences")
        })?;
    }
    let labels = |object: &Value, key: &str| object["metadata"]["labels"][key].clone();
    let all = [before, object].into_iter().filter_map(Object::labels).flatten().map(|(key, _)| key.as_str());
    let mut forbidden: Vec<&str> =
        all.filter(|key| labels(before, key) != labels(object, key) && !may_label(key)).collect();
    forbidden.sort_unstable();
    forbidden.dedup();
    refuse_unless(forbidden.is_empty(), || {
        format!("node {node:?} is not allowed to modify labels: {}", forbidden.join(", "))
    })
}

/// Labels with the project's own names decide where pods run, so a node sets only those that describe it.
fn may_label(key: &str) -> bool {
    const OWN: [&str; 11] = [
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    ];
    let Some((domain, _)) = key.split_once('/') else { return true };
    let within = |suffix: &str| domain == suffix || domain.ends_with(&format!(".{suffix}"));
    if !within("kubernetes.io") && !within("k8s.io") {
        return true;
    }
    OWN.contains(&key) || within("kubelet.kubernetes.io") || within("node.kubernetes.io")
}

fn own_pod(node: &str, operation: Operation, object: &Value, old: Option<&Value>) -> Answer {
    let is_here = |pod: &Value| pod["spec"]["nodeName"] == node;
    if operation != Operation::Create {
        refuse_unless(old.is_some_and(is_here), || {
            format!("node {node:?} may write pods with spec.nodeName set to itself only")
        })?;
        return if operation == Operation::Update { own_status(node, object, old) } else { Ok(()) };
    }
    let is_mirror = object["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_string();
    refuse_unless(is_mirror, || {
        let annotation = "kubernetes.io/config.mirror";
        format!("pod does not have {annotation:?} annotation, node {node:?} can only create mirror pods")
    })?;
    refuse_unless(is_here(object), || {
        format!("node {node:?} can only create pods with spec.nodeName set to itself")
    })?;
    let account = object["spec"]["serviceAccountName"].as_str().unwrap_or_default();
    refuse_unless(account.is_empty(), || {
        format!("node {node:?} can not create pods that reference a service account")
    })?;
    // A mirror pod that named a secret would make the node the secret's reader.
    refuse_unless(!minik8s_auth::node::names_others(object), || {
        format!("node {node:?} can not create pods that reference secrets, configmaps or claims")
    })
}

/// A node tells how its pods are, not what they are: labels put them behind Services, claims open devices, and
/// annotations are orders to whoever reads them.
fn own_status(node: &str, object: &Value, old: Option<&Value>) -> Answer {
    let nothing = Value::Null;
    let before = old.unwrap_or(&nothing);
    for (part, field, what) in [
        ("metadata", "labels", "labels through pod status"),
        ("metadata", "annotations", "annotations through pod status"),
        ("status", "resourceClaimStatuses", "resource claim statuses"),
        ("status", "extendedResourceClaimStatus", "extended resource claim status"),
    ] {
        refuse_unless(before[part][field] == object[part][field], || {
            format!("node {node:?} cannot update {what}")
        })?;
    }
    Ok(())
}

/// A node tells how large a volume is. What the claim is, and whose, it does not say.
fn own_claim(node: &str, object: &Value, old: Option<&Value>) -> Answer {
    let nothing = Value::Null;
    let before = old.unwrap_or(&nothing);
    let rest = [
        ("metadata", "labels"),
        ("metadata", "annotations"),
        ("status", "phase"),
        ("status", "accessModes"),
        ("status", "currentVolumeAttributesClassName"),
        ("status", "modifyVolumeStatus"),
    ];
    refuse_unless(rest.iter().all(|(part, field)| before[part][field] == object[part][field]), || {
        format!(
            "node {node:?} is not allowed to update fields other than status.capacity and status.conditions"
        )
    })
}

/// Of a volume whose image it keeps, a node says that the image is gone, and nothing else.
fn image_gone(node: &str, object: &Value, old: Option<&Value>) -> Answer {
    const IMAGE: &str = minik8s_meta::local_volume::IMAGE_FINALIZER;
    let rest = |volume: &Value| {
        let mut volume = volume.clone();
        let finalizers = volume["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let others: Vec<Value> = finalizers.into_iter().filter(|name| *name != IMAGE).collect();
        for field in ["managedFields", "resourceVersion", "generation"] {
            volume["metadata"][field] = Value::Null;
        }
        volume["metadata"]["finalizers"] = others.into();
        volume
    };
    refuse_unless(old.is_some_and(|old| rest(old) == rest(object)), || {
        format!("node {node:?} may take the finalizer {IMAGE} from its volumes, and change nothing else")
    })
}

fn refuse_unless(condition: bool, why: impl FnOnce() -> String) -> Answer {
    if condition { Ok(()) } else { Err(why()) }
}

#[cfg(test)]
#[path = "node_restriction_tests.rs"]
mod tests;
