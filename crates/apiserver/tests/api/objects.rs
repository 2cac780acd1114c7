//! What holds for every object: metadata, versions, dry runs, field checks, field managers.

use serde_json::{Value, json};

use crate::cluster::*;

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    })
}

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

#[tokio::test]
async fn the_server_owns_some_metadata() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let mut wanted = deployment("d");
    wanted["metadata"].as_object_mut().unwrap().extend(
        json!({
            "uid": "mine", "resourceVersion": "", "generation": 7, "creationTimestamp": "2001-01-01T00:00:00Z",
            "deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 9, "selfLink": "/x",
        })
        .as_object()
        .unwrap()
        .clone(),
    );
    wanted["status"] = json!({"replicas": 99});
    let made = admin.post(DEPLOYMENTS, wanted).await.ok();
    let metadata = &made["metadata"];
    assert_ne!(metadata["uid"], "mine");
    assert_eq!(metadata["generation"], 1);
    assert!(metadata["creationTimestamp"].as_str().unwrap() > "2020");
    for absent in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        assert!(metadata.get(absent).is_none(), "{absent}");
    }
    assert_eq!(made["status"].get("replicas"), None, "status has its own subresource");

    // What cannot be changed is kept, or refused where the change is a mistake.
    let mut changed = made.clone();
    changed["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    changed["metadata"]["generation"] = json!(55);
    let put = admin.put(&format!("{DEPLOYMENTS}/d"), changed).await.ok();
    assert_eq!(put["metadata"]["creationTimestamp"], metadata["creationTimestamp"]);
    assert_eq!(put["metadata"]["generation"], 1);
    let mut other_uid = made.clone();
    other_uid["metadata"]["uid"] = json!("other");
    admin.put(&format!("{DEPLOYMENTS}/d"), other_uid).await.refused(409, "Conflict");
    let mut renamed = made.clone();
    renamed["metadata"]["name"] = json!("e");
    admin.put(&format!("{DEPLOYMENTS}/d"), renamed).await.refused(400, "BadRequest");
    let moved = admin.patch(MERGE, &format!("{DEPLOYMENTS}/d"), json!({"metadata": {"name": "e"}})).await;
    assert!(matches!(moved.code, 400 | 422), "{}", moved.text());
    let moved =
        admin.patch(MERGE, &format!("{DEPLOYMENTS}/d"), json!({"metadata": {"namespace": "x"}})).await;
    assert!(matches!(moved.code, 400 | 422), "{}", moved.text());
}

#[tokio::test]
async fn generations_count_changes_of_the_spec() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let path = format!("{DEPLOYMENTS}/d");
    admin.post(DEPLOYMENTS, deployment("d")).await.ok();
    for (patch, expected) in [
        (json!({"metadata": {"labels": {"a": "b"}}}), 1),
        (json!({"spec": {"replicas": 2}}), 2),
        (json!({"spec": {"replicas": 2}}), 2),
        (json!({"status": {"replicas": 5}}), 2),
        (json!({"spec": {"paused": true}}), 3),
    ] {
        let object = admin.patch(MERGE, &path, patch.clone()).await.ok();
        assert_eq!(object["metadata"]["generation"], expected, "{patch}");
        assert_eq!(object["status"].get("replicas"), None, "{patch}");
    }
    let status = json!({"spec": {"replicas": 9}, "status": {"replicas": 5, "observedGeneration": 3}});
    let with_status = admin.patch(MERGE, &format!("{path}/status"), status).await.ok();
    assert_eq!(
        (&with_status["spec"]["replicas"], &with_status["status"]["replicas"]),
        (&json!(2), &json!(5))
    );
    assert_eq!(with_status["metadata"]["generation"], 3);
}

#[tokio::test]
async fn names_are_generated() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let mut seen = std::collections::HashSet::new();
    for base in ["web-", "web-", &"x".repeat(200)] {
        let made = admin.post(CONFIG_MAPS, json!({"metadata": {"generateName": base}})).await.ok();
        let name = made["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(name.starts_with(&base[..base.len().min(58)]) && name.len() <= 63, "{name}");
        assert_eq!(made["metadata"]["generateName"], base);
        assert!(seen.insert(name));
    }
    let both = json!({"metadata": {"generateName": "web-", "name": "fixed"}});
    assert_eq!(admin.post(CONFIG_MAPS, both).await.ok()["metadata"]["name"], "fixed");
    admin.post(CONFIG_MAPS, json!({"metadata": {}})).await.refused(422, "Invalid");
    admin.post(CONFIG_MAPS, json!({"metadata": {"name": "fixed"}})).await.refused(409, "AlreadyExists");
}

