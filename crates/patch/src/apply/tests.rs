use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::managed::track;
use crate::sample;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn manager(name: &str) -> Manager {
    Manager::main(name, "apps/v1", true)
}

/// A Deployment with this spec, as a client applies it.
fn config(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
}

fn containers(list: Value) -> Value {
    config(json!({"template": {"spec": {"containers": list}}}))
}

fn apply(live: Option<&Value>, applied: &Value, name: &str, force: bool) -> Result<Value, ApplyError> {
    server_side(live, applied, &sample::deployment(), &manager(name), force, at(0))
}

#[track_caller]
fn applied(live: Option<&Value>, config: &Value, name: &str) -> Value {
    apply(live, config, name, false).unwrap()
}

#[track_caller]
fn conflict(live: &Value, config: &Value, name: &str) -> String {
    apply(Some(live), config, name, false).unwrap_err().to_string()
}

fn updated(live: &Value, name: &str, change: impl Fn(&mut Value)) -> Value {
    let mut new = live.clone();
    change(&mut new);
    track(Some(live), &mut new, &sample::deployment(), &manager(name), at(1));
    new
}

fn spec(object: &Value) -> &Value {
    &object["spec"]
}

fn owned(object: &Value, name: &str) -> Vec<String> {
    let entries = Entries::decode(managed::managed_fields(object)).unwrap().0;
    let entry = entries.iter().find(|entry| entry.manager == name);
    entry.map(|entry| entry.fields.paths().iter().map(ToString::to_string).collect()).unwrap_or_default()
}

#[test]
fn an_apply_may_create() {
    let created = applied(
        None,
        &config(
            json!({"replicas": 2, "strategy": {}, "template": {"spec": {"containers": [{"name": "c"}]}}}),
        ),
        "a",
    );
    assert_eq!(
        created["metadata"]["managedFields"],
        json!([{
            "manager": "a", "operation": "Apply", "apiVersion": "apps/v1",
            "time": "2023-11-14T22:13:20Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {
                "f:replicas": {},
                "f:strategy": {},
                "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}}}}},
            }},
        }])
    );
    assert_eq!(created["spec"]["replicas"], 2);
}

#[test]
fn fields_are_merged_and_dropped_ones_removed() {
    let first =
        applied(None, &config(json!({"replicas": 2, "paused": true, "strategy": {"type": "Recreate"}})), "a");
    let second = applied(Some(&first), &config(json!({"replicas": 3})), "a");
    assert_eq!(spec(&second), &json!({"replicas": 3}));
    assert_eq!(owned(&second, "a"), [".spec.replicas"]);
    let third = applied(Some(&second), &config(json!({})), "a");
    assert_eq!(spec(&third), &json!({}), "an empty map that is applied stays");
    let mut none = config(json!({}));
    none.as_object_mut().unwrap().remove("spec");
    assert_eq!(applied(Some(&third), &none, "a").get("spec"), None);
}

#[test]
fn what_others_own_stays() {
    let first = applied(None, &config(json!({"replicas": 2, "paused": true})), "a");
    let shared = applied(Some(&first), &config(json!({"replicas": 2})), "b");
    assert_eq!(owned(&shared, "b"), [".spec.replicas"], "equal values are owned together");
    assert_eq!(owned(&shared, "a"), [".spec.paused", ".spec.replicas"]);
    let left = applied(Some(&shared), &config(json!({"paused": true})), "a");
    assert_eq!(spec(&left)["replicas"], 2);
    let gone = applied(Some(&left), &config(json!({})), "b");
    assert_eq!(spec(&gone), &json!({"paused": true}));
}

#[test]
fn other_values_conflict_unless_forced() {
    let first = applied(None, &config(json!({"replicas": 2})), "a");
    let other = config(json!({"replicas": 3, "paused": false}));
    assert_eq!(
        conflict(&first, &other, "b"),
        "Apply failed with 1 conflict: conflict with \"a\": .spec.replicas"
    );
    let forced = apply(Some(&first), &other, "b", true).unwrap();
    assert_eq!(spec(&forced)["replicas"], 3);
    assert!(owned(&forced, "a").is_empty());
    assert_eq!(owned(&forced, "b"), [".spec.paused", ".spec.replicas"]);
}

