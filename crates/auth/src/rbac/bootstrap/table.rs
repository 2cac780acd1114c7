//! The text form of the default roles.
//!
//! ```text
//! clusterrole NAME [union=X] [into=Y]   X: is the union of roles labelled aggregate-to-X; Y: has such a label
//! role NAMESPACE/NAME
//! controller NAME                       ClusterRole system:controller:NAME and its binding
//!   VERBS GROUPS RESOURCE… [only NAME…] a rule of the role above; `core` is the group without a name
//!   VERBS url URL…                      a rule on paths
//!   events                              the rule that lets a component report events
//!   + WORD…                             more words of the rule above
//! clusterbinding ROLE to SUBJECT…       SUBJECT: user:NAME, group:NAME, sa:NAMESPACE/NAME
//! binding NAMESPACE/NAME [of ROLE] to SUBJECT…
//! ```
//! `read` stands for get, list, watch and `write` for create, update, patch, delete, deletecollection.

use super::super::Rule;

#[derive(Debug, PartialEq, Eq)]
pub enum Row {
    /// An empty namespace means a ClusterRole.
    Role { namespace: String, name: String, union: Option<String>, into: Option<String>, rules: Vec<Rule> },
    /// An empty namespace means a ClusterRoleBinding.
    Binding { namespace: String, name: String, role: String, subjects: Vec<Subject> },
}

#[derive(Debug, PartialEq, Eq)]
pub enum Subject {
    User(String),
    Group(String),
    ServiceAccount { namespace: String, name: String },
}

/// The error names the line.
pub fn parse(text: &str) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for (number, words) in logical_lines(text) {
        let words: Vec<&str> = words.split_whitespace().collect();
        parse_line(&words, &mut rows).ok_or_else(|| format!("line {number}: {}", words.join(" ")))?;
    }
    Ok(rows)
}

/// Lines without comments and empty ones, continuations joined, with their numbers.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        match (line.strip_prefix("+ "), lines.last_mut()) {
            (Some(more), Some((_, last))) => *last = format!("{last} {more}"),
            _ if line.is_empty() || line.starts_with('#') => {}
            _ => lines.push((index + 1, line.to_owned())),
        }
    }
    lines
}

fn parse_line(words: &[&str], rows: &mut Vec<Row>) -> Option<()> {
    match words {
        ["clusterrole", name, options @ ..] => {
            let option = |key: &str| options.iter().find_map(|o| o.strip_prefix(key)).map(str::to_owned);
            rows.push(role("", name, option("union="), option("into=")));
        }
        ["role", place] => {
            let (namespace, name) = place.split_once('/')?;
            rows.push(role(namespace, name, None, None));
        }
        ["controller", name] => {
            let full = format!("system:controller:{name}");
            let account =
                Subject::ServiceAccount { namespace: "kube-system".to_owned(), name: (*name).to_owned() };
            rows.push(binding("", &full, &full, vec![account]));
            rows.push(role("", &full, None, None));
        }
        ["clusterbinding", role, "to", subjects @ ..] => {
            rows.push(binding("", role, role, parse_subjects(subjects)?));
        }
        ["binding", place, rest @ ..] => {
            let (namespace, name) = place.split_once('/')?;
            let (role, subjects) = match rest {
                ["of", role, "to", subjects @ ..] => (*role, subjects),
                ["to", subjects @ ..] => (name, subjects),
                _ => return None,
            };
            rows.push(binding(namespace, name, role, parse_subjects(subjects)?));
        }
        rule => match rows.last_mut()? {
            Row::Role { rules, .. } => rules.push(parse_rule(rule)?),
            Row::Binding { .. } => return None,
        },
    }
    Some(())
}

fn parse_rule(words: &[&str]) -> Option<Rule> {
    let owned = |words: &[&str]| words.iter().map(|&w| w.to_owned()).collect::<Vec<_>>();
    match words {
        ["events"] => parse_rule(&["create,update,patch", "core,events.k8s.io", "events"]),
        [verbs, "url", urls @ ..] if !urls.is_empty() => {
            Some(Rule { verbs: parse_verbs(verbs), non_resource_urls: owned(urls), ..Rule::default() })
        }
        [verbs, groups, rest @ ..] if !rest.is_empty() => {
            let end = rest.iter().position(|&word| word == "only").unwrap_or(rest.len());
            let group = |name: &str| if name == "core" { String::new() } else { name.to_owned() };
            Some(Rule {
                verbs: parse_verbs(verbs),
                api_groups: groups.split(',').map(group).collect(),
                resources: owned(&rest[..end]),
                resource_names: owned(rest.get(end + 1..).unwrap_or_default()),
                ..Rule::default()
            })
        }
        _ => None,
    }
}

fn parse_verbs(words: &str) -> Vec<String> {
    let meaning = |word| match word {
        "read" => vec!["get", "list", "watch"],
        "write" => vec!["create", "update", "patch", "delete", "deletecollection"],
        verb => vec![verb],
    };
    words.split(',').flat_map(meaning).map(str::to_owned).collect()
}

fn parse_subjects(words: &[&str]) -> Option<Vec<Subject>> {
    let subject = |word: &&str| match word.split_once(':')? {
        ("user", name) => Some(Subject::User(name.to_owned())),
        ("group", name) => Some(Subject::Group(name.to_owned())),
        ("sa", place) => place.split_once('/').map(|(namespace, name)| Subject::ServiceAccount {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }),
        _ => None,
    };
    words.iter().map(subject).collect()
}

fn role(namespace: &str, name: &str, union: Option<String>, into: Option<String>) -> Row {
    Row::Role { namespace: namespace.to_owned(), name: name.to_owned(), union, into, rules: Vec::new() }
}

fn binding(namespace: &str, name: &str, role: &str, subjects: Vec<Subject>) -> Row {
    Row::Binding { namespace: namespace.to_owned(), name: name.to_owned(), role: role.to_owned(), subjects }
}
