//! A valid object of every kind, with something in the fields that have rules.

use minik8s_api::{Backing, Resource};
use minik8s_kinds as kinds;
use serde_json::{Value, json};

/// Every built-in kind whose objects are kept, with an object that can be created.
pub fn stored() -> Vec<(Resource, Value)> {
    let kept = kinds::all().into_iter().filter(|resource| resource.verbs.contains(&"get"));
    let made = kept.filter(|resource| resource.verbs.contains(&"create"));
    made.map(|resource| {
        let object = sample(&resource);
        (resource, object)
    })
    .collect()
}

/// Every kind that is a question, with one that can be asked.
pub fn reviews() -> Vec<(Resource, Value)> {
    let asked = kinds::all()
        .into_iter()
        .filter(|resource| matches!(resource.backing, Backing::Review) && resource.kind != "Binding");
    asked
        .map(|resource| {
            let object = sample(&resource);
            (resource, object)
        })
        .collect()
}

pub fn collection(resource: &Resource) -> String {
    let root =
        if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
    let namespace = if resource.namespaced { "/namespaces/default" } else { "" };
    format!("{root}/{}{namespace}/{}", resource.version, resource.plural)
}

fn sample(resource: &Resource) -> Value {
    let mut object = content(resource);
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.as_str().into();
    if object["metadata"]["name"].is_null() {
        object["metadata"]["name"] = "sample".into();
    }
    object["metadata"]["labels"] = json!({"example.com/a": "b"});
    object["metadata"]["annotations"] = json!({"example.com/note": "any text"});
    object
}

fn content(resource: &Resource) -> Value {
    let name = resource.qualified();
    match (resource.group.as_str(), name.as_str()) {
        ("", _) => core(&name),
        ("apps" | "batch", _) => workload(&name),
        ("admissionregistration.k8s.io", _) => admission(&name),
        ("autoscaling", _) => autoscaler(&resource.version),
        ("certificates.k8s.io", _) => certificates(&name),
        ("authentication.k8s.io" | "authorization.k8s.io", _) => review(&name),
        ("resource.k8s.io" | "storage.k8s.io", _) => devices_and_storage(&name),
        _ => other(&name),
    }
}

pub fn pod_spec() -> Value {
    let probe = json!({"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "periodSeconds": 5});
    json!({
        "nodeSelector": {"disk": "ssd"}, "terminationGracePeriodSeconds": 5,
        "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a.example.com"]}],
        "securityContext": {"runAsUser": 1000, "fsGroup": 10, "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "1"}]},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
        ]}}},
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
        }],
        "initContainers": [{"name": "init", "image": "i", "command": ["true"]}],
        "containers": [{
            "name": "c", "image": "example.com/i:1", "args": ["a"], "workingDir": "/",
            "ports": [{"name": "web", "containerPort": 80, "protocol": "TCP"}],
            "env": [
                {"name": "A", "value": "b"},
                {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": true}}},
            ],
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
            "livenessProbe": probe, "readinessProbe": probe,
            "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
            "securityContext": {"capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "cm", "mountPath": "/cm", "readOnly": true}],
        }],
        "volumes": [
            {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "cm", "configMap": {"name": "m", "items": [{"key": "k", "path": "p", "mode": 420}]}},
            {"name": "pr", "projected": {"sources": [{"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]}},
        ],
    })
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": pod_spec()})
}

fn core(name: &str) -> Value {
    match name {
        "configmaps" => json!({"data": {"a": "b"}, "binaryData": {"c": "AAE="}, "immutable": false}),
        "secrets" => json!({"data": {"a": "AAE="}, "stringData": {"b": "c"}, "type": "Opaque"}),
        "endpoints" => json!({"subsets": [{
            "addresses": [{"ip": "10.0.0.1", "targetRef": {"kind": "Pod", "name": "p"}}], "ports": [{"name": "a", "port": 80, "protocol": "TCP"}],
        }]}),
        "events" => json!({
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "R", "message": "m", "type": "Normal",
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1, "source": {"component": "c"},
        }),
        "limitranges" => {
            json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "100"}, "default": {"cpu": "1"}}]}})
        }
        "nodes" => {
            json!({"spec": {"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24"], "taints": [{"key": "k", "effect": "NoSchedule"}]}})
        }
        "persistentvolumes" => json!({"spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"},
            "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "s",
        }}),
        "persistentvolumeclaims" => json!({"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "s",
        }}),
        "pods" => json!({"spec": pod_spec()}),
        "podtemplates" => json!({"template": template()}),
        "replicationcontrollers" => {
            json!({"spec": {"replicas": 1, "selector": {"app": "a"}, "template": template()}})
        }
        "resourcequotas" => json!({"spec": {"hard": {"pods": "100000", "requests.storage": "1000Ti"}}}),
        "services" => json!({"spec": {
            "selector": {"app": "a"}, "type": "ClusterIP", "sessionAffinity": "None",
            "ports": [{"name": "web", "port": 80, "targetPort": "web", "protocol": "TCP"}],
        }}),
        "serviceaccounts" => json!({"imagePullSecrets": [{"name": "s"}], "secrets": [{"name": "t"}]}),
        _ => json!({}),
    }
}

