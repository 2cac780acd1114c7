//! FlowSchemas and PriorityLevelConfigurations decide who is served.

use std::time::Duration;

use http_body_util::BodyExt;
use minik8s_store::Options;
use serde_json::{Value, json};

use crate::client::{Client, request};
use crate::port::Port;
use crate::{CONFIG_MAPS, CUT_OFF_WITHIN};

const FLOW_CONTROL: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

struct Answer {
    code: u16,
    schema: String,
    body: Value,
}

async fn ask(client: &mut Client, user: Option<&str>, method: &str, path: &str, body: &Value) -> Answer {
    let head =
        user.into_iter().fold(request(method, path), |head, user| head.header("impersonate-user", user));
    let body = http_body_util::Full::new(bytes::Bytes::from(body.to_string())).boxed();
    let answer = client.begin(head, body).await.await.unwrap().unwrap();
    let uid = answer.headers().get("x-kubernetes-pf-flowschema-uid");
    let schema = uid.map(|uid| uid.to_str().unwrap().to_owned()).unwrap_or_default();
    let code = answer.status().as_u16();
    let body = serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap();
    Answer { code, schema, body }
}

async fn until(
    client: &mut Client,
    path: &str,
    what: &str,
    seen: impl Fn(&Answer) -> bool,
    user: Option<&str>,
) {
    let look = async {
        while !seen(&ask(client, user, "GET", path, &Value::Null).await) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(CUT_OFF_WITHIN, look).await.unwrap_or_else(|_| panic!("never: {what}"));
}

#[tokio::test]
async fn flow_schemas_and_priority_levels_act() {
    let port = Port::open(Options::default()).await;
    let mut client = Client::connect(&port).await;
    let schemas = format!("{FLOW_CONTROL}/flowschemas");
    let levels = format!("{FLOW_CONTROL}/prioritylevelconfigurations");
    let default = ask(&mut client, None, "GET", &format!("{schemas}/global-default"), &Value::Null).await;
    assert_eq!(default.code, 200, "{}", default.body);
    // Reading is allowed to everybody here: what is asked is who is served.
    let binding = json!({"metadata": {"name": "all"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "Group", "name": "system:authenticated",
        "apiGroup": "rbac.authorization.k8s.io"}]});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(ask(&mut client, None, "POST", bindings, &binding).await.code, 201);
    let served = default.body["metadata"]["uid"].as_str().unwrap().to_owned();
    let by_default = |answer: &Answer| answer.code == 200 && answer.schema == served;
    until(&mut client, CONFIG_MAPS, "ann is served by default", by_default, Some("ann")).await;

    let none = json!({"metadata": {"name": "none"}, "spec": {"type": "Limited", "limited": {
        "nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}}});
    let made = ask(&mut client, None, "POST", &levels, &none).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let schema = json!({"metadata": {"name": "ann"}, "spec": {"priorityLevelConfiguration": {"name": "none"},
        "matchingPrecedence": 5, "rules": [{"subjects": [{"kind": "User", "user": {"name": "ann"}}],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["configmaps"], "namespaces": ["default"]}]}]}});
    let made = ask(&mut client, None, "POST", &schemas, &schema).await;
    assert_eq!(made.code, 201, "{}", made.body);
    until(&mut client, CONFIG_MAPS, "ann has no seat", |answer| answer.code == 429, Some("ann")).await;
    let bob = ask(&mut client, Some("bob"), "GET", CONFIG_MAPS, &Value::Null).await;
    assert_eq!(bob.code, 200, "bob is not meant");
    let other = ask(&mut client, Some("ann"), "GET", "/api/v1/namespaces/default/pods", &Value::Null).await;
    assert_eq!(other.code, 200, "pods are not meant");

    let gone = ask(&mut client, None, "DELETE", &format!("{levels}/none"), &json!({})).await;
    assert_eq!(gone.code, 200);
    until(&mut client, CONFIG_MAPS, "the schema is passed over", by_default, Some("ann")).await;
    let dangles = |answer: &Answer| {
        let conditions = answer.body["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "Dangling" && condition["status"] == "True")
    };
    until(&mut client, &format!("{schemas}/ann"), "the schema says so", dangles, None).await;
    let gone = ask(&mut client, None, "DELETE", &format!("{levels}/catch-all"), &json!({})).await;
    assert_eq!(gone.code, 200);
    until(&mut client, &format!("{levels}/catch-all"), "it comes back", |answer| answer.code == 200, None)
        .await;
}
