//! `/metrics/cadvisor`: the names that dashboards and alerts know. Pure.

use minik8s_metrics::Text;

use super::collect::{ContainerSample, NodeSample, PodSample};
use super::network::Traffic;

type Read = fn(&ContainerSample) -> f64;
type ReadTraffic = fn(&Traffic) -> f64;

const PER_CONTAINER: [(&str, &str, &str, Read); 8] = [
    ("container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed in seconds.", |c| {
        c.usage.cpu as f64 / 1e9
    }),
    ("container_memory_usage_bytes", "gauge", "Current memory usage in bytes.", |c| c.usage.memory as f64),
    ("container_memory_working_set_bytes", "gauge", "Current working set in bytes.", |c| {
        c.usage.working_set as f64
    }),
    ("container_memory_rss", "gauge", "Size of RSS in bytes.", |c| c.usage.rss as f64),
    ("container_memory_cache", "gauge", "Number of bytes of page cache memory.", |c| {
        c.usage.memory.saturating_sub(c.usage.rss) as f64
    }),
    ("container_processes", "gauge", "Number of processes running inside the container.", |c| {
        c.usage.processes as f64
    }),
    (
        "container_start_time_seconds",
        "gauge",
        "Start time of the container since unix epoch in seconds.",
        |c| c.started.as_second() as f64,
    ),
    ("container_last_seen", "gauge", "Last time a container was seen by the exporter", |_| 0.0),
];

const PER_INTERFACE: [(&str, &str, ReadTraffic); 6] = [
    ("container_network_receive_bytes_total", "Cumulative count of bytes received", |t| t.received as f64),
    ("container_network_receive_packets_total", "Cumulative count of packets received", |t| {
        t.received_packets as f64
    }),
    (
        "container_network_receive_errors_total",
        "Cumulative count of errors encountered while receiving",
        |t| t.receive_errors as f64,
    ),
    ("container_network_transmit_bytes_total", "Cumulative count of bytes transmitted", |t| t.sent as f64),
    ("container_network_transmit_packets_total", "Cumulative count of packets transmitted", |t| {
        t.sent_packets as f64
    }),
    (
        "container_network_transmit_errors_total",
        "Cumulative count of errors encountered while transmitting",
        |t| t.send_errors as f64,
    ),
];

pub fn cadvisor(sample: &NodeSample) -> String {
    let mut text = Text::default();
    let time = Some(sample.time.as_millisecond());
    for (name, kind, help, read) in PER_CONTAINER {
        text.metric(name, kind, help);
        for (pod, container) in containers(sample) {
            let value =
                if name == "container_last_seen" { sample.time.as_second() as f64 } else { read(container) };
            text.sample(name, &labels(pod, container), value, time);
        }
    }
    for (name, help, read) in PER_INTERFACE {
        text.metric(name, "counter", help);
        for pod in &sample.pods {
            for traffic in &pod.traffic {
                let labels =
                    [("interface", &*traffic.interface), ("namespace", &*pod.namespace), ("pod", &*pod.name)];
                text.sample(name, &labels, read(traffic), time);
            }
        }
    }
    text.metric("machine_memory_bytes", "gauge", "Amount of memory installed on the machine.");
    text.sample("machine_memory_bytes", &[], sample.memory_total as f64, None);
    text.finish()
}

fn containers(sample: &NodeSample) -> impl Iterator<Item = (&PodSample, &ContainerSample)> {
    sample.pods.iter().flat_map(|pod| pod.containers.iter().map(move |container| (pod, container)))
}

fn labels<'a>(pod: &'a PodSample, container: &'a ContainerSample) -> [(&'static str, &'a str); 5] {
    [
        ("container", &container.name),
        ("id", &container.id),
        ("image", &container.image),
        ("namespace", &pod.namespace),
        ("pod", &pod.name),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page() {
        insta::assert_snapshot!(cadvisor(&super::super::resource::tests::node()));
    }
}