fn workload(name: &str) -> Value {
    let selector = json!({"matchLabels": {"app": "a"}});
    let mut once = template();
    once["spec"]["restartPolicy"] = "Never".into();
    match name {
        "controllerrevisions.apps" => json!({"revision": 1, "data": {"any": {"thing": [1, "a", null]}}}),
        "daemonsets.apps" => json!({"spec": {
            "selector": selector, "template": template(), "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
        }}),
        "deployments.apps" => json!({"spec": {
            "replicas": 1, "selector": selector, "template": template(), "revisionHistoryLimit": 3,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 1}},
        }}),
        "replicasets.apps" => json!({"spec": {"replicas": 1, "selector": selector, "template": template()}}),
        "statefulsets.apps" => json!({"spec": {
            "replicas": 1, "selector": selector, "template": template(), "serviceName": "s",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            }}],
        }}),
        "cronjobs.batch" => json!({"spec": {
            "schedule": "*/5 * * * *", "timeZone": "Europe/Paris", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": {"template": once}},
        }}),
        _ => {
            json!({"spec": {"parallelism": 1, "completions": 2, "backoffLimit": 1, "completionMode": "Indexed", "template": once}})
        }
    }
}

fn admission(name: &str) -> Value {
    let rules = json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]);
    let webhook = json!([{
        "name": "a.example.com", "clientConfig": {"url": "https://a.example.com/x"}, "rules": rules, "failurePolicy": "Ignore",
        "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 5,
        "namespaceSelector": {"matchLabels": {"none": "such"}},
    }]);
    let constraints = json!({"resourceRules": rules});
    match name.split('.').next().unwrap_or_default() {
        "mutatingwebhookconfigurations" | "validatingwebhookconfigurations" => json!({"webhooks": webhook}),
        "validatingadmissionpolicies" => json!({"spec": {
            "matchConstraints": constraints, "failurePolicy": "Ignore", "validations": [{"expression": "true", "message": "m"}],
        }}),
        "validatingadmissionpolicybindings" => {
            json!({"spec": {"policyName": "none", "validationActions": ["Deny"]}})
        }
        "mutatingadmissionpolicies" => json!({"spec": {
            "matchConstraints": constraints, "reinvocationPolicy": "Never", "failurePolicy": "Ignore",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}],
        }}),
        _ => json!({"spec": {"policyName": "none"}}),
    }
}

