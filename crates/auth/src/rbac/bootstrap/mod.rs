//! The RBAC objects of a fresh cluster, with upstream's names and rules.
//!
//! The tables beside this file are the data. Left out of upstream's set: heapster, rules for the API group
//! `extensions` (gone since 1.22) and roles of alpha features. Added: `minik8s:*` for our own kinds.

mod table;

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{
    AggregationRule, ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::table::Row;
use super::{API_GROUP, RbacKind, Rule, covers};

const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
const TABLES: [&str; 3] = [
    include_str!("cluster-roles.txt"),
    include_str!("controllers.txt"),
    include_str!("namespaced-roles.txt"),
];

/// All default objects, ready to be created in this order.
pub fn objects() -> Vec<(RbacKind, Value)> {
    let rows = TABLES.iter().flat_map(|text| table::parse(text).expect("a test parses the tables"));
    rows.map(object).collect()
}

/// What kubelets may do at all, before [`crate::node`] narrows it.
pub fn node_rules() -> Vec<Rule> {
    let rows = table::parse(TABLES[0]).expect("a test parses the tables");
    let of_nodes = rows.into_iter().find_map(|row| match row {
        Row::Role { name, rules, .. } if name == "system:node" => Some(rules),
        _ => None,
    });
    of_nodes.unwrap_or_default()
}

/// What to write so that an object has at least what the default says; `None` if it has.
///
/// Run at every start: it restores removed rules and subjects and brings new ones after an upgrade, but
/// takes nothing away, and leaves alone what an administrator has annotated with `autoupdate: "false"`.
pub fn reconcile(kind: RbacKind, existing: Option<&Value>, default: &Value) -> Option<Value> {
    let Some(existing) = existing else { return Some(default.clone()) };
    if existing.pointer("/metadata/annotations").is_some_and(|a| a[AUTO_UPDATE] == "false") {
        return None;
    }
    let mut merged = existing.clone();
    for field in ["labels", "annotations"] {
        for (key, value) in default["metadata"][field].as_object().into_iter().flatten() {
            merged["metadata"][field][key] = value.clone();
        }
    }
    match kind {
        RbacKind::Role | RbacKind::ClusterRole => {
            let held = rules_in(existing);
            // A wildcard role is complete if the wildcards are there: compare permissions, not texts.
            let missing = covers::uncovered(&held, &rules_in(default));
            append(&mut merged, "rules", missing.into_iter().map(PolicyRule::from).map(|rule| json!(rule)));
            if !default["aggregationRule"].is_null() && existing["aggregationRule"].is_null() {
                merged["aggregationRule"] = default["aggregationRule"].clone();
            }
        }
        RbacKind::RoleBinding | RbacKind::ClusterRoleBinding => {
            let held: Vec<Subject> = read(&existing["subjects"]);
            let wanted: Vec<Subject> = read(&default["subjects"]);
            let missing = wanted.into_iter().filter(|subject| !held.contains(subject));
            append(&mut merged, "subjects", missing.map(|subject| json!(subject)));
        }
    }
    (merged != *existing).then_some(merged)
}

fn rules_in(object: &Value) -> Vec<Rule> {
    read::<Vec<PolicyRule>>(&object["rules"]).into_iter().map(Rule::from).collect()
}

fn read<T: DeserializeOwned + Default>(value: &Value) -> T {
    T::deserialize(value).unwrap_or_default()
}

fn append(object: &mut Value, field: &str, more: impl Iterator<Item = Value>) {
    let mut list = object[field].as_array().cloned().unwrap_or_default();
    let before = list.len();
    list.extend(more);
    if list.len() > before {
        object[field] = Value::Array(list);
    }
}

fn object(row: Row) -> (RbacKind, Value) {
    match row {
        Row::Role { namespace, name, union, into, rules } => {
            let mut metadata = metadata(&namespace, name);
            if let Some(into) = into {
                let label = (format!("{API_GROUP}/aggregate-to-{into}"), "true".to_owned());
                metadata.labels.get_or_insert_default().extend([label]);
            }
            let rules = Some(rules.into_iter().map(PolicyRule::from).collect());
            if !namespace.is_empty() {
                return (RbacKind::Role, json!(Role { metadata, rules }));
            }
            let aggregation_rule = union.map(|name| AggregationRule {
                cluster_role_selectors: Some(vec![LabelSelector {
                    match_labels: Some(BTreeMap::from([(
                        format!("{API_GROUP}/aggregate-to-{name}"),
                        "true".to_owned(),
                    )])),
                    match_expressions: None,
                }]),
            });
            (RbacKind::ClusterRole, json!(ClusterRole { metadata, rules, aggregation_rule }))
        }
        Row::Binding { namespace, name, role, subjects } => {
            let metadata = metadata(&namespace, name);
            let subjects: Vec<Subject> = subjects.into_iter().map(api_subject).collect();
            let subjects = (!subjects.is_empty()).then_some(subjects);
            let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
            let role_ref =
                RoleRef { api_group: Some(API_GROUP.to_owned()), kind: kind.to_owned(), name: role };
            if namespace.is_empty() {
                let binding = ClusterRoleBinding { metadata, role_ref, subjects };
                return (RbacKind::ClusterRoleBinding, json!(binding));
            }
            (RbacKind::RoleBinding, json!(RoleBinding { metadata, role_ref, subjects }))
        }
    }
}

fn metadata(namespace: &str, name: String) -> ObjectMeta {
    let pair = |key: &str, value: &str| Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
    ObjectMeta {
        name: Some(name),
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        labels: pair("kubernetes.io/bootstrapping", "rbac-defaults"),
        annotations: pair(AUTO_UPDATE, "true"),
        ..ObjectMeta::default()
    }
}

fn api_subject(subject: table::Subject) -> Subject {
    let (kind, namespace, name) = match subject {
        table::Subject::User(name) => ("User", None, name),
        table::Subject::Group(name) => ("Group", None, name),
        table::Subject::ServiceAccount { namespace, name } => ("ServiceAccount", Some(namespace), name),
    };
    let api_group = namespace.is_none().then(|| API_GROUP.to_owned());
    Subject { api_group, kind: kind.to_owned(), name, namespace }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rbac::Policy;
    use crate::{Attributes, User};

    fn policy() -> Policy {
        let mut policy = Policy::default();
        for (kind, object) in objects() {
            policy.upsert(kind, &object).unwrap();
        }
        policy
    }

    fn find(kind: RbacKind, name: &str) -> Value {
        objects().into_iter().find(|(k, o)| *k == kind && o["metadata"]["name"] == name).unwrap().1
    }

    #[test]
    fn objects_look_as_clients_expect() {
        let discovery = find(RbacKind::ClusterRoleBinding, "system:discovery");
        assert_eq!(discovery["apiVersion"], "rbac.authorization.k8s.io/v1");
        assert_eq!(discovery["kind"], "ClusterRoleBinding");
        assert_eq!(discovery["metadata"]["annotations"][AUTO_UPDATE], "true");
        assert_eq!(discovery["metadata"]["labels"]["kubernetes.io/bootstrapping"], "rbac-defaults");
        let edit = find(RbacKind::ClusterRole, "edit");
        assert_eq!(edit["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-admin"], "true");
        let dns = find(RbacKind::ClusterRoleBinding, "system:kube-dns");
        assert_eq!(
            dns["subjects"],
            json!([{"kind": "ServiceAccount", "name": "kube-dns", "namespace": "kube-system"}])
        );
        let signer = find(RbacKind::Role, "system:controller:bootstrap-signer");
        assert_eq!(signer["metadata"]["namespace"], "kube-system");
    }

    #[test]
    fn names_are_unique_and_bindings_point_to_roles() {
        let objects = objects();
        let policy = policy();
        let mut seen = std::collections::HashSet::new();
        for (kind, object) in &objects {
            let meta = &object["metadata"];
            assert!(seen.insert((*kind, meta["namespace"].clone(), meta["name"].clone())), "{meta}");
            if let Some(role) = object.get("roleRef") {
                let role: RoleRef = read_role(role);
                let namespace = meta["namespace"].as_str().unwrap_or_default();
                assert!(policy.rules_of(&(&role).into(), namespace).is_some(), "{object}");
            } else if object.get("aggregationRule").is_none() {
                assert!(!object["rules"].as_array().unwrap().is_empty(), "{object}");
            }
        }
        assert!(objects.len() > 130, "{}", objects.len());
        assert!(!node_rules().is_empty());
    }

    fn read_role(value: &Value) -> RoleRef {
        serde_json::from_value(value.clone()).unwrap()
    }

    #[test]
    fn who_may_do_what() {
        let mut policy = policy();
        for role in ["admin", "edit", "view"] {
            let binding = json!({
                "metadata": {"namespace": "ns", "name": role},
                "roleRef": {"apiGroup": API_GROUP, "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "User", "name": role}],
            });
            policy.upsert(RbacKind::RoleBinding, &binding).unwrap();
        }
        let check = |user: &str, verb: &str, group: &str, resource: &str, expected: bool| {
            let (resource, sub) = resource.split_once('/').unwrap_or((resource, ""));
            let wanted = Attributes::resource(verb, group, resource).subresource(sub).in_namespace("ns");
            let decision = policy.allows(&User::authenticated(user, &[]), &wanted);
            assert_eq!(decision.is_allowed(), expected, "{user} {verb} {resource}/{sub}");
        };
        check("view", "get", "", "pods", true);
        check("view", "get", "", "secrets", false);
        check("view", "create", "", "pods", false);
        check("view", "list", "minik8s.io", "functions", true);
        check("view", "get", "minik8s.io", "functions/calls", true);
        check("view", "list", "snapshot.storage.k8s.io", "volumesnapshots", true);
        check("view", "create", "snapshot.storage.k8s.io", "volumesnapshots", false);
        check("edit", "create", "snapshot.storage.k8s.io", "volumesnapshots", true);
        check("edit", "update", "snapshot.storage.k8s.io", "volumesnapshots/status", false);
        check("admin", "create", "snapshot.storage.k8s.io", "volumesnapshotcontents", false);
        check("edit", "get", "", "pods", true);
        check("edit", "get", "", "secrets", true);
        check("edit", "create", "apps", "deployments", true);
        check("edit", "create", "", "pods/exec", true);
        check("edit", "get", "mesh.minik8s.io", "pods/tap", true);
        check("view", "get", "mesh.minik8s.io", "pods/tap", false);
        check("edit", "create", "rbac.authorization.k8s.io", "roles", false);
        check("admin", "create", "rbac.authorization.k8s.io", "rolebindings", true);
        check("admin", "list", "", "pods", true);
        check("admin", "update", "", "resourcequotas", false);
        check("jane", "get", "", "pods", false);
        check("jane", "create", "authorization.k8s.io", "selfsubjectaccessreviews", true);
        check("system:kube-scheduler", "create", "", "pods/binding", true);
        check("system:serviceaccount:kube-system:job-controller", "create", "", "pods", true);
        check("system:serviceaccount:kube-system:job-controller", "create", "apps", "deployments", false);
        check("system:serviceaccount:default:job-controller", "create", "", "pods", false);

        let path = |user: &User, path: &str| policy.allows(user, &Attributes::path("get", path)).is_allowed();
        assert!(path(&User::anonymous(), "/version"));
        assert!(!path(&User::anonymous(), "/apis"));
        assert!(path(&User::authenticated("jane", &[]), "/apis/apps/v1"));
        assert!(!path(&User::authenticated("jane", &[]), "/metrics"));
        assert!(path(&User::authenticated("prometheus", &["system:monitoring"]), "/metrics"));
    }

    #[test]
    fn reconciliation_only_adds() {
        let check = |kind, existing: Option<&Value>, default: &Value, expected: Option<&Value>| {
            assert_eq!(reconcile(kind, existing, default).as_ref(), expected);
        };
        for (kind, object) in objects() {
            check(kind, None, &object, Some(&object));
            check(kind, Some(&object), &object, None);
        }
        let role = find(RbacKind::ClusterRole, "system:kube-dns");
        let mut custom = role.clone();
        custom["rules"] = json!([{"verbs": ["get"], "apiGroups": ["x"], "resources": ["y"]}]);
        let merged = reconcile(RbacKind::ClusterRole, Some(&custom), &role).unwrap();
        assert_eq!(merged["rules"].as_array().unwrap().len(), 3, "{merged}");
        assert_eq!(merged["rules"][0], custom["rules"][0]);
        check(RbacKind::ClusterRole, Some(&merged), &role, None);

        custom["metadata"]["annotations"][AUTO_UPDATE] = json!("false");
        check(RbacKind::ClusterRole, Some(&custom), &role, None);

        let binding = find(RbacKind::ClusterRoleBinding, "system:discovery");
        let mut emptied = binding.clone();
        emptied.as_object_mut().unwrap().remove("subjects");
        let restored = reconcile(RbacKind::ClusterRoleBinding, Some(&emptied), &binding).unwrap();
        assert_eq!(restored["subjects"], binding["subjects"]);
    }

    #[test]
    fn bad_tables_name_the_line() {
        let check = |text: &str, line: usize| {
            assert!(table::parse(text).unwrap_err().starts_with(&format!("line {line}:")), "{text}");
        };
        check("get core pods", 1);
        check("# x\n\nrole nowhere", 3);
        check("clusterrole a\n  get core", 2);
        check("clusterbinding a to somebody", 1);
        check("clusterbinding a to user:x\nget core pods", 2);
    }
}
