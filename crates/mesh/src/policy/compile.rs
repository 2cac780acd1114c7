//! From all MeshPolicies to what one pod's proxy enforces: `(policies, pod) → Inbound`. Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minik8s_runtime::Selector;

use super::{CLUSTER_WIDE, MeshPolicy};
use crate::protocol::{Inbound, Policy, PolicyRule};

/// A pod as policies see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodView {
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
}

pub fn compile<'a>(policies: impl Iterator<Item = &'a MeshPolicy>, pod: &PodView) -> Inbound {
    let mut strict: BTreeMap<u8, bool> = BTreeMap::new();
    let mut found = Vec::new();
    for policy in policies {
        let Some(level) = level(policy, pod) else { continue };
        if let Some(mode) = policy.spec.mtls.as_deref() {
            // Of two that say different things, the safer one holds.
            *strict.entry(level).or_default() |= mode == "Strict";
        }
        found.extend(rules(policy));
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Inbound { strict: strict.last_key_value().is_some_and(|(_, strict)| *strict), policies: found }
}

/// Whether a policy has anything to say about the pod.
pub fn is_about(policy: &MeshPolicy, pod: &PodView) -> bool {
    level(policy, pod).is_some()
}

/// How specific a policy is about the pod; `None` if it is not about it at all.
fn level(policy: &MeshPolicy, pod: &PodView) -> Option<u8> {
    let (namespace, name) = names(policy);
    let is_own = namespace == pod.namespace;
    let is_wide = (namespace, name) == CLUSTER_WIDE;
    let Some(selector) = &policy.spec.selector else {
        return if is_own && !is_wide { Some(1) } else { is_wide.then_some(0) };
    };
    let meta = ObjectMeta { labels: Some(pod.labels.clone()), ..ObjectMeta::default() };
    ((is_own || is_wide) && Selector::new(Some(selector)).matches_object(&meta)).then_some(2)
}

fn rules(policy: &MeshPolicy) -> Option<Policy> {
    let (namespace, name) = names(policy);
    let full = |account: &String| match account.contains('/') {
        true => account.clone(),
        false => format!("{namespace}/{account}"),
    };
    let rules = policy.spec.rules.as_ref()?.iter().map(|rule| {
        let (from, to) = (rule.from.clone().unwrap_or_default(), rule.to.clone().unwrap_or_default());
        PolicyRule {
            accounts: from.service_accounts.iter().map(full).collect(),
            namespaces: from.namespaces,
            methods: to.methods,
            paths: to.paths,
            ports: to.ports.iter().filter_map(|port| u16::try_from(*port).ok()).collect(),
        }
    });
    Some(Policy {
        name: format!("{namespace}/{name}"),
        deny: policy.spec.action.as_deref() == Some("Deny"),
        dry_run: policy.spec.dry_run,
        rules: rules.collect(),
    })
}

fn names(policy: &MeshPolicy) -> (&str, &str) {
    let meta = &policy.metadata;
    (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policy(namespace: &str, name: &str, spec: Value) -> MeshPolicy {
        let object = json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec});
        serde_json::from_value(object).unwrap()
    }

    fn pod(namespace: &str, app: &str) -> PodView {
        let labels = [("app".to_owned(), app.to_owned())].into();
        PodView { namespace: namespace.to_owned(), labels }
    }

    #[test]
    fn most_specific_mode_holds() {
        let policies = [
            policy("kube-system", "default", json!({"mtls": "Strict"})),
            policy("shop", "all", json!({"mtls": "Permissive"})),
            policy("shop", "bank", json!({"mtls": "Strict", "selector": {"matchLabels": {"app": "bank"}}})),
            policy(
                "shop",
                "both",
                json!({"mtls": "Permissive", "selector": {"matchLabels": {"app": "bank"}}}),
            ),
            policy("kube-system", "other", json!({"mtls": "Permissive"})),
        ];
        let strict = |namespace: &str, app: &str| compile(policies.iter(), &pod(namespace, app)).strict;
        assert!(strict("elsewhere", "web"), "by the cluster's");
        assert!(!strict("shop", "web"), "by the namespace's");
        assert!(strict("shop", "bank"), "by its labels, and the safer of two");
        assert!(!strict("kube-system", "web"), "a policy of that namespace alone");
        assert!(!compile([].iter(), &pod("shop", "web")).strict, "by default");
    }

    #[test]
    fn rules_are_of_the_pods_own_namespace() {
        let rules = json!([{"from": {"serviceAccounts": ["web", "bank/teller"]}, "to": {"methods": ["GET"], "ports": [80]}}]);
        let policies = [
            policy("shop", "b", json!({"rules": rules, "dryRun": true})),
            policy("shop", "a", json!({"rules": [{}], "action": "Deny"})),
            policy("bank", "c", json!({"rules": []})),
        ];
        let inbound = compile(policies.iter(), &pod("shop", "web"));
        let names: Vec<&str> = inbound.policies.iter().map(|policy| policy.name.as_str()).collect();
        assert_eq!(names, ["shop/a", "shop/b"]);
        assert!(inbound.policies[0].deny && !inbound.policies[0].dry_run);
        let rule = &inbound.policies[1].rules[0];
        assert_eq!(
            (rule.accounts.clone(), &rule.ports),
            (vec!["shop/web".to_owned(), "bank/teller".to_owned()], &vec![80])
        );
        assert!(inbound.policies[1].dry_run && !inbound.policies[1].deny);
    }
}