#[test]
fn conflicts_are_grouped_and_worded_like_upstream() {
    let first = applied(None, &containers(json!([{"name": "c", "image": "1"}])), "z-applier");
    let second = updated(&first, "kubectl-client-side-apply", |object| {
        object["spec"]["replicas"] = json!(1);
        object["metadata"]["labels"] = json!({"a": "b"});
    });
    let mut wish = containers(json!([{"name": "c", "image": "2"}]));
    wish["spec"]["replicas"] = json!(5);
    wish["metadata"]["labels"] = json!({"a": "c"});
    assert_eq!(
        conflict(&second, &wish, "me"),
        "Apply failed with 3 conflicts: conflicts with \"kubectl-client-side-apply\" using apps/v1:\n\
         - .metadata.labels.a\n- .spec.replicas\nconflicts with \"z-applier\":\n\
         - .spec.template.spec.containers[name=\"c\"].image"
    );
    let Err(ApplyError::Conflict(conflicts)) = apply(Some(&second), &wish, "me", false) else { panic!() };
    let causes: Vec<_> = conflicts.iter().map(|c| (c.message(), c.path.to_string())).collect();
    assert_eq!(
        causes[1],
        ("conflict with \"kubectl-client-side-apply\" using apps/v1".to_owned(), ".spec.replicas".to_owned())
    );
    let mut scaled = first.clone();
    scaled["spec"]["replicas"] = json!(7);
    let scaler = Manager::subresource("hpa", "apps/v1", "scale");
    track(Some(&first), &mut scaled, &sample::deployment(), &scaler, at(1));
    assert_eq!(
        conflict(&scaled, &config(json!({"replicas": 8})), "me"),
        "Apply failed with 1 conflict: conflict with \"hpa\" with subresource \"scale\" using apps/v1: .spec.replicas"
    );
}

#[test]
fn list_elements_come_and_go_as_a_whole() {
    let first =
        applied(None, &containers(json!([{"name": "a", "image": "1"}, {"name": "b", "image": "2"}])), "m");
    // What the server fills in belongs to nobody and goes with its element.
    let mut defaulted = first.clone();
    defaulted["spec"]["template"]["spec"]["containers"][1]["args"] = json!(["default"]);
    let with_sidecar =
        applied(Some(&defaulted), &containers(json!([{"name": "s", "image": "3"}])), "injector");
    let list = |object: &Value| object["spec"]["template"]["spec"]["containers"].clone();
    assert_eq!(list(&with_sidecar).as_array().unwrap().len(), 3);
    let second = applied(Some(&with_sidecar), &containers(json!([{"name": "a", "image": "1"}])), "m");
    assert_eq!(list(&second), json!([{"name": "a", "image": "1"}, {"name": "s", "image": "3"}]));
    let shared = applied(Some(&second), &containers(json!([{"name": "a"}])), "other");
    let left = applied(Some(&shared), &containers(json!([])), "m");
    assert_eq!(
        list(&left),
        json!([{"name": "a"}, {"name": "s", "image": "3"}]),
        "the other applier keeps it"
    );
    // An updater that changed a field of an element does not keep the element.
    let imaged = updated(&second, "kubectl-set", |object| {
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!("9");
    });
    assert_eq!(
        list(&applied(Some(&imaged), &containers(json!([])), "m")),
        json!([{"name": "s", "image": "3"}])
    );
}

#[test]
fn keys_have_defaults() {
    let port = |port: Value| containers(json!([{"name": "c", "ports": [port]}]));
    let first = applied(None, &port(json!({"containerPort": 80, "protocol": "TCP"})), "m");
    let second = applied(Some(&first), &port(json!({"containerPort": 80, "name": "http"})), "m");
    assert_eq!(
        second["spec"]["template"]["spec"]["containers"][0]["ports"],
        json!([{"containerPort": 80, "protocol": "TCP", "name": "http"}]),
        "an element that stays keeps the fields that tell it apart"
    );
    let both = containers(
        json!([{"name": "c", "ports": [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]}]),
    );
    let dns = applied(None, &both, "m");
    assert_eq!(dns["spec"]["template"]["spec"]["containers"][0]["ports"].as_array().unwrap().len(), 2);
}