#[tokio::test]
async fn writes_that_change_nothing_keep_the_version() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let path = format!("{CONFIG_MAPS}/m");
    let made = admin.post(CONFIG_MAPS, config_map("m")).await.ok();
    assert_eq!(version(&admin.put(&path, made.clone()).await.ok()), version(&made));
    assert_eq!(version(&admin.patch(MERGE, &path, json!({"data": {"a": "1"}})).await.ok()), version(&made));
    assert_eq!(version(&admin.patch(STRATEGIC, &path, json!({})).await.ok()), version(&made));
    assert_eq!(version(&admin.patch(JSON_PATCH, &path, json!([])).await.ok()), version(&made));
    let applied =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"k": "v"}});
    let apply = format!("{CONFIG_MAPS}/x?fieldManager=f");
    let first = admin.patch(APPLY, &apply, applied.clone()).await;
    assert_eq!(first.code, 201);
    let first = first.ok();
    assert_eq!(version(&admin.patch(APPLY, &apply, applied).await.ok()), version(&first));
}

#[tokio::test]
async fn only_the_newest_version_can_be_updated() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let path = format!("{CONFIG_MAPS}/m");
    let first = admin.post(CONFIG_MAPS, config_map("m")).await.ok();
    let second = admin.patch(MERGE, &path, json!({"data": {"a": "2"}})).await.ok();
    let mut stale = first.clone();
    stale["data"]["a"] = json!("3");
    let refused = admin.put(&path, stale.clone()).await.refused(409, "Conflict");
    assert_eq!(refused["details"]["kind"], "configmaps");
    let guarded = json!({"metadata": {"resourceVersion": version(&first)}, "data": {"a": "3"}});
    admin.patch(MERGE, &path, guarded).await.refused(409, "Conflict");
    stale["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let forced = admin.put(&path, stale).await.ok();
    assert_eq!(forced["data"]["a"], "3");
    assert_ne!(version(&forced), version(&second));
    admin.put(&format!("{CONFIG_MAPS}/none"), config_map("none")).await.refused(404, "NotFound");
    admin.patch(MERGE, &format!("{CONFIG_MAPS}/none"), json!({})).await.refused(404, "NotFound");
}

