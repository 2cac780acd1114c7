//! ServiceMonitor, PodMonitor and PrometheusRule on a real cluster, and autoscaling by what they bring.

use serde_json::Value;

use super::site::Site;

pub fn check(site: &Site) {
    refused(site);
    site.apply(QUEUE);
    site.run(&["wait", "pod", "-l", "app=queue", "--for=condition=Ready", "--timeout=180s"]);
    let by_service =
        "queue_depth{job=\"queue\",service=\"queue\",endpoint=\"metrics\",namespace=\"default\"}";
    site.eventually(by_service, || !site.query(by_service).is_empty());
    let by_pod = "queue_depth{job=\"default/queue-pods\",namespace=\"default\"}";
    site.eventually(by_pod, || !site.query(by_pod).is_empty());
    // Rules are read without a restart, and forgotten with their object.
    let recorded = "queue:depth:double{team=\"shop\"}";
    assert_eq!(site.until_found(recorded)[0]["value"][1], "60");
    metrics_apis(site);
    autoscaled(site);
    site.run(&[
        "delete",
        "hpa,servicemonitors,podmonitors,prometheusrules,deployments,services",
        "-l",
        "app=queue",
    ]);
    site.eventually("its rule is gone", || site.query(recorded).is_empty());
}

/// One file that the engine cannot read would keep it from all others.
fn refused(site: &Site) {
    let said = site.apply_refused(
        "{apiVersion: monitoring.coreos.com/v1, kind: PrometheusRule, metadata: {name: broken}, \
         spec: {groups: [{name: g, rules: [{alert: Bad, expr: 'sum('}]}]}}",
    );
    assert!(said.contains("spec.groups[0].rules[0].expr") && said.contains("1:5: parse error"), "{said}");
    let said = site.apply_refused(
        "{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: broken}, \
         spec: {selector: {}, endpoints: [{port: http, interval: often}]}}",
    );
    assert!(said.contains("spec.endpoints[0].interval"), "{said}");
}

fn metrics_apis(site: &Site) {
    // What is scraped late has no value for a moment.
    let get = |path: &str| {
        let mut found = Value::Null;
        site.eventually(path, || {
            found = serde_json::from_str(&site.output(&["get", "--raw", path])).unwrap_or_default();
            !found["items"][0].is_null()
        });
        found
    };
    let external =
        get("/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue_depth?labelSelector=job%3Dqueue");
    assert_eq!(external["items"][0]["value"], "30", "{external}");
    let pods = get(
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/*/queue_depth?labelSelector=app%3Dqueue",
    );
    assert_eq!(pods["items"][0]["describedObject"]["kind"], "Pod", "{pods}");
    // Series of other namespaces are not told.
    for (namespace, name) in [("default", "nothing_such"), ("kube-system", "queue_depth")] {
        let path = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{name}");
        site.eventually(&path, || {
            let said = site.output(&["get", "--raw", &path]);
            assert!(!said.contains("\"value\""), "{said}");
            said.contains(&format!("no series {name}"))
        });
    }
}

/// Thirty that wait, ten for each: three. Each pod that comes says thirty as well, but three are the most.
fn autoscaled(site: &Site) {
    site.eventually("three replicas", || {
        site.output(&["get", "deployment", "queue", "-o", "jsonpath={.spec.replicas}"]).trim() == "3"
    });
    site.eventually("why tells what was asked for", || {
        let why = site.output(&["why", "hpa/queue"]);
        why.contains("asked for: queue_depth{namespace=\"default\",job=\"queue\"}")
            && why.contains("replicas")
            && why.contains("target 10")
    });
}

const QUEUE: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: queue, labels: {app: queue}}
spec:
  replicas: 1
  selector: {matchLabels: {app: queue}}
  template:
    metadata: {labels: {app: queue}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
        - name: queue
          image: minik8s.io/busybox:1
          command: [sh, -c, 'mkdir /tmp/www; echo "queue_depth 30" > /tmp/www/metrics; exec httpd -f -p 9124 -h /tmp/www']
          ports: [{name: metrics, containerPort: 9124}]
          readinessProbe: {tcpSocket: {port: 9124}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: queue, labels: {app: queue}}
spec:
  selector: {app: queue}
  ports: [{name: metrics, port: 80, targetPort: metrics}]
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: queue, labels: {app: queue}}
spec:
  selector: {matchLabels: {app: queue}}
  endpoints: [{port: metrics, interval: 2s}]
---
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: queue-pods, labels: {app: queue}}
spec:
  selector: {matchLabels: {app: queue}}
  podMetricsEndpoints: [{port: metrics, interval: 2s}]
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: queue, labels: {app: queue}}
spec:
  groups:
    - name: queue
      interval: 2s
      rules: [{record: 'queue:depth:double', expr: 'max(queue_depth) * 2', labels: {team: shop}}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: queue, labels: {app: queue}}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: queue}
  minReplicas: 1
  maxReplicas: 3
  metrics:
    - type: External
      external:
        metric: {name: queue_depth, selector: {matchLabels: {job: queue}}}
        target: {type: AverageValue, averageValue: '10'}
"#;
