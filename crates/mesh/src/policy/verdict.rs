//! What policies say of one request or connection. Pure.
//!
//! As Istio has it: what a rule that denies matches is refused; where there are policies that allow, what none of them
//! matches is refused; everything else passes. A policy in dry run is asked alone, and only counted.

use minik8s_meta::mesh::Identity;
use regex::Regex;
use tracing::warn;

use crate::pattern;
use crate::protocol::{Inbound, Policy, PolicyRule};

/// All that is enforced for one pod.
#[derive(Debug, Default)]
pub struct Policies {
    list: Vec<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    name: String,
    deny: bool,
    dry_run: bool,
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    rule: PolicyRule,
    paths: Vec<Regex>,
}

/// Who wants what.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Who was proved to be at the other end.
    pub identity: Option<&'a Identity>,
    pub port: u16,
    /// Method and path, where requests are looked at.
    pub http: Option<(&'a str, &'a str)>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// The policy that refuses it.
    pub denied_by: Option<&'a str>,
    /// Policies in dry run that would.
    pub would_deny: Vec<&'a str>,
}

impl Policies {
    pub fn new(inbound: &Inbound) -> Self {
        Policies { list: inbound.policies.iter().map(Compiled::new).collect() }
    }

    /// Whether connections to that port must be looked into.
    pub fn need_requests(&self, port: u16) -> bool {
        let looks = |rule: &Rule| {
            rule.is_about_port(port) && !(rule.rule.methods.is_empty() && rule.rule.paths.is_empty())
        };
        self.list.iter().any(|policy| policy.rules.iter().any(looks))
    }

    pub fn verdict(&self, asked: Asked<'_>) -> Verdict<'_> {
        let enforced = || self.list.iter().filter(|policy| !policy.dry_run);
        let denying = enforced().find(|policy| policy.deny && policy.matches(asked));
        let mut allowing = enforced().filter(|policy| !policy.deny).peekable();
        let first = allowing.peek().map(|policy| policy.name.as_str());
        let is_allowed = first.is_none() || allowing.any(|policy| policy.matches(asked));
        let denied_by = denying.map(|policy| policy.name.as_str()).or(first.filter(|_| !is_allowed));
        let would = |policy: &&Compiled| policy.dry_run && policy.deny == policy.matches(asked);
        let would_deny = self.list.iter().filter(would).map(|policy| policy.name.as_str()).collect();
        Verdict { denied_by, would_deny }
    }
}

impl Compiled {
    fn new(policy: &Policy) -> Self {
        let rules = policy.rules.iter().map(|rule| {
            let paths = rule.paths.iter().filter_map(|path| {
                let whole = pattern::compile(&format!("^(?:{path})$"));
                whole.inspect_err(|problem| warn!(path, problem, "a path of a MeshPolicy is left out")).ok()
            });
            Rule { rule: rule.clone(), paths: paths.collect() }
        });
        let Policy { name, deny, dry_run, .. } = policy;
        Compiled { name: name.clone(), deny: *deny, dry_run: *dry_run, rules: rules.collect() }
    }

    fn matches(&self, asked: Asked<'_>) -> bool {
        self.rules.iter().any(|rule| rule.matches(asked))
    }
}

impl Rule {
    fn is_about_port(&self, port: u16) -> bool {
        self.rule.ports.is_empty() || self.rule.ports.contains(&port)
    }