#[tokio::test]
async fn of_many_concurrent_updates_none_is_lost() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let path = format!("{CONFIG_MAPS}/m");
    admin.post(CONFIG_MAPS, config_map("m")).await.ok();
    let writers = (0..20).map(|i| {
        let (admin, path) = (admin.clone(), path.clone());
        tokio::spawn(
            async move { admin.patch(MERGE, &path, json!({"data": {format!("k{i}"): "v"}})).await.ok() },
        )
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    assert_eq!(admin.get(&path).await.ok()["data"].as_object().unwrap().len(), 21);
    // Read-modify-write by PUT: every success has seen the one before.
    let counters = (0..8).map(|_| {
        let (admin, path) = (admin.clone(), path.clone());
        tokio::spawn(async move {
            let mut done = 0;
            while done < 5 {
                let mut object = admin.get(&path).await.ok();
                let count: u32 = object["data"]["a"].as_str().unwrap().parse().unwrap();
                object["data"]["a"] = (count + 1).to_string().into();
                match admin.put(&path, object).await.code {
                    200 => done += 1,
                    code => assert_eq!(code, 409),
                }
            }
        })
    });
    for counter in counters.collect::<Vec<_>>() {
        counter.await.unwrap();
    }
    assert_eq!(admin.get(&path).await.ok()["data"]["a"], "41");
}

#[tokio::test]
async fn a_dry_run_answers_like_a_write_and_stores_nothing() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let forget = |mut object: Value| {
        let metadata = object["metadata"].as_object_mut().unwrap();
        for field in ["uid", "creationTimestamp", "resourceVersion", "managedFields"] {
            metadata.remove(field);
        }
        object
    };
    let dry = admin.post(&format!("{DEPLOYMENTS}?dryRun=All"), deployment("d")).await;
    assert_eq!(dry.code, 201);
    let dry = dry.ok();
    assert!(
        dry["metadata"].get("uid").is_some() && dry["metadata"].get("resourceVersion").is_none(),
        "{dry}"
    );
    admin.get(&format!("{DEPLOYMENTS}/d")).await.refused(404, "NotFound");
    let real = admin.post(DEPLOYMENTS, deployment("d")).await.ok();
    assert_eq!(forget(dry), forget(real.clone()));
    admin.post(&format!("{DEPLOYMENTS}?dryRun=All"), deployment("d")).await.refused(409, "AlreadyExists");

    let path = format!("{DEPLOYMENTS}/d");
    let before = cluster.admin().get(&path).await.ok();
    let patch = json!({"spec": {"replicas": 4}});
    let dry = admin.patch(MERGE, &format!("{path}?dryRun=All"), patch.clone()).await.ok();
    assert_eq!((&dry["spec"]["replicas"], &dry["metadata"]["generation"]), (&json!(4), &json!(2)));
    let mut whole = before.clone();
    whole["spec"]["replicas"] = json!(5);
    admin.put(&format!("{path}?dryRun=All"), whole).await.ok();
    let applied = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 6}});
    admin.patch(APPLY, &format!("{path}?dryRun=All&fieldManager=f&force=true"), applied).await.ok();
    admin.delete(&format!("{path}?dryRun=All")).await.ok();
    admin.delete_with(&path, json!({"dryRun": ["All"]})).await.ok();
    admin.delete_with(&path, json!({"dryRun": ["Some"]})).await.refused(400, "BadRequest");
    admin.delete(&format!("{DEPLOYMENTS}?dryRun=All")).await.ok();
    assert_eq!(admin.get(&path).await.ok(), before, "nothing has changed");
    admin.patch(MERGE, &format!("{path}?dryRun=Some"), patch).await.refused(400, "BadRequest");

    // What a dry run would take, it does not keep.
    let service =
        json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "clusterIP": "10.96.0.77"}});
    let services = "/api/v1/namespaces/default/services";
    for _ in 0..2 {
        admin.post(&format!("{services}?dryRun=All"), service.clone()).await.ok();
    }
    admin.get("/apis/networking.k8s.io/v1/ipaddresses/10.96.0.77").await.refused(404, "NotFound");
    admin.post(services, service).await.ok();
}

#[tokio::test]
async fn unknown_and_repeated_fields() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let mut misspelt = deployment("d");
    misspelt["spec"]["replica"] = json!(3);
    misspelt["spec"]["template"]["spec"]["containers"][0]["imagee"] = json!("x");
    let strict = format!("{DEPLOYMENTS}?fieldValidation=Strict");
    let refused = admin.post(&strict, misspelt.clone()).await.refused(400, "BadRequest");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("strict decoding error"), "{message}");
    assert!(message.contains("unknown field \"spec.replica\"") && message.contains("replicas"), "{message}");
    assert!(message.contains("spec.template.spec.containers[0].imagee"), "{message}");
    let warned =
        admin.post(&format!("{DEPLOYMENTS}?fieldValidation=Warn&dryRun=All"), misspelt.clone()).await;
    let texts = warned.warnings();
    assert!(texts.len() == 2 && texts[0].starts_with("299 - \"unknown field"), "{texts:?}");
    assert!(warned.ok()["spec"].get("replica").is_none());
    assert_eq!(admin.post(&format!("{DEPLOYMENTS}?dryRun=All"), misspelt.clone()).await.warnings().len(), 2);
    let ignored = admin.post(&format!("{DEPLOYMENTS}?fieldValidation=Ignore"), misspelt).await;
    assert!(ignored.warnings().is_empty());
    ignored.ok();
    admin
        .post(&format!("{DEPLOYMENTS}?fieldValidation=Maybe"), deployment("e"))
        .await
        .refused(400, "BadRequest");

    let twice = r#"{"metadata": {"name": "twice"}, "data": {"a": "1"}, "data": {"a": "2"}}"#;
    let strict = format!("{CONFIG_MAPS}?fieldValidation=Strict");
    let refused = admin.send(http::Method::POST, &strict, "application/json", twice).await;
    assert!(
        refused.refused(400, "BadRequest")["message"].as_str().unwrap().contains("duplicate field \"data\"")
    );
    let warned = admin.send(http::Method::POST, CONFIG_MAPS, "application/json", twice).await;
    assert!(warned.warnings()[0].contains("duplicate field"), "{:?}", warned.warnings());
    assert_eq!(warned.ok()["data"]["a"], "2", "the last one counts");

    let path = format!("{DEPLOYMENTS}/d");
    let patch = json!({"spec": {"replicaz": 1}});
    admin
        .patch(MERGE, &format!("{path}?fieldValidation=Strict"), patch.clone())
        .await
        .refused(400, "BadRequest");
    assert_eq!(admin.patch(STRATEGIC, &path, patch).await.warnings().len(), 1);
}

