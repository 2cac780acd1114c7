//! Lists: pages on one snapshot, versions, selectors, forms.

use std::io::Read;

use serde_json::{Value, json};

use crate::cluster::*;

async fn with_maps(count: usize) -> (Cluster, Client) {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    for i in 0..count {
        let mut map = config_map(&format!("m{i:02}"));
        map["metadata"]["labels"] = json!({"even": (i % 2 == 0).to_string()});
        admin.post(CONFIG_MAPS, map).await.ok();
    }
    (cluster, admin)
}

/// Reads all pages from `first` on.
async fn pages(client: &Client, first: Value, query: &str) -> (Vec<String>, Vec<String>) {
    let (mut found, mut versions, mut page) = (Vec::new(), Vec::new(), first);
    loop {
        found.extend(names(&page).into_iter().map(str::to_owned));
        versions.push(version(&page).to_owned());
        let Some(token) = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) else {
            return (found, versions);
        };
        page = client.get(&format!("{CONFIG_MAPS}?{query}&continue={token}")).await.ok();
    }
}

#[tokio::test]
async fn pages_show_one_snapshot_whatever_is_written_meanwhile() {
    let (_cluster, admin) = with_maps(7).await;
    let first = admin.get(&format!("{CONFIG_MAPS}?limit=3")).await.ok();
    assert_eq!(first["metadata"]["remainingItemCount"], 4);
    admin.delete(&format!("{CONFIG_MAPS}/m05")).await.ok();
    admin.post(CONFIG_MAPS, config_map("m03-new")).await.ok();
    let changed = json!({"data": {"a": "2"}});
    admin.patch(MERGE, &format!("{CONFIG_MAPS}/m06"), changed).await.ok();
    let begun = version(&first).to_owned();
    let (found, versions) = pages(&admin, first, "limit=3").await;
    assert_eq!(found, ["m00", "m01", "m02", "m03", "m04", "m05", "m06"]);
    assert!(versions.iter().all(|version| *version == begun), "{versions:?}");
    let now = admin.get(CONFIG_MAPS).await.ok();
    assert_eq!(names(&now), ["m00", "m01", "m02", "m03", "m03-new", "m04", "m06"]);
}

#[tokio::test]
async fn pages_with_a_selector() {
    let (_cluster, admin) = with_maps(9).await;
    let query = "limit=2&labelSelector=even%3Dtrue";
    let first = admin.get(&format!("{CONFIG_MAPS}?{query}")).await.ok();
    assert!(first["metadata"].get("remainingItemCount").is_none(), "cannot be told with a selector");
    let (found, _) = pages(&admin, first, query).await;
    assert_eq!(found, ["m00", "m02", "m04", "m06", "m08"]);
    let exact = admin.get(&format!("{CONFIG_MAPS}?limit=9")).await.ok();
    assert!(exact["metadata"].get("continue").is_none(), "a page that holds the last object ends the list");
}

#[tokio::test]
async fn a_page_token_outlived_by_compaction_is_gone() {
    let (cluster, admin) = with_maps(3).await;
    let first = admin.get(&format!("{CONFIG_MAPS}?limit=1")).await.ok();
    admin.post(CONFIG_MAPS, config_map("later")).await.ok();
    cluster.compact().await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let refused = admin.get(&format!("{CONFIG_MAPS}?limit=1&continue={token}")).await.refused(410, "Expired");
    // Who does not mind can read on from the same place in what is there now.
    let token = refused["metadata"]["continue"].as_str().unwrap();
    let second = admin.get(&format!("{CONFIG_MAPS}?limit=1&continue={token}")).await.ok();
    assert_eq!((names(&second)[0], &second["metadata"]["remainingItemCount"]), ("m01", &json!(1)));
    assert_ne!(version(&second), version(&first));
    let (rest, versions) = pages(&admin, second.clone(), "limit=1").await;
    assert_eq!(rest, ["m01", "m02"]);
    assert!(versions.iter().all(|version| version == self::version(&second)), "{versions:?}");
    let exact = format!("{CONFIG_MAPS}?resourceVersion={}&resourceVersionMatch=Exact", version(&first));
    admin.get(&exact).await.refused(410, "Expired");
}

