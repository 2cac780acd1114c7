//! Jobs.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::cluster::{Cluster, name, without_conflict};

const SELECTOR: &str = "batch.kubernetes.io/job-name=work";

fn job(change: Value) -> Value {
    let mut spec = json!({
        "parallelism": 2,
        "completions": 4,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}},
    });
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    json!({"metadata": {"name": "work", "labels": {"test": "job"}}, "spec": spec})
}

fn indexed(change: Value) -> Value {
    let mut job = job(change);
    job["spec"]["completionMode"] = json!("Indexed");
    job
}

/// Says for a pod what its kubelet would say at the end of its container.
async fn end(cluster: &Cluster, pod: &Pod, code: i32) {
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    let state = json!({"terminated": {"exitCode": code, "finishedAt": jiff::Timestamp::now().to_string()}});
    let container =
        json!({"name": "c", "image": "x", "imageID": "", "ready": false, "restartCount": 0, "state": state});
    let status = json!({"phase": phase, "containerStatuses": [container]});
    let patch = Patch::Merge(json!({ "status": status }));
    match cluster.api::<Pod>().patch_status(name(pod), &PatchParams::default(), &patch).await {
        // Its Job took it away meanwhile.
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        answer => drop(answer.unwrap()),
    }
}

fn index(pod: &Pod) -> i32 {
    pod.metadata.annotations.as_ref().unwrap()["batch.kubernetes.io/job-completion-index"].parse().unwrap()
}