#[tokio::test]
async fn wrong_types_and_values_name_their_fields() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let mut wrong = deployment("d");
    wrong["spec"]["replicas"] = json!("three");
    let refused = admin.post(DEPLOYMENTS, wrong).await.refused(400, "BadRequest");
    assert!(refused["message"].as_str().unwrap().contains("spec.replicas"), "{refused}");
    let mut invalid = deployment("d");
    invalid["spec"]["replicas"] = json!(-1);
    invalid["spec"]["selector"]["matchLabels"]["app"] = json!("other");
    let refused = admin.post(DEPLOYMENTS, invalid).await.refused(422, "Invalid");
    let causes: Vec<&str> = refused["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["field"].as_str().unwrap())
        .collect();
    assert!(
        causes.contains(&"spec.replicas") && causes.contains(&"spec.template.metadata.labels"),
        "{causes:?}"
    );
    assert_eq!(
        (&refused["details"]["kind"], &refused["details"]["name"]),
        (&json!("Deployment"), &json!("d"))
    );
    admin
        .post(DEPLOYMENTS, json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}))
        .await
        .refused(400, "BadRequest");
    let elsewhere = json!({"metadata": {"name": "m", "namespace": "kube-system"}});
    admin.post(CONFIG_MAPS, elsewhere).await.refused(400, "BadRequest");
    admin.post("/api/v1/namespaces/none/configmaps", config_map("m")).await.refused(404, "NotFound");
    // Nothing was stored on the way.
    assert_eq!(names(&admin.get(DEPLOYMENTS).await.ok()).len(), 0);
}

#[tokio::test]
async fn field_managers() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin().header("user-agent", "tool/1.0 (linux)");
    let path = format!("{CONFIG_MAPS}/m");
    let made = admin.post(CONFIG_MAPS, config_map("m")).await.ok();
    let entry = &made["metadata"]["managedFields"][0];
    assert_eq!((&entry["manager"], &entry["operation"]), (&json!("tool"), &json!("Update")));
    assert_eq!((&entry["fieldsType"], &entry["apiVersion"]), (&json!("FieldsV1"), &json!("v1")));
    assert!(entry["fieldsV1"]["f:data"].get("f:a").is_some(), "{entry}");
    let applied = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": value}});
    let refused = admin
        .patch(APPLY, &format!("{path}?fieldManager=other"), applied("2"))
        .await
        .refused(409, "Conflict");
    assert_eq!(refused["details"]["causes"][0]["reason"], "FieldManagerConflict");
    assert_eq!(refused["details"]["causes"][0]["field"], ".data.a");
    let forced =
        admin.patch(APPLY, &format!("{path}?fieldManager=other&force=true"), applied("2")).await.ok();
    assert_eq!(forced["data"]["a"], "2");
    let entries = forced["metadata"]["managedFields"].as_array().unwrap();
    let first =
        entries.iter().find(|entry| entry["manager"] == "tool").map(|entry| &entry["fieldsV1"]["f:data"]);
    assert!(first.is_none_or(|data| data.get("f:a").is_none()), "the first one has lost the field");
    admin.patch(APPLY, &path, applied("3")).await.refused(400, "BadRequest");
    let long = "m".repeat(129);
    admin.patch(APPLY, &format!("{path}?fieldManager={long}"), applied("3")).await.refused(400, "BadRequest");
    let owned =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"managedFields": [{"manager": "x"}]}});
    admin.patch(APPLY, &format!("{path}?fieldManager=other"), owned).await.refused(400, "BadRequest");
    // Dropping a field that one owns alone removes it.
    let none = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let dropped = admin.patch(APPLY, &format!("{path}?fieldManager=other"), none).await.ok();
    assert!(dropped["data"].get("a").is_none(), "{dropped}");
    // A reset, as documented upstream: an empty entry clears the list.
    admin.patch(MERGE, &path, json!({"data": {"b": "1"}})).await.ok();
    let reset = admin.patch(MERGE, &path, json!({"metadata": {"managedFields": [{}]}})).await.ok();
    assert!(reset["metadata"].get("managedFields").is_none(), "{reset}");
    // Status is managed apart from the rest.
    admin.post(DEPLOYMENTS, deployment("d")).await.ok();
    let status = json!({"status": {"replicas": 1}});
    let with_status =
        admin.patch(MERGE, &format!("{DEPLOYMENTS}/d/status?fieldManager=ctl"), status).await.ok();
    let entries = with_status["metadata"]["managedFields"].as_array().unwrap();
    let status = entries.iter().find(|entry| entry["subresource"] == "status").expect("an entry of its own");
    assert_eq!(status["manager"], "ctl");
    assert!(status["fieldsV1"].get("f:status").is_some() && status["fieldsV1"].get("f:spec").is_none());
}

