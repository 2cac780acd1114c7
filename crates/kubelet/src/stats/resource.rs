//! `/metrics/resource`: what autoscalers and `kubectl top` live on. Pure.

use minik8s_metrics::Text;

use super::collect::NodeSample;

const NANO: f64 = 1e9;

pub fn resource(sample: &NodeSample) -> String {
    let mut text = Text::default();
    let time = Some(sample.time.as_millisecond());
    let pods = &sample.pods;
    text.metric(
        "container_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the container in core-seconds",
    );
    for pod in pods {
        for c in &pod.containers {
            let labels = [("container", &*c.name), ("namespace", &*pod.namespace), ("pod", &*pod.name)];
            text.sample("container_cpu_usage_seconds_total", &labels, c.usage.cpu as f64 / NANO, time);
        }
    }
    text.metric(
        "container_memory_working_set_bytes",
        "gauge",
        "Current working set of the container in bytes",
    );
    for pod in pods {
        for c in &pod.containers {
            let labels = [("container", &*c.name), ("namespace", &*pod.namespace), ("pod", &*pod.name)];
            text.sample("container_memory_working_set_bytes", &labels, c.usage.working_set as f64, time);
        }
    }
    text.metric(
        "container_start_time_seconds",
        "gauge",
        "Start time of the container since unix epoch in seconds",
    );
    for pod in pods {
        for c in &pod.containers {
            let labels = [("container", &*c.name), ("namespace", &*pod.namespace), ("pod", &*pod.name)];
            text.sample(
                "container_start_time_seconds",
                &labels,
                c.started.as_millisecond() as f64 / 1e3,
                None,
            );
        }
    }
    text.metric(
        "node_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the node in core-seconds",
    );
    text.sample("node_cpu_usage_seconds_total", &[], sample.usage.cpu as f64 / NANO, time);
    text.metric("node_memory_working_set_bytes", "gauge", "Current working set of the node in bytes");
    text.sample("node_memory_working_set_bytes", &[], sample.usage.working_set as f64, time);
    text.metric(
        "pod_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the pod in core-seconds",
    );
    for pod in pods {
        let labels = [("namespace", &*pod.namespace), ("pod", &*pod.name)];
        text.sample("pod_cpu_usage_seconds_total", &labels, pod.usage.cpu as f64 / NANO, time);
    }
    text.metric("pod_memory_working_set_bytes", "gauge", "Current working set of the pod in bytes");
    for pod in pods {
        let labels = [("namespace", &*pod.namespace), ("pod", &*pod.name)];
        text.sample("pod_memory_working_set_bytes", &labels, pod.usage.working_set as f64, time);
    }
    text.metric(
        "resource_scrape_error",
        "gauge",
        "1 if there was an error while getting container metrics, 0 otherwise",
    );
    text.sample("resource_scrape_error", &[], 0.0, None);
    text.finish()
}

#[cfg(test)]
pub(super) mod tests {
    use jiff::Timestamp;

    use super::super::collect::{ClaimSample, ContainerSample, Disk, PodSample};
    use super::super::network::Traffic;
    use super::*;
    use crate::cgroup::Usage;

    pub(in crate::stats) fn node() -> NodeSample {
        let time = Timestamp::from_second(100).unwrap();
        let usage = |n: u64| Usage {
            cpu: n * 1_000_000_000,
            memory: n * 20,
            working_set: n * 10,
            rss: n * 5,
            ..Usage::default()
        };
        let container = ContainerSample {
            name: "main".into(),
            id: "c1".into(),
            image: "minik8s.io/busybox:1".into(),
            started: Timestamp::from_second(50).unwrap(),
            usage: usage(1),
            cpu_rate: Some(250_000_000),
        };
        let pod = PodSample {
            namespace: "default".into(),
            name: "web".into(),
            uid: "u1".into(),
            started: Timestamp::from_second(40).unwrap(),
            usage: usage(2),
            cpu_rate: None,
            traffic: vec![Traffic { interface: "eth0".into(), received: 3, sent: 4, ..Traffic::default() }],
            containers: vec![container],
            claims: vec![ClaimSample {
                volume: "data".into(),
                claim: "data-web".into(),
                path: "/volumes/v/mount".into(),
                disk: Disk { capacity: 50, available: 30, inodes: 9, inodes_free: 7 },
            }],
        };
        NodeSample {
            node: "n1".into(),
            time,
            booted: Timestamp::from_second(1).unwrap(),
            usage: usage(7),
            cpu_rate: Some(1_000_000_000),
            memory_total: 1000,
            disk: Disk { capacity: 100, available: 60, inodes: 10, inodes_free: 5 },
            traffic: Vec::new(),
            pods: vec![pod],
        }
    }

    #[test]
    fn the_page() {
        insta::assert_snapshot!(resource(&node()));
    }
}
