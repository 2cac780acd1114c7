//! The pod that runs `minik8s slurm-submit`: the cluster's Secret and nothing else that is secret, no rights on the node,
//! fit for namespaces that enforce the restricted Pod Security standard.

use k8s_openapi::api::core::v1::Pod;
use minik8s_runtime::{Object, owner_reference};
use serde_json::{Value, json};

use crate::kinds::{GpuJob, SlurmCluster};

/// Made by each node of the program itself and of the machine's ssh, when the first pod needs it.
pub const IMAGE: &str = concat!("minik8s.io/slurm-submit:", env!("CARGO_PKG_VERSION"));
const USER: i64 = 65532;

pub fn of_job(job: &GpuJob, cluster: &SlurmCluster, name: &str) -> Option<Pod> {
    let mut arguments = vec!["--job".to_owned(), job.name().to_owned()];
    let (mut volumes, mut mounts) = (Vec::new(), Vec::new());
    let mut mount = |flag: &str, name: &str, path: &str, read_only: bool, mut volume: Value| {
        volume["name"] = json!(name);
        volumes.push(volume);
        mounts.push(json!({"name": name, "mountPath": path, "readOnly": read_only}));
        arguments.extend([flag.to_owned(), path.to_owned()]);
    };
    let source = &job.spec.source;
    if let Some(config) = &source.config_map_ref {
        mount(
            "--source-config",
            "source-config",
            "/source/config",
            true,
            json!({"configMap": {"name": config.name}}),
        );
    }
    if let Some(claim) = &source.volume_claim {
        let volume = json!({"persistentVolumeClaim": {"claimName": claim.name}});
        mount("--source-claim", "source-claim", "/source/claim", true, volume);
    }
    if let Some(claim) = &job.spec.results.claim {
        mount(
            "--results",
            "results",
            "/results",
            false,
            json!({"persistentVolumeClaim": {"claimName": claim}}),
        );
    }
    pod(job, cluster, name, arguments, (volumes, mounts), "OnFailure")
}

pub fn of_cluster(cluster: &SlurmCluster, name: &str) -> Option<Pod> {
    pod(cluster, cluster, name, Vec::new(), (Vec::new(), Vec::new()), "Never")
}

fn pod<O: Object>(
    owner: &O,
    cluster: &SlurmCluster,
    name: &str,
    more: Vec<String>,
    (volumes, mounts): (Vec<Value>, Vec<Value>),
    restart: &str,
) -> Option<Pod> {
    let namespace = owner.meta().namespace.clone().unwrap_or_default();
    let cluster_name = cluster.metadata.name.clone().unwrap_or_default();
    let mut arguments = vec!["slurm-submit".to_owned(), "--cluster".to_owned(), cluster_name];
    arguments.extend(more);
    let own = |name: &str, path: &str| json!({"name": name, "mountPath": path});
    let all_mounts: Vec<Value> = [
        json!({"name": "credentials", "mountPath": "/credentials", "readOnly": true}),
        json!({"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}),
        own("ssh", "/run/slurm"),
        own("scratch", "/tmp"),
    ]
    .into_iter()
    .chain(mounts)
    .collect();
    let all_volumes: Vec<Value> = [
        json!({"name": "credentials", "secret": {"secretName": cluster.spec.secret_ref.name, "defaultMode": 0o440}}),
        json!({"name": "token", "projected": {"defaultMode": 0o440, "sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        ]}}),
        json!({"name": "ssh", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}),
        json!({"name": "scratch", "emptyDir": {}}),
    ]
    .into_iter()
    .chain(volumes)
    .collect();
    let pod = json!({
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": "slurm-submit"},
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": {
            "serviceAccountName": name,
            "automountServiceAccountToken": false,
            "restartPolicy": restart,
            "enableServiceLinks": false,
            // Time to leave nothing behind when its namespace goes.
            "terminationGracePeriodSeconds": 60,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "slurm-submit",
                "image": IMAGE,
                "imagePullPolicy": "IfNotPresent",
                "command": ["/minik8s"],
                "args": arguments,
                "env": [{"name": "MINIK8S_LOG", "value": "warn"}],
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "securityContext": {
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": all_mounts,
            }],
            "volumes": all_volumes,
        },
    });
    serde_json::from_value(pod).ok()
}
