//! The rules by Prometheus' own tool: they are well formed, and each alert fires when it should and only then.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use minik8s_monitoring::rules::{ALERTS, RECORDING, alerts};

/// An alert, what is measured every minute until it fires, and what is measured where it must not.
struct Case {
    alert: &'static str,
    /// Series and values, as promtool writes them.
    bad: &'static [(&'static str, &'static str)],
    /// None where the alert is about something being absent.
    good: &'static [(&'static str, &'static str)],
}

const fn case(
    alert: &'static str,
    bad: &'static [(&'static str, &'static str)],
    good: &'static [(&'static str, &'static str)],
) -> Case {
    Case { alert, bad, good }
}

const CASES: &[Case] = &[
    case("TargetDown", &[("up{job=\"pods\"}", "0x120")], &[("up{job=\"pods\"}", "1x120")]),
    case("KubeAPIDown", &[("up{job=\"other\"}", "1x120")], &[("up{job=\"apiserver\"}", "1x120")]),
    case(
        "KubeletDown",
        &[("up{job=\"kubelet\",metrics_path=\"/metrics\",node=\"n\"}", "0x120")],
        &[("up{job=\"kubelet\",metrics_path=\"/metrics\",node=\"n\"}", "1x120")],
    ),
    case(
        "KubeNodeNotReady",
        &[("kube_node_status_condition{node=\"n\",condition=\"Ready\",status=\"true\"}", "0x120")],
        &[("kube_node_status_condition{node=\"n\",condition=\"Ready\",status=\"true\"}", "1x120")],
    ),
    case(
        "KubeNodePressure",
        &[("kube_node_status_condition{node=\"n\",condition=\"DiskPressure\",status=\"true\"}", "1x120")],
        &[("kube_node_status_condition{node=\"n\",condition=\"DiskPressure\",status=\"true\"}", "0x120")],
    ),
    case(
        "NodeFilesystemSpaceFillingUp",
        &[("node_filesystem_avail_bytes", "39-0.1x120"), ("node_filesystem_size_bytes", "100x120")],
        &[("node_filesystem_avail_bytes", "39x120"), ("node_filesystem_size_bytes", "100x120")],
    ),
    case(
        "NodeFilesystemAlmostOutOfSpace",
        &[("node_filesystem_avail_bytes", "9x120"), ("node_filesystem_size_bytes", "100x120")],
        &[("node_filesystem_avail_bytes", "11x120"), ("node_filesystem_size_bytes", "100x120")],
    ),
    case(
        "NodeMemoryHighUtilization",
        &[
            ("node_memory_MemAvailable_bytes{job=\"node-exporter\"}", "5x120"),
            ("node_memory_MemTotal_bytes{job=\"node-exporter\"}", "100x120"),
        ],
        &[
            ("node_memory_MemAvailable_bytes{job=\"node-exporter\"}", "50x120"),
            ("node_memory_MemTotal_bytes{job=\"node-exporter\"}", "100x120"),
        ],
    ),
    case(
        "NodeCPUHighUsage",
        &[("node_cpu_seconds_total{job=\"node-exporter\",cpu=\"0\",mode=\"idle\"}", "0+1x120")],
        &[("node_cpu_seconds_total{job=\"node-exporter\",cpu=\"0\",mode=\"idle\"}", "0+55x120")],
    ),
    case(
        "KubePodCrashLooping",
        &[(
            "kube_pod_container_status_waiting_reason{namespace=\"a\",pod=\"p\",container=\"c\",reason=\"CrashLoopBackOff\"}",
            "1x120",
        )],
        &[],
    ),
    case(
        "KubeContainerWaiting",
        &[(
            "kube_pod_container_status_waiting_reason{namespace=\"a\",pod=\"p\",container=\"c\",reason=\"ErrImagePull\"}",
            "1x120",
        )],
        &[],
    ),
    case(
        "KubePodUnschedulable",
        &[("kube_pod_status_unschedulable{namespace=\"a\",pod=\"p\"}", "1x120")],
        &[],
    ),
    case(
        "KubePodNotReady",
        &[("kube_pod_status_phase{namespace=\"a\",pod=\"p\",phase=\"Pending\"}", "1x120")],
        &[("kube_pod_status_phase{namespace=\"a\",pod=\"p\",phase=\"Running\"}", "1x120")],
    ),
    case(
        "KubeContainerOOMKilled",
        &[
            (
                "kube_pod_container_status_restarts_total{namespace=\"a\",pod=\"p\",container=\"c\"}",
                "0+1x120",
            ),
            (
                "kube_pod_container_status_last_terminated_reason{namespace=\"a\",pod=\"p\",container=\"c\",reason=\"OOMKilled\"}",
                "1x120",
            ),
        ],
        &[
            (
                "kube_pod_container_status_restarts_total{namespace=\"a\",pod=\"p\",container=\"c\"}",
                "0+1x120",
            ),
            (
                "kube_pod_container_status_last_terminated_reason{namespace=\"a\",pod=\"p\",container=\"c\",reason=\"Error\"}",
                "1x120",
            ),
        ],
    ),
    case(
        "KubeDeploymentReplicasMismatch",
        &[
            ("kube_deployment_spec_replicas{namespace=\"a\",deployment=\"d\"}", "3x120"),
            ("kube_deployment_status_replicas_available{namespace=\"a\",deployment=\"d\"}", "2x120"),
        ],
        &[
            ("kube_deployment_spec_replicas{namespace=\"a\",deployment=\"d\"}", "3x120"),
            ("kube_deployment_status_replicas_available{namespace=\"a\",deployment=\"d\"}", "3x120"),
        ],
    ),
    case(
        "KubeStatefulSetReplicasMismatch",
        &[
            ("kube_statefulset_replicas{namespace=\"a\",statefulset=\"s\"}", "3x120"),
            ("kube_statefulset_status_replicas_ready{namespace=\"a\",statefulset=\"s\"}", "1x120"),
        ],
        &[
            ("kube_statefulset_replicas{namespace=\"a\",statefulset=\"s\"}", "3x120"),
            ("kube_statefulset_status_replicas_ready{namespace=\"a\",statefulset=\"s\"}", "3x120"),
        ],
    ),
    case(
        "KubeDaemonSetMissing",
        &[
            ("kube_daemonset_status_desired_number_scheduled{namespace=\"a\",daemonset=\"d\"}", "3x120"),
            ("kube_daemonset_status_number_ready{namespace=\"a\",daemonset=\"d\"}", "2x120"),
        ],
        &[
            ("kube_daemonset_status_desired_number_scheduled{namespace=\"a\",daemonset=\"d\"}", "3x120"),
            ("kube_daemonset_status_number_ready{namespace=\"a\",daemonset=\"d\"}", "3x120"),
        ],
    ),
    case(
        "KubeJobFailed",
        &[("kube_job_failed{namespace=\"a\",job_name=\"j\",condition=\"true\"}", "1x120")],
        &[("kube_job_failed{namespace=\"a\",job_name=\"j\",condition=\"true\"}", "0x120")],
    ),
    case(
        "KubeHpaMaxedOut",
        &[
            ("kube_horizontalpodautoscaler_status_current_replicas{horizontalpodautoscaler=\"h\"}", "5x120"),
            ("kube_horizontalpodautoscaler_spec_max_replicas{horizontalpodautoscaler=\"h\"}", "5x120"),
            ("kube_horizontalpodautoscaler_spec_min_replicas{horizontalpodautoscaler=\"h\"}", "1x120"),
        ],
        &[
            ("kube_horizontalpodautoscaler_status_current_replicas{horizontalpodautoscaler=\"h\"}", "1x120"),
            ("kube_horizontalpodautoscaler_spec_max_replicas{horizontalpodautoscaler=\"h\"}", "1x120"),
            ("kube_horizontalpodautoscaler_spec_min_replicas{horizontalpodautoscaler=\"h\"}", "1x120"),
        ],
    ),
    case(
        "KubeServiceWithoutEndpoints",
        &[
            ("kube_service_spec_type{namespace=\"a\",service=\"s\",type=\"ClusterIP\"}", "1x120"),
            ("kube_endpoint_address{namespace=\"a\",endpoint=\"s\",ready=\"false\"}", "1x120"),
            ("kube_endpoint_address{namespace=\"b\",endpoint=\"s\",ready=\"true\"}", "1x120"),
        ],
        &[
            ("kube_service_spec_type{namespace=\"a\",service=\"s\",type=\"ClusterIP\"}", "1x120"),
            ("kube_endpoint_address{namespace=\"a\",endpoint=\"s\",ready=\"true\"}", "1x120"),
            ("kube_service_spec_type{namespace=\"a\",service=\"t\",type=\"ExternalName\"}", "1x120"),
        ],
    ),
    case(
        "KubeClientCertificateExpiration",
        &[
            (
                "apiserver_client_certificate_expiration_seconds_count{job=\"apiserver\",instance=\"a\"}",
                "0+10x120",
            ),
            (
                "apiserver_client_certificate_expiration_seconds_bucket{job=\"apiserver\",instance=\"a\",le=\"604800\"}",
                "0+5x120",
            ),
            (
                "apiserver_client_certificate_expiration_seconds_bucket{job=\"apiserver\",instance=\"a\",le=\"+Inf\"}",
                "0+10x120",
            ),
        ],
        &[
            (
                "apiserver_client_certificate_expiration_seconds_count{job=\"apiserver\",instance=\"a\"}",
                "0+10x120",
            ),
            (
                "apiserver_client_certificate_expiration_seconds_bucket{job=\"apiserver\",instance=\"a\",le=\"604800\"}",
                "0x120",
            ),
            (
                "apiserver_client_certificate_expiration_seconds_bucket{job=\"apiserver\",instance=\"a\",le=\"2592000\"}",
                "0+10x120",
            ),
            (
                "apiserver_client_certificate_expiration_seconds_bucket{job=\"apiserver\",instance=\"a\",le=\"+Inf\"}",
                "0+10x120",
            ),
        ],
    ),
    case(
        "KubePersistentVolumeFillingUp",
        &[
            ("kubelet_volume_stats_available_bytes{persistentvolumeclaim=\"c\"}", "5x120"),
            ("kubelet_volume_stats_capacity_bytes{persistentvolumeclaim=\"c\"}", "100x120"),
        ],
        &[
            ("kubelet_volume_stats_available_bytes{persistentvolumeclaim=\"c\"}", "50x120"),
            ("kubelet_volume_stats_capacity_bytes{persistentvolumeclaim=\"c\"}", "100x120"),
        ],
    ),
    case(
        "KubePersistentVolumeClaimPending",
        &[(
            "kube_persistentvolumeclaim_status_phase{persistentvolumeclaim=\"c\",phase=\"Pending\"}",
            "1x120",
        )],
        &[("kube_persistentvolumeclaim_status_phase{persistentvolumeclaim=\"c\",phase=\"Bound\"}", "1x120")],
    ),
    case(
        "KubeAPIErrors",
        &[
            ("apiserver_request_total{job=\"apiserver\",code=\"500\"}", "0+10x120"),
            ("apiserver_request_total{job=\"apiserver\",code=\"200\"}", "0+100x120"),
        ],
        &[
            ("apiserver_request_total{job=\"apiserver\",code=\"500\"}", "0+1x120"),
            ("apiserver_request_total{job=\"apiserver\",code=\"200\"}", "0+100x120"),
        ],
    ),
    case(
        "KubeAPISlow",
        &[
            (
                "apiserver_request_duration_seconds_bucket{job=\"apiserver\",verb=\"GET\",le=\"1.0\"}",
                "0+50x120",
            ),
            (
                "apiserver_request_duration_seconds_bucket{job=\"apiserver\",verb=\"GET\",le=\"10.0\"}",
                "0+100x120",
            ),
            (
                "apiserver_request_duration_seconds_bucket{job=\"apiserver\",verb=\"GET\",le=\"+Inf\"}",
                "0+100x120",
            ),
        ],
        &[
            (
                "apiserver_request_duration_seconds_bucket{job=\"apiserver\",verb=\"GET\",le=\"1.0\"}",
                "0+100x120",
            ),
            (
                "apiserver_request_duration_seconds_bucket{job=\"apiserver\",verb=\"GET\",le=\"10.0\"}",
                "0+100x120",
            ),
            (
                "apiserver_request_duration_seconds_bucket{job=\"apiserver\",verb=\"GET\",le=\"+Inf\"}",
                "0+100x120",
            ),
        ],
    ),
    case(
        "StoreGrowth",
        &[("apiserver_storage_objects{resource=\"events\"}", "0+1000x120")],
        &[("apiserver_storage_objects{resource=\"events\"}", "90000x120")],
    ),
    case(
        "KubeProxySyncFailed",
        &[("kubeproxy_sync_proxy_rules_nftables_sync_failures_total{node=\"n\"}", "0+1x120")],
        &[("kubeproxy_sync_proxy_rules_nftables_sync_failures_total{node=\"n\"}", "3x120")],
    ),
    case(
        "CoreDNSErrorsHigh",
        &[
            ("coredns_dns_responses_total{node=\"n\",rcode=\"SERVFAIL\"}", "0+10x120"),
            ("coredns_dns_responses_total{node=\"n\",rcode=\"NOERROR\"}", "0+10x120"),
        ],
        &[
            ("coredns_dns_responses_total{node=\"n\",rcode=\"NXDOMAIN\"}", "0+10x120"),
            ("coredns_dns_responses_total{node=\"n\",rcode=\"NOERROR\"}", "0+10x120"),
        ],
    ),
    case(
        "RouterErrorsHigh",
        &[
            ("minik8s_router_requests_total{host=\"h\",code=\"503\"}", "0+10x120"),
            ("minik8s_router_requests_total{host=\"h\",code=\"200\"}", "0+10x120"),
        ],
        &[
            ("minik8s_router_requests_total{host=\"h\",code=\"404\"}", "0+10x120"),
            ("minik8s_router_requests_total{host=\"h\",code=\"200\"}", "0+10x120"),
        ],
    ),
];

