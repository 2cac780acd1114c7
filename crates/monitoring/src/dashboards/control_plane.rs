//! The API server and its store.

use super::model::{Dashboard, Unit, panel};

pub const CONTROL_PLANE: Dashboard = Dashboard {
    uid: "minik8s-control-plane",
    title: "minik8s / API server and store",
    variables: &[],
    panels: &[
        panel(
            "Requests by verb",
            Unit::PerSecond,
            &[("sum by (verb) (rate(apiserver_request_total[$__rate_interval]))", "{{verb}}")],
        ),
        panel(
            "Requests by code",
            Unit::PerSecond,
            &[("sum by (code) (code_resource:apiserver_request_total:rate5m)", "{{code}}")],
        ),
        panel(
            "Time of 99 in 100 requests",
            Unit::Seconds,
            &[("cluster_quantile:apiserver_request_duration_seconds:histogram_quantile", "{{verb}}")],
        ),
        panel(
            "Requests under way",
            Unit::Count,
            &[
                ("sum by (request_kind) (apiserver_current_inflight_requests)", "{{request_kind}}"),
                ("sum(apiserver_flowcontrol_current_inqueue_requests)", "waiting"),
            ],
        ),
        panel(
            "Stored objects",
            Unit::Count,
            &[("topk(15, max by (resource) (apiserver_storage_objects))", "{{resource}}")],
        ),
        panel("Memory", Unit::Bytes, &[("process_resident_memory_bytes{job=\"apiserver\"}", "{{instance}}")]),
        panel(
            "CPU",
            Unit::Cores,
            &[("rate(process_cpu_seconds_total{job=\"apiserver\"}[$__rate_interval])", "{{instance}}")],
        ),
        panel(
            "Most asked for",
            Unit::PerSecond,
            &[("topk(10, sum by (resource) (code_resource:apiserver_request_total:rate5m))", "{{resource}}")],
        ),
    ],
};