#[test]
fn list_order_follows_the_configuration() {
    let names = |object: &Value| -> String {
        let list = object["spec"]["template"]["spec"]["containers"].as_array().unwrap();
        list.iter().map(|container| container["name"].as_str().unwrap()).collect()
    };
    let list =
        |names: &str| containers(names.chars().map(|name| json!({"name": name.to_string()})).collect());
    let check = |live: &str, wish: &str, expected: &str| {
        let live = applied(None, &list(live), "other");
        assert_eq!(names(&applied(Some(&live), &list(wish), "m")), expected, "{wish}");
    };
    check("abc", "abc", "abc");
    check("abc", "cba", "cba");
    check("abc", "d", "abcd");
    check("abc", "dbe", "adbce");
    check("axby", "ba", "xbya");
    check("axb", "nab", "naxb");
    check("", "ab", "ab");
}

#[test]
fn sets_and_atomics() {
    let with = |finalizers: Value, selector: Value| {
        let mut config = config(json!({"selector": selector}));
        config["metadata"]["finalizers"] = finalizers;
        config
    };
    let first = applied(None, &with(json!(["a", "b"]), json!({"matchLabels": {"x": "1", "y": "2"}})), "m");
    assert_eq!(
        owned(&first, "m"),
        [".metadata.finalizers[=\"a\"]", ".metadata.finalizers[=\"b\"]", ".spec.selector"]
    );
    let second =
        applied(Some(&first), &with(json!(["c"]), json!({"matchLabels": {"x": "1", "y": "2"}})), "other");
    assert_eq!(second["metadata"]["finalizers"], json!(["a", "b", "c"]));
    let third =
        applied(Some(&second), &with(json!(["b"]), json!({"matchLabels": {"x": "1", "y": "2"}})), "m");
    assert_eq!(third["metadata"]["finalizers"], json!(["b", "c"]));
    assert_eq!(
        conflict(&third, &with(json!(["b"]), json!({"matchLabels": {"x": "1"}})), "m"),
        "Apply failed with 1 conflict: conflict with \"other\": .spec.selector"
    );
    let forced =
        apply(Some(&third), &with(json!(["b"]), json!({"matchLabels": {"x": "1"}})), "m", true).unwrap();
    assert_eq!(forced["spec"]["selector"], json!({"matchLabels": {"x": "1"}}), "atomic values are replaced");
}

#[test]
fn unknown_structures_are_taken_apart() {
    let first = applied(None, &config(json!({"extra": {"a": {"x": 1}, "l": [1, 2]}})), "m");
    assert_eq!(owned(&first, "m"), [".spec.extra.a", ".spec.extra.a.x", ".spec.extra.l"]);
    let second = applied(Some(&first), &config(json!({"extra": {"a": {"y": 2}}})), "other");
    assert_eq!(second["spec"]["extra"]["a"], json!({"x": 1, "y": 2}));
    let third = applied(Some(&second), &config(json!({"extra": {"l": [3]}})), "m");
    assert_eq!(third["spec"]["extra"], json!({"a": {"y": 2}, "l": [3]}));
}

#[test]
fn untracked_objects_belong_to_those_before() {
    let live = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "uid": "1"},
        "spec": {"replicas": 1}, "status": {"readyReplicas": 1}});
    let message = conflict(&live, &config(json!({"replicas": 2})), "m");
    assert_eq!(
        message,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using apps/v1: .spec.replicas"
    );
    let same = applied(Some(&live), &config(json!({"replicas": 1})), "m");
    assert_eq!(owned(&same, "before-first-apply"), [".spec.replicas"]);
}

