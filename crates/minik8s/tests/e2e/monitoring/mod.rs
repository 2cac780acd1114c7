//! Monitoring on a real node: Debian's Prometheus in the cluster finds its targets by the API server's discovery page.

mod collector;
mod kubernetes_sd;
mod logs;
mod monitors;
mod site;
mod tokens;

use serde_json::Value;
use site::Site;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::harness::cluster::Cluster;

/// Switched on, targets that come and go, an alert that is delivered, no empty panel, the other engine, switched off.
#[test]
fn prometheus_sees_everything_by_itself() {
    Cluster::builder().run(|cluster| {
        let site = Site::new(&cluster);
        refused(&site);
        tokens::node_port(&site);
        tokens::discovery(&site);
        site.apply(HEARS);
        let hook = "http://hears.default.svc:8080/";
        let begun = Instant::now();
        let said = site.run(&["monitoring", "enable", "--scrape-interval", "2s", "--webhook", hook]);
        assert!(said.contains("prometheus is ready") && said.contains("alertmanager is ready"), "{said}");
        println!("enabled in {:?}", begun.elapsed());
        own_targets(&site);
        // Something to count for every panel, and something to be told of.
        site.apply(FAILS);
        site.apply(FEATURES);
        site.get_from_router();
        annotated_pod(&site);
        monitors::check(&site);
        example(&site, &cluster);
        no_empty_panel(&site);
        delivered(&site);
        let said =
            site.run(&["monitoring", "enable", "--scrape-interval", "2s", "--engine", "victoria-metrics"]);
        assert!(said.contains("prometheus is ready"), "{said}");
        site.eventually("VictoriaMetrics scrapes nodes", || {
            site.query("up{job=\"kubelet\"} == 1").len() == 3
        });
        kubernetes_sd::check(&site);
        let said = site.run(&["monitoring", "disable"]);
        assert!(said.contains("monitoring is disabled"), "{said}");
        site.eventually("nothing of it is left", || {
            site.output(&["get", "namespace", "monitoring"]).contains("not found")
        });
        assert!(!site.run(&["get", "clusterrolebindings", "-o", "name"]).contains("monitoring:prometheus"));
        assert!(site.run(&["monitoring", "disable"]).contains("monitoring was not enabled"));
    });
}

/// Bad input is told before anything is made.
fn refused(site: &Site) {
    let check = |words: &[&str], part: &str| {
        let said = site.output(words);
        assert!(said.contains(part), "{words:?}: {said}");
    };
    check(&["monitoring", "open"], "minik8s monitoring enable");
    check(&["monitoring", "enable", "--retention", "long"], "as 15d");
    check(&["monitoring", "enable", "--engine", "graphite"], "victoria-metrics");
    check(&["monitoring", "enable", "--claim", "big"], "as 10Gi");
    check(&["monitoring", "enable", "--webhook", "alerts"], "http://alerts.example");
    check(&["image", "make", "minik8s.io/none:1", "--data-dir", site.data_dir()], "minik8s.io/prometheus:1");
    check(&["get", "namespace", "monitoring"], "not found");
}

/// Everything that is there in every cluster is found and answers.
fn own_targets(site: &Site) {
    for (query, count) in [
        ("up{job=\"apiserver\"} == 1", 1),
        ("up{job=\"kube-state-metrics\"} == 1", 1),
        ("up{job=\"kubelet\"} == 1", 3),
        ("up{job=\"node-exporter\"} == 1", 1),
        ("up{job=\"pods\",namespace=\"monitoring\"} == 1", 2),
    ] {
        site.eventually(query, || site.query(query).len() == count);
    }
}

/// A pod that asks for it is scraped within seconds, and forgotten when it is gone.
fn annotated_pod(site: &Site) {
    let begun = Instant::now();
    site.apply(COUNTS);
    site.run(&["wait", "pod/counts", "--for=condition=Ready", "--timeout=180s"]);
    let ready = begun.elapsed();
    let up = "up{job=\"pods\",pod=\"counts\"} == 1";
    site.eventually(up, || !site.query(up).is_empty());
    let found = site.until_found("parcels_total{pod=\"counts\",app=\"counts\"}");
    assert_eq!(found[0]["value"][1], "41", "by its own port and path");
    println!("a pod is ready after {ready:?}, and scraped after {:?}", begun.elapsed());
    site.run(&["delete", "pod", "counts", "--wait=true"]);
    site.eventually("its series end", || site.query("parcels_total{pod=\"counts\"}").is_empty());
    // A scrape that failed ends its series before the target is forgotten.
    site.eventually("its target is gone", || site.query("up{job=\"pods\",pod=\"counts\"}").is_empty());
}

