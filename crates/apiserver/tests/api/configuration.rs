//! What pods are configured with: ConfigMaps and Secrets that must not change, and the statuses of storage.

use serde_json::{Value, json};

use crate::cluster::*;

#[tokio::test]
async fn immutable_objects() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    for (kind, changed) in
        [("configmaps", json!({"data": {"a": "2"}})), ("secrets", json!({"data": {"a": "Mg=="}}))]
    {
        let all = format!("/api/v1/namespaces/default/{kind}");
        let one = format!("{all}/fixed");
        admin.post(&all, json!({"metadata": {"name": "fixed"}, "data": {"a": "MQ=="}})).await.ok();
        admin.patch(MERGE, &one, changed.clone()).await.ok();
        admin.patch(MERGE, &one, json!({"immutable": true})).await.ok();
        for refused in [
            json!({"data": {"a": "Mw=="}}),
            json!({"data": null}),
            json!({"immutable": false}),
            json!({"immutable": null}),
        ] {
            admin.patch(MERGE, &one, refused).await.refused(422, "Invalid");
        }
        let read = admin.get(&one).await.ok();
        assert_eq!((&read["immutable"], &read["data"]), (&json!(true), &changed["data"]), "{kind}");
        admin.patch(MERGE, &one, json!({"metadata": {"labels": {"l": "v"}}})).await.ok();
        admin.delete(&one).await.ok();
        assert_eq!(admin.get(&one).await.code, 404);
    }
}

#[tokio::test]
async fn empty_keys_are_refused() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    for kind in ["configmaps", "secrets"] {
        let object = json!({"metadata": {"name": "empty"}, "data": {"": "dmFsdWU="}});
        let refused = admin.post(&format!("/api/v1/namespaces/default/{kind}"), object).await;
        refused.refused(422, "Invalid");
    }
}

/// Statuses of claims, volumes and attachments are read, patched and replaced apart from the objects.
#[tokio::test]
async fn statuses_of_storage() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let volume = json!({"metadata": {"name": "v", "labels": {"l": "1"}}, "spec": {"capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/v"}, "storageClassName": "by-hand"}});
    let claim = json!({"metadata": {"name": "c", "labels": {"l": "1"}}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": "by-hand", "resources": {"requests": {"storage": "1Mi"}}}});
    let attachment = json!({"metadata": {"name": "a", "labels": {"l": "1"}}, "spec": {"attacher": "d.example.com",
        "nodeName": "n", "source": {"persistentVolumeName": "v"}}});
    let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
    let condition = |word: &str| json!({"conditions": [{"type": "Test", "status": "True", "reason": word}]});
    for (all, object, begins, patch, put) in [
        (
            "/api/v1/persistentvolumes",
            volume,
            json!({"phase": "Pending"}),
            json!({"reason": "Patched", "message": "by a test"}),
            json!({"phase": "Pending", "reason": "Replaced", "message": "by a test"}),
        ),
        (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            claim,
            json!({"phase": "Pending"}),
            condition("Patched"),
            json!({"phase": "Pending", "conditions": condition("Replaced")["conditions"]}),
        ),
        (attachments, attachment, Value::Null, json!({"attached": true}), json!({"attached": false})),
    ] {
        let one = format!("{all}/{}", object["metadata"]["name"].as_str().unwrap());
        let status = format!("{one}/status");
        admin.post(all, object).await.ok();
        assert_eq!(names(&admin.get(&format!("{all}?labelSelector=l%3D1")).await.ok()).len(), 1, "{all}");
        let read = admin.get(&status).await.ok();
        assert_eq!(read["status"], begins, "{status}");
        let patched = admin
            .patch(MERGE, &status, json!({"status": patch, "metadata": {"labels": {"x": "y"}}}))
            .await
            .ok();
        let kept = |object: &Value, want: &Value| {
            want.as_object().unwrap().iter().all(|(key, value)| {
                object["status"][key] == *value || object["status"][key][0]["reason"] == value[0]["reason"]
            })
        };
        assert!(kept(&patched, &patch), "{patched}");
        assert_eq!(patched["spec"], read["spec"]);
        let mut whole = admin.get(&one).await.ok();
        assert!(kept(&whole, &patch), "{whole}");
        whole["status"] = put.clone();
        admin.put(&status, whole).await.ok();
        assert!(kept(&admin.get(&one).await.ok(), &put));
    }
}

/// A pod may ask for a volume of a CSI driver in its own spec.
#[tokio::test]
async fn inline_volumes_of_drivers() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let mut wanted = pod("inline");
    wanted["spec"]["volumes"] =
        json!([{"name": "v", "csi": {"driver": "d.example.com", "volumeAttributes": {"k": "v"}}}]);
    wanted["metadata"]["labels"] = json!({"l": "1"});
    admin.post(PODS, wanted).await.ok();
    let path = format!("{PODS}/inline");
    let driver = |pod: &Value| {
        let volumes = pod["spec"]["volumes"].as_array().unwrap().clone();
        volumes.into_iter().find(|volume| volume["name"] == "v").unwrap()["csi"]["driver"].clone()
    };
    assert_eq!(driver(&admin.get(&path).await.ok()), "d.example.com");
    assert_eq!(names(&admin.get(&format!("{PODS}?labelSelector=l%3D1")).await.ok()), ["inline"]);
    let patched = admin.patch(MERGE, &path, json!({"metadata": {"labels": {"l": "2"}}})).await.ok();
    assert_eq!(driver(&patched), "d.example.com");
    admin.delete_with(&path, json!({"gracePeriodSeconds": 0})).await.ok();
    assert_eq!(admin.get(&path).await.code, 404);
}
