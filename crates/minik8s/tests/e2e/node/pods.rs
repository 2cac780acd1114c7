//! Pods as objects: how their versions are counted, what their status takes, and many of them at once.

use http::Method;
use serde_json::{Value, json};

use super::space::{IDLE, Space, idle, shell};

/// Every change of the spec counts, labels and the binding do not, and the node says what it has seen.
pub async fn generations(space: Space) {
    let mut slow = shell("main", "trap 'sleep 5; exit 0' TERM; sleep 1000 & wait");
    slow["terminationMessagePolicy"] = "File".into();
    space.pod("pod", json!({"containers": [slow], "activeDeadlineSeconds": 10_000})).await;
    let counted = |want: i64| {
        move |pod: &Value| {
            pod["metadata"]["generation"] == want && pod["status"]["observedGeneration"] == want
        }
    };
    let pod = space.until("pod", "seen", counted(1)).await;
    assert_eq!(pod["status"]["observedGeneration"], 1);
    space.change("pods", "pod", json!({"metadata": {"labels": {"a": "b"}}})).await;
    for n in 1..500 {
        space.change("pods", "pod", json!({"spec": {"activeDeadlineSeconds": 10_000 - n}})).await;
    }
    space.until("pod", "seen 500 times", counted(500)).await;
    let mut tolerations = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    tolerations.push(json!({"key": "more", "operator": "Exists"}));
    space.change("pods", "pod", json!({"spec": {"tolerations": tolerations}})).await;
    space.until("pod", "seen once more", counted(501)).await;
    space.ready("pod").await;
    space.delete("pod", 20).await;
    let ending = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_string() && counted(502)(pod);
    space.until("pod", "seen to be deleted", ending).await;
    space.deleted("pod").await;
}

/// Status is patched and replaced; many are found and deleted by a label.
pub async fn statuses_and_collections(space: Space) {
    for n in 0..3 {
        space.labelled_pod(&format!("p{n}"), json!({"set": "one"}), idle()).await;
    }
    space.labelled_pod("other", json!({"set": "two"}), idle()).await;
    let pod = space.ready("p0").await;
    let path = format!("{}/status", space.path("pods", "p0"));
    let patch = json!({"status": {"message": "patched", "reason": "Test"}});
    let patched = space.send(Method::PATCH, &path, patch).await.unwrap();
    assert_eq!(
        (&patched["status"]["message"], &patched["status"]["reason"]),
        (&json!("patched"), &json!("Test"))
    );
    assert_eq!(patched["status"]["podIP"], pod["status"]["podIP"]);
    // The node writes too, so a replacement may come too late and is tried again.
    space
        .eventually("replaced", async || {
            let mut pod = space.get(&path).await.unwrap();
            let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
            conditions.push(json!({"type": "example.org/Replaced", "status": "True"}));
            space.send(Method::PUT, &path, pod).await.is_ok()
        })
        .await;
    let has = |pod: &Value| super::space::condition(pod, "example.org/Replaced")["status"] == "True";
    space.until("p0", "with its new condition", has).await;

    let listed = async |label: &str| {
        let list =
            space.get(&format!("{}?labelSelector=set%3D{label}", space.path("pods", ""))).await.unwrap();
        list["items"].as_array().unwrap().len()
    };
    assert_eq!((listed("one").await, listed("two").await), (3, 1));
    let all = format!("{}?labelSelector=set%3Done", space.path("pods", ""));
    space.send(Method::DELETE, &all, json!({"gracePeriodSeconds": 1})).await.unwrap();
    space.eventually("deleted", async || listed("one").await == 0).await;
    assert_eq!(listed("two").await, 1);
}

/// Pods with many volumes start at once beside each other.
pub async fn many_volumes(space: Space) {
    const VOLUMES: usize = 50;
    for n in 0..VOLUMES {
        space.config_map(&format!("racey-{n}"), json!({"data-1": "value-1"})).await;
    }
    let volume = |n: usize| json!({"name": format!("v{n}"), "configMap": {"name": format!("racey-{n}"), "items": [{"key": "data-1", "path": "data-1"}]}});
    let mut main = shell("main", &format!("cat /etc/config-*/data-1 | wc -c; {IDLE}"));
    main["volumeMounts"] = (0..VOLUMES)
        .map(|n| json!({"name": format!("v{n}"), "mountPath": format!("/etc/config-{n}")}))
        .collect();
    let spec = json!({"containers": [main], "volumes": (0..VOLUMES).map(volume).collect::<Vec<_>>()});
    for n in 0..5 {
        space.pod(&format!("p{n}"), spec.clone()).await;
    }
    for n in 0..5 {
        let pod = space.ready(&format!("p{n}")).await;
        assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    }
    space.eventually("all files", async || space.kubectl(&["logs", "p0"]).await == "350\n").await;
}
