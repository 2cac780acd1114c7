//! All FlowSchemas and PriorityLevelConfigurations together: which of them a request belongs to. Pure.
//!
//! The schema `catch-all` and the levels `exempt` and `catch-all` are always there, as objects or not: every request has a
//! place. A schema whose level is missing is passed over.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderValue;
use minik8s_auth::{Attributes, User};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::defaults;
use super::fair_queue::Bounds;
use super::priority_level::{self, PriorityLevel};
use super::schema::{FlowKey, FlowSchema};

#[derive(Debug)]
pub struct Configuration {
    /// By precedence, then by name.
    schemas: Vec<FlowSchema>,
    levels: BTreeMap<Arc<str>, PriorityLevel>,
}

/// Where a request belongs.
#[derive(Debug, Clone)]
pub struct Place {
    pub level: Arc<str>,
    pub flow: FlowKey,
    pub is_exempt: bool,
    pub schema_uid: HeaderValue,
    pub level_uid: HeaderValue,
}

impl Configuration {
    /// Of objects as they are stored. What cannot be read is left out.
    pub fn new(schemas: &[Value], levels: &[Value]) -> Configuration {
        let named = |level| read(level).and_then(PriorityLevel::new);
        // A later entry wins: what users made of an object that must be there counts.
        let built_in = defaults::levels().into_iter().filter(defaults::is_mandatory).collect::<Vec<_>>();
        let levels: BTreeMap<_, _> = built_in.iter().chain(levels).filter_map(named).collect();
        let built_in = defaults::schemas().into_iter().filter(defaults::is_mandatory).collect::<Vec<_>>();
        let by_name: BTreeMap<Arc<str>, FlowSchema> = built_in
            .iter()
            .chain(schemas)
            .filter_map(|schema| read(schema).and_then(FlowSchema::new))
            .filter(|schema| levels.contains_key(&schema.level))
            .map(|schema| (schema.name.clone(), schema))
            .collect();
        let mut schemas: Vec<FlowSchema> = by_name.into_values().collect();
        schemas.sort_by_key(|schema| schema.precedence);
        Configuration { schemas, levels }
    }

    pub fn bounds(&self, seats: usize) -> BTreeMap<Arc<str>, Bounds> {
        priority_level::bounds(&self.levels, seats)
    }

    /// `None` only if there are no schemas at all, which [`Configuration::new`] does not make.
    pub fn classify(&self, user: &User, request: &Attributes<'_>) -> Option<Place> {
        let taken = self.schemas.iter().find(|schema| schema.takes(user, request));
        let schema = taken.or_else(|| self.schemas.last())?;
        let level = self.levels.get(&schema.level)?;
        Some(Place {
            level: schema.level.clone(),
            flow: schema.flow(user, request),
            is_exempt: level.is_exempt(),
            schema_uid: schema.uid.clone(),
            level_uid: level.uid.clone(),
        })
    }
}

fn read<K: DeserializeOwned>(object: &Value) -> Option<K> {
    let read = serde_json::from_value(object.clone());
    read.inspect_err(|error| {
        tracing::warn!(name = %object["metadata"]["name"], %error, "an object of flow control cannot be read");
    })
    .ok()
}

#[cfg(test)]
mod tests {
    use minik8s_auth::user::MASTERS;
    use serde_json::json;

    use super::*;

    fn check(
        configuration: &Configuration,
        user: &User,
        request: &Attributes<'_>,
        expected: (&str, &str, bool),
    ) {
        let place = configuration.classify(user, request).unwrap();
        assert_eq!((&*place.flow.schema, &*place.level, place.is_exempt), expected, "{}", user.name);
    }

    #[test]
    fn defaults_sort_requests_as_kubernetes_does() {
        let all = Configuration::new(&defaults::schemas(), &defaults::levels());
        let pods = Attributes::resource("list", "", "pods").in_namespace("a");
        let lease =
            Attributes::resource("update", "coordination.k8s.io", "leases").in_namespace("kube-node-lease");
        let user = |name: &str, groups: &[&str]| User::authenticated(name, groups);
        let node = user("system:node:n", &["system:nodes"]);
        let account = |namespace: &str| {
            user(&format!("system:serviceaccount:{namespace}:x"), &["system:serviceaccounts"])
        };
        check(&all, &user("admin", &[MASTERS]), &pods, ("exempt", "exempt", true));
        check(&all, &node, &lease, ("system-node-high", "node-high", false));
        check(&all, &node, &pods, ("system-nodes", "system", false));
        check(&all, &account("kube-system"), &pods, ("kube-system-service-accounts", "workload-high", false));
        check(&all, &account("a"), &pods, ("service-accounts", "workload-low", false));
        check(&all, &user("ann", &[]), &pods, ("global-default", "global-default", false));
        check(&all, &User::anonymous(), &Attributes::path("get", "/healthz"), ("probes", "exempt", true));
        check(&all, &User::default(), &pods, ("catch-all", "catch-all", false));
        let bounds = all.bounds(600);
        assert_eq!((bounds["workload-low"].seats, bounds["catch-all"].seats), (245, 13));
    }

    #[test]
    fn users_objects_count_and_broken_ones_are_passed_over() {
        let everybody = json!([{"subjects": [{"kind": "Group", "group": {"name": "*"}}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}]}]);
        let schema = |name: &str, level: &str, precedence: i64| {
            json!({"metadata": {"name": name, "uid": "u"}, "spec": {"matchingPrecedence": precedence,
                "priorityLevelConfiguration": {"name": level}, "rules": everybody}})
        };
        let schemas = [
            schema("dangling", "missing", 1),
            schema("b", "mine", 7),
            schema("a", "mine", 7),
            json!({"spec": 1}),
        ];
        let levels = [json!({"metadata": {"name": "mine"}, "spec": {"type": "Limited", "limited": {}}})];
        let own = Configuration::new(&schemas, &levels);
        let pods = Attributes::resource("list", "", "pods").in_namespace("a");
        check(&own, &User::authenticated("ann", &[]), &pods, ("a", "mine", false));
        check(&own, &User::authenticated("ann", &[MASTERS]), &pods, ("exempt", "exempt", true));
        check(
            &own,
            &User::authenticated("ann", &[]),
            &Attributes::path("get", "/x"),
            ("catch-all", "catch-all", false),
        );
    }
}
