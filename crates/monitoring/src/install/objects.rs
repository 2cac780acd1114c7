//! Flags as objects.

use minik8s_meta::packaged_image::ALERTMANAGER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::config::{alertmanager_config, scrape_config};
use super::{CLAIM, Engine, LABEL, NAMESPACE, Settings};
use crate::prometheus_rule::CONFIG_MAP as USER_RULES;
use crate::rules;

/// No program of ours: files are the engine's alone.
const USER: u32 = 65_532;
/// Samples that are kept only as long as the pod may not fill the node's disk.
const LARGEST_EMPTY_DIR: &str = "10Gi";

/// An object and the collection that it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// `/api/v1/namespaces/monitoring/services`.
    pub collection: String,
    pub object: Value,
}

/// Everything, in an order in which it can be made.
pub fn objects(settings: &Settings) -> Vec<Placed> {
    let mut all = vec![
        placed("v1", "namespaces", "Namespace", NAMESPACE, json!({})),
        placed("v1", "serviceaccounts", "ServiceAccount", "prometheus", json!({})),
    ];
    // Pages of the API server and of nodes; what objects say of themselves, and where targets are.
    for role in ["system:monitoring", "minik8s:monitoring"] {
        let body = json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": "prometheus"}],
        });
        let name = format!("{NAMESPACE}:prometheus:{role}");
        all.push(placed(RBAC, "clusterrolebindings", "ClusterRoleBinding", &name, body));
    }
    let (scrape, alerting) = (scrape_config(settings), alertmanager_config(settings));
    let files = json!({"data": {"prometheus.yml": scrape}});
    all.push(placed("v1", "configmaps", "ConfigMap", "prometheus", files));
    let files = json!({"data": {"recording.yml": rules::RECORDING, "alerts.yml": rules::ALERTS}});
    all.push(placed("v1", "configmaps", "ConfigMap", "rules", files));
    // Filled from PrometheusRules, by the server.
    all.push(placed("v1", "configmaps", "ConfigMap", USER_RULES, json!({})));
    // The address may have a password in it.
    let secret = json!({"stringData": {"alertmanager.yml": alerting}});
    all.push(placed("v1", "secrets", "Secret", "alertmanager", secret));
    if let Some(size) = &settings.claim {
        let spec =
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}});
        all.push(placed("v1", "persistentvolumeclaims", "PersistentVolumeClaim", CLAIM, spec));
    }
    let port = settings.engine.port();
    all.push(placed("v1", "services", "Service", "prometheus", service("prometheus", 9090, port)));
    all.push(placed("v1", "services", "Service", "alertmanager", service("alertmanager", 9093, 9093)));
    // Queries are open to whoever reaches the port: pods of this namespace do, and those who may forward to it.
    let same = json!({"spec": {"podSelector": {"matchLabels": {LABEL.0: LABEL.1}}, "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {}}]}]}});
    all.push(placed("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", "monitoring", same));
    let engine = deployment(
        "prometheus",
        engine_pod(settings),
        &fingerprint(&[&scrape, rules::RECORDING, rules::ALERTS]),
    );
    all.push(placed("apps/v1", "deployments", "Deployment", "prometheus", engine));
    let alertmanager = deployment("alertmanager", alertmanager_pod(), &fingerprint(&[&alerting]));
    all.push(placed("apps/v1", "deployments", "Deployment", "alertmanager", alertmanager));
    all
}

const RBAC: &str = "rbac.authorization.k8s.io/v1";

fn placed(api_version: &str, plural: &str, kind: &str, name: &str, body: Value) -> Placed {
    let base = if api_version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{api_version}") };
    let is_cluster_wide = api_version == RBAC || kind == "Namespace";
    let collection = match is_cluster_wide {
        true => format!("{base}/{plural}"),
        false => format!("{base}/namespaces/{NAMESPACE}/{plural}"),
    };
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {
        "name": name, "labels": {LABEL.0: LABEL.1}}});
    if !is_cluster_wide {
        object["metadata"]["namespace"] = json!(NAMESPACE);
    }
    if let (Some(object), Value::Object(body)) = (object.as_object_mut(), body) {
        object.extend(body);
    }
    Placed { collection, object }
}

fn service(app: &str, port: u16, target: u16) -> Value {
    json!({"spec": {"selector": {"app": app}, "ports": [{"name": "http", "port": port, "targetPort": target}]}})
}

/// One pod, since two would write into one volume; begun anew when a file of it changes.
fn deployment(app: &str, pod: Value, files: &str) -> Value {
    let port = pod["containers"][0]["ports"][0]["containerPort"].to_string();
    json!({"spec": {"replicas": 1, "strategy": {"type": "Recreate"}, "selector": {"matchLabels": {"app": app}},
        "template": {"metadata": {
                "labels": {"app": app, LABEL.0: LABEL.1},
                "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": port, "minik8s.io/files": files}},
            "spec": pod}}})
}

