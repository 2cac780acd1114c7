//! Which requests a webhook, a policy or a binding of a policy is about: rules and selectors.
//!
//! `matchConditions` are expressions and stand elsewhere; they are looked at only if everything here matches.

use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, MutatingWebhook, NamedRuleWithOperations, RuleWithOperations,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as Selector;
use minik8s_api::LabelSelector;
use serde_json::Value;

use super::{Operation, Request};
use crate::catalog::{Served, Snapshot};
use crate::error::Result;
use crate::object::Object;
use crate::registry::{Call, Registry};

const GROUP: &str = "admissionregistration.k8s.io";

/// What configures admission must not be subject to it: it could keep itself from ever being removed.
pub fn is_exempt(call: &Call) -> bool {
    const CONFIGURATIONS: [&str; 6] = [
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    ];
    call.served.group == GROUP && CONFIGURATIONS.contains(&call.served.plural.as_str())
}

/// The version of a resource in which a webhook or a policy wants to see it.
#[derive(Clone)]
pub struct Subject {
    pub version: String,
    /// Where that is another version or group than the request's, and objects look different in it.
    pub equivalent: Option<Arc<Served>>,
}

pub struct Matching {
    /// None: every resource.
    rules: Option<Vec<Rule>>,
    excluded: Vec<Rule>,
    is_exact: bool,
    namespaces: LabelSelector,
    objects: LabelSelector,
}

#[derive(Default)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: Option<String>,
    /// Empty: objects of any name.
    names: Vec<String>,
}

impl Matching {
    pub fn of_webhook(spec: &MutatingWebhook) -> std::result::Result<Self, String> {
        Ok(Matching {
            rules: Some(spec.rules.iter().flatten().map(Rule::of_webhook).collect()),
            excluded: Vec::new(),
            is_exact: spec.match_policy.as_deref() == Some("Exact"),
            namespaces: selector(spec.namespace_selector.as_ref())?,
            objects: selector(spec.object_selector.as_ref())?,
        })
    }

    /// Of a policy or a binding.
    pub fn of_resources(spec: &MatchResources) -> std::result::Result<Self, String> {
        let rules =
            |given: &Option<Vec<NamedRuleWithOperations>>| given.iter().flatten().map(Rule::named).collect();
        let included: Vec<Rule> = rules(&spec.resource_rules);
        Ok(Matching {
            rules: (!included.is_empty()).then_some(included),
            excluded: rules(&spec.exclude_resource_rules),
            is_exact: spec.match_policy.as_deref() == Some("Exact"),
            namespaces: selector(spec.namespace_selector.as_ref())?,
            objects: selector(spec.object_selector.as_ref())?,
        })
    }

    /// As what the request is seen; None if it is none of its business.
    pub async fn subject(&self, registry: &Registry, request: &Request<'_>) -> Result<Option<Subject>> {
        let Some(subject) = self.by_rules(&registry.catalog.snapshot(), request) else { return Ok(None) };
        let selected = self.selects_object(request) && self.selects_namespace(registry, request).await?;
        Ok(selected.then_some(subject))
    }

    fn by_rules(&self, snapshot: &Snapshot, request: &Request<'_>) -> Option<Subject> {
        if self.matched(&self.excluded, snapshot, request).is_some() {
            return None;
        }
        match &self.rules {
            Some(rules) => self.matched(rules, snapshot, request),
            None => Some(Subject { version: request.call.served.version.clone(), equivalent: None }),
        }
    }

    /// By one of the rules, directly or through another version or group of the same resource.
    fn matched(&self, rules: &[Rule], snapshot: &Snapshot, request: &Request<'_>) -> Option<Subject> {
        if rules.is_empty() {
            return None;
        }
        let served = &request.call.served;
        let matches = |seen: &Served| rules.iter().any(|rule| rule.concerns(request, seen));
        if matches(served) {
            return Some(Subject { version: served.version.clone(), equivalent: None });
        }
        // What is kept in one place is one resource, whatever it is called.
        let all = snapshot.resources().iter().filter(|_| !self.is_exact);
        let mut same = all.filter(|other| other.prefix == served.prefix);
        let other = same.find(|other| matches(other))?;
        // Versions of custom resources that no webhook converts differ in nothing but their name.
        let is_converted = !served.is_custom() || other.conversion.is_some();
        let equivalent = is_converted.then(|| other.clone());
        Some(Subject { version: other.version.clone(), equivalent })
    }

