//! Whether rights that someone holds include rights that they want to grant.
//!
//! A grant is taken apart into single permissions (one verb, group, resource and name, or one verb and
//! path), and each must be covered by one rule that is held. Two rules that only together cover a wildcard
//! do not: nobody may grant `*` by holding every verb that exists today.

use std::collections::BTreeMap;

use super::rule::{ALL, Rule, has, has_or_all, url_matches};

/// A rule with more single permissions than this is only accepted if one held rule covers all of it.
/// It keeps a hostile role of a few thousand words from costing hours.
const MOST_PERMISSIONS: usize = 100_000;

/// What of `wanted` is not covered by `held`, as single permissions put together again by verb.
pub fn uncovered(held: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let mut missing = Vec::new();
    for rule in wanted.iter().flat_map(on_resources_and_on_paths) {
        if held.iter().any(|owner| covers(owner, &rule)) {
            continue;
        }
        if permissions(&rule) > MOST_PERMISSIONS {
            missing.push(rule);
            continue;
        }
        missing
            .extend(take_apart(&rule).into_iter().filter(|one| !held.iter().any(|owner| covers(owner, one))));
    }
    join_verbs(missing)
}

/// A rule may speak of both; held rules rarely do.
fn on_resources_and_on_paths(rule: &Rule) -> [Rule; 2] {
    let on_resources = Rule { non_resource_urls: Vec::new(), ..rule.clone() };
    let on_paths = Rule {
        verbs: rule.verbs.clone(),
        non_resource_urls: rule.non_resource_urls.clone(),
        ..Rule::default()
    };
    [on_resources, on_paths]
}

/// Whether one rule includes all of another.
fn covers(owner: &Rule, rule: &Rule) -> bool {
    let all_of = |held: &[String], wanted: &[String]| wanted.iter().all(|entry| has_or_all(held, entry));
    all_of(&owner.verbs, &rule.verbs)
        && all_of(&owner.api_groups, &rule.api_groups)
        && rule.resources.iter().all(|resource| covers_resource(&owner.resources, resource))
        && rule
            .non_resource_urls
            .iter()
            .all(|url| owner.non_resource_urls.iter().any(|o| url_matches(o, url)))
        && (rule.resources.is_empty() || covers_names(&owner.resource_names, &rule.resource_names))
}

/// No names means every name.
fn covers_names(held: &[String], wanted: &[String]) -> bool {
    held.is_empty() || (!wanted.is_empty() && wanted.iter().all(|name| has(held, name)))
}

fn covers_resource(held: &[String], resource: &str) -> bool {
    let of_every_resource = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
    held.iter().any(|h| h == ALL || h == resource || of_every_resource.as_ref() == Some(h))
}

/// How many rules [`take_apart`] would make.
fn permissions(rule: &Rule) -> usize {
    let on_resources = rule
        .api_groups
        .len()
        .saturating_mul(rule.resources.len())
        .saturating_mul(rule.resource_names.len().max(1));
    on_resources.saturating_add(rule.non_resource_urls.len()).saturating_mul(rule.verbs.len())
}

fn take_apart(rule: &Rule) -> Vec<Rule> {
    let mut single = Vec::new();
    let one = |text: &String| vec![text.clone()];
    for verb in &rule.verbs {
        for group in &rule.api_groups {
            for resource in &rule.resources {
                let base = Rule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    ..Rule::default()
                };
                if rule.resource_names.is_empty() {
                    single.push(base);
                    continue;
                }
                for name in &rule.resource_names {
                    single.push(Rule { resource_names: one(name), ..base.clone() });
                }
            }
        }
        for url in &rule.non_resource_urls {
            single.push(Rule { verbs: one(verb), non_resource_urls: one(url), ..Rule::default() });
        }
    }
    single
}