fn promtool(arguments: &[&str], directory: &Path) {
    let output = Command::new("promtool").args(arguments).current_dir(directory).output();
    let output = output.expect("promtool is there: scripts/setup --test installs it");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool {arguments:?}:\n{said}");
}

fn rules() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("alerts.yml"), ALERTS).unwrap();
    std::fs::write(directory.path().join("recording.yml"), RECORDING).unwrap();
    directory
}

/// One test of promtool's: series as they are given, and how many of an alert fire after two hours.
fn test(alert: &str, series: &[(&str, &str)], firing: usize) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let mut text = "  - interval: 1m\n    input_series:\n".to_owned();
    for (name, values) in series {
        text += &format!("      - series: {}\n        values: {}\n", quoted(name), quoted(values));
    }
    let expr = format!("count by (alertname) (ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}})");
    text += &format!(
        "    promql_expr_test:\n      - expr: {}\n        eval_time: 2h\n        exp_samples:",
        quoted(&expr)
    );
    text += &match firing {
        0 => " []\n".to_owned(),
        count => format!("\n          - labels: '{{alertname=\"{alert}\"}}'\n            value: {count}\n"),
    };
    text
}

#[test]
fn rules_are_well_formed() {
    promtool(&["check", "rules", "alerts.yml", "recording.yml"], rules().path());
}