#[tokio::test]
async fn versions_of_lists() {
    let (_cluster, admin) = with_maps(2).await;
    let old = admin.get(CONFIG_MAPS).await.ok();
    let old = version(&old);
    admin.post(CONFIG_MAPS, config_map("new")).await.ok();
    for (query, expected) in [
        (format!("resourceVersion={old}&resourceVersionMatch=Exact"), 2),
        (format!("resourceVersion={old}&resourceVersionMatch=NotOlderThan"), 3),
        (format!("resourceVersion={old}"), 3),
        (format!("resourceVersion={old}&limit=9"), 2),
        ("resourceVersion=0".to_owned(), 3),
        ("resourceVersion=0&resourceVersionMatch=NotOlderThan".to_owned(), 3),
        (String::new(), 3),
    ] {
        let list = admin.get(&format!("{CONFIG_MAPS}?{query}")).await.ok();
        assert_eq!(names(&list).len(), expected, "{query}");
    }
    for query in [
        "resourceVersion=0&resourceVersionMatch=Exact",
        "resourceVersionMatch=Exact",
        "resourceVersion=5&resourceVersionMatch=exact",
        "resourceVersion=x",
        "resourceVersion=-1",
        "resourceVersion=5&resourceVersionMatch=Exact&continue=abc",
        "continue=abc",
        "continue=%00",
        "limit=-1",
        "limit=x",
        "labelSelector=a%3D%3D%3Db",
        "labelSelector=%28",
        "fieldSelector=a",
        "fieldSelector=spec.nothing%3D1",
        "timeoutSeconds=soon",
    ] {
        admin.get(&format!("{CONFIG_MAPS}?{query}")).await.refused(400, "BadRequest");
    }
    // The version does not exist yet: clients know this answer and list again without it.
    let ahead = admin.get(&format!("{CONFIG_MAPS}?resourceVersion=99999999")).await.refused(504, "Timeout");
    assert_eq!(ahead["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
}

#[tokio::test]
async fn selectors() {
    let (_cluster, admin) = with_maps(4).await;
    admin.post("/api/v1/namespaces", json!({"metadata": {"name": "other"}})).await.ok();
    admin.post("/api/v1/namespaces/other/configmaps", config_map("m01")).await.ok();
    let everywhere = "/api/v1/configmaps";
    for (path, query, expected) in [
        (CONFIG_MAPS, "labelSelector=even", &["m00", "m01", "m02", "m03"][..]),
        (CONFIG_MAPS, "labelSelector=!even", &[]),
        (CONFIG_MAPS, "labelSelector=even+in+%28true%29,even!%3Dfalse", &["m00", "m02"]),
        (CONFIG_MAPS, "labelSelector=even+notin+%28true%29", &["m01", "m03"]),
        (CONFIG_MAPS, "fieldSelector=metadata.name%3Dm02", &["m02"]),
        (CONFIG_MAPS, "fieldSelector=metadata.name!%3Dm02", &["m00", "m01", "m03"]),
        (CONFIG_MAPS, "fieldSelector=metadata.name%3Dm0", &[]),
        (everywhere, "fieldSelector=metadata.name%3Dm01", &["m01", "m01"]),
        (everywhere, "fieldSelector=metadata.namespace%3Dother", &["m01"]),
        (CONFIG_MAPS, "fieldSelector=metadata.namespace%3Dother", &[]),
        (CONFIG_MAPS, "fieldSelector=metadata.name%3Da%2Fb", &[]),
    ] {
        let list = admin.get(&format!("{path}?{query}")).await.ok();
        assert_eq!(names(&list), expected, "{path}?{query}");
    }
}

#[tokio::test]
async fn pods_by_field() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let mut bound = pod("bound");
    bound["spec"]["nodeName"] = "n1".into();
    admin.post(PODS, bound).await.ok();
    admin.post(PODS, pod("free")).await.ok();
    for (selector, expected) in [
        ("spec.nodeName%3Dn1", &["bound"][..]),
        ("spec.nodeName%3D", &["free"]),
        ("status.phase%3DPending", &["bound", "free"]),
        ("status.phase!%3DPending", &[]),
        ("spec.nodeName%3Dn1,metadata.name%3Dfree", &[]),
    ] {
        let list = admin.get(&format!("{PODS}?fieldSelector={selector}")).await.ok();
        assert_eq!(names(&list), expected, "{selector}");
    }
}

#[tokio::test]
async fn forms_of_lists() {
    let (_cluster, admin) = with_maps(2).await;
    let plain = admin.get(CONFIG_MAPS).await.ok();
    assert_eq!((&plain["kind"], &plain["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    let table = admin.accepting(TABLE).get(CONFIG_MAPS).await.ok();
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(version(&table), version(&plain));
    let columns: Vec<&Value> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(columns, ["Name", "Data", "Age"]);
    let row = &table["rows"][0];
    assert_eq!((&row["cells"][0], &row["cells"][1]), (&json!("m00"), &json!(1)));
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    let whole = admin.accepting(TABLE).get(&format!("{CONFIG_MAPS}?includeObject=Object")).await.ok();
    assert_eq!(whole["rows"][0]["object"]["kind"], "ConfigMap");
    let none = admin.accepting(TABLE).get(&format!("{CONFIG_MAPS}?includeObject=None")).await.ok();
    assert!(none["rows"][0].get("object").is_none());
    admin.accepting(TABLE).get(&format!("{CONFIG_MAPS}?includeObject=Some")).await.refused(400, "BadRequest");
    let metadata = admin.accepting(METADATA_LIST).get(CONFIG_MAPS).await.ok();
    assert_eq!(metadata["kind"], "PartialObjectMetadataList");
    assert_eq!(names(&metadata), ["m00", "m01"]);
    assert!(metadata["items"][0].get("data").is_none());
    let one = admin.accepting(METADATA).get(&format!("{CONFIG_MAPS}/m00")).await.ok();
    assert_eq!((&one["kind"], one.get("data")), (&json!("PartialObjectMetadata"), None));
    admin.accepting("image/png").get(CONFIG_MAPS).await.refused(406, "NotAcceptable");
    let yaml = admin.accepting("application/yaml").get(CONFIG_MAPS).await;
    assert!(yaml.code == 200 && yaml.text().contains("kind: ConfigMapList"), "{}", yaml.text());
    let paged = admin.accepting(TABLE).get(&format!("{CONFIG_MAPS}?limit=1")).await.ok();
    assert_eq!(
        (paged["rows"].as_array().unwrap().len(), &paged["metadata"]["remainingItemCount"]),
        (1, &json!(1))
    );
}

#[tokio::test]
async fn table_of_a_list_has_the_rows_of_its_objects() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    for name in ["a", "b", "c"] {
        admin.post(PODS, pod(name)).await.ok();
        admin.post(CONFIG_MAPS, config_map(name)).await.ok();
    }
    let status = json!({"status": {
        "phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "reason": "<odd> & \"quoted\"",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 3,
            "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}}}],
    }});
    admin.patch(MERGE, &format!("{PODS}/b/status"), status).await.ok();
    admin.delete(&format!("{PODS}/c")).await.ok();
    let tables = admin.accepting(TABLE);
    for collection in
        [PODS, CONFIG_MAPS, "/api/v1/namespaces", "/apis/rbac.authorization.k8s.io/v1/clusterroles"]
    {
        for include in ["None", "Metadata", "Object"] {
            let listed = tables.get(&format!("{collection}?includeObject={include}")).await.ok();
            let objects = admin.get(collection).await.ok();
            let names = names(&objects);
            assert!(!names.is_empty());
            let rows = listed["rows"].as_array().unwrap();
            assert_eq!(rows.len(), names.len());
            for (name, row) in names.iter().zip(rows) {
                let one = tables.get(&format!("{collection}/{name}?includeObject={include}")).await.ok();
                assert_eq!(one["columnDefinitions"], listed["columnDefinitions"]);
                assert_eq!(one["rows"][0]["object"], row["object"], "{collection} {name}");
                // A second may have passed.
                let cells = |row: &Value| -> Vec<Value> {
                    let cells = row["cells"].as_array().unwrap().iter();
                    cells
                        .filter(|cell| !cell.as_str().is_some_and(|text| text.ends_with('s')))
                        .cloned()
                        .collect()
                };
                assert_eq!(cells(&one["rows"][0]), cells(row), "{collection} {name}");
            }
        }
    }
}

#[tokio::test]
async fn gzip_is_for_large_answers_and_those_who_ask() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    for i in 0..40 {
        let mut map = config_map(&format!("m{i}"));
        map["data"] = json!({"text": "x".repeat(5000)});
        admin.post(CONFIG_MAPS, map).await.ok();
    }
    let mut large = config_map("z-large");
    large["data"] = json!({"text": "y".repeat(200_000)});
    admin.post(CONFIG_MAPS, large).await.ok();
    let asking = admin.header("accept-encoding", "gzip");
    let unpacked = |answer: Answer| -> Value {
        assert_eq!(answer.headers.get("content-encoding").unwrap(), "gzip", "{}", answer.what);
        assert_eq!(answer.headers.get("vary").unwrap(), "accept-encoding");
        let mut text = String::new();
        flate2::read::GzDecoder::new(&*answer.bytes).read_to_string(&mut text).unwrap();
        assert!(answer.bytes.len() < text.len() / 3);
        text.parse().unwrap()
    };
    for path in [CONFIG_MAPS, &format!("{CONFIG_MAPS}/z-large"), "/openapi/v2", "/openapi/v3/api/v1"] {
        let plain = admin.get(path).await;
        assert!(plain.headers.get("content-encoding").is_none(), "{path}");
        assert_eq!(unpacked(asking.get(path).await), plain.ok(), "{path}");
    }
    let table = unpacked(asking.accepting(TABLE).get(&format!("{CONFIG_MAPS}?includeObject=Object")).await);
    assert_eq!(table["rows"].as_array().unwrap().len(), 41);
    for path in [&format!("{CONFIG_MAPS}/m1"), &format!("{CONFIG_MAPS}?limit=5"), "/openapi/v3"] {
        let small = asking.get(path).await;
        assert!(small.headers.get("content-encoding").is_none(), "{path}");
        small.ok();
    }
    let mut watch = asking.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    assert_eq!(watch.expect("ADDED").await["kind"], "ConfigMap");
}