fn autoscaler(version: &str) -> Value {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let spec = match version {
        "v1" => {
            json!({"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50})
        }
        _ => json!({
            "scaleTargetRef": target, "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
            "behavior": {"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}},
        }),
    };
    json!({"spec": spec})
}

/// PKCS#10 for O=devs, CN=carl.
pub const SIGNING_REQUEST: &str = "-----BEGIN CERTIFICATE REQUEST-----\n\
    MIGdMFECAQAwHjENMAsGA1UECgwEZGV2czENMAsGA1UEAwwEY2FybDAqMAUGAytlcAMhAJA0QRvmZhpUee2QgBkKI5VnJYqRkf3fgUsIxosJZwykoAAwBQYDK2VwA0EAXEn3B/CmC9D8AsnnIZMinoQEytFFGe67vjrN6LPv33xIJesTxu78K/9xwEcZ40hiR+2ODGSDxX0xtBXc10VLCA==\n\
    -----END CERTIFICATE REQUEST-----\n";

fn certificates(name: &str) -> Value {
    use base64::Engine;
    let pem = |block: &str| format!("-----BEGIN {block}-----\nAAECAw==\n-----END {block}-----\n");
    let request = base64::engine::general_purpose::STANDARD.encode(SIGNING_REQUEST);
    let der: String = SIGNING_REQUEST.lines().filter(|line| !line.starts_with("-----")).collect();
    match name.split('.').next().unwrap_or_default() {
        "certificatesigningrequests" => json!({"spec": {
            "request": request, "signerName": "example.com/s", "usages": ["client auth"], "expirationSeconds": 3600,
        }}),
        "clustertrustbundles" => json!({"spec": {"trustBundle": pem("CERTIFICATE")}}),
        _ => json!({"spec": {
            "signerName": "example.com/s", "podName": "p", "podUID": "u", "serviceAccountName": "s", "serviceAccountUID": "u",
            "nodeName": "n", "nodeUID": "u", "maxExpirationSeconds": 3600, "stubPKCS10Request": der,
        }}),
    }
}

fn review(name: &str) -> Value {
    let attributes = json!({"verb": "get", "resource": "pods", "namespace": "default", "name": "p"});
    match name.split('.').next().unwrap_or_default() {
        "selfsubjectreviews" => json!({}),
        "tokenreviews" => json!({"spec": {"token": "t", "audiences": ["a"]}}),
        "selfsubjectrulesreviews" => json!({"spec": {"namespace": "default"}}),
        "selfsubjectaccessreviews" => json!({"spec": {"resourceAttributes": attributes}}),
        _ => {
            json!({"spec": {"user": "u", "groups": ["g"], "extra": {"k": ["v"]}, "resourceAttributes": attributes}})
        }
    }
}

fn devices_and_storage(name: &str) -> Value {
    let devices = json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "count": 1, "allocationMode": "ExactCount"}}]}});
    match name.split('.').next().unwrap_or_default() {
        "deviceclasses" => json!({"spec": {"selectors": [{"cel": {"expression": "true"}}]}}),
        "devicetaintrules" => {
            json!({"spec": {"deviceSelector": {"driver": "d.example.com"}, "taint": {"key": "k", "effect": "NoSchedule"}}})
        }
        "resourceclaims" => json!({"spec": devices}),
        "resourceclaimtemplates" => json!({"spec": {"spec": devices}}),
        "resourceslices" => json!({"spec": {
            "driver": "d.example.com", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "d0"}],
        }}),
        "csidrivers" => {
            json!({"metadata": {"name": "d.example.com"}, "spec": {"attachRequired": false, "volumeLifecycleModes": ["Persistent"]}})
        }
        "csinodes" => {
            json!({"spec": {"drivers": [{"name": "d.example.com", "nodeID": "i", "topologyKeys": ["zone"]}]}})
        }
        "csistoragecapacities" => json!({"storageClassName": "s", "capacity": "1Gi"}),
        "storageclasses" => {
            json!({"provisioner": "example.com/p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})
        }
        "volumeattachments" => {
            json!({"spec": {"attacher": "d.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}})
        }
        _ => json!({"driverName": "d.example.com", "parameters": {"a": "b"}}),
    }
}

fn other(name: &str) -> Value {
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let subjects = json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "default"}]);
    let role = |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "view"});
    match name {
        "customresourcedefinitions.apiextensions.k8s.io" => json!({
            "metadata": {"name": "samples.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "samples", "kind": "Sample"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string", "pattern": "^a"}}}},
                }}}],
            },
        }),
        "apiservices.apiregistration.k8s.io" => json!({"metadata": {"name": "v9.example.com"}, "spec": {
            "group": "example.com", "version": "v9", "groupPriorityMinimum": 1000, "versionPriority": 10, "insecureSkipTLSVerify": true,
            "service": {"namespace": "default", "name": "s", "port": 443},
        }}),
        "leases.coordination.k8s.io" => json!({"spec": {
            "holderIdentity": "h", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z", "acquireTime": "2026-01-01T00:00:00.000000Z",
        }}),
        "endpointslices.discovery.k8s.io" => json!({
            "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "nodeName": "n"}],
            "ports": [{"name": "web", "port": 80, "protocol": "TCP"}],
        }),
        "events.events.k8s.io" => json!({
            "metadata": {"name": "sample2"}, "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.com/c",
            "reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal", "note": "n",
            "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        }),
        "flowschemas.flowcontrol.apiserver.k8s.io" => json!({"spec": {
            "priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 100,
            "rules": [{"subjects": [{"kind": "Group", "group": {"name": "g"}}], "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]}],
        }}),
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io" => json!({"spec": {
            "type": "Limited", "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}},
        }}),
        "ingresses.networking.k8s.io" => json!({"spec": {
            "ingressClassName": "c", "tls": [{"hosts": ["a.example.com"], "secretName": "s"}],
            "rules": [{"host": "a.example.com", "http": {"paths": [
                {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}},
            ]}}],
        }}),
        "dns.minik8s.io" => json!({"spec": {"rules": [{"host": "a.example.com", "paths": [
            {"path": "/a", "backend": {"service": {"name": "s", "port": 80}}},
        ]}]}}),
        "ingressclasses.networking.k8s.io" => json!({"spec": {"controller": "example.com/c"}}),
        "ipaddresses.networking.k8s.io" => json!({
            "metadata": {"name": "10.96.77.77"}, "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "s"}},
        }),
        "networkpolicies.networking.k8s.io" => json!({"spec": {
            "podSelector": {"matchLabels": {"app": "a"}}, "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}], "ports": [{"port": 80, "endPort": 90}]}],
        }}),
        "servicecidrs.networking.k8s.io" => json!({"spec": {"cidrs": ["10.200.0.0/24"]}}),
        "runtimeclasses.node.k8s.io" => json!({"handler": "runc", "overhead": {"podFixed": {"cpu": "10m"}}}),
        "poddisruptionbudgets.policy" => {
            json!({"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "a"}}}})
        }
        // No aggregationRule: the server itself would fill in the rules in between.
        "clusterroles.rbac.authorization.k8s.io" => json!({"rules": rules}),
        "roles.rbac.authorization.k8s.io" => json!({"rules": rules}),
        "clusterrolebindings.rbac.authorization.k8s.io" => {
            json!({"roleRef": role("ClusterRole"), "subjects": subjects})
        }
        "rolebindings.rbac.authorization.k8s.io" => {
            json!({"roleRef": role("ClusterRole"), "subjects": subjects})
        }
        "priorityclasses.scheduling.k8s.io" => {
            json!({"value": 10, "description": "d", "preemptionPolicy": "Never"})
        }
        "storageversionmigrations.storagemigration.k8s.io" => {
            json!({"spec": {"resource": {"group": "", "resource": "secrets"}}})
        }
        other => panic!("no sample of {other}: every kind needs one"),
    }
}