#[test]
fn doors_write_their_own_fields_only() {
    let mut wish = config(json!({"replicas": 2}));
    wish["status"] = json!({"readyReplicas": 9});
    let first = applied(None, &wish, "m");
    assert_eq!(first.get("status"), None);
    assert_eq!(owned(&first, "m"), [".spec.replicas"]);
    let door = Manager::subresource("m", "apps/v1", "status");
    wish["spec"]["replicas"] = json!(7);
    let second = server_side(Some(&first), &wish, &sample::deployment(), &door, false, at(0)).unwrap();
    assert_eq!((&second["spec"]["replicas"], &second["status"]), (&json!(2), &json!({"readyReplicas": 9})));
    assert_eq!(managed::managed_fields(&second).unwrap().as_array().unwrap().len(), 2, "one entry per door");
}

#[test]
fn a_null_asks_for_no_value() {
    let first = applied(None, &config(json!({"replicas": 2})), "a");
    let wish = config(json!({"replicas": null, "strategy": null}));
    assert!(conflict(&first, &wish, "b").ends_with(".spec.replicas"));
    let forced = apply(Some(&first), &wish, "b", true).unwrap();
    assert_eq!(forced["spec"], json!({}));
    assert_eq!(owned(&forced, "b"), [".spec.replicas", ".spec.strategy"]);
    assert_eq!(apply(Some(&forced), &wish, "b", false).unwrap(), forced);
}

#[test]
fn applying_twice_keeps_the_time() {
    let wish = containers(json!([{"name": "c", "ports": [{"containerPort": 80}]}]));
    let first = applied(None, &wish, "m");
    let again =
        server_side(Some(&first), &wish, &sample::deployment(), &manager("m"), false, at(60)).unwrap();
    assert_eq!(again, first);
    let less = server_side(
        Some(&first),
        &containers(json!([{"name": "c"}])),
        &sample::deployment(),
        &manager("m"),
        false,
        at(60),
    )
    .unwrap();
    assert_eq!(less["metadata"]["managedFields"][0]["time"], "2023-11-14T22:14:20Z");
}

#[test]
fn client_side_apply_hands_over() {
    let last = config(json!({"replicas": 1, "paused": false}));
    let mut live = last.clone();
    live["metadata"]["uid"] = json!("1");
    live["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": last.to_string(), "other": "x"});
    track(None, &mut live, &sample::deployment(), &manager("kubectl-client-side-apply"), at(0));
    let wish = config(json!({"replicas": 5, "paused": true}));
    assert!(matches!(apply(Some(&live), &wish, "someone", false), Err(ApplyError::Conflict(_))));

    let done = applied(Some(&live), &wish, "kubectl");
    assert_eq!(spec(&done), &json!({"replicas": 5, "paused": true}));
    assert_eq!(owned(&done, "kubectl"), [".spec.paused", ".spec.replicas"]);
    assert_eq!(
        done["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"],
        "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"d\"},\"spec\":{\"paused\":true,\"replicas\":5}}\n"
    );

    let scaled = updated(&live, "hpa", |object| object["spec"]["replicas"] = json!(3));
    assert_eq!(
        conflict(&scaled, &wish, "kubectl"),
        "Apply failed with 1 conflict: conflict with \"hpa\" using apps/v1: .spec.replicas",
        "what changed since belongs to whoever changed it"
    );
}

#[test]
fn bad_configurations_are_refused() {
    let check = |config: Value, status: u16, message: &str| {
        let error = apply(None, &config, "m", false).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(error.status(), status);
    };
    check(json!([]), 400, "must be an object");
    check(json!({"apiVersion": "v1"}), 400, "Specified patch version: v1, expected: apps/v1");
    check(json!({"apiVersion": "apps/v1", "metadata": {"managedFields": []}}), 400, "must be nil");
    check(
        containers(json!([{"name": "a"}, {"image": "x"}])),
        400,
        ".spec.template.spec.containers: element 1: associative list with keys has an element that omits all key fields [\"name\"]",
    );
    check(
        containers(json!([{"name": "a"}, {"name": "a"}])),
        400,
        ".spec.template.spec.containers: duplicate entries for key [name=\"a\"]",
    );
    check(containers(json!(["a"])), 400, "may not have non-map elements");
    let mut deep = json!(1);
    for _ in 0..300 {
        deep = json!([deep]);
    }
    check(config(json!({"extra": deep})), 400, "nested too deep");
    let mut live = config(json!({"replicas": 1}));
    live["metadata"]["managedFields"] = json!([{"operation": "Guess"}]);
    assert_eq!(apply(Some(&live), &config(json!({})), "m", false).unwrap_err().status(), 500);
}

