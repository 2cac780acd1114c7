//! One rule of a Role or ClusterRole, and what it matches.

use std::fmt;

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::Attributes;

pub const ALL: &str = "*";

/// A [`PolicyRule`] without the `Option`s: an absent list is an empty one.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule {
    pub verbs: Vec<String>,
    pub api_groups: Vec<String>,
    pub resources: Vec<String>,
    pub resource_names: Vec<String>,
    pub non_resource_urls: Vec<String>,
}

impl Rule {
    /// The rule that allows everything on resources.
    pub fn everything() -> Self {
        let all = || vec![ALL.to_owned()];
        Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() }
    }

    /// The rule that allows every path.
    pub fn every_path() -> Self {
        let all = || vec![ALL.to_owned()];
        Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() }
    }

    pub fn allows(&self, wanted: &Attributes<'_>) -> bool {
        if !has_or_all(&self.verbs, wanted.verb) {
            return false;
        }
        match wanted.path {
            Some(path) => self.non_resource_urls.iter().any(|url| url_matches(url, path)),
            None => {
                has_or_all(&self.api_groups, wanted.api_group)
                    && self.resources.iter().any(|r| resource_matches(r, wanted))
                    && (self.resource_names.is_empty() || has(&self.resource_names, wanted.name))
            }
        }
    }
}

/// `*` is every resource and subresource, `*/scale` one subresource of every resource. There is no
/// `pods/*`: upstream takes it literally, and so do we.
fn resource_matches(rule: &str, wanted: &Attributes<'_>) -> bool {
    if rule == ALL {
        return true;
    }
    match (wanted.subresource, rule.split_once('/')) {
        ("", None) => rule == wanted.resource,
        (sub, Some((resource, rule_sub))) if !sub.is_empty() => {
            rule_sub == sub && (resource == wanted.resource || resource == ALL)
        }
        _ => false,
    }
}

/// `*` or `/healthz/*` with the star at the end; elsewhere a star means itself.
pub(super) fn url_matches(rule: &str, path: &str) -> bool {
    rule == path || rule.strip_suffix(ALL).is_some_and(|start| path.starts_with(start.trim_end_matches('*')))
}

pub(super) fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry == wanted)
}

pub(super) fn has_or_all(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry == wanted || entry == ALL)
}

impl From<PolicyRule> for Rule {
    fn from(rule: PolicyRule) -> Self {
        Rule {
            verbs: rule.verbs,
            api_groups: rule.api_groups.unwrap_or_default(),
            resources: rule.resources.unwrap_or_default(),
            resource_names: rule.resource_names.unwrap_or_default(),
            non_resource_urls: rule.non_resource_urls.unwrap_or_default(),
        }
    }
}

impl From<Rule> for PolicyRule {
    fn from(rule: Rule) -> Self {
        let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
        PolicyRule {
            verbs: rule.verbs,
            api_groups: some(rule.api_groups),
            resources: some(rule.resources),
            resource_names: some(rule.resource_names),
            non_resource_urls: some(rule.non_resource_urls),
        }
    }
}

/// As `kubectl` users know it from refused grants: `{APIGroups:["apps"], Resources:["deployments"], …}`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let texts: Vec<String> = parts
            .into_iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| {
                let quoted: Vec<String> = list.iter().map(|entry| format!("{entry:?}")).collect();
                format!("{name}:[{}]", quoted.join(" "))
            })
            .collect();
        write!(f, "{{{}}}", texts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &str, groups: &str, resources: &str, names: &str) -> Rule {
        let list = |text: &str| text.split_whitespace().map(|w| w.trim_matches('"').to_owned()).collect();
        Rule {
            verbs: list(verbs),
            api_groups: list(groups),
            resources: list(resources),
            resource_names: list(names),
            non_resource_urls: vec![],
        }
    }

    #[test]
    fn resources() {
        let check = |resources: &str, wanted: &str, expected: bool| {
            let (resource, sub) = wanted.split_once('/').unwrap_or((wanted, ""));
            let attributes = Attributes::resource("get", "", resource).subresource(sub);
            assert_eq!(
                rule("get", "\"\"", resources, "").allows(&attributes),
                expected,
                "{resources} {wanted}"
            );
        };
        check("pods", "pods", true);
        check("pods", "pods/log", false);
        check("pods/log", "pods/log", true);
        check("pods/log", "pods", false);
        check("*", "pods", true);
        check("*", "pods/log", true);
        check("*/log", "pods/log", true);
        check("*/log", "pods", false);
        check("*/log", "log", false);
        check("pods/*", "pods/log", false);
        check("pods/*", "pods", false);
        check("nodes pods", "pods", true);
        check("", "pods", false);
    }

    #[test]
    fn verbs_groups_and_names() {
        let check = |rule: Rule, verb: &str, group: &str, name: &str, expected: bool| {
            let attributes = Attributes::resource(verb, group, "things").named(name);
            assert_eq!(rule.allows(&attributes), expected, "{rule} {verb} {group} {name}");
        };
        check(rule("get list", "apps", "things", ""), "list", "apps", "", true);
        check(rule("get list", "apps", "things", ""), "watch", "apps", "", false);
        check(rule("*", "apps", "things", ""), "watch", "apps", "", true);
        check(rule("*", "apps", "things", ""), "watch", "", "", false);
        check(rule("*", "*", "things", ""), "watch", "x", "", true);
        check(rule("get", "apps", "things", "a b"), "get", "apps", "b", true);
        check(rule("get", "apps", "things", "a b"), "get", "apps", "c", false);
        check(rule("list", "apps", "things", "a b"), "list", "apps", "", false);
        check(rule("get", "apps", "things", "*"), "get", "apps", "a", false);
        check(Rule::everything(), "x", "y", "z", true);
        check(Rule::every_path(), "x", "y", "z", false);
        check(Rule::default(), "get", "", "", false);
    }

    #[test]
    fn paths() {
        let check = |url: &str, path: &str, expected: bool| {
            let rule =
                Rule { verbs: vec!["get".into()], non_resource_urls: vec![url.into()], ..Rule::default() };
            assert_eq!(rule.allows(&Attributes::path("get", path)), expected, "{url} {path}");
            assert!(!rule.allows(&Attributes::path("post", path)));
        };
        check("/healthz", "/healthz", true);
        check("/healthz", "/healthz/etcd", false);
        check("/healthz/*", "/healthz/etcd", true);
        check("/healthz/*", "/healthz", false);
        check("/healthz*", "/healthz/etcd", true);
        check("*", "/anything", true);
        check("/*/x", "/a/x", false);
        check("/*/x", "/*/x", true);
    }

    #[test]
    fn text() {
        assert_eq!(
            rule("get list", "\"\"", "pods", "a").to_string(),
            r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get" "list"]}"#
        );
    }
}
