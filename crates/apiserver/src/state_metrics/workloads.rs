//! What runs pods: workloads, jobs, budgets, autoscalers.

use serde_json::Value;

use super::pods::owners;
use minik8s_api::state_metrics::{Page, Subject, amount, conditions, list, number, one_of, text};

/// Numbers of a kind: the metric's name after the kind's prefix, its help, where it stands.
type Numbers = &'static [(&'static str, &'static str, &'static str)];

fn counts(of: Subject<'_>, prefix: &str, numbers: Numbers, page: &mut Page) {
    for (name, help, path) in numbers {
        page.count(of, &format!("{prefix}_{name}"), help, path);
    }
}

const GENERATION: &str = "Sequence number representing a specific generation of the desired state.";

pub fn deployments(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "deployment", namespaced: true };
    page.created(of, "kube_deployment_created");
    counts(
        of,
        "kube_deployment",
        &[
            ("metadata_generation", GENERATION, "/metadata/generation"),
            ("spec_paused", "Whether the deployment is paused and will not be processed.", "/spec/paused"),
            ("spec_replicas", "Number of desired pods for a deployment.", "/spec/replicas"),
            (
                "status_observed_generation",
                "The generation observed by the deployment controller.",
                "/status/observedGeneration",
            ),
            ("status_replicas", "The number of replicas per deployment.", "/status/replicas"),
            (
                "status_replicas_available",
                "The number of available replicas per deployment.",
                "/status/availableReplicas",
            ),
            (
                "status_replicas_ready",
                "The number of ready replicas per deployment.",
                "/status/readyReplicas",
            ),
            (
                "status_replicas_unavailable",
                "The number of unavailable replicas per deployment.",
                "/status/unavailableReplicas",
            ),
            (
                "status_replicas_updated",
                "The number of updated replicas per deployment.",
                "/status/updatedReplicas",
            ),
        ],
        page,
    );
    let help = "The current status conditions of a deployment.";
    page.gauge(of, "kube_deployment_status_condition", help, conditions);
}

pub fn replica_sets(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "replicaset", namespaced: true };
    page.created(of, "kube_replicaset_created");
    page.gauge(of, "kube_replicaset_owner", "Information about the ReplicaSet's owner.", owners);
    counts(
        of,
        "kube_replicaset",
        &[
            ("metadata_generation", GENERATION, "/metadata/generation"),
            ("spec_replicas", "Number of desired pods for a ReplicaSet.", "/spec/replicas"),
            (
                "status_fully_labeled_replicas",
                "The number of fully labeled replicas per ReplicaSet.",
                "/status/fullyLabeledReplicas",
            ),
            (
                "status_observed_generation",
                "The generation observed by the ReplicaSet controller.",
                "/status/observedGeneration",
            ),
            (
                "status_ready_replicas",
                "The number of ready replicas per ReplicaSet.",
                "/status/readyReplicas",
            ),
            ("status_replicas", "The number of replicas per ReplicaSet.", "/status/replicas"),
        ],
        page,
    );
}

pub fn daemon_sets(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "daemonset", namespaced: true };
    page.created(of, "kube_daemonset_created");
    counts(
        of,
        "kube_daemonset",
        &[
            ("metadata_generation", GENERATION, "/metadata/generation"),
            (
                "status_current_number_scheduled",
                "The number of nodes running at least one daemon pod and are supposed to.",
                "/status/currentNumberScheduled",
            ),
            (
                "status_desired_number_scheduled",
                "The number of nodes that should be running the daemon pod.",
                "/status/desiredNumberScheduled",
            ),
            (
                "status_number_available",
                "The number of nodes that should be running the daemon pod and have it available.",
                "/status/numberAvailable",
            ),
            (
                "status_number_misscheduled",
                "The number of nodes running a daemon pod but are not supposed to.",
                "/status/numberMisscheduled",
            ),
            (
                "status_number_ready",
                "The number of nodes that should be running the daemon pod and have it ready.",
                "/status/numberReady",
            ),
            (
                "status_number_unavailable",
                "The number of nodes that should be running the daemon pod and have none available.",
                "/status/numberUnavailable",
            ),
            (
                "status_observed_generation",
                "The most recent generation observed by the daemon set controller.",
                "/status/observedGeneration",
            ),
            (
                "status_updated_number_scheduled",
                "The total number of nodes that are running updated daemon pod.",
                "/status/updatedNumberScheduled",
            ),
        ],
        page,
    );
}

pub fn stateful_sets(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "statefulset", namespaced: true };
    page.created(of, "kube_statefulset_created");
    counts(
        of,
        "kube_statefulset",
        &[
            ("metadata_generation", GENERATION, "/metadata/generation"),
            ("replicas", "Number of desired pods for a StatefulSet.", "/spec/replicas"),
            (
                "status_observed_generation",
                "The generation observed by the StatefulSet controller.",
                "/status/observedGeneration",
            ),
            ("status_replicas", "The number of replicas per StatefulSet.", "/status/replicas"),
            (
                "status_replicas_available",
                "The number of available replicas per StatefulSet.",
                "/status/availableReplicas",
            ),
            (
                "status_replicas_current",
                "The number of current replicas per StatefulSet.",
                "/status/currentReplicas",
            ),
            (
                "status_replicas_ready",
                "The number of ready replicas per StatefulSet.",
                "/status/readyReplicas",
            ),
            (
                "status_replicas_updated",
                "The number of updated replicas per StatefulSet.",
                "/status/updatedReplicas",
            ),
        ],
        page,
    );
}

