//! Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs.

use serde_json::Value;

use super::super::page::{Page, amount, items, shown};
use super::pod::pod_template;
use super::{controller, selector};
use crate::client::Call;
use crate::error::Result;
use crate::print::{self, time};
use crate::select::Target;
use crate::session::Session;
use crate::verbs::pod_target;

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn names(object: &Value, page: &mut Page) {
    page.field(0, "Name", shown(&object["metadata"]["name"]));
    page.field(0, "Namespace", shown(&object["metadata"]["namespace"]));
}

pub async fn deployment(session: &Session, object: &Value, page: &mut Page) -> Result<bool> {
    let (spec, status) = (&object["spec"], &object["status"]);
    names(object, page);
    page.field(0, "CreationTimestamp", time::long(&object["metadata"]["creationTimestamp"]));
    page.labels(object);
    page.annotations(object);
    page.field(0, "Selector", selector(&spec["selector"]));
    page.field(
        0,
        "Replicas",
        format!(
            "{} desired | {} updated | {} total | {} available | {} unavailable",
            spec["replicas"].as_i64().unwrap_or(1),
            number(&status["updatedReplicas"]),
            number(&status["replicas"]),
            number(&status["availableReplicas"]),
            number(&status["unavailableReplicas"])
        ),
    );
    page.field(0, "StrategyType", shown(&spec["strategy"]["type"]));
    page.field(0, "MinReadySeconds", number(&spec["minReadySeconds"]));
    let rolling = &spec["strategy"]["rollingUpdate"];
    if rolling.is_object() {
        let text = format!(
            "{} max unavailable, {} max surge",
            shown(&rolling["maxUnavailable"]),
            shown(&rolling["maxSurge"])
        );
        page.field(0, "RollingUpdateStrategy", text);
    }
    pod_template(&spec["template"], page);
    conditions(status, page);
    replica_sets(session, object, page).await?;
    Ok(true)
}

fn conditions(status: &Value, page: &mut Page) {
    let conditions = items(&status["conditions"]);
    if conditions.is_empty() {
        return;
    }
    page.line(0, "Conditions:");
    page.line(1, "Type\tStatus\tReason");
    page.line(1, "----\t------\t------");
    for condition in conditions {
        let cells = ["type", "status", "reason"].map(|field| shown(&condition[field]));
        page.line(1, format!("{} \t{}\t{}", cells[0], cells[1], cells[2]));
    }
}

