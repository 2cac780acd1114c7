use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Attributes, User};

fn rule(verbs: &[&str], resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": [""], "resources": resources})
}

fn role(namespace: &str, name: &str, rules: Value) -> (RbacKind, Value) {
    let kind = if namespace.is_empty() { RbacKind::ClusterRole } else { RbacKind::Role };
    (kind, json!({"metadata": {"namespace": namespace, "name": name}, "rules": rules}))
}

fn labelled(name: &str, label: &str, rules: Value) -> (RbacKind, Value) {
    let mut object = role("", name, rules).1;
    object["metadata"]["labels"] = json!({ label: "true" });
    (RbacKind::ClusterRole, object)
}

fn union(name: &str, own_label: &str, of: &str) -> (RbacKind, Value) {
    let mut object = labelled(name, own_label, json!([])).1;
    object["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {of: "true"}}]});
    (RbacKind::ClusterRole, object)
}

fn binding(namespace: &str, name: &str, role: &str, subjects: Value) -> (RbacKind, Value) {
    let kind = if namespace.is_empty() { RbacKind::ClusterRoleBinding } else { RbacKind::RoleBinding };
    let (role_kind, role) = role.split_once(':').unwrap();
    let role_ref = json!({"apiGroup": API_GROUP, "kind": role_kind, "name": role});
    let metadata = json!({"namespace": namespace, "name": name});
    (kind, json!({"metadata": metadata, "roleRef": role_ref, "subjects": subjects}))
}

fn policy(objects: impl IntoIterator<Item = (RbacKind, Value)>) -> Policy {
    let mut policy = Policy::default();
    for (kind, object) in objects {
        policy.upsert(kind, &object).unwrap();
    }
    policy
}

fn user(name: &str) -> User {
    User::authenticated(name, &[])
}

fn to_user(name: &str) -> Value {
    json!([{"kind": "User", "name": name, "apiGroup": API_GROUP}])
}

fn allowed(policy: &Policy, user: &User, verb: &str, resource: &str, namespace: &str) -> bool {
    policy.allows(user, &Attributes::resource(verb, "", resource).in_namespace(namespace)).is_allowed()
}

#[test]
fn bindings_scope_what_roles_grant() {
    let policy = policy([
        role("", "reader", json!([rule(&["get"], &["pods", "nodes"])])),
        role("a", "writer", json!([rule(&["create"], &["pods"])])),
        role("b", "writer", json!([rule(&["delete"], &["pods"])])),
        binding("", "all", "ClusterRole:reader", to_user("all")),
        binding("a", "one", "ClusterRole:reader", to_user("one")),
        binding("a", "w", "Role:writer", to_user("one")),
    ]);
    let check = |name: &str, verb: &str, resource: &str, namespace: &str, expected: bool| {
        let found = allowed(&policy, &user(name), verb, resource, namespace);
        assert_eq!(found, expected, "{name} {verb} {resource} in {namespace:?}");
    };
    check("all", "get", "pods", "a", true);
    check("all", "get", "pods", "", true);
    check("all", "get", "nodes", "", true);
    check("one", "get", "pods", "a", true);
    check("one", "get", "pods", "b", false);
    check("one", "get", "pods", "", false);
    check("one", "create", "pods", "a", true);
    check("one", "delete", "pods", "a", false);
    check("nobody", "get", "pods", "a", false);
}

#[test]
fn subjects() {
    let policy = policy([
        role("", "reader", json!([rule(&["get"], &["pods"])])),
        binding("", "g", "ClusterRole:reader", json!([{"kind": "Group", "name": "devs"}])),
        binding("a", "sa", "ClusterRole:reader", json!([{"kind": "ServiceAccount", "name": "bot"}])),
        binding(
            "",
            "sa2",
            "ClusterRole:reader",
            json!([
                {"kind": "ServiceAccount", "name": "bot", "namespace": "c"},
                {"kind": "ServiceAccount", "name": "nowhere"},
                {"kind": "Robot", "name": "x"},
            ]),
        ),
    ]);
    let reason = |user: User, namespace: &str| {
        let wanted = Attributes::resource("get", "", "pods").in_namespace(namespace);
        policy.allows(&user, &wanted).reason().to_owned()
    };
    assert_eq!(
        reason(User::authenticated("x", &["devs"]), ""),
        r#"RBAC: allowed by ClusterRoleBinding "g" of ClusterRole "reader" to Group "devs""#
    );
    assert_eq!(
        reason(user("system:serviceaccount:a:bot"), "a"),
        r#"RBAC: allowed by RoleBinding "sa/a" of ClusterRole "reader" to ServiceAccount "bot/a""#
    );
    assert_eq!(reason(user("system:serviceaccount:a:bot"), "b"), "");
    assert!(reason(user("system:serviceaccount:c:bot"), "b").contains("allowed"));
    for name in ["system:serviceaccount::nowhere", "nowhere", "x", ""] {
        assert_eq!(reason(user(name), ""), "", "{name}");
    }
}

#[test]
fn missing_roles_are_told() {
    let policy = policy([
        binding("", "x", "ClusterRole:gone", to_user("jane")),
        binding("a", "y", "Role:lost", to_user("jane")),
    ]);
    let reason = |namespace| {
        let wanted = Attributes::resource("get", "", "pods").in_namespace(namespace);
        policy.allows(&user("jane"), &wanted).reason().to_owned()
    };
    assert_eq!(reason(""), r#"RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found"#);
    assert!(reason("a").contains(r#"role.rbac.authorization.k8s.io "lost" not found"#));
}

#[test]
fn changes_take_effect() {
    let mut policy = policy([
        role("", "reader", json!([rule(&["get"], &["pods"])])),
        binding("", "b", "ClusterRole:reader", to_user("jane")),
        binding("a", "b", "ClusterRole:reader", to_user("jane")),
    ]);
    let jane = user("jane");
    assert!(allowed(&policy, &jane, "get", "pods", "x"));
    let (kind, moved) = binding("", "b", "ClusterRole:reader", to_user("joe"));
    policy.upsert(kind, &moved).unwrap();
    assert!(!allowed(&policy, &jane, "get", "pods", "x"));
    assert!(allowed(&policy, &user("joe"), "get", "pods", "x"));
    assert!(allowed(&policy, &jane, "get", "pods", "a"));
    policy.remove(RbacKind::RoleBinding, "a", "b");
    assert!(!allowed(&policy, &jane, "get", "pods", "a"));
    policy.remove(RbacKind::ClusterRole, "", "reader");
    assert!(!allowed(&policy, &user("joe"), "get", "pods", "x"));
    policy.remove(RbacKind::ClusterRole, "", "never was");
    policy.remove(RbacKind::ClusterRoleBinding, "", "b");
    policy.remove(RbacKind::Role, "a", "b");
}

#[test]
fn aggregated_roles_follow_their_parts() {
    let mut policy = policy([
        // `outer` picks `inner`, which picks the plain ones; `ring` and `inner` pick each other.
        union("outer", "none", "to-outer"),
        union("inner", "to-outer", "to-inner"),
        union("ring", "to-inner", "to-outer"),
        labelled("plain", "to-inner", json!([rule(&["get"], &["pods"])])),
        binding("", "o", "ClusterRole:outer", to_user("jane")),
        binding("", "r", "ClusterRole:ring", to_user("joe")),
    ]);
    let (jane, joe) = (user("jane"), user("joe"));
    assert!(allowed(&policy, &jane, "get", "pods", ""));
    assert!(allowed(&policy, &joe, "get", "pods", ""));
    let (kind, more) = labelled("more", "to-inner", json!([rule(&["list"], &["pods"])]));
    policy.upsert(kind, &more).unwrap();
    assert!(allowed(&policy, &jane, "list", "pods", ""));
    assert_eq!(policy.aggregated_rules("outer").unwrap().len(), 2);
    assert_eq!(policy.aggregated_rules("plain"), None);
    let (kind, unlabelled) = role("", "more", json!([rule(&["list"], &["pods"])]));
    policy.upsert(kind, &unlabelled).unwrap();
    assert!(!allowed(&policy, &jane, "list", "pods", ""));
    policy.remove(RbacKind::ClusterRole, "", "plain");
    assert!(!allowed(&policy, &jane, "get", "pods", ""));
    // What an aggregated role itself says is only a copy.
    let (kind, mut own) = union("outer", "none", "to-outer");
    own["rules"] = json!([rule(&["*"], &["*"])]);
    policy.upsert(kind, &own).unwrap();
    assert!(!allowed(&policy, &jane, "delete", "pods", ""));
}

#[test]
fn masters_may_everything() {
    let policy = Policy::default();
    let root = User::authenticated("root", &["system:masters"]);
    assert!(allowed(&policy, &root, "anything", "x", "y"));
    assert!(policy.allows(&root, &Attributes::path("get", "/x")).is_allowed());
    assert!(policy.missing_rules(&root, "", &[Rule::everything(), Rule::every_path()]).is_empty());
    assert_eq!(policy.rules_review(&root, "default")["resourceRules"][0]["verbs"], json!(["*"]));
}

#[test]
fn rules_of_a_user() {
    let policy = policy([
        role("", "reader", json!([rule(&["get"], &["pods"]), {"verbs": ["get"], "nonResourceURLs": ["/x"]}])),
        role(
            "a",
            "named",
            json!([
                {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["s"]},
            ]),
        ),
        binding("", "b", "ClusterRole:reader", to_user("jane")),
        binding("a", "b", "ClusterRole:reader", to_user("jane")),
        binding("a", "c", "Role:named", to_user("jane")),
    ]);
    let jane = user("jane");
    assert_eq!(policy.rules_for(&jane, "a").len(), 3, "each rule once");
    assert_eq!(policy.rules_for(&jane, "b").len(), 2);
    assert_eq!(
        policy.rules_review(&jane, "a"),
        json!({
            "resourceRules": [
                {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
                {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["s"]},
            ],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}],
            "incomplete": false,
        })
    );
}

#[test]
fn granting_needs_holding() {
    let policy = policy([
        role("", "reader", json!([rule(&["get", "list"], &["pods"])])),
        role("", "boss", json!([rule(&["*"], &["*"])])),
        role(
            "",
            "escalator",
            json!([
                {"verbs": ["escalate"], "apiGroups": [API_GROUP], "resources": ["roles", "clusterroles"]},
                {"verbs": ["bind"], "apiGroups": [API_GROUP], "resources": ["clusterroles"], "resourceNames": ["boss"]},
            ]),
        ),
        binding("a", "b", "ClusterRole:reader", to_user("jane")),
        binding("", "e", "ClusterRole:escalator", to_user("joe")),
    ]);
    let (jane, joe) = (user("jane"), user("joe"));
    let rules = |value: Value| -> Vec<Rule> {
        let rules: Vec<k8s_openapi::api::rbac::v1::PolicyRule> = serde_json::from_value(value).unwrap();
        rules.into_iter().map(Rule::from).collect()
    };
    let get = rules(json!([rule(&["get"], &["pods"])]));
    let delete = rules(json!([rule(&["get", "delete", "patch"], &["pods"])]));
    let cluster_role = |name: &str| RoleRef::ClusterRole(name.to_owned());

    assert_eq!(policy.may_write_role(&jane, "a", "r", &get, false), Ok(()));
    assert!(policy.may_write_role(&jane, "b", "r", &get, false).is_err());
    assert!(policy.may_write_role(&jane, "", "r", &get, false).is_err());
    assert_eq!(
        policy.may_write_role(&jane, "a", "r", &delete, false).unwrap_err().to_string(),
        "user \"jane\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not \
         currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\" \"patch\"]}"
    );
    assert!(policy.may_write_role(&jane, "", "r", &[], true).is_err(), "aggregation");
    assert_eq!(policy.may_write_role(&joe, "", "r", &delete, true), Ok(()));

    assert_eq!(policy.may_write_binding(&jane, "a", &cluster_role("reader")), Ok(()));
    assert!(policy.may_write_binding(&jane, "", &cluster_role("reader")).is_err());
    assert!(matches!(
        policy.may_write_binding(&jane, "a", &cluster_role("gone")),
        Err(EscalationError::RoleMissing(_))
    ));
    assert_eq!(policy.may_write_binding(&joe, "a", &cluster_role("boss")), Ok(()));
    assert!(policy.may_write_binding(&joe, "a", &cluster_role("reader")).is_err());
}

#[test]
fn malformed_objects_are_errors_or_harmless() {
    let mut policy = Policy::default();
    for kind in RbacKind::ALL {
        assert_eq!(RbacKind::by_plural(kind.plural()), Some(kind));
        for object in [json!(null), json!({"rules": 5, "subjects": 7}), json!({"metadata": []})] {
            let _ = policy.upsert(kind, &object);
        }
    }
    // A RoleBinding without a namespace must not act as a ClusterRoleBinding.
    let (_, stray) = binding("", "b", "ClusterRole:reader", to_user("jane"));
    policy.upsert(RbacKind::RoleBinding, &stray).unwrap();
    let (kind, reader) = role("", "reader", json!([rule(&["get"], &["pods"])]));
    policy.upsert(kind, &reader).unwrap();
    assert!(!allowed(&policy, &user("jane"), "get", "pods", ""));
}

proptest! {
    /// However objects come and go, the index answers as one built afresh from what is left.
    #[test]
    fn index_equals_rebuild(steps in prop::collection::vec((0usize..3, 0usize..3, 0usize..3, any::<bool>()), 1..40)) {
        let names = ["a", "b", "c"];
        let mut live = std::collections::BTreeMap::new();
        let mut policy = Policy::default();
        for (what, name, subject, remove) in steps {
            let (kind, object) = match what {
                0 => role("", names[name], json!([rule(&["get"], &[names[subject]])])),
                1 => binding("", names[name], &format!("ClusterRole:{}", names[subject]), to_user(names[name])),
                _ => binding("ns", names[name], &format!("ClusterRole:{}", names[name]), to_user(names[subject])),
            };
            let namespace = if what == 2 { "ns" } else { "" };
            if remove {
                policy.remove(kind, namespace, names[name]);
                live.remove(&(what, name));
            } else {
                policy.upsert(kind, &object).unwrap();
                live.insert((what, name), (kind, object));
            }
        }
        let fresh = self::policy(live.into_values());
        for name in names {
            for resource in names {
                for namespace in ["", "ns"] {
                    prop_assert_eq!(
                        allowed(&policy, &user(name), "get", resource, namespace),
                        allowed(&fresh, &user(name), "get", resource, namespace)
                    );
                }
            }
        }
    }
}
