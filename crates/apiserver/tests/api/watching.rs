//! Watches: no gaps, selectors, bookmarks, initial events, ends.

use std::time::{Duration, Instant};

use minik8s_store::Options;
use serde_json::{Value, json};

use crate::cluster::*;

async fn relabel(client: &Client, name: &str, label: Value) {
    client
        .patch(MERGE, &format!("{CONFIG_MAPS}/{name}"), json!({"metadata": {"labels": {"l": label}}}))
        .await
        .ok();
}

#[tokio::test]
async fn a_watch_from_a_version_misses_nothing_and_repeats_nothing() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let begun = admin.get(CONFIG_MAPS).await.ok();
    let writer = tokio::spawn({
        let admin = admin.clone();
        async move {
            for i in 0..120 {
                admin.post(CONFIG_MAPS, config_map(&format!("m{i:03}"))).await.ok();
            }
        }
    });
    // Opened while writes go on: each starts somewhere in the middle of history.
    for _ in 0..4 {
        let mut watch =
            admin.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", version(&begun))).await;
        let mut last = version(&begun).parse::<u64>().unwrap();
        for i in 0..30 {
            let object = watch.expect("ADDED").await;
            assert_eq!(object["metadata"]["name"], format!("m{i:03}"));
            let this = version(&object).parse::<u64>().unwrap();
            assert!(this > last);
            last = this;
        }
    }
    writer.await.unwrap();
    // And from where a list was.
    let list = admin.get(CONFIG_MAPS).await.ok();
    let mut watch = admin.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", version(&list))).await;
    watch.expect_nothing().await;
    admin.delete(&format!("{CONFIG_MAPS}/m007")).await.ok();
    let gone = watch.expect("DELETED").await;
    assert_eq!(gone["metadata"]["name"], "m007");
    assert!(
        version(&gone).parse::<u64>().unwrap() > version(&list).parse().unwrap(),
        "a delete has a version of its own"
    );
}

#[tokio::test]
async fn without_a_version_a_watch_begins_with_what_is_there() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin.post(CONFIG_MAPS, config_map("a")).await.ok();
    for query in ["watch=true", "watch=1&resourceVersion=0", "watch=1&resourceVersion="] {
        let mut watch = admin.watch(&format!("{CONFIG_MAPS}?{query}")).await;
        assert_eq!(watch.expect_name("ADDED").await, "a", "{query}");
        watch.expect_nothing().await;
    }
}

#[tokio::test]
async fn objects_come_and_go_with_their_labels() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin.post(CONFIG_MAPS, config_map("a")).await.ok();
    let mut watch = admin.watch(&format!("{CONFIG_MAPS}?watch=1&labelSelector=l%3Dx")).await;
    watch.expect_nothing().await;
    relabel(&admin, "a", json!("x")).await;
    assert_eq!(watch.expect("ADDED").await["metadata"]["labels"]["l"], "x");
    admin.patch(MERGE, &format!("{CONFIG_MAPS}/a"), json!({"data": {"a": "2"}})).await.ok();
    assert_eq!(watch.expect("MODIFIED").await["data"]["a"], "2");
    relabel(&admin, "a", json!("y")).await;
    let gone = watch.expect("DELETED").await;
    assert_eq!(gone["metadata"]["labels"]["l"], "x", "as it was when it last matched");
    relabel(&admin, "a", json!("z")).await;
    relabel(&admin, "a", json!("x")).await;
    watch.expect("ADDED").await;
    admin.delete(&format!("{CONFIG_MAPS}/a")).await.ok();
    watch.expect("DELETED").await;
}

