use jiff::Timestamp;
use serde_json::{Value, json};

use crate::sample;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn kubectl() -> Manager {
    Manager::main("kubectl-edit", "apps/v1", true)
}

fn controller() -> Manager {
    Manager::subresource("kube-controller-manager", "apps/v1", "status")
}

fn create(mut object: Value, manager: &Manager) -> Value {
    track(None, &mut object, &sample::deployment(), manager, at(0));
    object
}

fn update(old: &Value, mut new: Value, manager: &Manager, second: i64) -> Value {
    track(Some(old), &mut new, &sample::deployment(), manager, at(second));
    new
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default", "uid": "1", "resourceVersion": "7", "labels": {"app": "d"}},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"spec": {"containers": [
                {"name": "c", "image": "i:1", "args": ["x"], "ports": [{"containerPort": 80, "protocol": "TCP"}]},
            ]}},
        },
    })
}

/// `manager operation [subresource] second: fields` per entry.
fn owners(object: &Value) -> Vec<String> {
    let Some(Value::Array(list)) = managed_fields(object) else { return Vec::new() };
    let entries = list.iter().enumerate().map(|(i, entry)| Entry::decode(entry, i).unwrap());
    entries
        .map(|entry| {
            let paths: Vec<String> = entry.fields.paths().iter().map(ToString::to_string).collect();
            let second = entry.time.unwrap().as_second() - at(0).as_second();
            let (manager, operation) = (&entry.manager, entry.operation.name());
            let subresource = entry.subresource.map(|name| format!("/{name}")).unwrap_or_default();
            format!("{manager} {operation}{subresource} {second}: {}", paths.join(" "))
        })
        .collect()
}

#[test]
fn the_creator_owns_all_but_identity() {
    let created = create(deployment(), &kubectl());
    assert_eq!(
        created["metadata"]["managedFields"],
        json!([{
            "manager": "kubectl-edit", "operation": "Update", "apiVersion": "apps/v1",
            "time": "2023-11-14T22:13:20Z", "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {
                    "f:replicas": {},
                    "f:selector": {},
                    "f:strategy": {"f:type": {}},
                    "f:template": {"f:spec": {"f:containers": {
                        ".": {},
                        "k:{\"name\":\"c\"}": {
                            ".": {}, "f:name": {}, "f:image": {}, "f:args": {},
                            "f:ports": {
                                ".": {},
                                "k:{\"containerPort\":80,\"protocol\":\"TCP\"}":
                                    {".": {}, "f:containerPort": {}, "f:protocol": {}},
                            },
                        },
                    }}},
                },
            },
        }])
    );
}

#[test]
fn changed_fields_move_to_the_writer() {
    let created = create(deployment(), &Manager::main("a", "apps/v1", true));
    let mut new = created.clone();
    new["spec"]["replicas"] = json!(3);
    new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("i:2");
    new["metadata"]["labels"] = json!({"tier": "x"});
    let updated = update(&created, new, &Manager::main("b", "apps/v1", true), 5);
    let owners = owners(&updated);
    assert_eq!(owners.len(), 2);
    assert!(owners[0].starts_with("a Update 0: .metadata.labels .spec.selector"), "{}", owners[0]);
    assert!(!owners[0].contains("image") && !owners[0].contains("labels.app"), "{}", owners[0]);
    assert_eq!(
        owners[1],
        "b Update 5: .metadata.labels.tier .spec.replicas .spec.template.spec.containers[name=\"c\"].image"
    );
}