fn is_running(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

/// Ends every pod as soon as it runs with the code that `code` gives, until the Job is over.
async fn work(cluster: &Cluster, code: impl Fn(&Pod) -> i32) -> Job {
    loop {
        let job: Job = cluster.get("work").await;
        if reason(&job, "Complete").is_some() || reason(&job, "Failed").is_some() {
            return job;
        }
        for pod in cluster.pods(SELECTOR).await.iter().filter(|pod| is_running(pod)) {
            let code = code(pod);
            if code >= 0 {
                end(cluster, pod, code).await;
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

fn reason(job: &Job, kind: &str) -> Option<String> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|c| c.type_ == kind && c.status == "True")?.reason.clone()
}

fn is(job: &Job, kind: &str, expected: &str) {
    assert_eq!(reason(job, kind).as_deref(), Some(expected), "{kind}: {:#?}", job.status);
}

async fn over(cluster: &Cluster) -> Job {
    cluster
        .until::<Job>("work", "over", |job| {
            reason(job, "Complete").or_else(|| reason(job, "Failed")).is_some()
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_to_completion() {
    let cluster = Cluster::start().await;
    let mut quick = job(json!({}));
    quick["spec"]["template"]["metadata"] = json!({"annotations": {"minik8s.io/run-seconds": "0"}});
    cluster.create::<Job>(quick).await;
    let seen = over(&cluster).await;
    is(&seen, "Complete", "CompletionsReached");
    let status = seen.status.unwrap();
    assert_eq!(
        (status.succeeded, status.failed, status.ready, status.terminating),
        (Some(4), None, Some(0), Some(0))
    );
    assert_eq!(cluster.pods(SELECTOR).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_task_is_tried_again() {
    let cluster = Cluster::start().await;
    cluster.create::<Job>(job(json!({"completions": 1, "parallelism": 1}))).await;
    let first = cluster.until_pods(SELECTOR, "runs", |pods| pods.iter().any(is_running)).await.remove(0);
    end(&cluster, &first, 1).await;
    let seen = work(&cluster, |_| 0).await;
    is(&seen, "Complete", "CompletionsReached");
    assert_eq!((seen.status.clone().unwrap().succeeded, seen.status.unwrap().failed), (Some(1), Some(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn orphans_are_adopted_again_and_strangers_released() {
    let cluster = Cluster::start().await;
    cluster.create::<Job>(job(json!({}))).await;
    let pods = cluster
        .until_pods(SELECTOR, "two run", |pods| pods.iter().filter(|p| is_running(p)).count() == 2)
        .await;
    let pod = name(&pods[0]);
    cluster.patch::<Pod>(pod, json!({"metadata": {"ownerReferences": null}})).await;
    cluster
        .until::<Pod>(pod, "adopted", |pod| {
            pod.metadata.owner_references.as_ref().is_some_and(|o| o[0].name == "work")
        })
        .await;
    let labels = json!({"batch.kubernetes.io/controller-uid": null, "controller-uid": null});
    cluster.patch::<Pod>(pod, json!({"metadata": {"labels": labels}})).await;
    cluster
        .until::<Pod>(pod, "released", |pod| pod.metadata.owner_references.as_ref().is_none_or(Vec::is_empty))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_takes_the_pods_along() {
    let cluster = Cluster::start().await;
    cluster.create::<Job>(job(json!({}))).await;
    cluster
        .until::<Job>("work", "two active", |job| job.status.as_ref().is_some_and(|s| s.active == Some(2)))
        .await;
    cluster.delete::<Job>("work", DeleteParams::background()).await;
    cluster.until_gone::<Job>("work").await;
    super::cluster::eventually("no pod is left", async || match cluster.list::<Pod>(SELECTOR).await.len() {
        0 => Ok(()),
        left => Err(format!("{left} left")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_index_has_a_pod_of_its_own() {
    let cluster = Cluster::start().await;
    cluster.create::<Job>(indexed(json!({}))).await;
    let seen = work(&cluster, |_| 0).await;
    assert_eq!(seen.status.unwrap().completed_indexes.as_deref(), Some("0-3"));
    let pods = cluster.pods(SELECTOR).await;
    let mut indexes: Vec<i32> = pods.iter().map(index).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, [0, 1, 2, 3]);
    for pod in &pods {
        let variables = pod.spec.as_ref().unwrap().containers[0].env.as_ref().unwrap();
        assert!(variables.iter().any(|variable| variable.name == "JOB_COMPLETION_INDEX"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_failure_policy_ends_a_job_early_by_exit_code() {
    let cluster = Cluster::start().await;
    let rule =
        json!({"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [3]}});
    cluster.create::<Job>(job(json!({"podFailurePolicy": {"rules": [rule]}}))).await;
    let pods = cluster
        .until_pods(SELECTOR, "two run", |pods| pods.iter().filter(|p| is_running(p)).count() == 2)
        .await;
    end(&cluster, &pods[0], 3).await;
    let seen = over(&cluster).await;
    is(&seen, "FailureTarget", "PodFailurePolicy");
    is(&seen, "Failed", "PodFailurePolicy");
}

#[tokio::test(flavor = "multi_thread")]
async fn disruptions_can_be_ignored() {
    let cluster = Cluster::start().await;
    let rule = json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]});
    let change = json!({"completions": 2, "backoffLimit": 0, "podFailurePolicy": {"rules": [rule]}});
    cluster.create::<Job>(indexed(change)).await;
    let first = cluster
        .until_pods(SELECTOR, "two run", |pods| pods.iter().filter(|p| is_running(p)).count() == 2)
        .await;
    for pod in &first {
        let eviction = cluster.api::<Pod>().evict(name(pod), &kube::api::EvictParams::default()).await;
        eviction.unwrap();
    }
    let seen = work(&cluster, |pod| {
        let is_first = first.iter().any(|old| old.metadata.uid == pod.metadata.uid);
        if is_first { -1 } else { 0 }
    })
    .await;
    is(&seen, "Complete", "CompletionsReached");
    assert_eq!(seen.status.unwrap().failed, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_indexes_run_though_some_fail() {
    let cluster = Cluster::start().await;
    cluster.create::<Job>(indexed(json!({"backoffLimitPerIndex": 1, "parallelism": 4}))).await;
    let seen = work(&cluster, |pod| index(pod) % 2).await;
    is(&seen, "Failed", "FailedIndexes");
    let status = seen.status.unwrap();
    assert_eq!(
        (status.completed_indexes.as_deref(), status.failed_indexes.as_deref()),
        (Some("0,2"), Some("1,3"))
    );
    assert_eq!((status.succeeded, status.failed), (Some(2), Some(4)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_can_fail_at_once() {
    let cluster = Cluster::start().await;
    let rule = json!({"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3]}});
    let change = json!({"backoffLimitPerIndex": 5, "completions": 2, "podFailurePolicy": {"rules": [rule]}});
    cluster.create::<Job>(indexed(change)).await;
    let seen = work(&cluster, |pod| if index(pod) == 1 { 3 } else { 0 }).await;
    is(&seen, "Failed", "FailedIndexes");
    let status = seen.status.unwrap();
    assert_eq!((status.failed_indexes.as_deref(), status.failed), (Some("1"), Some(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_failed_indexes_end_the_job() {
    let cluster = Cluster::start().await;
    let change =
        json!({"backoffLimitPerIndex": 0, "maxFailedIndexes": 1, "completions": 10, "parallelism": 1});
    cluster.create::<Job>(indexed(change)).await;
    let seen = work(&cluster, |_| 1).await;
    is(&seen, "FailureTarget", "MaxFailedIndexesExceeded");
    assert_eq!(seen.status.unwrap().failed_indexes.as_deref(), Some("0,1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn success_policies() {
    let cluster = Cluster::start().await;
    let check = async |rule: Value, ends: fn(i32) -> i32, completed: &str| {
        let change = json!({"parallelism": 4, "successPolicy": {"rules": [rule]}});
        cluster.create::<Job>(indexed(change)).await;
        let seen = work(&cluster, |pod| ends(index(pod))).await;
        is(&seen, "SuccessCriteriaMet", "SuccessPolicy");
        is(&seen, "Complete", "SuccessPolicy");
        assert_eq!(seen.status.unwrap().completed_indexes.as_deref(), Some(completed), "{rule}");
        cluster.delete::<Job>("work", DeleteParams::background()).await;
        cluster.until_gone::<Job>("work").await;
        cluster.until_pods(SELECTOR, "gone", <[Pod]>::is_empty).await;
    };
    check(json!({"succeededCount": 4}), |_| 0, "0-3").await;
    check(json!({"succeededCount": 1}), |index| if index == 2 { 0 } else { -1 }, "2").await;
    check(json!({"succeededIndexes": "0"}), |index| if index == 0 { 0 } else { -1 }, "0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suspended_ones_can_be_handled_and_resumed() {
    let cluster = Cluster::start().await;
    cluster.create::<Job>(job(json!({"suspend": true}))).await;
    cluster
        .until::<Job>("work", "suspended", |job| reason(job, "Suspended").as_deref() == Some("JobSuspended"))
        .await;
    cluster.patch::<Job>("work", json!({"metadata": {"labels": {"patched": "yes"}}})).await;
    let api = cluster.api::<Job>();
    let replaced = without_conflict(async || {
        let mut replaced = api.get("work").await?;
        replaced.metadata.annotations.get_or_insert_default().insert("updated".to_owned(), "yes".to_owned());
        api.replace("work", &PostParams::default(), &replaced).await
    })
    .await;
    assert_eq!(replaced.metadata.annotations.unwrap()["updated"], "yes");
    assert!(cluster.pods(SELECTOR).await.is_empty());
    cluster.patch::<Job>("work", json!({"spec": {"suspend": false}})).await;
    cluster.until_pods(SELECTOR, "resumed", |pods| pods.len() == 2).await;
    let everywhere: kube::Api<Job> = kube::Api::all(cluster.client.clone());
    let matching = kube::api::ListParams::default().labels("patched=yes");
    assert_eq!(everywhere.list(&matching).await.unwrap().items.len(), 1);
    super::collections::delete_all::<Job>(&cluster, "patched=yes").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn others_may_write_into_the_status() {
    let cluster = Cluster::start().await;
    cluster.create::<Job>(job(json!({}))).await;
    let api = cluster.api::<Job>();
    cluster
        .until::<Job>("work", "two run", |job| job.status.as_ref().is_some_and(|s| s.ready == Some(2)))
        .await;
    let patch = json!({"metadata": {"annotations": {"patched": "status"}}, "status": {"conditions": [{"type": "Mine", "status": "True"}]}});
    let patched = api.patch_status("work", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    assert_eq!(patched.metadata.annotations.unwrap()["patched"], "status");
    without_conflict(async || {
        let mut seen = api.get_status("work").await?;
        assert_eq!(reason(&seen, "Mine"), None);
        let conditions = seen.status.as_mut().unwrap().conditions.get_or_insert_default();
        conditions[0].reason = Some("Because".to_owned());
        api.replace_status("work", &PostParams::default(), &seen).await
    })
    .await;
    is(&api.get_status("work").await.unwrap(), "Mine", "Because");
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_ones_go_after_their_time() {
    let cluster = Cluster::start().await;
    let mut quick = job(json!({"ttlSecondsAfterFinished": 0, "completions": 1}));
    quick["spec"]["template"]["metadata"] = json!({"annotations": {"minik8s.io/run-seconds": "0"}});
    cluster.create::<Job>(quick).await;
    cluster.until_gone::<Job>("work").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_is_kept() {
    let cluster = Cluster::start().await;
    cluster.create::<Job>(job(json!({"activeDeadlineSeconds": 1}))).await;
    let seen = over(&cluster).await;
    is(&seen, "Failed", "DeadlineExceeded");
    cluster.until_pods(SELECTOR, "stopped", |pods| !pods.iter().any(is_running)).await;
}