/// The example with Prometheus' Python client.
fn example(site: &Site, cluster: &Cluster) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/monitoring/run");
    let output = Command::new(script)
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("DATA_DIR", &cluster.dir)
        .env("IMAGES", &cluster.dir)
        .env("MINIK8S", env!("CARGO_BIN_EXE_minik8s"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(
        site.run(&["get", "deployments", "-n", "monitoring"]).contains("prometheus"),
        "it was there before"
    );
}

/// Every query of every dashboard has an answer, so each metric and label in it exists.
fn no_empty_panel(site: &Site) {
    let folder = tempfile::tempdir().unwrap();
    let written = site.run(&["monitoring", "dashboards", "-o", folder.path().to_str().unwrap()]);
    let mut queries = Vec::new();
    let dashboards = written.lines().filter(|path| path.contains("/dashboards/minik8s-"));
    // Pods of this cluster have no proxies.
    for path in dashboards.filter(|path| !path.ends_with("minik8s-mesh.json")) {
        let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let expr = target["expr"].as_str().unwrap();
                let expr = expr.replace("$namespace", ".*").replace("$node", ".*");
                let name = format!("{} / {}", dashboard["title"], panel["title"]);
                queries.push((name, expr.replace("$__rate_interval", "1m")));
            }
        }
    }
    assert!(queries.len() > 80, "{}", queries.len());
    let count = queries.len();
    let mut empty = queries;
    site.eventually_told(
        || {
            site.get_from_router();
            empty.retain(|(_, query)| site.query(query).is_empty());
            empty.is_empty()
        },
        "no panel is empty",
    );
    println!("{count} queries of dashboards have an answer");
}

/// The Job that failed is told of, with what to do.
fn delivered(site: &Site) {
    site.eventually("an alert is delivered", || {
        let heard = site.run(&["logs", "hears"]);
        heard.contains("KubeJobFailed") && heard.contains("docs/troubleshooting.md#kubejobfailed")
    });
}

/// Prints what it is sent.
const HEARS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: hears, labels: {app: hears}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: hears
      image: minik8s.io/function-python:3.11-7
      command: [/usr/bin/python3.11, -u, -c]
      args:
        - |
          from http.server import BaseHTTPRequestHandler, HTTPServer
          class Hears(BaseHTTPRequestHandler):
              def do_POST(self):
                  print(self.rfile.read(int(self.headers["content-length"])).decode())
                  self.send_response(200)
                  self.end_headers()
          HTTPServer(("", 8080), Hears).serve_forever()
---
apiVersion: v1
kind: Service
metadata: {name: hears}
spec:
  selector: {app: hears}
  ports: [{port: 8080}]
"#;

const FAILS: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: fails}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: fails, image: 'minik8s.io/busybox:1', command: ['false']}]
";

/// Something of every feature that has panels.
const FEATURES: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: scaled}
spec:
  selector: {matchLabels: {app: scaled}}
  template:
    metadata: {labels: {app: scaled}}
    spec:
      terminationGracePeriodSeconds: 0
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
      containers:
        - name: scaled
          image: minik8s.io/busybox:1
          command: [sleep, '1000000']
          resources: {requests: {cpu: 10m}}
          volumeMounts: [{name: data, mountPath: /data}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: scaled}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: scaled}
  minReplicas: 1
  maxReplicas: 3
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
---
apiVersion: minik8s.io/v1
kind: Function
metadata: {name: idle}
spec: {runtime: python3.11, code: {source: 'def main(params): return params'}}
---
apiVersion: minik8s.io/v1
kind: Workflow
metadata: {name: greet}
spec: {definition: {StartAt: Greet, States: {Greet: {Type: Pass, Result: hello, End: true}}}}
---
apiVersion: minik8s.io/v1
kind: WorkflowRun
metadata: {name: greet-1}
spec: {workflow: greet}
"#;

/// Its page is not where a page usually is.
const COUNTS: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: counts
  labels: {app: counts}
  annotations: {prometheus.io/scrape: 'true', prometheus.io/port: '9123', prometheus.io/path: /metrics}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: counts
      image: minik8s.io/busybox:1
      command: [sh, -c, 'mkdir /tmp/www; echo "parcels_total 41" > /tmp/www/metrics; exec httpd -f -p 9123 -h /tmp/www']
      ports: [{containerPort: 80}, {containerPort: 81}]
      readinessProbe: {tcpSocket: {port: 9123}, periodSeconds: 1}
"#;