#[tokio::test]
async fn a_node_watches_the_pods_that_are_bound_to_it() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let mut watch = admin.watch("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn1").await;
    admin.post(PODS, pod("p")).await.ok();
    watch.expect_nothing().await;
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}});
    admin.post(&format!("{PODS}/p/binding"), binding).await.ok();
    assert_eq!(watch.expect_name("ADDED").await, "p");
    admin.delete_with(&format!("{PODS}/p"), json!({"gracePeriodSeconds": 0})).await.ok();
    watch.expect("DELETED").await;
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    for name in ["a", "b"] {
        admin.post(CONFIG_MAPS, config_map(name)).await.ok();
    }
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    for more in ["", "&resourceVersion=", "&resourceVersion=0", "&resourceVersion=1"] {
        let mut watch = admin.watch(&format!("{CONFIG_MAPS}?{query}{more}")).await;
        assert_eq!(watch.expect_name("ADDED").await, "a");
        assert_eq!(watch.expect_name("ADDED").await, "b");
        let mark = watch.expect("BOOKMARK").await;
        assert_eq!(mark["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
        assert_eq!((&mark["kind"], &mark["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
        let mut later =
            admin.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", version(&mark))).await;
        later.expect_nothing().await;
        watch.expect_nothing().await;
    }
    // Told not to send them, even without a version.
    let mut quiet = admin
        .watch(&format!("{CONFIG_MAPS}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"))
        .await;
    quiet.expect_nothing().await;
    for wrong in [
        "sendInitialEvents=true",
        "resourceVersionMatch=NotOlderThan",
        "sendInitialEvents=true&resourceVersionMatch=Exact",
    ] {
        let refused = admin.get(&format!("{CONFIG_MAPS}?watch=1&{wrong}")).await;
        assert!(matches!(refused.code, 400 | 422), "{wrong}: {}", refused.text());
        refused.assert_status();
    }
}

#[tokio::test]
async fn a_quiet_watch_is_told_how_far_the_store_is() {
    let store = Options { progress: Duration::from_millis(50), ..Options::default() };
    let cluster = Cluster::with(Setup { store, ..Setup::default() }).await;
    let admin = cluster.admin();
    let start = admin.get(CONFIG_MAPS).await.ok();
    let query = format!("watch=1&resourceVersion={}", version(&start));
    let mut watch = admin.watch(&format!("{CONFIG_MAPS}?{query}&allowWatchBookmarks=true")).await;
    let mut without = admin.watch(&format!("{CONFIG_MAPS}?{query}")).await;
    let secret =
        admin.post("/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "s"}})).await.ok();
    let secret: u64 = version(&secret).parse().unwrap();
    // What was written before the secret may be told, too.
    loop {
        let mark = watch.expect("BOOKMARK").await;
        assert_eq!(mark["kind"], "ConfigMap");
        if version(&mark).parse::<u64>().unwrap() >= secret {
            break;
        }
    }
    without.expect_nothing().await;
}

#[tokio::test]
async fn history_that_is_gone_ends_a_watch_with_410() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let old = admin.post(CONFIG_MAPS, config_map("a")).await.ok();
    admin.post(CONFIG_MAPS, config_map("b")).await.ok();
    cluster.compact().await;
    // Clients expect the error in the stream, not as the answer's code: some retry the latter for ever.
    for gone in [version(&old), "1", "99999999"] {
        let mut watch = admin.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={gone}")).await;
        let status = watch.expect("ERROR").await;
        assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")), "{gone}");
        watch.expect_end().await;
    }
}

#[tokio::test]
async fn forms_of_watches() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let start = admin.get(CONFIG_MAPS).await.ok();
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", version(&start));
    let mut table = admin.accepting(TABLE).watch(&path).await;
    let mut metadata = admin.accepting(METADATA).watch(&path).await;
    for name in ["a", "b"] {
        admin.post(CONFIG_MAPS, config_map(name)).await.ok();
    }
    let first = table.expect("ADDED").await;
    assert_eq!(first["kind"], "Table");
    assert_eq!(first["columnDefinitions"].as_array().map(Vec::len), Some(3));
    assert_eq!(first["rows"][0]["cells"][0], "a");
    let second = table.expect("ADDED").await;
    assert_eq!(second["columnDefinitions"].as_array().map_or(0, Vec::len), 0, "columns are told once");
    assert_eq!(second["rows"][0]["cells"][0], "b");
    let partial = metadata.expect("ADDED").await;
    assert_eq!((&partial["kind"], partial.get("data")), (&json!("PartialObjectMetadata"), None));
}

#[tokio::test]
async fn a_watch_ends_when_its_time_is_up() {
    let cluster = Cluster::start().await;
    let started = Instant::now();
    let mut watch = cluster.admin().watch(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1")).await;
    watch.expect_end().await;
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(900), "{took:?}");
}

#[tokio::test]
async fn old_watch_paths_and_single_objects() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    for name in ["a", "aa"] {
        admin.post(CONFIG_MAPS, config_map(name)).await.ok();
    }
    let mut all = admin.watch("/api/v1/watch/namespaces/default/configmaps").await;
    assert_eq!(all.expect_name("ADDED").await, "a");
    assert_eq!(all.expect_name("ADDED").await, "aa");
    for path in [
        "/api/v1/watch/namespaces/default/configmaps/a",
        "/api/v1/namespaces/default/configmaps/a?watch=1",
        "/api/v1/namespaces/default/configmaps?watch=1&fieldSelector=metadata.name%3Da",
    ] {
        let mut one = admin.watch(path).await;
        assert_eq!(one.expect_name("ADDED").await, "a", "{path}");
        one.expect_nothing().await;
    }
    let mut everywhere = admin.watch("/api/v1/watch/configmaps").await;
    everywhere.expect("ADDED").await;
}

#[tokio::test]
async fn a_watcher_that_does_not_read_is_cut_off() {
    let store = Options { watch_queue: 20, ..Options::default() };
    let cluster = Cluster::with(Setup { store, ..Setup::default() }).await;
    let admin = cluster.admin();
    let mut watch = admin.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    for i in 0..60 {
        admin.post(CONFIG_MAPS, config_map(&format!("m{i}"))).await.ok();
    }
    let status = watch.expect("ERROR").await;
    assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")), "clients list again");
    watch.expect_end().await;
}

/// Every watcher sees the same changes in the same order, wherever it begins.
#[tokio::test]
async fn watchers_agree() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let begun = admin.get(CONFIG_MAPS).await.ok();
    let writer = tokio::spawn({
        let admin = admin.clone();
        async move {
            for i in 0..20 {
                let name = format!("m{}", i % 4);
                admin.post(CONFIG_MAPS, config_map(&name)).await;
                relabel(&admin, &name, json!(if i % 3 == 0 { "x" } else { "y" })).await;
                if i % 5 == 4 {
                    admin.delete(&format!("{CONFIG_MAPS}/{name}")).await.ok();
                }
            }
            admin.post(CONFIG_MAPS, config_map("end")).await.ok();
        }
    });
    let follow = async |from: &str| {
        let mut watch = admin.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}")).await;
        let mut seen = Vec::new();
        loop {
            let (ty, object) = watch.next().await;
            seen.push((ty, version(&object).to_owned()));
            if object["metadata"]["name"] == "end" {
                return seen;
            }
        }
    };
    let all = follow(version(&begun)).await;
    writer.await.unwrap();
    for (index, (_, from)) in all.iter().enumerate() {
        assert_eq!(follow(from).await, all[index + 1..].to_vec().as_slice(), "from {from}");
        if index + 2 == all.len() {
            break;
        }
    }
    // With a selector: what the others see of the objects it is about, and nothing else.
    let selected = |label: &str| {
        format!("{CONFIG_MAPS}?watch=1&labelSelector=l%3D{label}&resourceVersion={}", version(&begun))
    };
    for label in ["x", "y"] {
        let mut watches = [admin.watch(&selected(label)).await, admin.watch(&selected(label)).await];
        for _ in 0..5 {
            let [first, second] = &mut watches;
            let (a, b) = (first.next().await, second.next().await);
            assert_eq!(a, b);
            assert_eq!(a.1["metadata"]["labels"]["l"], label);
        }
    }
}