/// Old and new ReplicaSets of a Deployment.
async fn replica_sets(session: &Session, object: &Value, page: &mut Page) -> Result<()> {
    let namespace = shown(&object["metadata"]["namespace"]);
    let call = Call::get(format!("/apis/apps/v1/namespaces/{namespace}/replicasets"))
        .maybe("labelSelector", pod_target::selector(object));
    let list = session.client().await?.send(call).await?;
    let uid = &object["metadata"]["uid"];
    let own =
        |set: &&Value| items(&set["metadata"]["ownerReferences"]).iter().any(|owner| owner["uid"] == *uid);
    let revision = |set: &Value| -> i64 {
        let text = set["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str();
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    let mut sets: Vec<&Value> = print::members(&list).iter().filter(own).collect();
    sets.sort_by_key(|set| revision(set));
    let text = |set: &Value| {
        format!(
            "{} ({}/{} replicas created)",
            shown(&set["metadata"]["name"]),
            number(&set["status"]["replicas"]),
            number(&set["spec"]["replicas"])
        )
    };
    let newest = sets.pop();
    let old: Vec<String> = sets.into_iter().map(text).collect();
    let none = || "<none>".to_owned();
    page.field(0, "OldReplicaSets", if old.is_empty() { none() } else { old.join(", ") });
    page.field(0, "NewReplicaSet", newest.map_or_else(none, text));
    Ok(())
}

/// `1 Running / 0 Waiting / 0 Succeeded / 0 Failed`.
async fn pods_status(session: &Session, target: &Target, page: &mut Page) -> Result<()> {
    let pods = match pod_target::pods(session, target).await {
        Ok(pods) => pods,
        Err(error) => {
            page.field(0, "Pods Status", format!("error in fetching pods: {error}"));
            return Ok(());
        }
    };
    let uid = &target.object["metadata"]["uid"];
    let own =
        |pod: &&Value| items(&pod["metadata"]["ownerReferences"]).iter().any(|owner| owner["uid"] == *uid);
    let own: Vec<&Value> = pods.iter().filter(own).collect();
    let count = |phase: &str| own.iter().filter(|pod| pod["status"]["phase"] == phase).count();
    page.field(
        0,
        "Pods Status",
        format!(
            "{} Running / {} Waiting / {} Succeeded / {} Failed",
            count("Running"),
            count("Pending"),
            count("Succeeded"),
            count("Failed")
        ),
    );
    Ok(())
}

pub async fn replica_set(session: &Session, target: &Target, page: &mut Page) -> Result<bool> {
    let object = &target.object;
    names(object, page);
    page.field(0, "Selector", selector(&object["spec"]["selector"]));
    page.labels(object);
    page.annotations(object);
    if let Some(owner) = controller(object) {
        page.field(0, "Controlled By", owner);
    }
    let (now, wanted) =
        (number(&object["status"]["replicas"]), object["spec"]["replicas"].as_i64().unwrap_or(1));
    page.field(0, "Replicas", format!("{now} current / {wanted} desired"));
    pods_status(session, target, page).await?;
    pod_template(&object["spec"]["template"], page);
    conditions(&object["status"], page);
    Ok(true)
}

pub async fn stateful_set(session: &Session, target: &Target, page: &mut Page) -> Result<bool> {
    let object = &target.object;
    let (spec, status) = (&object["spec"], &object["status"]);
    names(object, page);
    page.field(0, "CreationTimestamp", time::long(&object["metadata"]["creationTimestamp"]));
    page.field(0, "Selector", selector(&spec["selector"]));
    page.labels(object);
    page.annotations(object);
    let wanted = spec["replicas"].as_i64().unwrap_or(1);
    page.field(0, "Replicas", format!("{wanted} desired | {} total", number(&status["replicas"])));
    page.field(0, "Update Strategy", shown(&spec["updateStrategy"]["type"]));
    let rolling = &spec["updateStrategy"]["rollingUpdate"];
    if rolling["partition"].is_number() {
        page.field(1, "Partition", number(&rolling["partition"]));
    }
    pods_status(session, target, page).await?;
    pod_template(&spec["template"], page);
    let claims = items(&spec["volumeClaimTemplates"]);
    if claims.is_empty() {
        page.field(0, "Volume Claims", "<none>");
        return Ok(true);
    }
    page.line(0, "Volume Claims:");
    for claim in claims {
        page.field(1, "Name", shown(&claim["metadata"]["name"]));
        page.field(1, "StorageClass", shown(&claim["spec"]["storageClassName"]));
        page.map(1, "Labels", &claim["metadata"]["labels"], "=");
        page.map(1, "Annotations", &claim["metadata"]["annotations"], "=");
        page.field(1, "Capacity", amount(&claim["spec"]["resources"]["requests"]["storage"]));
        page.field(1, "Access Modes", shown(&claim["spec"]["accessModes"]));
    }
    Ok(true)
}

pub async fn daemon_set(session: &Session, target: &Target, page: &mut Page) -> Result<bool> {
    let object = &target.object;
    let (spec, status) = (&object["spec"], &object["status"]);
    names(object, page);
    page.field(0, "Selector", selector(&spec["selector"]));
    page.field(0, "Node-Selector", selector(&spec["template"]["spec"]["nodeSelector"]));
    page.labels(object);
    page.annotations(object);
    for (label, field) in [
        ("Desired Number of Nodes Scheduled", "desiredNumberScheduled"),
        ("Current Number of Nodes Scheduled", "currentNumberScheduled"),
        ("Number of Nodes Scheduled with Up-to-date Pods", "updatedNumberScheduled"),
        ("Number of Nodes Scheduled with Available Pods", "numberAvailable"),
        ("Number of Nodes Misscheduled", "numberMisscheduled"),
    ] {
        page.line(0, format!("{label}: {}", number(&status[field])));
    }
    pods_status(session, target, page).await?;
    pod_template(&spec["template"], page);
    Ok(true)
}

pub fn job(object: &Value, page: &mut Page) {
    let (spec, status) = (&object["spec"], &object["status"]);
    names(object, page);
    if spec["selector"].is_object() {
        page.field(0, "Selector", selector(&spec["selector"]));
    }
    page.labels(object);
    page.annotations(object);
    if let Some(owner) = controller(object) {
        page.field(0, "Controlled By", owner);
    }
    page.maybe(0, "Parallelism", &spec["parallelism"]);
    match spec["completions"].is_null() {
        true => page.field(0, "Completions", "<unset>"),
        false => page.field(0, "Completions", shown(&spec["completions"])),
    }
    page.maybe(0, "Completion Mode", &spec["completionMode"]);
    page.maybe(0, "Suspend", &spec["suspend"]);
    page.maybe(0, "Backoff Limit", &spec["backoffLimit"]);
    page.maybe(0, "TTL Seconds After Finished", &spec["ttlSecondsAfterFinished"]);
    if status["startTime"].is_string() {
        page.field(0, "Start Time", time::long(&status["startTime"]));
    }
    if status["completionTime"].is_string() {
        page.field(0, "Completed At", time::long(&status["completionTime"]));
        if let (Some(start), Some(end)) =
            (time::parse(&status["startTime"]), time::parse(&status["completionTime"]))
        {
            page.field(0, "Duration", minik8s_meta::human_duration(end.duration_since(start).as_secs()));
        }
    }
    if spec["activeDeadlineSeconds"].is_number() {
        page.field(0, "Active Deadline Seconds", format!("{}s", spec["activeDeadlineSeconds"]));
    }
    let ready = status["ready"].as_i64().map(|ready| format!(" ({ready} Ready)")).unwrap_or_default();
    page.field(
        0,
        "Pods Statuses",
        format!(
            "{} Active{ready} / {} Succeeded / {} Failed",
            number(&status["active"]),
            number(&status["succeeded"]),
            number(&status["failed"])
        ),
    );
    if spec["completionMode"] == "Indexed" {
        let indexes = shown(&status["completedIndexes"]);
        page.field(0, "Completed Indexes", if indexes.is_empty() { "<none>".to_owned() } else { indexes });
    }
    pod_template(&spec["template"], page);
}

pub fn cron_job(object: &Value, page: &mut Page) {
    let (spec, status) = (&object["spec"], &object["status"]);
    let job = &spec["jobTemplate"]["spec"];
    names(object, page);
    page.labels(object);
    page.annotations(object);
    page.field(0, "Schedule", shown(&spec["schedule"]));
    page.maybe(0, "Time Zone", &spec["timeZone"]);
    page.field(0, "Concurrency Policy", shown(&spec["concurrencyPolicy"]));
    page.field(0, "Suspend", if spec["suspend"] == true { "True" } else { "False" });
    let or_unset = |value: &Value| if value.is_null() { "<unset>".to_owned() } else { shown(value) };
    page.field(0, "Successful Job History Limit", or_unset(&spec["successfulJobsHistoryLimit"]));
    page.field(0, "Failed Job History Limit", or_unset(&spec["failedJobsHistoryLimit"]));
    let deadline = spec["startingDeadlineSeconds"].as_i64().map(|seconds| format!("{seconds}s"));
    page.field(0, "Starting Deadline Seconds", deadline.unwrap_or_else(|| "<unset>".to_owned()));
    match job["selector"].is_object() {
        true => page.field(0, "Selector", selector(&job["selector"])),
        false => page.field(0, "Selector", "<unset>"),
    }
    page.field(0, "Parallelism", or_unset(&job["parallelism"]));
    page.field(0, "Completions", or_unset(&job["completions"]));
    if job["activeDeadlineSeconds"].is_number() {
        page.field(0, "Active Deadline Seconds", format!("{}s", job["activeDeadlineSeconds"]));
    }
    pod_template(&job["template"], page);
    match status["lastScheduleTime"].is_string() {
        true => page.field(0, "Last Schedule Time", time::long(&status["lastScheduleTime"])),
        false => page.field(0, "Last Schedule Time", "<unset>"),
    }
    let active: Vec<String> = items(&status["active"]).iter().map(|job| shown(&job["name"])).collect();
    page.field(0, "Active Jobs", if active.is_empty() { "<none>".to_owned() } else { active.join(", ") });
}
