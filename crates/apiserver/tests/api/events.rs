//! Events in both API groups: made, changed, selected, deleted.

use serde_json::{Value, json};

use crate::cluster::*;

const CORE: &str = "/api/v1/namespaces/default/events";
const GROUP: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
const TIME: &str = "2026-01-01T00:00:00.000000Z";

fn core_event(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"set": "core"}}, "reason": "Started", "message": "it runs", "type": "Normal",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "source": {"component": "test"}, "count": 1,
    })
}

fn group_event(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"set": "group"}}, "reason": "Started", "note": "it runs", "type": "Normal",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"}, "action": "Run", "eventTime": TIME,
        "reportingController": "example.com/test", "reportingInstance": "test-1",
    })
}

#[tokio::test]
async fn one_event() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    for (collection, everywhere, by, event, patch) in [
        (CORE, "/api/v1/events", "source=test", core_event("one"), json!({"message": "it stopped"})),
        // What happened cannot be told otherwise in the newer group, only that it goes on happening.
        (
            GROUP,
            "/apis/events.k8s.io/v1/events",
            "reportingController=example.com/test",
            group_event("one"),
            json!({"series": {"count": 2, "lastObservedTime": TIME}}),
        ),
    ] {
        let path = format!("{collection}/one");
        let label = event["metadata"]["labels"]["set"].as_str().unwrap();
        let selected = format!("{everywhere}?labelSelector=set%3D{label}");
        admin.post(collection, event.clone()).await.ok();
        assert_eq!(names(&admin.get(&selected).await.ok()), ["one"]);
        let by = by.replace('=', "%3D").replace('/', "%2F");
        assert_eq!(names(&admin.get(&format!("{collection}?fieldSelector={by}")).await.ok()), ["one"]);
        let patched = admin.patch(STRATEGIC, &path, patch.clone()).await.ok();
        for (field, value) in patch.as_object().unwrap() {
            assert_eq!(&patched[field], value);
        }
        let mut whole = admin.get(&path).await.ok();
        whole["series"] = json!({"count": 3, "lastObservedTime": TIME});
        // Whoever tells of events does not look at what others wrote.
        whole["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        admin.put(&path, whole).await.ok();
        let read = admin.get(&path).await.ok();
        assert_eq!(read["series"]["count"], 3);
        admin.delete(&path).await.ok();
        assert_eq!(names(&admin.get(&selected).await.ok()), [""; 0]);
    }
}

#[tokio::test]
async fn many_events() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    for (collection, event) in [(CORE, core_event("")), (GROUP, group_event(""))] {
        for name in ["a", "b", "c"] {
            let mut event = event.clone();
            event["metadata"]["name"] = format!("{name}-{}", collection.len()).into();
            admin.post(collection, event).await.ok();
        }
    }
    for (collection, label, left) in [(GROUP, "group", 3), (CORE, "core", 0)] {
        let selected = format!("{collection}?labelSelector=set%3D{label}");
        assert_eq!(names(&admin.get(&selected).await.ok()).len(), 3);
        admin.delete(&selected).await.ok();
        assert_eq!(names(&admin.get(&selected).await.ok()).len(), 0);
        assert_eq!(names(&admin.get(CORE).await.ok()).len(), left, "the others stay");
    }
}