#[tokio::test]
async fn no_stored_object_holds_nulls_it_was_not_given() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin.post(PODS, pod("p")).await.ok();
    admin.post(DEPLOYMENTS, deployment("d")).await.ok();
    admin.patch(MERGE, &format!("{PODS}/p/resize"), json!({})).await.ok();
    fn nulls(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Null => found.push(path.to_owned()),
            Value::Array(items) => items.iter().for_each(|item| nulls(item, path, found)),
            Value::Object(map) => {
                map.iter().for_each(|(key, value)| nulls(value, &format!("{path}.{key}"), found))
            }
            _ => {}
        }
    }
    for path in [format!("{PODS}/p"), format!("{DEPLOYMENTS}/d")] {
        let mut found = Vec::new();
        nulls(&admin.get(&path).await.ok(), "", &mut found);
        // A time that is not set is written as null by upstream too.
        found.retain(|path| !path.ends_with("creationTimestamp") && !path.ends_with("Time"));
        assert!(found.is_empty(), "{found:?}");
    }
}

#[tokio::test]
async fn methods_that_make_no_sense() {
    use http::Method;
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    for (method, path) in [
        (Method::PUT, CONFIG_MAPS.to_owned()),
        (Method::PATCH, CONFIG_MAPS.to_owned()),
        (Method::POST, format!("{CONFIG_MAPS}/m")),
        (Method::OPTIONS, format!("{CONFIG_MAPS}/m")),
        (Method::from_bytes(b"BREW").unwrap(), CONFIG_MAPS.to_owned()),
        (Method::TRACE, "/version".to_owned()),
        (Method::POST, "/healthz".to_owned()),
        (Method::GET, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned()),
        (Method::POST, format!("{PODS}/p/status")),
        (Method::DELETE, "/api/v1/componentstatuses".to_owned()),
        (Method::DELETE, "/api/v1/namespaces".to_owned()),
        (Method::POST, "/api/v1/configmaps".to_owned()),
        (Method::DELETE, "/api/v1/configmaps".to_owned()),
    ] {
        let answer = admin.send(method, &path, MERGE, "{}").await;
        answer.refused(405, "MethodNotAllowed");
    }
    for path in [
        "/api/v1/nothing",
        "/apis/none.k8s.io/v1/pods",
        "/apis/apps/v2/deployments",
        "/api/v2/pods",
        "/nothing",
        "/api/v1/namespaces/default/pods/p/nothing",
        "/api/v1/namespaces/default/configmaps/m/status",
        "/api/v1/namespaces/default/pods/p/status/more",
        "/api/v1/namespaces/default/nodes",
        "/openapi/v3/apis/none/v1",
        "/api/v1/configmaps/m",
    ] {
        admin.get(path).await.refused(404, "NotFound");
    }
}
