//! An object of every kind that can be made, with something that the API accepts and that a typed reader stumbles over,
//! wherever a kind has a place for it: a condition without its time, or a time with more digits than a reader has room for.

use serde_json::{Value, json};

use super::samples;

/// More digits than a typed reader has room for.
const ODD_TIME: &str = "2026-01-01T00:00:00.0000000000001Z";

/// Kinds in which nothing odd is accepted: they have no times and no conditions, or the API takes them out. Every other kind
/// must have been stored odd.
pub const PLAIN: &[&str] = &[
    "clusterrolebindings.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "clustertrustbundles.certificates.k8s.io",
    "configmaps",
    "controllerrevisions.apps",
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "csistoragecapacities.storage.k8s.io",
    "deviceclasses.resource.k8s.io",
    "endpoints",
    "endpointslices.discovery.k8s.io",
    "functiondemands.internal.minik8s.io",
    "functionendpoints.internal.minik8s.io",
    "gatewayacks.internal.minik8s.io",
    "gatewayconfigs.internal.minik8s.io",
    "ingressclasses.networking.k8s.io",
    "ingresses.networking.k8s.io",
    "ipaddresses.networking.k8s.io",
    "limitranges",
    "mutatingadmissionpolicies.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "networkpolicies.networking.k8s.io",
    "podtemplates",
    "priorityclasses.scheduling.k8s.io",
    "referencegrants.gateway.networking.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
    "resourcequotas",
    "rolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "runtimeclasses.node.k8s.io",
    "secrets",
    "serviceaccounts",
    "storageclasses.storage.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "volumeattributesclasses.storage.k8s.io",
    "volumesnapshotclasses.snapshot.storage.k8s.io",
    "workflows.minik8s.io",
];

/// What to make of a kind, called `NAME.GROUP`, and what to write into its status. It must disturb nobody on a real node.
pub fn object(kind: &str, api_version: &str) -> (Value, Value) {
    let mut object = match own(kind).or_else(|| of_feature(kind)) {
        Some(object) => object,
        None => {
            let mut samples = samples::stored().into_iter();
            let found = samples
                .find(|(resource, _)| resource.qualified() == kind && resource.api_version() == api_version);
            found.unwrap_or_else(|| panic!("no odd object of {kind}: every kind needs one")).1
        }
    };
    // Some kinds have rules about names.
    if object["metadata"]["name"].is_null() || object["metadata"]["name"] == "sample" {
        object["metadata"]["name"] = "odd".into();
    }
    (object, status(kind))
}

/// Whether what is odd about an object is still in it.
pub fn is_odd(object: &Value) -> bool {
    match object {
        Value::String(text) => text == ODD_TIME,
        Value::Array(items) => items.iter().any(is_odd),
        Value::Object(fields) => {
            let is_condition =
                fields.get("type").is_some_and(|kind| kind == "A") && fields.contains_key("status");
            (is_condition && !fields.contains_key("lastTransitionTime")) || fields.values().any(is_odd)
        }
        _ => false,
    }
}

fn status(kind: &str) -> Value {
    let conditions = json!([{"type": "A", "status": "True"}]);
    match kind {
        "cronjobs.batch" => json!({"lastScheduleTime": ODD_TIME}),
        "pods" | "jobs.batch" | "workflowruns.minik8s.io" => json!({"startTime": ODD_TIME}),
        "persistentvolumes" => json!({"lastPhaseTransitionTime": ODD_TIME}),
        "invocations.minik8s.io" => json!({"phase": "Succeeded", "completionTime": ODD_TIME}),
        "podcertificaterequests.certificates.k8s.io" => json!({"notBefore": ODD_TIME}),
        "certificatesigningrequests.certificates.k8s.io" => {
            json!({"conditions": [{"type": "Failed", "status": "True", "lastUpdateTime": ODD_TIME}]})
        }
        "resourceclaims.resource.k8s.io" => {
            json!({"devices": [{"driver": "d", "pool": "p", "device": "d", "conditions": conditions}]})
        }
        "volumeattachments.storage.k8s.io" => {
            json!({"attached": false, "attachError": {"time": ODD_TIME, "message": "m"}})
        }
        "volumesnapshots.snapshot.storage.k8s.io" => json!({"creationTime": ODD_TIME}),
        "volumesnapshotcontents.snapshot.storage.k8s.io" => {
            json!({"error": {"time": ODD_TIME, "message": "m"}})
        }
        "backendtlspolicies.gateway.networking.k8s.io" => json!({"ancestors": [
            {"ancestorRef": {"name": "odd"}, "controllerName": "example.com/c", "conditions": conditions}]}),
        _ if kind.ends_with("routes.gateway.networking.k8s.io") => json!({"parents": [
            {"parentRef": {"name": "odd"}, "controllerName": "example.com/c", "conditions": conditions}]}),
        _ => json!({"conditions": conditions}),
    }
}

