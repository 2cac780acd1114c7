//! Machines.

use super::model::{Dashboard, NODE, Unit, panel};

pub const NODES: Dashboard = Dashboard {
    uid: "minik8s-nodes",
    title: "minik8s / Nodes",
    variables: &[NODE],
    panels: &[
        panel("CPU", Unit::Percent, &[("instance:node_cpu_utilisation:rate5m{node=~\"$node\"}", "{{node}}")]),
        panel(
            "Load per processor",
            Unit::Count,
            &[("instance:node_load1_per_cpu:ratio{node=~\"$node\"}", "{{node}}")],
        ),
        panel(
            "Memory",
            Unit::Percent,
            &[("instance:node_memory_utilisation:ratio{node=~\"$node\"}", "{{node}}")],
        ),
        panel(
            "Memory available",
            Unit::Bytes,
            &[("node_memory_MemAvailable_bytes{node=~\"$node\"}", "{{node}}")],
        ),
        panel(
            "Disk of the data dir: used",
            Unit::Percent,
            &[(
                "1 - node_filesystem_avail_bytes{node=~\"$node\"} / node_filesystem_size_bytes{node=~\"$node\"}",
                "{{node}} {{mountpoint}}",
            )],
        ),
        panel(
            "Disk",
            Unit::BytesPerSecond,
            &[
                (
                    "sum by (node) (rate(node_disk_read_bytes_total{node=~\"$node\"}[$__rate_interval]))",
                    "{{node}} read",
                ),
                (
                    "sum by (node) (rate(node_disk_written_bytes_total{node=~\"$node\"}[$__rate_interval]))",
                    "{{node}} written",
                ),
            ],
        ),
        panel(
            "Network",
            Unit::BytesPerSecond,
            &[
                (
                    "instance:node_network_receive_bytes_excluding_lo:rate5m{node=~\"$node\"}",
                    "{{node}} received",
                ),
                (
                    "instance:node_network_transmit_bytes_excluding_lo:rate5m{node=~\"$node\"}",
                    "{{node}} sent",
                ),
            ],
        ),
        panel(
            "Pods and containers",
            Unit::Count,
            &[
                ("kubelet_running_pods{node=~\"$node\"}", "{{node}} pods"),
                ("kubelet_running_containers{node=~\"$node\"}", "{{node}} containers"),
            ],
        ),
        panel(
            "Operations of the container runtime",
            Unit::PerSecond,
            &[(
                "sum by (operation_type) (rate(kubelet_runtime_operations_total{node=~\"$node\"}[$__rate_interval]))",
                "{{operation_type}}",
            )],
        ),
        panel(
            "Agent: memory",
            Unit::Bytes,
            &[(
                "process_resident_memory_bytes{job=\"kubelet\",metrics_path=\"/metrics\",node=~\"$node\"}",
                "{{node}}",
            )],
        ),
    ],
};
