//! Subresources: each may change its own part, and nothing else.

use serde_json::{Value, json};

use crate::cluster::*;

#[tokio::test]
async fn scale() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let template =
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let selector = json!({"matchLabels": {"app": "a"}});
    for (collection, body) in [
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"replicas": 2, "selector": selector, "template": template}),
        ),
        (
            "/apis/apps/v1/namespaces/default/replicasets",
            json!({"replicas": 2, "selector": selector, "template": template}),
        ),
        (
            "/apis/apps/v1/namespaces/default/statefulsets",
            json!({"replicas": 2, "selector": selector, "template": template, "serviceName": "s"}),
        ),
        (
            "/api/v1/namespaces/default/replicationcontrollers",
            json!({"replicas": 2, "selector": {"app": "a"}, "template": template}),
        ),
    ] {
        admin.post(collection, json!({"metadata": {"name": "w"}, "spec": body})).await.ok();
        let path = format!("{collection}/w/scale");
        let scale = admin.get(&path).await.ok();
        assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
        assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&json!(2), &json!(0)));
        assert_eq!(scale["status"]["selector"], "app=a", "{collection}");
        let mut wanted = scale.clone();
        wanted["spec"]["replicas"] = json!(5);
        assert_eq!(admin.put(&path, wanted.clone()).await.ok()["spec"]["replicas"], 5);
        admin.put(&path, wanted).await.refused(409, "Conflict");
        for (kind, patch, expected) in [
            (MERGE, json!({"spec": {"replicas": 6}}), 6),
            (STRATEGIC, json!({"spec": {"replicas": 7}}), 7),
            (JSON_PATCH, json!([{"op": "replace", "path": "/spec/replicas", "value": 8}]), 8),
        ] {
            assert_eq!(admin.patch(kind, &path, patch).await.ok()["spec"]["replicas"], expected);
        }
        let dry =
            admin.patch(MERGE, &format!("{path}?dryRun=All"), json!({"spec": {"replicas": 9}})).await.ok();
        assert_eq!(dry["spec"]["replicas"], 9);
        let object = admin.get(&format!("{collection}/w")).await.ok();
        assert_eq!(object["spec"]["replicas"], 8);
        assert_eq!(object["spec"]["template"]["spec"]["containers"][0]["image"], "i");
        for (body, code) in [
            (json!({"spec": {"replicas": -1}}), 422),
            (json!({"spec": {"replicas": "x"}}), 400),
            (json!({"spec": "x"}), 400),
            (json!({"spec": {"replicas": 1e12}}), 400),
            (json!({"metadata": {"name": "other"}, "spec": {"replicas": 1}}), 400),
            (json!({"kind": "Pod", "spec": {"replicas": 1}}), 400),
        ] {
            let refused = admin.put(&path, body.clone()).await;
            refused.assert_status();
            assert_eq!(refused.code, code, "{body}: {}", refused.text());
        }
        admin.get(&format!("{collection}/none/scale")).await.refused(404, "NotFound");
    }
    admin.get(&format!("{CONFIG_MAPS}/m/scale")).await.refused(404, "NotFound");
}

#[tokio::test]
async fn binding() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let made = admin.post(PODS, pod("p")).await.ok();
    let path = format!("{PODS}/p/binding");
    for (body, code) in [
        (json!({}), 400),
        (json!({"target": {"name": ""}}), 400),
        (json!({"target": "n"}), 400),
        (json!({"target": {"kind": "Pod", "name": "n"}}), 400),
        (json!({"kind": "Eviction", "target": {"name": "n"}}), 400),
        (json!({"metadata": {"uid": "other"}, "target": {"name": "n"}}), 409),
    ] {
        let refused = admin.post(&path, body.clone()).await;
        refused.assert_status();
        assert_eq!(refused.code, code, "{body}: {}", refused.text());
    }
    let right = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": "p", "uid": made["metadata"]["uid"], "annotations": {"why": "free"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    });
    assert_eq!(admin.post(&path, right.clone()).await.code, 201);
    let bound = admin.get(&format!("{PODS}/p")).await.ok();
    assert_eq!(
        (&bound["spec"]["nodeName"], &bound["metadata"]["annotations"]["why"]),
        (&json!("n1"), &json!("free"))
    );
    assert_eq!(bound["metadata"]["generation"], 1, "to be bound is no change of the pod");
    let scheduled = bound["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["type"] == "PodScheduled")
        .unwrap();
    assert_eq!(scheduled["status"], "True");
    admin.post(&path, right).await.refused(409, "Conflict");
    admin
        .post(&format!("{PODS}/none/binding"), json!({"target": {"name": "n"}}))
        .await
        .refused(404, "NotFound");
    // The old way: a Binding object.
    admin.post(PODS, pod("q")).await.ok();
    let old = json!({"metadata": {"name": "q"}, "target": {"name": "n2"}});
    admin.post("/api/v1/namespaces/default/bindings", old).await.ok();
    assert_eq!(admin.get(&format!("{PODS}/q")).await.ok()["spec"]["nodeName"], "n2");
    // Whoever binds first wins.
    admin.post(PODS, pod("r")).await.ok();
    let racers = (0..10).map(|i| {
        let admin = admin.clone();
        let target = json!({"target": {"name": format!("n{i}")}});
        tokio::spawn(async move { admin.post(&format!("{PODS}/r/binding"), target).await.code })
    });
    let mut codes = Vec::new();
    for racer in racers.collect::<Vec<_>>() {
        codes.push(racer.await.unwrap());
    }
    assert_eq!(codes.iter().filter(|&&code| code == 201).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|&&code| code == 409).count(), 9, "{codes:?}");
}