/// Rules that differ only in their verbs become one, to keep error messages short.
fn join_verbs(rules: Vec<Rule>) -> Vec<Rule> {
    let mut by_target: BTreeMap<Rule, Vec<String>> = BTreeMap::new();
    for mut rule in rules {
        let verbs = std::mem::take(&mut rule.verbs);
        let known = by_target.entry(rule).or_default();
        for verb in verbs {
            if !has(known, &verb) {
                known.push(verb);
            }
        }
    }
    by_target.into_iter().map(|(target, verbs)| Rule { verbs, ..target }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Attributes;

    fn list(text: &str) -> Vec<String> {
        text.split_whitespace().map(|w| if w == "core" { String::new() } else { w.to_owned() }).collect()
    }

    fn rule(verbs: &str, groups: &str, resources: &str, names: &str) -> Rule {
        Rule {
            verbs: list(verbs),
            api_groups: list(groups),
            resources: list(resources),
            resource_names: list(names),
            non_resource_urls: vec![],
        }
    }

    fn urls(verbs: &str, urls: &str) -> Rule {
        Rule { verbs: list(verbs), non_resource_urls: list(urls), ..Rule::default() }
    }

    #[test]
    fn table() {
        let check = |held: &[Rule], wanted: Rule, expected: &[&str]| {
            let missing: Vec<String> =
                uncovered(held, std::slice::from_ref(&wanted)).iter().map(ToString::to_string).collect();
            assert_eq!(missing, expected, "{wanted}");
        };
        let pods = || rule("get list", "core", "pods", "");
        check(&[pods()], rule("get", "core", "pods", ""), &[]);
        check(&[pods()], rule("get", "core", "pods", "web"), &[]);
        check(
            &[pods()],
            rule("get delete patch", "core", "pods", ""),
            &[r#"{APIGroups:[""], Resources:["pods"], Verbs:["delete" "patch"]}"#],
        );
        check(
            &[rule("get", "core", "pods", "web")],
            rule("get", "core", "pods", ""),
            &[r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#],
        );
        check(&[rule("get", "core", "pods", ""), rule("list", "core", "pods", "")], pods(), &[]);
        check(&[Rule::everything()], rule("*", "*", "*", ""), &[]);
        check(
            &[rule("get list watch", "core", "pods", "")],
            rule("*", "core", "pods", ""),
            &[r#"{APIGroups:[""], Resources:["pods"], Verbs:["*"]}"#],
        );
        check(&[rule("get", "core", "*/scale", "")], rule("get", "core", "deployments/scale", ""), &[]);
        check(
            &[rule("get", "core", "pods/log", "")],
            rule("get", "core", "*/log", ""),
            &[r#"{APIGroups:[""], Resources:["*/log"], Verbs:["get"]}"#],
        );
        check(&[urls("get", "/healthz/*")], urls("get", "/healthz/etcd"), &[]);
        check(&[urls("get", "/healthz/*")], urls("get", "/healthz/*"), &[]);
        check(&[urls("get", "/healthz/*")], urls("get", "*"), &[r#"{NonResourceURLs:["*"], Verbs:["get"]}"#]);
        check(&[Rule::everything()], urls("get", "/x"), &[r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#]);
        check(&[], Rule::default(), &[]);
    }

    #[test]
    fn giant_rules_are_quick() {
        let many = |start: &str| (0..3000).map(|n| format!("{start}{n}")).collect::<Vec<_>>();
        let giant = Rule {
            verbs: many("v"),
            api_groups: many("g"),
            resources: many("r"),
            resource_names: many("n"),
            non_resource_urls: many("/"),
        };
        let held = rule("get", "core", "pods", "");
        assert_eq!(uncovered(&[held], std::slice::from_ref(&giant)).len(), 2);
        assert!(uncovered(&[Rule::everything(), Rule::every_path()], &[giant]).is_empty());
    }

    fn words(all: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<String>> {
        let names: Vec<String> = all.iter().map(|&w| w.to_owned()).collect();
        prop::sample::subsequence(names, 0..=most)
    }

    fn any_rule() -> impl Strategy<Value = Rule> {
        (
            words(&["get", "list", "*"], 2),
            words(&["", "apps", "*"], 2),
            words(&["pods", "pods/log", "*/log", "*"], 3),
            words(&["a", "b"], 1),
            words(&["/x", "/x/y", "/x/*", "*"], 2),
        )
            .prop_map(|(verbs, api_groups, resources, resource_names, non_resource_urls)| Rule {
                verbs,
                api_groups,
                resources,
                resource_names,
                non_resource_urls,
            })
    }

    /// Every request of a small universe, with words that no rule names so that wildcards show.
    fn requests() -> Vec<Attributes<'static>> {
        let mut all = Vec::new();
        for verb in ["get", "list", "other"] {
            for group in ["", "apps", "other"] {
                for (resource, sub) in
                    [("pods", ""), ("pods", "log"), ("things", ""), ("things", "log"), ("pods", "x")]
                {
                    for name in ["", "a", "b", "c"] {
                        all.push(Attributes::resource(verb, group, resource).subresource(sub).named(name));
                    }
                }
            }
            for path in ["/x", "/x/y", "/x/z", "/z"] {
                all.push(Attributes::path(verb, path));
            }
        }
        all
    }

    proptest! {
        /// Sound: if nothing is missing, no request is newly possible. Complete: what is reported missing
        /// together with what is held allows all that was wanted, and each missing rule is really new.
        #[test]
        fn agrees_with_trying_every_request(
            held in prop::collection::vec(any_rule(), 0..4),
            wanted in prop::collection::vec(any_rule(), 0..3),
        ) {
            let allowed = |rules: &[Rule], request: &Attributes<'_>| rules.iter().any(|r| r.allows(request));
            let missing = uncovered(&held, &wanted);
            for request in requests() {
                if allowed(&wanted, &request) && !allowed(&held, &request) {
                    prop_assert!(allowed(&missing, &request), "{request:?} slipped through");
                }
                if allowed(&missing, &request) {
                    prop_assert!(allowed(&wanted, &request), "{request:?} was not asked for");
                }
            }
            prop_assert!(uncovered(&wanted, &wanted).is_empty(), "nobody misses what they hold");
        }
    }
}
