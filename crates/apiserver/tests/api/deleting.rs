//! Deleting: at once, gracefully, held by finalizers, with preconditions, many at once.

use serde_json::{Value, json};

use crate::cluster::*;

fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[tokio::test]
async fn finalizers_hold_an_object() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let path = format!("{CONFIG_MAPS}/m");
    let mut held = config_map("m");
    held["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
    admin.post(CONFIG_MAPS, held.clone()).await.ok();
    let mut watch = admin.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    watch.expect("ADDED").await;
    let terminating = admin.delete(&path).await.ok();
    assert_eq!(terminating["kind"], "ConfigMap", "the object is still there, so it is the answer");
    assert!(terminating["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(terminating["metadata"]["deletionGracePeriodSeconds"], 0);
    watch.expect("MODIFIED").await;
    let again = admin.delete(&path).await.ok();
    assert_eq!(version(&again), version(&terminating), "a second delete changes nothing");
    watch.expect_nothing().await;
    // A dying object can be let go of, not held anew.
    let more = json!({"metadata": {"finalizers": ["example.com/a", "example.com/b", "example.com/c"]}});
    let refused = admin.patch(MERGE, &path, more).await.refused(422, "Invalid");
    assert_eq!(refused["details"]["causes"][0]["field"], "metadata.finalizers");
    admin.post(CONFIG_MAPS, held).await.refused(409, "AlreadyExists");
    let mut revived = terminating.clone();
    revived["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
    let still = admin.put(&path, revived).await.ok();
    assert!(still["metadata"]["deletionTimestamp"].is_string(), "there is no way back");
    let one = admin
        .patch(JSON_PATCH, &path, json!([{"op": "remove", "path": "/metadata/finalizers/0"}]))
        .await
        .ok();
    assert_eq!(finalizers(&one), ["example.com/b"]);
    watch.expect("MODIFIED").await;
    admin.patch(MERGE, &path, json!({"metadata": {"finalizers": null}})).await.ok();
    watch.expect("DELETED").await;
    admin.get(&path).await.refused(404, "NotFound");
    let invalid = json!({"metadata": {"name": "x", "finalizers": ["not a name"]}});
    admin.post(CONFIG_MAPS, invalid).await.refused(422, "Invalid");
}

#[tokio::test]
async fn what_a_delete_answers() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let made = admin.post(CONFIG_MAPS, config_map("m")).await.ok();
    let status = admin.delete(&format!("{CONFIG_MAPS}/m")).await.ok();
    assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(status["details"]["uid"], made["metadata"]["uid"]);
    admin.delete(&format!("{CONFIG_MAPS}/m")).await.refused(404, "NotFound");
}

#[tokio::test]
async fn preconditions() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let path = format!("{CONFIG_MAPS}/m");
    let made = admin.post(CONFIG_MAPS, config_map("m")).await.ok();
    for wrong in [
        json!({"uid": "other"}),
        json!({"resourceVersion": "1"}),
        json!({"uid": made["metadata"]["uid"], "resourceVersion": "1"}),
    ] {
        admin.delete_with(&path, json!({"preconditions": wrong})).await.refused(409, "Conflict");
    }
    for malformed in [
        json!({"preconditions": "x"}),
        json!({"preconditions": {"uid": 5}}),
        json!({"gracePeriodSeconds": "soon"}),
        json!({"propagationPolicy": "Sometimes"}),
        json!({"propagationPolicy": 1}),
        json!({"kind": "Pod"}),
        json!({"orphanDependents": true, "propagationPolicy": "Orphan"}),
        json!([]),
        json!("x"),
    ] {
        admin.delete_with(&path, malformed).await.refused(400, "BadRequest");
    }
    let right = json!({"preconditions": {"uid": made["metadata"]["uid"], "resourceVersion": version(&made)}});
    admin.delete_with(&path, right).await.ok();
}

#[tokio::test]
async fn propagation_policies_set_their_finalizers() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let path = format!("{CONFIG_MAPS}/m");
    for (options, query, expected) in [
        (json!({"propagationPolicy": "Foreground"}), "", Some("foregroundDeletion")),
        (json!({"propagationPolicy": "Orphan"}), "", Some("orphan")),
        (json!({"orphanDependents": true}), "", Some("orphan")),
        (json!({}), "?propagationPolicy=Foreground", Some("foregroundDeletion")),
        (json!({"propagationPolicy": "Background"}), "", None),
        (json!({"orphanDependents": false}), "", None),
        (json!({}), "", None),
    ] {
        admin.post(CONFIG_MAPS, config_map("m")).await.ok();
        let answer = admin.delete_with(&format!("{path}{query}"), options.clone()).await.ok();
        match expected {
            Some(expected) => {
                assert_eq!(finalizers(&answer), [expected], "{options}{query}");
                admin.patch(MERGE, &path, json!({"metadata": {"finalizers": []}})).await.ok();
            }
            None => assert_eq!(answer["status"], "Success", "{options}{query}"),
        }
        admin.get(&path).await.refused(404, "NotFound");
    }
    // A later policy takes the place of an earlier one.
    admin.post(CONFIG_MAPS, config_map("m")).await.ok();
    admin.delete_with(&path, json!({"propagationPolicy": "Foreground"})).await.ok();
    let orphan = admin.delete_with(&path, json!({"propagationPolicy": "Orphan"})).await.ok();
    assert_eq!(finalizers(&orphan), ["orphan"]);
    admin.delete_with(&path, json!({"propagationPolicy": "Background"})).await.ok();
    admin.get(&path).await.refused(404, "NotFound");
}

