//! What the API says it serves, in the old and in the aggregated form.

use minik8s_kinds as kinds;
use serde_json::{Value, json};

use crate::cluster::*;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[tokio::test]
async fn every_group_has_its_versions_and_resources() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let groups = admin.get("/apis").await.ok();
    let mut seen = Vec::new();
    for group in groups["groups"].as_array().unwrap() {
        let name = group["name"].as_str().unwrap();
        let own = admin.get(&format!("/apis/{name}")).await.ok();
        assert_eq!(
            (&own["preferredVersion"], &own["versions"]),
            (&group["preferredVersion"], &group["versions"])
        );
        let versions = group["versions"].as_array().unwrap();
        assert!(versions.contains(&group["preferredVersion"]), "{group}");
        for version in versions {
            let group_version = version["groupVersion"].as_str().unwrap();
            let list = admin.get(&format!("/apis/{group_version}")).await.ok();
            assert_eq!(list["groupVersion"], group_version);
            let resources = list["resources"].as_array().unwrap();
            assert!(resources.iter().any(|resource| resource["name"].is_string()), "{group_version}");
        }
        seen.push(name.to_owned());
    }
    for resource in kinds::all() {
        let group_known = resource.group.is_empty() || seen.contains(&resource.group);
        assert!(group_known, "{} is not in /apis", resource.group);
        let prefix = if resource.group.is_empty() { "/api" } else { "/apis" };
        let list = admin.get(&format!("{prefix}/{}", resource.api_version())).await.ok();
        assert!(entry(&list["resources"], "name", &resource.plural).is_some(), "{}", resource.qualified());
        if resource.has_status() {
            let status = format!("{}/status", resource.plural);
            let status = entry(&list["resources"], "name", &status).expect("status is listed");
            assert_eq!(status["verbs"], json!(["get", "patch", "update"]), "{}", resource.qualified());
        }
    }
    let version = admin.get("/version").await.ok();
    for part in ["major", "minor"] {
        assert!(version[part].as_str().unwrap().parse::<u32>().is_ok(), "{version}");
    }
}

#[tokio::test]
async fn aggregated_discovery_has_everything_at_once() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition()).await.ok();
    while admin.get("/apis/fruit.example.com/v1").await.code != 200 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    for accept in
        [AGGREGATED.to_owned(), format!("{},application/json", AGGREGATED.replace("v=v2;", "v=v2beta1;"))]
    {
        let client = admin.accepting(&accept);
        let (core, groups) = (client.get("/api").await, client.get("/apis").await);
        let ty = groups.headers["content-type"].to_str().unwrap();
        assert!(ty.contains("as=APIGroupDiscoveryList"), "{ty}");
        let (core, groups) = (core.ok(), groups.ok());
        assert_eq!(groups["kind"], "APIGroupDiscoveryList");
        let find = |resource: &minik8s_api::Resource| -> Option<Value> {
            let items = if resource.group.is_empty() { &core["items"] } else { &groups["items"] };
            let group = items
                .as_array()?
                .iter()
                .find(|item| item["metadata"]["name"].as_str().unwrap_or_default() == resource.group)?;
            let version = entry(&group["versions"], "version", &resource.version)?;
            entry(&version["resources"], "resource", &resource.plural).cloned()
        };
        for resource in kinds::all() {
            let found = find(&resource).unwrap_or_else(|| panic!("{} is missing", resource.qualified()));
            let scope = if resource.namespaced { "Namespaced" } else { "Cluster" };
            assert_eq!(
                (&found["scope"], &found["responseKind"]["kind"]),
                (&json!(scope), &json!(resource.kind))
            );
        }
        assert!(groups.to_string().contains(r#""resource":"apples""#), "the custom kind");
    }
    // Who does not ask for it gets the old form.
    assert_eq!(admin.accepting("application/json").get("/apis").await.ok()["kind"], "APIGroupList");
}

fn definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "metadata": {"name": "apples.fruit.example.com"},
        "spec": {
            "group": "fruit.example.com", "scope": "Cluster", "names": {"plural": "apples", "kind": "Apple"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// The element of a list with this text in this field.
fn entry<'a>(list: &'a Value, field: &str, text: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|entry| entry[field] == text)
}

/// A question is answered whole or not at all.
#[tokio::test]
async fn a_review_does_not_come_as_a_table() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": "/version"}}});
    admin.accepting(TABLE).post(reviews, review.clone()).await.refused(406, "NotAcceptable");
    let either = format!("{TABLE},application/json");
    assert_eq!(admin.accepting(&either).post(reviews, review).await.ok()["status"]["allowed"], true);
}

#[tokio::test]
async fn the_parts_of_the_server_tell_how_they_are() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let list = admin.get("/api/v1/componentstatuses").await.ok();
    assert_eq!(list["kind"], "ComponentStatusList");
    let shown = |part: &Value| format!("{} {}", part["metadata"]["name"], part["conditions"][0]["status"]);
    let parts: Vec<String> = list["items"].as_array().unwrap().iter().map(shown).collect();
    assert!(parts.contains(&"\"store\" \"True\"".to_owned()), "{parts:?}");
    assert_eq!(admin.get("/api/v1/componentstatuses/store").await.ok()["metadata"]["name"], "store");
    assert_eq!(admin.get("/api/v1/componentstatuses/nothing").await.code, 404);
}

#[tokio::test]
async fn groups_of_extension_servers_are_ordered_by_their_priority() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    for (group, priority) in [("a.example.com", 100), ("b.example.com", 2000), ("c.example.com", 100)] {
        let service = json!({"metadata": {"name": format!("v1.{group}")}, "spec": {
            "service": {"namespace": "default", "name": "none"}, "group": group, "version": "v1",
            "insecureSkipTLSVerify": true, "groupPriorityMinimum": priority, "versionPriority": 10}});
        admin.post("/apis/apiregistration.k8s.io/v1/apiservices", service).await.ok();
    }
    let mut names = Vec::new();
    for _ in 0..3000 {
        let groups = admin.get("/apis").await.ok();
        let all = groups["groups"].as_array().unwrap().iter();
        names = all.map(|group| group["name"].as_str().unwrap().to_owned()).collect();
        names.retain(|name| name.ends_with(".example.com"));
        if names.len() == 3 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(names, ["b.example.com", "a.example.com", "c.example.com"]);
}
