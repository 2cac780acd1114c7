use serde_json::{Value, json};

use crate::check;

const NAME: &str = "customresourcedefinitions";

fn definition() -> Value {
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}

fn with(pointer: &str, value: Value) -> Value {
    let mut object = check::defaulted(NAME, definition());
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    object
}

#[test]
fn defaults() {
    let object = check::defaulted(NAME, definition());
    assert_eq!(
        object["spec"]["names"],
        json!({"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"})
    );
    assert_eq!(object["spec"]["conversion"], json!({"strategy": "None"}));
}

#[test]
fn stored_versions() {
    let strategy = check::find(NAME).strategy;
    let mut object = definition();
    strategy.prepare_create(&mut object);
    assert_eq!(object["status"]["storedVersions"], json!(["v1"]));
    object["spec"]["versions"][0]["name"] = json!("v2");
    strategy.prepare_update(&mut object, &definition());
    assert_eq!(object["status"]["storedVersions"], json!(["v1", "v2"]));
}

#[test]
fn validation() {
    #[track_caller]
    fn check(object: Value, expected: &[&str]) {
        check::errors(NAME, object, expected);
    }
    check(definition(), &[]);
    check(
        with("/metadata/name", json!("widget.example.com")),
        &["metadata.name: Invalid value: \"widget.example.com\": must be spec.names.plural+\".\"+spec.group"],
    );
    check(
        with("/spec/group", json!("example")),
        &[
            "metadata.name",
            "spec.group: Invalid value: \"example\": should be a domain with at least one dot",
        ],
    );
    check(
        with("/spec/scope", json!("World")),
        &["spec.scope: Unsupported value: \"World\": supported values: \"Cluster\", \"Namespaced\""],
    );
    check(
        with("/spec/names/kind", json!("Wid_get")),
        &["spec.names.kind: Invalid value: \"Wid_get\": may have mixed case"],
    );
    check(
        with("/spec/names/listKind", json!("Widget")),
        &["spec.names.listKind: Invalid value: \"Widget\": kind and listKind may not be the same"],
    );
    check(with("/spec/names/shortNames", json!(["W"])), &["spec.names.shortNames[0]: Invalid value: \"W\""]);
    check(
        with("/spec/versions", json!([])),
        &["spec.versions: Invalid value: []: must have exactly one version marked as storage version"],
    );
    check(
        with(
            "/spec/versions",
            json!([{"name": "v1", "storage": true}, {"name": "v1", "schema": {"openAPIV3Schema": {"type": "object"}}}]),
        ),
        &[
            "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required",
            "spec.versions: Invalid value: [{",
        ],
    );
    check(
        with("/spec/versions/0/subresources", json!({"scale": {"specReplicasPath": ".status.x"}})),
        &[
            "spec.versions[0].subresources.scale.specReplicasPath: Invalid value: \".status.x\": should be a json path under .spec",
            "spec.versions[0].subresources.scale.statusReplicasPath: Required value",
        ],
    );
    check(
        with("/spec/versions/0/additionalPrinterColumns", json!([{"name": "A", "type": "text"}])),
        &[
            "spec.versions[0].additionalPrinterColumns[0].type: Unsupported value: \"text\"",
            "spec.versions[0].additionalPrinterColumns[0].jsonPath: Required value",
        ],
    );
    check(
        with("/spec/conversion", json!({"strategy": "Webhook"})),
        &["spec.conversion.webhook: Required value"],
    );
}

#[test]
fn protected_groups() {
    let mut object = definition();
    object["spec"]["group"] = json!("apps.k8s.io");
    object["metadata"]["name"] = json!("widgets.apps.k8s.io");
    check::errors(
        NAME,
        object,
        &["metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups"],
    );
}

#[test]
fn updates() {
    check::update_errors(NAME, with("/spec/scope", json!("Cluster")), definition(), &[]);
    let mut established = definition();
    established["status"] =
        json!({"conditions": [{"type": "Established", "status": "True"}], "storedVersions": ["v0"]});
    let mut changed = with("/spec/scope", json!("Cluster"));
    changed["status"] = established["status"].clone();
    check::update_errors(
        NAME,
        changed,
        established,
        &[
            "spec.scope: Invalid value: \"Cluster\": field is immutable",
            "status.storedVersions[0]: Invalid value: \"v0\": must appear in spec.versions",
        ],
    );
}