    fn matches(&self, asked: Asked<'_>) -> bool {
        let rule = &self.rule;
        let is_account = |identity: &Identity| {
            let wanted = |account: &String| {
                account.split_once('/') == Some((identity.namespace.as_str(), identity.account.as_str()))
            };
            rule.accounts.iter().any(wanted)
        };
        let from = (rule.accounts.is_empty() || asked.identity.is_some_and(is_account))
            && (rule.namespaces.is_empty()
                || asked.identity.is_some_and(|identity| rule.namespaces.contains(&identity.namespace)));
        let is_method = |method: &str| rule.methods.iter().any(|wanted| wanted == method);
        let is_path = |path: &str| self.paths.iter().any(|wanted| wanted.is_match(path));
        from && self.is_about_port(asked.port)
            && (rule.methods.is_empty() || asked.http.is_some_and(|(method, _)| is_method(method)))
            && (rule.paths.is_empty() || asked.http.is_some_and(|(_, path)| is_path(path)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policies(list: Value) -> Policies {
        Policies::new(&serde_json::from_value(json!({"strict": false, "policies": list})).unwrap())
    }

    /// Who is a service account of the namespace shop, or nobody.
    fn denied<'a>(
        policies: &'a Policies,
        who: &str,
        port: u16,
        http: Option<(&str, &str)>,
    ) -> Option<&'a str> {
        let identity = (!who.is_empty()).then(|| Identity::new("cluster.local", "shop", who));
        policies.verdict(Asked { identity: identity.as_ref(), port, http }).denied_by
    }

    #[test]
    fn nothing_is_refused_without_policies() {
        assert_eq!(denied(&Policies::default(), "", 80, None), None);
    }

    #[test]
    fn whoever_is_not_allowed_is_refused() {
        let policies = policies(json!([
            {"name": "a", "rules": [{"accounts": ["shop/web"], "methods": ["GET"], "paths": ["/reviews/[0-9]+"]}]},
            {"name": "b", "rules": [{"namespaces": ["bank"]}, {"accounts": ["shop/probe"], "ports": [81]}]},
        ]));
        let check = |who: &str, port: u16, http: (&str, &str), expected: Option<&str>| {
            assert_eq!(denied(&policies, who, port, Some(http)), expected, "{who} {port} {http:?}");
        };
        check("web", 80, ("GET", "/reviews/1"), None);
        check("web", 80, ("POST", "/reviews/1"), Some("a"));
        check("web", 80, ("GET", "/reviews/1/admin"), Some("a"));
        check("web", 80, ("GET", "/x/reviews/1"), Some("a"));
        check("other", 80, ("GET", "/reviews/1"), Some("a"));
        check("", 80, ("GET", "/reviews/1"), Some("a"));
        check("probe", 81, ("GET", "/"), None);
        check("probe", 80, ("GET", "/"), Some("a"));
        assert_eq!(denied(&policies, "web", 80, None), Some("a"), "what is not seen does not match");
        assert!(policies.need_requests(80));
        let teller = Identity::new("cluster.local", "bank", "teller");
        let asked = Asked { identity: Some(&teller), port: 80, http: None };
        assert_eq!(policies.verdict(asked).denied_by, None);
    }

    #[test]
    fn denial_comes_first() {
        let policies = policies(json!([
            {"name": "allow", "rules": [{}]},
            {"name": "deny", "deny": true, "rules": [{"methods": ["DELETE"]}]},
        ]));
        assert_eq!(denied(&policies, "web", 80, Some(("GET", "/"))), None);
        assert_eq!(denied(&policies, "web", 80, Some(("DELETE", "/"))), Some("deny"));
    }

    #[test]
    fn dry_run_is_only_counted() {
        let policies = policies(json!([
            {"name": "a", "dryRun": true, "rules": [{"accounts": ["shop/web"]}]},
            {"name": "d", "dryRun": true, "deny": true, "rules": [{"accounts": ["shop/spy"]}]},
        ]));
        let verdict = |who: &str| {
            let identity = Identity::new("cluster.local", "shop", who);
            let verdict = policies.verdict(Asked { identity: Some(&identity), port: 80, http: None });
            (verdict.denied_by, verdict.would_deny)
        };
        assert_eq!(verdict("web"), (None, vec![]));
        assert_eq!(verdict("spy"), (None, vec!["a", "d"]));
        assert_eq!(verdict("other"), (None, vec!["a"]));
        assert!(!policies.need_requests(80));
    }

    /// A policy without any rule allows nobody.
    #[test]
    fn empty_list_allows_nobody() {
        assert_eq!(denied(&policies(json!([{"name": "none", "rules": []}])), "web", 80, None), Some("none"));
    }
}
