//! What the cluster is busy with: a Deployment behind a Service, and new versions of it all the time; and a
//! StatefulSet.

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use http::Method;
use minik8s_kubelet::image::Recipe;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::traffic::Target;
use crate::harness::control_plane::Credentials;
use crate::harness::lab::Lab;

const REPLICAS: usize = 4;
const SOLOS: usize = 2;
const PAUSE: Duration = Duration::from_secs(6);
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/chaos/deployments/web";

/// A pod serves on until its connections have had the time to end. Pods that cannot be reached are soon replaced.
const OBJECTS: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: chaos}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: chaos}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: chaos}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 2}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 2
      automountServiceAccountToken: true
      tolerations:
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 2}
      - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 2}
      containers:
      - name: web
        image: minik8s.io/busybox:1
        imagePullPolicy: Never
        command: [httpd, -f, -p, "8080", -h, /www]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: solo, namespace: chaos}
spec:
  replicas: 2
  serviceName: solo
  selector: {matchLabels: {app: solo}}
  template:
    metadata: {labels: {app: solo}}
    spec:
      terminationGracePeriodSeconds: 1
      tolerations:
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
      - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
      containers:
      - name: solo
        image: minik8s.io/busybox:1
        imagePullPolicy: Never
        command: [sleep, "1000000"]
        env:
        - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: SOLO, value: RUN/$(NAME)}
"#;

/// Where the Service is, when all of it runs.
pub fn set_up(lab: &Lab) -> Target {
    let image = lab.dir.join("busybox.tar");
    let program = std::fs::read("/bin/busybox").expect("busybox-static is installed");
    let tools = Command::new("/bin/busybox").arg("--list").output().unwrap().stdout;
    let mut recipe = Recipe::new("minik8s.io/busybox:1")
        .directory("tmp", 0o1777)
        .file("www/index.html", 0o644, b"well\n".to_vec())
        .file("bin/busybox", 0o755, program)
        .env("PATH", "/bin");
    for tool in String::from_utf8(tools).unwrap().lines().filter(|&tool| tool != "busybox") {
        recipe = recipe.link(&format!("bin/{tool}"), "busybox");
    }
    let mut file = std::fs::File::create(&image).unwrap();
    recipe.write(&mut file).unwrap();
    file.flush().unwrap();
    lab.run(&["load", image.to_str().unwrap()]);
    let manifest = lab.dir.join("chaos.yaml");
    std::fs::write(&manifest, OBJECTS.replace("RUN/", &format!("{}/", lab.name()))).unwrap();
    let applied = lab.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
    lab.until("the first pods are ready", || is_complete(lab));
    let field = |service: &str, namespace: &str, field: &str| {
        let path = format!("jsonpath={{.spec.{field}}}");
        let found = lab.kubectl(&["get", "service", service, "-n", namespace, "-o", &path]);
        String::from_utf8(found.stdout).unwrap()
    };
    Target {
        node_port: field("web", "chaos", "ports[0].nodePort").parse().unwrap(),
        address: field("web", "chaos", "clusterIP").parse().unwrap(),
        dns: field("kube-dns", "kube-system", "clusterIP").parse().unwrap(),
    }
}

/// Every pod is there, ready and of the newest version, and no other.
pub fn is_complete(lab: &Lab) -> bool {
    let deployments = lab.get(&["deployments", "-n", "chaos"]);
    let Some(deployment) = deployments.first() else { return false };
    let status = &deployment["status"];
    let all = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"];
    status["observedGeneration"] == deployment["metadata"]["generation"]
        && all.iter().all(|field| status[field] == REPLICAS)
        && lab.get(&["pods", "-n", "chaos", "-l", "app=web"]).iter().filter(|pod| !is_over(pod)).count()
            == REPLICAS
        && lab
            .get(&["statefulsets", "-n", "chaos"])
            .first()
            .is_some_and(|set| set["status"]["readyReplicas"] == SOLOS)
}

/// A pod that a node without room gave up stays as a record of it, as long as its ReplicaSet does.
pub fn is_over(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"))
}

/// A new version every few seconds; how many were acknowledged.
pub async fn roll_out(credentials: Credentials, finished: watch::Receiver<bool>) -> usize {
    let mut acknowledged = 0;
    while !*finished.borrow() {
        let patch =
            json!({"spec": {"template": {"metadata": {"annotations": {"n": acknowledged.to_string()}}}}});
        if let Ok(mut connection) = credentials.connect().await {
            let sent = connection.send(Method::PATCH, DEPLOYMENT, "application/merge-patch+json", &patch);
            if let Ok(Ok((200, _))) = tokio::time::timeout(PAUSE, sent).await {
                acknowledged += 1;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    acknowledged
}