    /// Either the new or the old object has the labels.
    fn selects_object(&self, request: &Request<'_>) -> bool {
        let selects = |object: &Value| self.objects.matches(object.labels());
        self.objects.is_everything()
            || (request.operation != Operation::Delete && selects(request.object))
            || request.old.is_some_and(selects)
    }

    /// A Namespace is judged by its own labels, what has none always selected.
    async fn selects_namespace(&self, registry: &Registry, request: &Request<'_>) -> Result<bool> {
        let call = request.call;
        if self.namespaces.is_everything() {
            return Ok(true);
        }
        if call.served.is_namespace {
            return Ok(self.namespaces.matches(request.object.labels()));
        }
        if !call.served.namespaced {
            return Ok(true);
        }
        let namespace = namespace(registry, &call.namespace).await?;
        Ok(self.namespaces.matches(namespace.labels()))
    }
}

/// The namespace of a request; null if there is none.
pub async fn namespace(registry: &Registry, name: &str) -> Result<Value> {
    let namespaces = registry.built_in("", "v1", "namespaces")?;
    match registry.look(&namespaces, "", name).await {
        Err(error) if error.code == 404 => Ok(Value::Null),
        found => found,
    }
}

fn selector(given: Option<&Selector>) -> std::result::Result<LabelSelector, String> {
    match given {
        Some(selector) => LabelSelector::try_from(selector).map_err(|error| error.to_string()),
        None => Ok(LabelSelector::everything()),
    }
}

impl Rule {
    fn of_webhook(rule: &RuleWithOperations) -> Self {
        let list = |given: &Option<Vec<String>>| given.clone().unwrap_or_default();
        Rule {
            operations: list(&rule.operations),
            groups: list(&rule.api_groups),
            versions: list(&rule.api_versions),
            resources: list(&rule.resources),
            scope: rule.scope.clone(),
            names: Vec::new(),
        }
    }

    fn named(rule: &NamedRuleWithOperations) -> Self {
        let list = |given: &Option<Vec<String>>| given.clone().unwrap_or_default();
        Rule {
            operations: list(&rule.operations),
            groups: list(&rule.api_groups),
            versions: list(&rule.api_versions),
            resources: list(&rule.resources),
            scope: rule.scope.clone(),
            names: list(&rule.resource_names),
        }
    }

    fn concerns(&self, request: &Request<'_>, seen: &Served) -> bool {
        let call = request.call;
        let has = |list: &[String], wanted: &str| list.iter().any(|one| one == "*" || one == wanted);
        let scope = match self.scope.as_deref() {
            Some("Cluster") => !call.served.namespaced,
            Some("Namespaced") => call.served.namespaced,
            _ => true,
        };
        scope
            && has(&self.operations, request.operation.name())
            && has(&self.groups, &seen.group)
            && has(&self.versions, &seen.version)
            && self.resources.iter().any(|one| covers(one, &seen.plural, &call.subresource))
            && (self.names.is_empty() || self.names.iter().any(|name| name == request.name()))
    }
}

/// `pods`, `pods/*`, `*/scale`, `*` (all resources, no subresource), `*/*`.
fn covers(pattern: &str, plural: &str, subresource: &str) -> bool {
    let (resources, subresources) = pattern.split_once('/').unwrap_or((pattern, ""));
    (resources == "*" || resources == plural) && (subresources == "*" || subresources == subresource)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_covers_resources_and_subresources() {
        let check = |pattern: &str, plural: &str, subresource: &str, expected: bool| {
            assert_eq!(covers(pattern, plural, subresource), expected, "{pattern} {plural}/{subresource}");
        };
        check("pods", "pods", "", true);
        check("pods", "pods", "status", false);
        check("pods/*", "pods", "status", true);
        check("pods/*", "pods", "", true);
        check("pods/status", "pods", "status", true);
        check("*", "pods", "", true);
        check("*", "pods", "status", false);
        check("*/*", "pods", "status", true);
        check("*/scale", "deployments", "scale", true);
        check("*/scale", "deployments", "", false);
        check("services", "pods", "", false);
    }
}