#[test]
fn a_removed_element_belongs_to_nobody() {
    let created = create(deployment(), &kubectl());
    let mut new = created.clone();
    new["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([]);
    let updated = update(&created, new, &controller(), 5);
    assert!(owners(&updated)[0].contains("containerPort"), "a status write touches no spec");
    let mut new = created.clone();
    new["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([]);
    let updated = update(&created, new, &Manager::main("b", "apps/v1", true), 5);
    assert_eq!(owners(&updated).len(), 1, "who only removes owns nothing");
    assert!(!owners(&updated)[0].contains("containerPort"));
}

#[test]
fn doors_see_their_own_fields_only() {
    let created = create(deployment(), &kubectl());
    let mut new = created.clone();
    new["status"] = json!({"readyReplicas": 1, "conditions": [{"type": "Available", "status": "True"}]});
    new["spec"]["replicas"] = json!(9);
    let updated = update(&created, new.clone(), &controller(), 5);
    let listed = owners(&updated);
    assert!(listed[0].contains(".spec.replicas"));
    assert_eq!(
        listed[1],
        "kube-controller-manager Update/status 5: .status.conditions .status.conditions[type=\"Available\"] \
         .status.conditions[type=\"Available\"].status .status.conditions[type=\"Available\"].type .status.readyReplicas"
    );
    let updated = update(&created, new, &kubectl(), 5);
    assert!(!owners(&updated)[0].contains("status."));
}

#[test]
fn a_write_without_change_keeps_everything() {
    let created = create(deployment(), &kubectl());
    assert_eq!(update(&created, created.clone(), &kubectl(), 9), created);
    assert_eq!(update(&created, created.clone(), &Manager::main("other", "v1", true), 9), created);
    let mut without = created.clone();
    take_managed_fields(&mut without);
    assert_eq!(update(&created, without, &kubectl(), 9), created, "clients may leave managedFields out");
    let mut touched = created.clone();
    touched["metadata"]["resourceVersion"] = json!("8");
    touched["metadata"]["generation"] = json!(2);
    let updated = update(&created, touched, &kubectl(), 9);
    assert_eq!(managed_fields(&updated), managed_fields(&created), "the server's own fields do not count");
}

#[test]
fn clients_may_reset_managed_fields() {
    let created = create(deployment(), &kubectl());
    for reset in [json!([]), json!([{}])] {
        let mut new = created.clone();
        new["metadata"]["managedFields"] = reset.clone();
        new["spec"]["replicas"] = json!(5);
        let updated = update(&created, new.clone(), &kubectl(), 5);
        assert_eq!(managed_fields(&updated), None);
        let mut again = updated.clone();
        again["spec"]["replicas"] = json!(6);
        let again = update(&updated, again, &kubectl(), 6);
        assert_eq!(managed_fields(&again), None, "tracking starts again with the first apply");
        let by_status = update(&created, new, &controller(), 5);
        assert_eq!(managed_fields(&by_status), managed_fields(&created), "a subresource cannot reset");
    }
}

#[test]
fn managed_fields_sent_by_the_client() {
    let created = create(deployment(), &kubectl());
    let mut new = created.clone();
    new["metadata"]["managedFields"] = json!([{"manager": "x", "operation": "Guess"}]);
    assert_eq!(update(&created, new.clone(), &kubectl(), 5), created, "what cannot be read is ignored");
    new["metadata"]["managedFields"] = json!([{
        "manager": "x", "operation": "Apply", "apiVersion": "apps/v1", "time": "2023-11-14T22:13:21Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}},
    }]);
    assert_eq!(owners(&update(&created, new, &kubectl(), 5)), ["x Apply 1: .spec.replicas"]);
    let mut fresh = deployment();
    fresh["metadata"]["managedFields"] = managed_fields(&created).unwrap().clone();
    assert_eq!(owners(&create(fresh, &Manager::main("b", "apps/v1", true))).len(), 1, "a creator owns all");
}

#[test]
fn the_oldest_updaters_are_joined() {
    let mut object = create(deployment(), &Manager::main("first", "apps/v1", true));
    for n in 0..14 {
        let mut new = object.clone();
        new["metadata"]["labels"][format!("l{n}")] = json!("x");
        object = update(&object, new, &Manager::main(&format!("m{n:02}"), "apps/v1", true), n + 1);
    }
    let listed = owners(&object);
    assert_eq!(listed.len(), 10);
    assert!(listed[0].starts_with("ancient-changes Update 5: "), "{}", listed[0]);
    assert!(listed[0].contains(".spec.replicas") && listed[0].contains(".metadata.labels.l4"));
    assert!(listed[1].starts_with("m05 Update 6: .metadata.labels.l5"), "{}", listed[1]);
    assert!(listed[9].starts_with("m13 "));
}

#[test]
fn one_manager_has_one_entry_per_door_and_version() {
    let mut object = create(deployment(), &kubectl());
    for (second, manager) in [
        kubectl(),
        Manager::main("kubectl-edit", "apps/v2", true),
        Manager::subresource("kubectl-edit", "apps/v1", "scale"),
    ]
    .iter()
    .enumerate()
    {
        let mut new = object.clone();
        new["spec"]["replicas"] = json!(second + 10);
        object = update(&object, new, manager, 10);
    }
    let listed = owners(&object);
    assert_eq!(listed.len(), 2, "the second version lost its only field again: {listed:?}");
    assert_eq!(listed[1], "kubectl-edit Update/scale 10: .spec.replicas");
}

#[test]
fn lists_without_identities_are_owned_whole() {
    let mut object = deployment();
    object["spec"]["template"]["spec"]["containers"] = json!([{"image": "a"}, {"image": "b"}]);
    let created = create(object, &Manager::main("a", "apps/v1", true));
    assert!(owners(&created)[0].ends_with(".spec.template.spec.containers"), "{:?}", owners(&created));
    let mut new = created.clone();
    new["spec"]["template"]["spec"]["containers"] = json!([{"image": "a"}]);
    let updated = update(&created, new, &Manager::main("b", "apps/v1", true), 3);
    assert_eq!(owners(&updated)[1], "b Update 3: .spec.template.spec.containers");
}

#[test]
fn elements_that_share_an_identity_are_owned_together() {
    let mut object = deployment();
    object["spec"]["template"]["spec"]["containers"] =
        json!([{"name": "c", "image": "a"}, {"name": "c", "image": "b"}]);
    let created = create(object, &Manager::main("a", "apps/v1", true));
    assert!(owners(&created)[0].ends_with(".spec.template.spec.containers[name=\"c\"]"));
    let mut new = created.clone();
    new["spec"]["template"]["spec"]["containers"] = json!([{"name": "c", "image": "b"}]);
    let updated = update(&created, new, &Manager::main("b", "apps/v1", true), 3);
    assert!(owners(&updated)[1].contains("[name=\"c\"].image"), "{:?}", owners(&updated));
}

#[test]
fn entries_that_stay_are_not_written_anew() {
    let mut created = create(deployment(), &kubectl());
    // Not as we would write it.
    created["metadata"]["managedFields"][0]["time"] = json!("2023-11-14T22:13:20.5Z");
    let mut new = created.clone();
    new["status"] = json!({"readyReplicas": 1});
    let updated = update(&created, new, &controller(), 5);
    let fields = managed_fields(&updated).unwrap();
    assert_eq!(fields[0], managed_fields(&created).unwrap()[0]);
    assert_eq!(fields[1]["manager"], "kube-controller-manager");
    let mut new = updated.clone();
    new["spec"]["replicas"] = json!(7);
    let updated = update(&updated, new, &Manager::main("b", "apps/v1", true), 6);
    assert_eq!(managed_fields(&updated).unwrap()[0]["time"], "2023-11-14T22:13:20Z");
}

#[test]
fn who_owns_nothing_where_a_change_is_keeps_all() {
    let create_as = |name: &str| {
        let object = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1}});
        create(object, &Manager::main(name, "apps/v1", true))
    };
    let label = |object: &Value, by: &str| {
        let mut new = object.clone();
        new["metadata"]["labels"] = json!({"a": "b"});
        owners(&update(object, new, &Manager::main(by, "apps/v1", true), 5))
    };
    assert_eq!(
        label(&create_as("a"), "a"),
        ["a Update 5: .metadata.labels .metadata.labels.a .spec.replicas"]
    );
    assert_eq!(
        label(&create_as("a"), "b"),
        ["a Update 0: .spec.replicas", "b Update 5: .metadata.labels .metadata.labels.a"]
    );
    // Two entries of one manager, as nobody writes them, become one.
    let mut twice = create_as("a");
    let entry = managed_fields(&twice).unwrap()[0].clone();
    twice["metadata"]["managedFields"] = json!([entry, entry]);
    assert_eq!(label(&twice, "b").len(), 2);
}