pub fn jobs(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "job_name", namespaced: true };
    page.created(of, "kube_job_created");
    page.gauge(of, "kube_job_info", "Information about job.", |_, add| add(&[], 1.0));
    page.gauge(of, "kube_job_owner", "Information about the Job's owner.", owners);
    for (name, kind, help) in [
        ("kube_job_complete", "Complete", "The job has completed its execution."),
        ("kube_job_failed", "Failed", "The job has failed its execution."),
    ] {
        page.gauge(of, name, help, |job, add| {
            for condition in list(&job["status"]["conditions"]).filter(|c| c["type"] == kind) {
                let is = text(&condition["status"]).to_lowercase();
                one_of("condition", &is, &["true", "false", "unknown"], &[], add);
            }
        });
    }
    for (name, help, path) in [
        (
            "kube_job_spec_completions",
            "The desired number of successfully finished pods.",
            "/spec/completions",
        ),
        ("kube_job_spec_parallelism", "The maximum desired number of pods at any time.", "/spec/parallelism"),
        (
            "kube_job_status_completion_time",
            "CompletionTime represents time when the job was completed.",
            "/status/completionTime",
        ),
        (
            "kube_job_status_start_time",
            "StartTime represents time when the job was acknowledged.",
            "/status/startTime",
        ),
    ] {
        page.number(of, name, help, path);
    }
    counts(
        of,
        "kube_job",
        &[
            ("status_active", "The number of actively running pods.", "/status/active"),
            ("status_failed", "The number of pods which reached phase Failed.", "/status/failed"),
            ("status_succeeded", "The number of pods which reached phase Succeeded.", "/status/succeeded"),
        ],
        page,
    );
}

pub fn cron_jobs(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "cronjob", namespaced: true };
    page.created(of, "kube_cronjob_created");
    page.gauge(of, "kube_cronjob_info", "Info about cronjob.", |job, add| {
        let spec = &job["spec"];
        let labels = [
            ("schedule", text(&spec["schedule"])),
            ("concurrency_policy", text(&spec["concurrencyPolicy"])),
            ("timezone", text(&spec["timeZone"])),
        ];
        add(&labels, 1.0);
    });
    page.count(of, "kube_cronjob_spec_suspend", "Suspend flag tells to suspend executions.", "/spec/suspend");
    let name = "kube_cronjob_status_active";
    page.gauge(of, name, "Active holds pointers to currently running jobs.", |job, add| {
        add(&[], list(&job["status"]["active"]).count() as f64);
    });
    let name = "kube_cronjob_status_last_schedule_time";
    page.number(of, name, "When the job was last scheduled.", "/status/lastScheduleTime");
}

pub fn budgets(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "poddisruptionbudget", namespaced: true };
    page.created(of, "kube_poddisruptionbudget_created");
    counts(
        of,
        "kube_poddisruptionbudget_status",
        &[
            ("current_healthy", "Current number of healthy pods.", "/status/currentHealthy"),
            ("desired_healthy", "Minimum desired number of healthy pods.", "/status/desiredHealthy"),
            (
                "expected_pods",
                "Total number of pods counted by this disruption budget.",
                "/status/expectedPods",
            ),
            (
                "pod_disruptions_allowed",
                "Number of pod disruptions that are currently allowed.",
                "/status/disruptionsAllowed",
            ),
        ],
        page,
    );
}

pub fn autoscalers(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "horizontalpodautoscaler", namespaced: true };
    page.created(of, "kube_horizontalpodautoscaler_created");
    let name = "kube_horizontalpodautoscaler_info";
    page.gauge(of, name, "Information about this autoscaler.", |autoscaler, add| {
        let target = &autoscaler["spec"]["scaleTargetRef"];
        let labels = [
            ("scaletargetref_api_version", text(&target["apiVersion"])),
            ("scaletargetref_kind", text(&target["kind"])),
            ("scaletargetref_name", text(&target["name"])),
        ];
        add(&labels, 1.0);
    });
    counts(
        of,
        "kube_horizontalpodautoscaler",
        &[
            ("metadata_generation", GENERATION, "/metadata/generation"),
            ("spec_max_replicas", "Upper limit for the number of pods.", "/spec/maxReplicas"),
            ("spec_min_replicas", "Lower limit for the number of pods.", "/spec/minReplicas"),
            ("status_current_replicas", "Current number of replicas of pods.", "/status/currentReplicas"),
            ("status_desired_replicas", "Desired number of replicas of pods.", "/status/desiredReplicas"),
        ],
        page,
    );
    let help = "The condition of this autoscaler.";
    page.gauge(of, "kube_horizontalpodautoscaler_status_condition", help, conditions);
    let name = "kube_horizontalpodautoscaler_spec_target_metric";
    page.gauge(of, name, "The metric specifications used by this autoscaler.", |autoscaler, add| {
        for metric in list(&autoscaler["spec"]["metrics"]) {
            metric_values(metric, "target", add);
        }
    });
    let name = "kube_horizontalpodautoscaler_status_target_metric";
    page.gauge(of, name, "The current metric status used by this autoscaler.", |autoscaler, add| {
        for metric in list(&autoscaler["status"]["currentMetrics"]) {
            metric_values(metric, "current", add);
        }
    });
}

/// The target or the current value of a metric, whatever its type.
fn metric_values(metric: &Value, which: &str, add: minik8s_api::state_metrics::Add<'_>) {
    let Some(source) = metric.as_object().and_then(|all| all.values().find(|part| part.is_object())) else {
        return;
    };
    let own = text(&source["name"]);
    let name = if own.is_empty() { text(&source["metric"]["name"]) } else { own };
    let value = &source[which];
    for (field, kind) in
        [("averageUtilization", "utilization"), ("averageValue", "average"), ("value", "value")]
    {
        let found = match &value[field] {
            Value::String(quantity) => amount(quantity),
            other => number(other),
        };
        if let Some(found) = found {
            add(&[("metric_name", name), ("metric_target_type", kind)], found);
        }
    }
}