#[tokio::test]
async fn eviction_respects_disruption_budgets() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}});
    admin.post(budgets, budget).await.ok();
    let running =
        json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    for name in ["p1", "p2", "p3"] {
        let mut pod = pod(name);
        pod["metadata"]["labels"]["app"] = json!("a");
        admin.post(PODS, pod).await.ok();
        admin.patch(MERGE, &format!("{PODS}/{name}/status"), running.clone()).await.ok();
    }
    let evict = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p1"}});
    let refused = admin.post(&format!("{PODS}/p1/eviction"), evict.clone()).await;
    assert!(refused.headers.contains_key("retry-after"));
    let refused = refused.refused(429, "TooManyRequests");
    assert_eq!(refused["details"]["causes"][0]["reason"], "DisruptionBudget");
    let status = json!({"status": {
        "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1,
    }});
    admin.patch(MERGE, &format!("{budgets}/b/status"), status).await.ok();
    let dry = json!({"deleteOptions": {"dryRun": ["All"]}});
    admin.post(&format!("{PODS}/p1/eviction"), dry).await.ok();
    admin.get(&format!("{PODS}/p1")).await.ok();
    let charged = admin.get(&format!("{budgets}/b")).await.ok();
    assert_eq!(charged["status"]["disruptionsAllowed"], 1, "a dry run charges nothing");
    // Two at once, one allowed.
    let evictions = ["p1", "p2"].map(|name| {
        let (admin, body) = (admin.clone(), json!({"metadata": {"name": name}}));
        tokio::spawn(async move { admin.post(&format!("{PODS}/{name}/eviction"), body).await.code })
    });
    let mut codes = Vec::new();
    for eviction in evictions {
        codes.push(eviction.await.unwrap());
    }
    codes.sort_unstable();
    assert_eq!(codes, [201, 429]);
    let charged = admin.get(&format!("{budgets}/b")).await.ok();
    assert_eq!(charged["status"]["disruptionsAllowed"], 0);
    assert_eq!(charged["status"]["disruptedPods"].as_object().map(|pods| pods.len()), Some(1));
    // A pod that is done disrupts nothing.
    admin.patch(MERGE, &format!("{PODS}/p3/status"), json!({"status": {"phase": "Succeeded"}})).await.ok();
    admin.post(&format!("{PODS}/p3/eviction"), json!({})).await.ok();
    for wrong in [
        json!({"deleteOptions": "x"}),
        json!({"deleteOptions": {"gracePeriodSeconds": "x"}}),
        json!({"kind": "Pod"}),
    ] {
        admin.post(&format!("{PODS}/p1/eviction"), wrong).await.refused(400, "BadRequest");
    }
    admin.post(&format!("{PODS}/none/eviction"), evict).await.refused(404, "NotFound");
}

#[tokio::test]
async fn status_and_the_rest_are_apart() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin.post(PODS, pod("p")).await.ok();
    let path = format!("{PODS}/p");
    let both = json!({"spec": {"activeDeadlineSeconds": 9}, "status": {"phase": "Running"}});
    let main = admin.patch(MERGE, &path, both.clone()).await.ok();
    assert_eq!(
        (&main["spec"]["activeDeadlineSeconds"], &main["status"]["phase"]),
        (&json!(9), &json!("Pending"))
    );
    let sub = admin
        .patch(
            MERGE,
            &format!("{path}/status"),
            json!({"spec": {"activeDeadlineSeconds": 8}, "status": {"phase": "Running"}}),
        )
        .await
        .ok();
    assert_eq!(
        (&sub["spec"]["activeDeadlineSeconds"], &sub["status"]["phase"]),
        (&json!(9), &json!("Running"))
    );
    let owner = json!({"metadata": {"finalizers": ["example.com/a"]}, "status": {"message": "m"}});
    let sub = admin.patch(MERGE, &format!("{path}/status"), owner).await.ok();
    assert_eq!((sub["metadata"].get("finalizers"), &sub["status"]["message"]), (None, &json!("m")));
    assert_eq!(admin.get(&format!("{path}/status")).await.ok()["kind"], "Pod");
    let conditions = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    admin.patch(STRATEGIC, &format!("{path}/status"), conditions).await.ok();
    let again = json!({"status": {"conditions": [{"type": "Initialized", "status": "True"}]}});
    let merged = admin.patch(STRATEGIC, &format!("{path}/status"), again).await.ok();
    assert_eq!(merged["status"]["conditions"].as_array().map(Vec::len), Some(2), "merged by type");
}