/// Instead of samples that others would notice, or with something odd outside of the status.
fn own(kind: &str) -> Option<Value> {
    let event = json!({"kind": "Pod", "name": "p"});
    Some(match kind {
        "nodes" => json!({"spec": {"unschedulable": true}}),
        // Not of pods, to which it would give requests.
        "limitranges" => {
            json!({"spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "100Gi"}}]}})
        }
        "services" => json!({"spec": {"ports": [{"port": 80}]}}),
        "events" => {
            json!({"involvedObject": event, "reason": "R", "message": "m", "type": "Normal", "lastTimestamp": ODD_TIME})
        }
        "events.events.k8s.io" => {
            json!({"metadata": {"name": "odd-new"}, "regarding": event, "reason": "R", "note": "n",
            "type": "Normal", "action": "A", "reportingController": "example.com/c", "reportingInstance": "i",
            "eventTime": ODD_TIME})
        }
        "leases.coordination.k8s.io" => json!({"spec": {"holderIdentity": "odd", "renewTime": ODD_TIME}}),
        "dns.minik8s.io" => json!({"spec": {"rules": [{"host": "odd.test", "paths": [{"path": "/", "backend":
            {"service": {"name": "odd", "port": 80}}}]}]}}),
        "resourceslices.resource.k8s.io" => json!({"spec": {"driver": "d.example.com", "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d0", "taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": ODD_TIME}]}]}}),
        _ => return None,
    })
}

/// Kinds of features, of which nobody acts on these.
fn of_feature(kind: &str) -> Option<Value> {
    let (name, group) = kind.split_once('.')?;
    Some(match group {
        "gateway.networking.k8s.io" => gateway(name),
        "internal.minik8s.io" => json!({}),
        "minik8s.io" => own_feature(name)?,
        "monitoring.coreos.com" => monitoring(name),
        "snapshot.storage.k8s.io" => snapshot(name),
        _ => return None,
    })
}

fn gateway(name: &str) -> Value {
    let parents = json!([{"name": "odd"}]);
    let rules = json!([{"backendRefs": [{"name": "odd", "port": 80}]}]);
    match name {
        "gatewayclasses" => json!({"spec": {"controllerName": "example.com/c"}}),
        "gateways" => {
            json!({"spec": {"gatewayClassName": "odd", "listeners": [{"name": "h", "port": 80, "protocol": "HTTP"}]}})
        }
        "listenersets" => {
            json!({"spec": {"parentRef": {"name": "odd"}, "listeners": [{"name": "h", "port": 81, "protocol": "HTTP"}]}})
        }
        "backendtlspolicies" => {
            json!({"spec": {"targetRefs": [{"group": "", "kind": "Service", "name": "odd"}],
            "validation": {"hostname": "a.test", "wellKnownCACertificates": "System"}}})
        }
        "referencegrants" => json!({"spec": {"to": [{"group": "", "kind": "Service"}],
            "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "x"}]}}),
        "tlsroutes" => json!({"spec": {"hostnames": ["a.test"], "parentRefs": parents, "rules": rules}}),
        _ => json!({"spec": {"parentRefs": parents, "rules": rules}}),
    }
}

fn own_feature(name: &str) -> Option<Value> {
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJA0QRvmZhpUee2QgBkKI5VnJYqRkf3fgUsIxosJZwyk";
    Some(match name {
        "functions" => {
            json!({"spec": {"runtime": "python3.11", "code": {"source": "def handler(event):\n  return 1\n"}}})
        }
        "invocations" => json!({"spec": {"function": "none"}}),
        // On New Year's Day.
        "triggers" => {
            json!({"spec": {"target": {"function": "odd"}, "source": {"schedule": {"cron": "0 0 1 1 *"}}}})
        }
        "workflows" => {
            json!({"spec": {"definition": {"StartAt": "A", "States": {"A": {"Type": "Pass", "End": true}}}}})
        }
        "workflowruns" => json!({"spec": {"workflow": "none"}}),
        "gpujobs" => json!({"spec": {"cluster": "odd", "run": "./a", "source": {"files": {"a": "b"}}}}),
        "slurmclusters" => {
            json!({"spec": {"host": "127.0.0.1", "user": "u", "hostKey": key, "secretRef": {"name": "none"}}})
        }
        _ => return None,
    })
}

fn monitoring(name: &str) -> Value {
    match name {
        "servicemonitors" => json!({"spec": {"selector": {}, "endpoints": [{"port": "web"}]}}),
        "podmonitors" => json!({"spec": {"selector": {}, "podMetricsEndpoints": [{"port": "web"}]}}),
        "probes" => {
            json!({"spec": {"prober": {"url": "x:1"}, "targets": {"staticConfig": {"static": ["a"]}}}})
        }
        _ => json!({"spec": {"groups": [{"name": "g", "rules": [{"record": "a", "expr": "up"}]}]}}),
    }
}

fn snapshot(name: &str) -> Value {
    match name {
        "volumesnapshots" => json!({"spec": {"source": {"persistentVolumeClaimName": "none"}}}),
        "volumesnapshotclasses" => json!({"driver": "d.example.com", "deletionPolicy": "Delete"}),
        _ => {
            json!({"spec": {"deletionPolicy": "Retain", "driver": "d.example.com", "source": {"snapshotHandle": "h"},
            "volumeSnapshotRef": {"name": "none", "namespace": "default"}}})
        }
    }
}