fn fingerprint(files: &[&str]) -> String {
    let digest = Sha256::digest(files.concat().as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn engine_pod(settings: &Settings) -> Value {
    let storage = match &settings.claim {
        Some(_) => json!({"name": "data", "persistentVolumeClaim": {"claimName": CLAIM}}),
        None => json!({"name": "data", "emptyDir": {"sizeLimit": LARGEST_EMPTY_DIR}}),
    };
    let (retention, port) = (&settings.retention, settings.engine.port());
    let arguments = match settings.engine {
        Engine::Prometheus => vec![
            "--config.file=/etc/monitoring/prometheus.yml".to_owned(),
            "--storage.tsdb.path=/data".to_owned(),
            format!("--storage.tsdb.retention.time={retention}"),
            format!("--web.listen-address=:{port}"),
            "--web.console.templates=/tmp".to_owned(),
            "--web.console.libraries=/tmp".to_owned(),
            // Rules that come later are read without a restart.
            "--web.enable-lifecycle".to_owned(),
        ],
        Engine::VictoriaMetrics => vec![
            "-promscrape.config=/etc/monitoring/prometheus.yml".to_owned(),
            "-promscrape.config.strictParse=false".to_owned(),
            "-promscrape.httpSDCheckInterval=5s".to_owned(),
            "-storageDataPath=/data".to_owned(),
            format!("-retentionPeriod={retention}"),
            format!("-httpListenAddr=:{port}"),
        ],
    };
    let mounts = json!([{"name": "data", "mountPath": "/data"}, {"name": "config", "mountPath": "/etc/monitoring"},
        {"name": "rules", "mountPath": "/etc/rules"}, {"name": "user-rules", "mountPath": "/etc/user-rules"},
        {"name": "tmp", "mountPath": "/tmp"}]);
    let health = match settings.engine {
        Engine::Prometheus => "/-/ready",
        Engine::VictoriaMetrics => "/health",
    };
    let engine = container("engine", settings.engine.image(), &arguments, (port, health), mounts.clone());
    let mut containers = vec![engine];
    if settings.engine == Engine::VictoriaMetrics {
        let arguments = [
            "-rule=/etc/rules/*.yml".to_owned(),
            "-rule=/etc/user-rules/*.yml".to_owned(),
            "-configCheckInterval=5s".to_owned(),
            format!("-datasource.url=http://127.0.0.1:{port}"),
            format!("-remoteWrite.url=http://127.0.0.1:{port}"),
            "-notifier.url=http://alertmanager.monitoring.svc:9093".to_owned(),
            format!("-evaluationInterval={}", settings.interval),
            "-httpListenAddr=:8880".to_owned(),
        ];
        let mut rules = container("rules", settings.engine.image(), &arguments, (8880, "/health"), mounts);
        rules["command"] = json!(["/usr/bin/vmalert"]);
        containers.push(rules);
    }
    json!({"serviceAccountName": "prometheus", "securityContext": pod_security(), "containers": containers,
        "terminationGracePeriodSeconds": 30,
        "volumes": [storage, {"name": "config", "configMap": {"name": "prometheus"}},
            {"name": "rules", "configMap": {"name": "rules"}},
            {"name": "user-rules", "configMap": {"name": USER_RULES}}, {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}]})
}

fn alertmanager_pod() -> Value {
    let arguments = [
        "--config.file=/etc/alertmanager/alertmanager.yml".to_owned(),
        "--storage.path=/data".to_owned(),
        "--web.listen-address=:9093".to_owned(),
        // One of them gossips with nobody.
        "--cluster.listen-address=".to_owned(),
    ];
    let mounts =
        json!([{"name": "data", "mountPath": "/data"}, {"name": "config", "mountPath": "/etc/alertmanager"}]);
    let container = container("alertmanager", ALERTMANAGER, &arguments, (9093, "/-/ready"), mounts);
    json!({"automountServiceAccountToken": false, "securityContext": pod_security(), "containers": [container],
        "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "256Mi"}},
            {"name": "config", "secret": {"secretName": "alertmanager"}}]})
}

fn pod_security() -> Value {
    json!({"runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"}})
}

fn container(
    name: &str,
    image: &str,
    arguments: &[String],
    (port, health): (u16, &str),
    mounts: Value,
) -> Value {
    json!({"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "args": arguments,
        "ports": [{"name": format!("http-{port}"), "containerPort": port}], "volumeMounts": mounts,
        "readinessProbe": {"httpGet": {"path": health, "port": port}, "periodSeconds": 2},
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]}}})
}