#[tokio::test]
async fn ephemeral_containers_and_resize() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin.post(PODS, pod("p")).await.ok();
    let path = format!("{PODS}/p");
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "debug"}], "activeDeadlineSeconds": 3}});
    admin.patch(STRATEGIC, &path, debug.clone()).await.refused(422, "Invalid");
    let added = admin.patch(STRATEGIC, &format!("{path}/ephemeralcontainers"), debug).await.ok();
    assert_eq!(added["spec"]["ephemeralContainers"][0]["name"], "d");
    assert!(added["spec"].get("activeDeadlineSeconds").is_none(), "only its own part");
    let removed = admin
        .patch(MERGE, &format!("{path}/ephemeralcontainers"), json!({"spec": {"ephemeralContainers": []}}))
        .await;
    removed.refused(422, "Invalid");
    let resources = json!({"spec": {"containers": [{"name": "c", "image": "other", "resources": {"requests": {"cpu": "1"}}}]}});
    let direct = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}});
    admin.patch(STRATEGIC, &path, direct).await.refused(422, "Invalid");
    let before: Value = admin.get(&path).await.ok();
    let resized = admin.patch(STRATEGIC, &format!("{path}/resize"), resources).await;
    // A pod without requests is BestEffort, and resizing may not change that class.
    resized.refused(422, "Invalid");
    assert_eq!(admin.get(&path).await.ok(), before);
    let mut burstable = pod("b");
    burstable["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "100m"}});
    admin.post(PODS, burstable).await.ok();
    let more = json!({"spec": {"containers": [{"name": "c", "image": "other", "resources": {"requests": {"cpu": "1"}}}]}});
    let resized = admin.patch(STRATEGIC, &format!("{PODS}/b/resize"), more).await.ok();
    let container = &resized["spec"]["containers"][0];
    assert_eq!((&container["resources"]["requests"]["cpu"], &container["image"]), (&json!("1"), &json!("i")));
}

#[tokio::test]
async fn approval() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    use base64::Engine;
    let encoded = base64::engine::general_purpose::STANDARD.encode(crate::samples::SIGNING_REQUEST);
    let spec = json!({"request": encoded, "signerName": "example.com/signer", "usages": ["client auth"]});
    let made = admin.post(requests, json!({"metadata": {"name": "r"}, "spec": spec})).await.ok();
    assert_eq!(made["spec"]["username"], "admin", "the server says who asked");
    let approved = json!({"type": "Approved", "status": "True", "reason": "Fine", "message": "m"});
    let main = admin
        .patch(MERGE, &format!("{requests}/r"), json!({"status": {"conditions": [approved]}}))
        .await
        .ok();
    assert!(main["status"].get("conditions").is_none(), "not through the main resource");
    let path = format!("{requests}/r/approval");
    let mut wanted = main.clone();
    wanted["status"]["conditions"] = json!([approved]);
    wanted["status"]["certificate"] = json!("bm8=");
    let done = admin.put(&path, wanted).await.ok();
    assert_eq!(done["status"]["conditions"][0]["type"], "Approved");
    assert!(done["status"].get("certificate").is_none(), "only its own part");
    // Metadata goes with it, as with a status.
    let patch = json!({
        "metadata": {"annotations": {"patched": "true"}, "labels": {"a": "b"}, "finalizers": ["example.com/a"]},
        "spec": {"signerName": "example.com/other"},
        "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "Why"}], "certificate": "bm8="},
    });
    let patched = admin.patch(MERGE, &path, patch).await.ok();
    assert_eq!(patched["metadata"]["annotations"], json!({"patched": "true"}));
    assert_eq!(patched["metadata"]["labels"], json!({"a": "b"}));
    assert!(patched["metadata"].get("finalizers").is_none(), "finalizers are the main resource's");
    assert_eq!(
        (&patched["spec"]["signerName"], patched["status"].get("certificate")),
        (&json!("example.com/signer"), None)
    );
    assert_eq!(patched["status"]["conditions"][0]["type"], "Failed");
}