#[test]
fn times_are_kept_when_nothing_else_changed() {
    let created = create(deployment(), &kubectl());
    let stored = serde_json::value::to_raw_value(managed_fields(&created).unwrap()).unwrap();
    let mut later = created.clone();
    later["metadata"]["managedFields"][0]["time"] = json!("2024-01-01T00:00:00Z");
    later["metadata"]["resourceVersion"] = json!("9");
    let applied = take_managed_fields(&mut later);
    let check = |later: &Value, applied: &Option<Value>, changed: bool| match keep_times(
        (&created, Some(&stored)),
        (later, applied.clone()),
    ) {
        Tracked::Unchanged => assert!(!changed),
        Tracked::Changed(fields) => {
            assert!(changed);
            assert_eq!(fields.as_deref().and_then(update::parsed), *applied);
        }
    };
    check(&later, &applied, false);
    later["spec"]["replicas"] = json!(2);
    check(&later, &applied, true);
    check(&later, &None, true);
}

#[test]
fn entries_that_cannot_be_read_say_why() {
    let check = |entry: Value, expected: &str| {
        let error = Entry::decode(&entry, 2).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let good = json!({"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"});
    assert!(Entry::decode(&good, 0).unwrap().fields.is_empty());
    let with = |name: &str, value: Value| {
        let mut entry = good.clone();
        entry[name] = value;
        entry
    };
    check(with("operation", json!("apply")), "`Apply` or `Update`");
    check(with("apiVersion", json!("")), "apiVersion must not be empty");
    check(with("fieldsType", json!("FieldsV2")), "entry 2: must be FieldsV1");
    check(with("manager", json!(1)), "manager in managed fields entry 2 must be a string");
    check(with("time", json!("yesterday")), "invalid time");
    check(with("fieldsV1", json!({"x": {}})), "invalid fieldsV1");
    check(json!("text"), "list of objects");
}

#[test]
fn names_come_from_the_request_or_the_user_agent() {
    assert_eq!(manager_name("me", "kubectl/v1"), "me");
    assert_eq!(manager_name("", "kubectl/v1.30 (linux)"), "kubectl");
    assert_eq!(manager_name("", ""), "unknown");
    assert_eq!(manager_name("", &"ü".repeat(200)).len(), 128);
}
