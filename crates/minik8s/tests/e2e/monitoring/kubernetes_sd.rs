//! `kubernetes_sd_configs`, as everybody writes them, work unchanged in an engine that has them: Debian's VictoriaMetrics.

use serde_json::Value;

use super::site::Site;

const ROLES: [&str; 6] = ["node", "pod", "service", "endpoints", "endpointslice", "ingress"];

pub fn check(site: &Site) {
    site.apply(&manifest());
    site.run(&["wait", "pod/sd", "--for=condition=Ready", "--timeout=240s"]);
    let path = "/api/v1/namespaces/default/pods/sd:8428/proxy/api/v1/targets";
    for role in ROLES {
        site.eventually(&format!("kubernetes_sd_configs finds targets of role {role}"), || {
            let told: Value = serde_json::from_str(&site.output(&["get", "--raw", path])).unwrap_or_default();
            let targets = told["data"]["activeTargets"].as_array().cloned().unwrap_or_default();
            targets.iter().any(|target| {
                let found = &target["discoveredLabels"];
                target["labels"]["job"] == role
                    && found[&format!("__meta_kubernetes_{}", mark(role))].is_string()
            })
        });
    }
    site.run(&["delete", "pod/sd", "ingress/sd", "configmap/sd", "serviceaccount/sd"]);
    site.run(&["delete", "clusterrole/sd", "clusterrolebinding/sd"]);
}

/// A label that only this role gives.
fn mark(role: &str) -> &'static str {
    match role {
        "node" => "node_name",
        "pod" => "pod_name",
        "service" => "service_name",
        "endpoints" => "endpoints_name",
        "endpointslice" => "endpointslice_name",
        _ => "ingress_name",
    }
}

fn manifest() -> String {
    let jobs: String = ROLES
        .iter()
        .map(|role| format!("      - {{job_name: {role}, kubernetes_sd_configs: [{{role: {role}}}]}}\n"))
        .collect();
    format!(
        "
apiVersion: v1
kind: ServiceAccount
metadata: {{name: sd}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: sd}}
rules:
  - {{apiGroups: [''], resources: [nodes, pods, services, endpoints], verbs: [get, list, watch]}}
  - {{apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [get, list, watch]}}
  - {{apiGroups: [networking.k8s.io], resources: [ingresses], verbs: [get, list, watch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: sd}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sd}}
subjects: [{{kind: ServiceAccount, name: sd, namespace: default}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{name: sd}}
spec:
  rules:
    - host: sd.example
      http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: hears, port: {{number: 8080}}}}}}}}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: sd}}
data:
  scrape.yml: |
    scrape_configs:
{jobs}---
apiVersion: v1
kind: Pod
metadata: {{name: sd}}
spec:
  serviceAccountName: sd
  terminationGracePeriodSeconds: 0
  containers:
    - name: sd
      image: {image}
      args: [-promscrape.config=/etc/sd/scrape.yml, -storageDataPath=/data, '-httpListenAddr=:8428']
      ports: [{{containerPort: 8428}}]
      readinessProbe: {{httpGet: {{path: /health, port: 8428}}, periodSeconds: 2}}
      volumeMounts: [{{name: config, mountPath: /etc/sd}}, {{name: data, mountPath: /data}}]
  volumes: [{{name: config, configMap: {{name: sd}}}}, {{name: data, emptyDir: {{}}}}]
",
        image = minik8s_meta::packaged_image::VICTORIA_METRICS
    )
}