#[tokio::test]
async fn pods_die_gracefully() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let path = format!("{PODS}/p");
    let bind = json!({"target": {"name": "n1"}});
    let start = |mut pod: Value, seconds: Option<i64>| {
        if let Some(seconds) = seconds {
            pod["spec"]["terminationGracePeriodSeconds"] = seconds.into();
        }
        pod
    };
    // Nobody runs it yet: nothing to wait for.
    admin.post(PODS, pod("p")).await.ok();
    assert_eq!(admin.delete(&path).await.ok()["kind"], "Pod");
    admin.get(&path).await.refused(404, "NotFound");
    for (own, asked, expected) in
        [(None, None, 30), (Some(5), None, 5), (Some(5), Some(7), 7), (None, Some(1), 1)]
    {
        admin.post(PODS, start(pod("p"), own)).await.ok();
        admin.post(&format!("{path}/binding"), bind.clone()).await.ok();
        let options = asked.map_or(json!({}), |seconds| json!({"gracePeriodSeconds": seconds}));
        let dying = admin.delete_with(&path, options).await.ok();
        assert_eq!(dying["metadata"]["deletionGracePeriodSeconds"], expected, "{own:?} {asked:?}");
        let longer = admin.delete_with(&path, json!({"gracePeriodSeconds": 100})).await.ok();
        assert_eq!(longer["metadata"]["deletionGracePeriodSeconds"], expected, "only shortened");
        admin.delete_with(&path, json!({"gracePeriodSeconds": 0})).await.ok();
        admin.get(&path).await.refused(404, "NotFound");
    }
    for absurd in [i64::MAX, i64::MIN, -1] {
        admin.post(PODS, pod("p")).await.ok();
        admin.post(&format!("{path}/binding"), bind.clone()).await.ok();
        admin.delete_with(&path, json!({"gracePeriodSeconds": absurd})).await.ok();
        admin.delete_with(&path, json!({"gracePeriodSeconds": 0})).await.ok();
        admin.get(&path).await.refused(404, "NotFound");
    }
    // One that has run to its end goes at once.
    admin.post(PODS, pod("p")).await.ok();
    admin.post(&format!("{path}/binding"), bind).await.ok();
    admin.patch(MERGE, &format!("{path}/status"), json!({"status": {"phase": "Succeeded"}})).await.ok();
    admin.delete(&path).await.ok();
    admin.get(&path).await.refused(404, "NotFound");
}

#[tokio::test]
async fn many_at_once() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    for i in 0..6 {
        let mut map = config_map(&format!("m{i}"));
        map["metadata"]["labels"] = json!({"l": (i % 2).to_string()});
        if i == 1 {
            map["metadata"]["finalizers"] = json!(["example.com/a"]);
        }
        admin.post(CONFIG_MAPS, map).await.ok();
    }
    admin.delete(&format!("{CONFIG_MAPS}?labelSelector=%28")).await.refused(400, "BadRequest");
    let deleted = admin.delete(&format!("{CONFIG_MAPS}?labelSelector=l%3D1")).await.ok();
    assert_eq!((&deleted["kind"], names(&deleted).len()), (&json!("ConfigMapList"), 3));
    assert_eq!(names(&admin.get(CONFIG_MAPS).await.ok()), ["m0", "m1", "m2", "m4"], "m1 is held");
    admin.delete(&format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dm2")).await.ok();
    admin.delete(CONFIG_MAPS).await.ok();
    assert_eq!(names(&admin.get(CONFIG_MAPS).await.ok()), ["m1"]);
    admin.delete("/api/v1/configmaps").await.assert_status();
}

#[tokio::test]
async fn namespaces_go_when_they_are_empty() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let made = admin.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await.ok();
    assert_eq!(
        (&made["spec"]["finalizers"], &made["status"]["phase"]),
        (&json!(["kubernetes"]), &json!("Active"))
    );
    assert_eq!(made["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");
    admin.post("/api/v1/namespaces/n/configmaps", config_map("m")).await.ok();
    let dying = admin.delete("/api/v1/namespaces/n").await.ok();
    assert_eq!(dying["status"]["phase"], "Terminating");
    let refused =
        admin.post("/api/v1/namespaces/n/configmaps", config_map("late")).await.refused(403, "Forbidden");
    assert_eq!(refused["details"]["causes"][0]["reason"], "NamespaceTerminating");
    let mut released = admin.get("/api/v1/namespaces/n").await.ok();
    released["spec"]["finalizers"] = json!([]);
    admin.put("/api/v1/namespaces/n", released.clone()).await.ok();
    assert_eq!(admin.get("/api/v1/namespaces/n").await.ok()["spec"]["finalizers"], json!(["kubernetes"]));
    admin.put("/api/v1/namespaces/n/finalize", released).await.ok();
    admin.get("/api/v1/namespaces/n").await.refused(404, "NotFound");
    for permanent in ["default", "kube-system", "kube-public"] {
        admin.delete(&format!("/api/v1/namespaces/{permanent}")).await.refused(403, "Forbidden");
    }
}
