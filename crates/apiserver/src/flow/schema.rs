//! A FlowSchema: which requests belong to it, and to which flow of it. Pure; it sees the head of a request alone.

use std::sync::Arc;

use http::HeaderValue;
use k8s_openapi::api::flowcontrol::v1 as api;
use minik8s_auth::{Attributes, User};

use super::uid;

const ALL: &str = "*";

/// Whose share a request counts against, within a priority level.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FlowKey {
    pub schema: Arc<str>,
    /// The user or the namespace; empty where all of a schema are one flow.
    pub distinguisher: Arc<str>,
}

#[derive(Debug)]
pub struct FlowSchema {
    pub name: Arc<str>,
    pub uid: HeaderValue,
    pub level: Arc<str>,
    /// Schemas with lower numbers are asked first.
    pub precedence: i32,
    by: Option<String>,
    rules: Vec<api::PolicyRulesWithSubjects>,
}

impl FlowSchema {
    pub fn new(object: api::FlowSchema) -> Option<FlowSchema> {
        let spec = object.spec;
        Some(FlowSchema {
            name: object.metadata.name?.into(),
            uid: uid(object.metadata.uid),
            level: spec.priority_level_configuration.name.into(),
            precedence: spec.matching_precedence.unwrap_or(1000),
            by: spec.distinguisher_method.map(|method| method.type_),
            rules: spec.rules.unwrap_or_default(),
        })
    }

    pub fn takes(&self, user: &User, request: &Attributes<'_>) -> bool {
        self.rules.iter().any(|rule| {
            let does = match request.path {
                Some(path) => {
                    rule.non_resource_rules.iter().flatten().any(|rule| takes_path(rule, request.verb, path))
                }
                None => rule.resource_rules.iter().flatten().any(|rule| takes_resource(rule, request)),
            };
            does && rule.subjects.iter().any(|subject| is_subject(subject, user))
        })
    }

    pub fn flow(&self, user: &User, request: &Attributes<'_>) -> FlowKey {
        let distinguisher = match self.by.as_deref() {
            Some("ByUser") => user.name.as_str(),
            Some("ByNamespace") => request.namespace,
            _ => "",
        };
        FlowKey { schema: self.name.clone(), distinguisher: distinguisher.into() }
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry == ALL || entry == wanted)
}

fn is_subject(subject: &api::Subject, user: &User) -> bool {
    if let Some(api::UserSubject { name }) = &subject.user {
        return name == ALL || *name == user.name;
    }
    if let Some(api::GroupSubject { name }) = &subject.group {
        return name == ALL || user.in_group(name);
    }
    let Some(account) = &subject.service_account else { return false };
    let Some(rest) = user.name.strip_prefix("system:serviceaccount:") else { return false };
    let Some((namespace, name)) = rest.split_once(':') else { return false };
    namespace == account.namespace && (account.name == ALL || account.name == name)
}

fn takes_resource(rule: &api::ResourcePolicyRule, request: &Attributes<'_>) -> bool {
    let is_place = match request.namespace {
        "" => rule.cluster_scope.unwrap_or_default(),
        namespace => rule.namespaces.as_deref().is_some_and(|namespaces| has(namespaces, namespace)),
    };
    let is_resource = |entry: &String| match entry.split_once('/') {
        None => entry == ALL || (entry == request.resource && request.subresource.is_empty()),
        Some((resource, subresource)) => resource == request.resource && subresource == request.subresource,
    };
    is_place
        && has(&rule.verbs, request.verb)
        && has(&rule.api_groups, request.api_group)
        && rule.resources.iter().any(is_resource)
}

fn takes_path(rule: &api::NonResourcePolicyRule, verb: &str, path: &str) -> bool {
    // `/healthz/*` is all below `/healthz/`.
    let is_path = |entry: &String| match entry.strip_suffix(ALL) {
        Some("") => true,
        Some(prefix) => path.starts_with(prefix),
        None => entry == path,
    };
    has(&rule.verbs, verb) && rule.non_resource_urls.iter().any(is_path)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn schema(rule: Value, by: Option<&str>) -> FlowSchema {
        let object = json!({"metadata": {"name": "s"}, "spec": {"priorityLevelConfiguration": {"name": "low"},
            "distinguisherMethod": by.map(|by| json!({"type": by})), "rules": [rule]}});
        FlowSchema::new(serde_json::from_value(object).unwrap()).unwrap()
    }

    fn user(name: &str, groups: &[&str]) -> User {
        User {
            name: name.into(),
            groups: groups.iter().map(ToString::to_string).collect(),
            ..User::anonymous()
        }
    }

    const PODS: fn() -> Value = || {
        json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "nodes", "pods/status"],
            "namespaces": ["shop"], "clusterScope": true}])
    };

    #[test]
    fn subjects_are_users_groups_and_accounts() {
        let check = |subject: Value, name: &str, groups: &[&str], expected: bool| {
            let schema = schema(json!({"subjects": [subject], "resourceRules": PODS()}), None);
            let request = Attributes::resource("get", "", "pods").in_namespace("shop");
            assert_eq!(schema.takes(&user(name, groups), &request), expected, "{subject} {name}");
        };
        let account = |name: &str| json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "a", "name": name}});
        check(json!({"kind": "User", "user": {"name": "ann"}}), "ann", &[], true);
        check(json!({"kind": "User", "user": {"name": "ann"}}), "bob", &[], false);
        check(json!({"kind": "User", "user": {"name": "*"}}), "bob", &[], true);
        check(json!({"kind": "Group", "group": {"name": "g"}}), "bob", &["f", "g"], true);
        check(json!({"kind": "Group", "group": {"name": "g"}}), "bob", &["f"], false);
        check(account("x"), "system:serviceaccount:a:x", &[], true);
        check(account("x"), "system:serviceaccount:a:y", &[], false);
        check(account("*"), "system:serviceaccount:a:y", &[], true);
        check(account("*"), "system:serviceaccount:b:y", &[], false);
        check(account("*"), "a:y", &[], false);
    }

    #[test]
    fn resources_and_paths_are_taken_as_the_rules_say() {
        let everybody = json!([{"kind": "User", "user": {"name": "*"}}]);
        let paths = json!([{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/metrics/*"]}]);
        let rule = json!({"subjects": everybody, "resourceRules": PODS(), "nonResourceRules": paths});
        let schema = schema(rule, Some("ByNamespace"));
        let takes = |request: Attributes<'_>| schema.takes(&user("ann", &[]), &request);
        let pods = Attributes::resource("get", "", "pods");
        assert!(takes(pods.in_namespace("shop")) && takes(pods), "clusterScope");
        assert!(!takes(pods.in_namespace("other")));
        assert!(takes(pods.subresource("status")) && !takes(pods.subresource("log")));
        assert!(!takes(Attributes::resource("create", "", "pods")));
        assert!(!takes(Attributes::resource("get", "apps", "pods")));
        assert!(
            takes(Attributes::path("get", "/healthz")) && !takes(Attributes::path("get", "/healthz/etcd"))
        );
        assert!(
            takes(Attributes::path("get", "/metrics/slis")) && !takes(Attributes::path("put", "/healthz"))
        );
        let flow = schema.flow(&user("ann", &[]), &pods.in_namespace("shop"));
        assert_eq!((&*flow.schema, &*flow.distinguisher), ("s", "shop"));
    }
}