#[test]
fn every_alert_fires_when_it_should_and_only_then() {
    let known: BTreeSet<&str> = alerts().collect();
    let tried: BTreeSet<&str> = CASES.iter().map(|case| case.alert).collect();
    assert_eq!(known, tried, "every alert has a case");
    let mut text = "rule_files: [alerts.yml, recording.yml]\nevaluation_interval: 5m\ntests:\n".to_owned();
    for case in CASES {
        text += &test(case.alert, case.bad, 1);
        // Something is measured, or promtool evaluates nothing.
        let calm = [case.good, &[("something", "1x120")]].concat();
        text += &test(case.alert, &calm, 0);
    }
    let directory = rules();
    std::fs::write(directory.path().join("tests.yml"), text).unwrap();
    promtool(&["test", "rules", "tests.yml"], directory.path());
}

#[test]
fn every_alert_says_what_to_do_and_where_to_read_on() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/troubleshooting.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let headings: BTreeSet<String> =
        docs.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_lowercase).collect();
    for part in ALERTS.split("- alert: ").skip(1) {
        let name = part.lines().next().unwrap();
        for field in ["summary: ", "description: ", "severity: "] {
            assert!(part.contains(field), "{name} has no {field}");
        }
        assert!(part.contains(&format!("docs/troubleshooting.md#{}", name.to_lowercase())), "{name}");
        assert!(headings.contains(&name.to_lowercase()), "docs/troubleshooting.md says nothing of {name}");
    }
}
