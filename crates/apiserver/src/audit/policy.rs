//! The audit policy of `audit.k8s.io/v1`: how much is told of which request. The first rule that fits decides. Pure.

use minik8s_auth::User;
use serde::Deserialize;

use crate::request::RequestInfo;

/// How much of a request is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Level {
    #[default]
    None,
    Metadata,
    Request,
    RequestResponse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Stage {
    RequestReceived,
    ResponseStarted,
    ResponseComplete,
    Panic,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    api_version: String,
    kind: String,
    #[serde(default)]
    #[allow(dead_code, reason = "a policy may have it")]
    metadata: Option<serde_json::Value>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: bool,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    level: Level,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<GroupResources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<Stage>,
    #[serde(default)]
    omit_managed_fields: Option<bool>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GroupResources {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

/// What a policy says of one request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    pub level: Level,
    omitted: Vec<Stage>,
    pub omit_managed_fields: bool,
}

impl Verdict {
    pub fn tells(&self, stage: Stage) -> bool {
        self.level > Level::None && !self.omitted.contains(&stage)
    }
}

impl Policy {
    pub fn parse(text: &str) -> Result<Self, String> {
        let policy: Policy = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        if (policy.api_version.as_str(), policy.kind.as_str()) != ("audit.k8s.io/v1", "Policy") {
            return Err(format!(
                "it is a {} of {}: a Policy of audit.k8s.io/v1 is expected",
                policy.kind, policy.api_version
            ));
        }
        if policy.rules.is_empty() {
            return Err("it has no rules: loaded illegal policy with 0 rules".to_owned());
        }
        for (at, rule) in policy.rules.iter().enumerate() {
            let about_objects = !rule.resources.is_empty() || !rule.namespaces.is_empty();
            if about_objects && !rule.non_resource_urls.is_empty() {
                return Err(format!(
                    "rules[{at}]: rules cannot apply to both regular resources and non-resource URLs"
                ));
            }
        }
        Ok(policy)
    }

    pub fn judge(&self, user: &User, info: &RequestInfo) -> Verdict {
        let Some(rule) = self.rules.iter().find(|rule| rule.fits(user, info)) else {
            return Verdict::default();
        };
        let omitted = self.omit_stages.iter().chain(&rule.omit_stages).copied().collect();
        let omit_managed_fields = rule.omit_managed_fields.unwrap_or(self.omit_managed_fields);
        Verdict { level: rule.level, omitted, omit_managed_fields }
    }
}

impl Rule {
    fn fits(&self, user: &User, info: &RequestInfo) -> bool {
        let among = |list: &[String], word: &str| list.is_empty() || list.iter().any(|one| one == word);
        let of_group =
            self.user_groups.is_empty() || user.groups.iter().any(|group| self.user_groups.contains(group));
        if !among(&self.users, &user.name) || !of_group || !among(&self.verbs, &info.verb) {
            return false;
        }
        if !info.is_resource {
            let about_paths = !self.non_resource_urls.is_empty();
            let about_all = self.resources.is_empty() && self.namespaces.is_empty();
            return if about_paths {
                self.non_resource_urls.iter().any(|url| path_fits(url, &info.path))
            } else {
                about_all
            };
        }
        self.non_resource_urls.is_empty()
            && among(&self.namespaces, &info.namespace)
            && (self.resources.is_empty() || self.resources.iter().any(|one| one.fits(info)))
    }
}

impl GroupResources {
    fn fits(&self, info: &RequestInfo) -> bool {
        if self.group != info.group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        let named = self.resource_names.is_empty() || self.resource_names.contains(&info.name);
        let whole = match info.subresource.is_empty() {
            true => info.resource.clone(),
            false => format!("{}/{}", info.resource, info.subresource),
        };
        named
            && self.resources.iter().any(|one| match one.split_once('/') {
                _ if one == "*" || *one == whole => true,
                Some(("*", subresource)) => info.subresource == subresource,
                Some((resource, "*")) => info.resource == resource,
                _ => false,
            })
    }
}

/// `/healthz*`, `*`, or the path itself.
fn path_fits(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => pattern == path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: None, users: ['system:kube-proxy'], verbs: [watch]}
  - {level: None, nonResourceURLs: ['/healthz*', /version]}
  - {level: Metadata, resources: [{group: '', resources: [secrets, pods/log, '*/status']}]}
  - {level: Request, namespaces: [shop], resources: [{group: apps}], omitStages: [ResponseStarted]}
  - {level: RequestResponse, userGroups: [auditors]}
  - {level: Metadata, resources: [{group: '', resources: [configmaps], resourceNames: [important]}]}
";

    fn level(user: &str, groups: &[&str], verb: &str, path: &str) -> Level {
        let policy = Policy::parse(POLICY).unwrap();
        let query = crate::request::Query::parse(None);
        let method = match verb {
            "create" => http::Method::POST,
            _ => http::Method::GET,
        };
        let mut info = RequestInfo::parse(&method, path, &query);
        if verb == "watch" {
            info.verb = "watch".to_owned();
        }
        policy.judge(&User::authenticated(user, groups), &info).level
    }

    #[test]
    fn first_rule_that_fits_decides() {
        let pods = "/api/v1/namespaces/a/pods";
        assert_eq!(level("system:kube-proxy", &[], "watch", pods), Level::None);
        assert_eq!(level("alice", &[], "get", "/healthz/ready"), Level::None);
        assert_eq!(level("alice", &[], "get", "/api/v1/namespaces/a/secrets/s"), Level::Metadata);
        assert_eq!(level("alice", &[], "get", "/api/v1/namespaces/a/pods/p/log"), Level::Metadata);
        assert_eq!(level("alice", &[], "get", "/api/v1/namespaces/a/services/p/status"), Level::Metadata);
        assert_eq!(
            level("alice", &[], "create", "/apis/apps/v1/namespaces/shop/deployments"),
            Level::Request
        );
        assert_eq!(level("alice", &[], "create", "/apis/apps/v1/namespaces/a/deployments"), Level::None);
        assert_eq!(level("alice", &["auditors"], "get", pods), Level::RequestResponse);
        assert_eq!(level("alice", &[], "get", "/api/v1/namespaces/a/configmaps/important"), Level::Metadata);
        assert_eq!(level("alice", &[], "get", "/api/v1/namespaces/a/configmaps/other"), Level::None);
    }

    #[test]
    fn stages_are_omitted_by_policy_and_rule() {
        let policy = Policy::parse(POLICY).unwrap();
        let query = crate::request::Query::parse(None);
        let info =
            RequestInfo::parse(&http::Method::GET, "/apis/apps/v1/namespaces/shop/deployments", &query);
        let verdict = policy.judge(&User::authenticated("a", &[]), &info);
        assert!(!verdict.tells(Stage::RequestReceived) && !verdict.tells(Stage::ResponseStarted));
        assert!(verdict.tells(Stage::ResponseComplete));
    }

    #[test]
    fn broken_policies_are_refused_with_words() {
        for (text, expected) in [
            ("kind: Policy", "api"),
            ("{apiVersion: v1, kind: Policy, rules: []}", "a Policy of audit.k8s.io/v1 is expected"),
            ("{apiVersion: audit.k8s.io/v1, kind: Policy}", "0 rules"),
            ("{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: Much}]}", "Much"),
            ("{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: None, user: [a]}]}", "user"),
            (
                "{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{level: None, namespaces: [a], nonResourceURLs: [/x]}]}",
                "cannot apply to both",
            ),
        ] {
            let error = Policy::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