#[test]
fn records_follow_a_schema_that_became_atomic() {
    let granular = sample::object([
        ("apiVersion", sample::string()),
        ("metadata", sample::metadata()),
        ("spec", sample::map(sample::string())),
    ]);
    let atomic = sample::object([
        ("apiVersion", sample::string()),
        ("metadata", sample::metadata()),
        ("spec", sample::atomic(sample::map(sample::string()))),
    ]);
    let wish = |a: &str| json!({"apiVersion": "apps/v1", "metadata": {"name": "x"}, "spec": {"a": a}});
    let first = server_side(None, &wish("1"), &granular, &manager("m"), false, at(0)).unwrap();
    let second = server_side(Some(&first), &wish("1"), &atomic, &manager("n"), false, at(0)).unwrap();
    assert_eq!(owned(&second, "m"), [".spec"]);
    let error = server_side(Some(&first), &wish("2"), &atomic, &manager("n"), false, at(0)).unwrap_err();
    assert!(error.to_string().ends_with("\"m\": .spec"), "{error}");
}

#[test]
fn very_deep_values_are_owned_whole() {
    let mut deep = json!({"end": 1});
    for _ in 0..115 {
        deep = json!({"a": deep});
    }
    let created = applied(None, &config(json!({"extra": deep})), "m");
    let text = created.to_string();
    assert!(serde_json::from_str::<Value>(&text).is_ok(), "the stored object can be read again");
}

#[test]
fn a_value_of_another_type_overrules_the_owners_inside() {
    let first = applied(None, &config(json!({"extra": {"x": 1}})), "a");
    let other = config(json!({"extra": "text"}));
    assert!(conflict(&first, &other, "b").ends_with("\"a\": .spec.extra.x"));
    assert_eq!(apply(Some(&first), &other, "b", true).unwrap()["spec"]["extra"], "text");
}

#[test]
fn apply_undeclared_field_is_named_with_its_path() {
    let schema = Schema::compile(
        &json!({"type": "object", "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            "free": {"type": "object"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "spec": {"type": "object", "properties": {
                "foo": {"type": "string"},
                "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
                    "items": {"type": "object", "properties": {"port": {"type": "integer"}}}},
                "args": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            }},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "inner": {"type": "object", "properties": {"a": {"type": "string"}}},
                "object": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
                    "metadata": {"type": "object", "properties": {"name": {"type": "string"}}}}},
            }},
        }}),
        &mut |_| None,
    )
    .unwrap();
    let check = |applied: Value, expected: &str| {
        let text = check_declared(&applied, &schema).map_err(|e| e.to_string()).err().unwrap_or_default();
        assert_eq!(text, expected, "{applied}");
    };
    check(json!({"metadata": {"name": "x"}, "spec": {"foo": "a"}, "labels": {"any": "thing"}}), "");
    check(json!({"unknownField": 1}), ".unknownField: field not declared in schema");
    check(json!({"metadata": {"unknownMeta": 1}}), ".metadata.unknownMeta: field not declared in schema");
    check(
        json!({"spec": {"ports": [{"port": 80, "x": 1}], "args": [{}, {"b": 1}]}, "x": null}),
        "errors:\n  .spec.ports[port=80].x: field not declared in schema\n  \
         .spec.args[1].b: field not declared in schema\n  .x: field not declared in schema",
    );
    // Upstream takes an object without fields for free-form, and what is open for open all the way down.
    check(json!({"free": {"x": {"y": 1}}, "open": {"x": 1, "inner": {"b": 1}, "object": {"z": 1}}}), "");
    check(
        json!({"open": {"object": {"metadata": {"unknownSubMeta": 1}}}}),
        ".open.object.metadata.unknownSubMeta: field not declared in schema",
    );
    let many: serde_json::Map<String, Value> = (0..1000).map(|i| (format!("f{i}"), json!(1))).collect();
    assert!(check_declared(&Value::Object(many), &schema).unwrap_err().to_string().len() < 10_000);
}
