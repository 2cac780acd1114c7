//! Devices and claims to them: who may ask for what, and what nobody can take away.

use serde_json::{Value, json};

use crate::cluster::*;

const RESOURCE: &str = "/apis/resource.k8s.io/v1";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";

fn claim(name: &str, admin: bool) -> Value {
    let exactly = match admin {
        true => json!({"deviceClassName": "gpu", "adminAccess": true}),
        false => json!({"deviceClassName": "gpu"}),
    };
    json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}})
}

#[tokio::test]
async fn admin_access_needs_a_labelled_namespace() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin.post(CLAIMS, claim("plain", false)).await.ok();
    let refused = admin.post(CLAIMS, claim("all", true)).await.refused(403, "Forbidden");
    assert!(
        refused["message"].as_str().unwrap().contains("resource.kubernetes.io/admin-access"),
        "{refused}"
    );
    let templates = format!("{RESOURCE}/namespaces/default/resourceclaimtemplates");
    let template = json!({"metadata": {"name": "t"}, "spec": {"spec": claim("", true)["spec"]}});
    admin.post(&templates, template.clone()).await.refused(403, "Forbidden");
    let label = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
    admin.patch(MERGE, "/api/v1/namespaces/default", label).await.ok();
    admin.post(CLAIMS, claim("all", true)).await.ok();
    admin.post(&templates, template).await.ok();
}

#[tokio::test]
async fn node_writes_its_own_slices_alone() {
    let cluster = Cluster::start().await;
    let node = cluster.user("system:node:a", &["system:nodes"]);
    let slices = format!("{RESOURCE}/resourceslices");
    let slice = |name: &str, place: Value| {
        let mut spec =
            json!({"driver": "d.example", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}});
        spec.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
        json!({"metadata": {"name": name}, "spec": spec})
    };
    node.post(&slices, slice("own", json!({"nodeName": "a"}))).await.ok();
    node.post(&slices, slice("other", json!({"nodeName": "b"}))).await.refused(403, "Forbidden");
    node.post(&slices, slice("all", json!({"allNodes": true}))).await.refused(403, "Forbidden");
    cluster.admin().post(&slices, slice("of-b", json!({"nodeName": "b"}))).await.ok();
    node.delete(&format!("{slices}/of-b")).await.refused(403, "Forbidden");
    node.get(&format!("{slices}?fieldSelector=spec.nodeName%3Db")).await.refused(403, "Forbidden");
    let own = node.get(&format!("{slices}?fieldSelector=spec.nodeName%3Da")).await.ok();
    assert_eq!(names(&own), ["own"]);
    // Claims are read by the nodes of the pods that use them.
    cluster.admin().post(CLAIMS, claim("c", false)).await.ok();
    node.get(&format!("{CLAIMS}/c")).await.refused(403, "Forbidden");
    node.patch(MERGE, &format!("{CLAIMS}/c/status"), json!({"status": {}})).await.refused(403, "Forbidden");
}
