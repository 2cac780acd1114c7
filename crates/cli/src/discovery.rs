//! What kinds the server knows, and which one a word of the user means: `po`, `pods`, `pod`, `Pod`,
//! `deploy`, `deployments.apps`, `deployments.v1.apps`, `all`.

use serde_json::Value;

use crate::client::{Call, Client};
use crate::error::{Error, Result};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// One kind in one version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kind {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub singular: String,
    pub short: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    pub subresources: Vec<String>,
}

impl Kind {
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `deployment.apps`, as kubectl names objects in its messages.
    pub fn qualified(&self) -> String {
        self.with_group(&self.singular)
    }

    /// `deployments.apps`, as the server names kinds in its messages.
    pub fn plural_qualified(&self) -> String {
        self.with_group(&self.plural)
    }

    fn with_group(&self, name: &str) -> String {
        if self.group.is_empty() { name.to_owned() } else { format!("{name}.{}", self.group) }
    }

    pub fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// The path of the list, or with a name that of an object.
    pub fn path(&self, namespace: Option<&str>, name: Option<&str>) -> String {
        let mut path = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        if let Some(namespace) = namespace.filter(|_| self.namespaced) {
            path.push_str(&format!("/namespaces/{namespace}"));
        }
        path.push_str(&format!("/{}", self.plural));
        if let Some(name) = name {
            path.push_str(&format!("/{name}"));
        }
        path
    }

    fn answers_to(&self, word: &str) -> bool {
        self.plural == word || self.singular == word || self.short.iter().any(|short| short == word)
    }
}

/// Everything the server serves. The preferred version of a group stands first, core before all groups.
#[derive(Debug, Default)]
pub struct Discovery {
    pub kinds: Vec<Kind>,
    /// `apps/v1`, in the server's order.
    pub versions: Vec<String>,
    /// Say which kind was probably meant by an unknown word.
    pub suggests: bool,
}

impl Discovery {
    pub async fn load(client: &Client) -> Result<Discovery> {
        let mut discovery = Discovery::default();
        for root in ["/api", "/apis"] {
            let answer = client.send(Call::get(root).accept(AGGREGATED)).await?;
            if answer["kind"] == "APIGroupDiscoveryList" {
                discovery.add_aggregated(&answer);
            } else {
                discovery.add_old(client, root, &answer).await?;
            }
        }
        Ok(discovery)
    }

    fn add_aggregated(&mut self, answer: &Value) {
        for group in items(&answer["items"]) {
            let name = text(&group["metadata"]["name"]);
            for version in items(&group["versions"]) {
                let version_name = text(&version["version"]);
                self.add_version(&name, &version_name);
                for resource in items(&version["resources"]) {
                    let subresources = items(&resource["subresources"]);
                    self.kinds.push(Kind {
                        group: name.clone(),
                        version: version_name.clone(),
                        kind: text(&resource["responseKind"]["kind"]),
                        plural: text(&resource["resource"]),
                        singular: text(&resource["singularResource"]),
                        short: texts(&resource["shortNames"]),
                        categories: texts(&resource["categories"]),
                        namespaced: resource["scope"] == "Namespaced",
                        verbs: texts(&resource["verbs"]),
                        subresources: subresources.iter().map(|sub| text(&sub["subresource"])).collect(),
                    });
                }
            }
        }
    }

    /// Servers before 1.26 answer version by version.
    async fn add_old(&mut self, client: &Client, root: &str, answer: &Value) -> Result<()> {
        let mut versions: Vec<(String, String)> = Vec::new();
        for version in items(&answer["versions"]) {
            versions.push((String::new(), text(version)));
        }
        for group in items(&answer["groups"]) {
            let preferred = text(&group["preferredVersion"]["version"]);
            let mut names: Vec<String> =
                items(&group["versions"]).iter().map(|v| text(&v["version"])).collect();
            names.sort_by_key(|name| *name != preferred);
            versions.extend(names.into_iter().map(|version| (text(&group["name"]), version)));
        }
        for (group, version) in versions {
            let path = if group.is_empty() {
                format!("{root}/{version}")
            } else {
                format!("{root}/{group}/{version}")
            };
            // A group whose server is away must not hide the others.
            let Ok(list) = client.get(path).await else { continue };
            self.add_version(&group, &version);
            self.add_list(&group, &version, items(&list["resources"]));
        }
        Ok(())
    }

    fn add_list(&mut self, group: &str, version: &str, resources: &[Value]) {
        let first = self.kinds.len();
        for resource in resources {
            let name = text(&resource["name"]);
            if let Some((plural, subresource)) = name.split_once('/') {
                if let Some(kind) = self.kinds[first..].iter_mut().find(|kind| kind.plural == plural) {
                    kind.subresources.push(subresource.to_owned());
                }
                continue;
            }
            let kind = text(&resource["kind"]);
            let singular = Some(text(&resource["singularName"])).filter(|name| !name.is_empty());
            self.kinds.push(Kind {
                group: group.to_owned(),
                version: version.to_owned(),
                plural: name,
                singular: singular.unwrap_or_else(|| kind.to_lowercase()),
                kind,
                short: texts(&resource["shortNames"]),
                categories: texts(&resource["categories"]),
                namespaced: resource["namespaced"] == true,
                verbs: texts(&resource["verbs"]),
                subresources: Vec::new(),
            });
        }
    }

    fn add_version(&mut self, group: &str, version: &str) {
        self.versions.push(if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") });
    }

    /// The kind a word means, in the preferred version unless the word names another.
    pub fn find(&self, word: &str) -> Result<&Kind> {
        let unknown = || self.unknown(word);
        let lower = word.to_lowercase();
        let (name, rest) = lower.split_once('.').unwrap_or((&lower, ""));
        let plain = |kind: &&Kind| kind.answers_to(&lower);
        if rest.is_empty() {
            // Exact names count before short ones: somebody's `po` must not hide pods.
            let exact = self.kinds.iter().find(|kind| kind.plural == lower || kind.singular == lower);
            return exact.or_else(|| self.kinds.iter().find(plain)).ok_or_else(unknown);
        }
        let versioned = rest.split_once('.');
        let found = self.kinds.iter().find(|kind| {
            let group_only = kind.group == rest;
            let with_version = versioned
                .is_some_and(|(version, group)| kind.version == version && kind.group == group)
                || (kind.group.is_empty() && kind.version == rest.trim_end_matches('.'));
            kind.answers_to(name) && (group_only || with_version)
        });
        let by_prefix = || {
            // kubectl takes `deployments.app` for `deployments.apps`.
            self.kinds.iter().find(|kind| kind.answers_to(name) && kind.group.starts_with(rest))
        };
        found.or_else(by_prefix).ok_or_else(unknown)
    }

    /// As [`Discovery::find`], with categories: `all` means several.
    pub fn find_all(&self, words: &str) -> Result<Vec<&Kind>> {
        let mut found: Vec<&Kind> = Vec::new();
        for word in words.split(',').filter(|word| !word.is_empty()) {
            let members = self.category(word);
            let more = if members.is_empty() { vec![self.find(word)?] } else { members };
            for kind in more {
                if !found.contains(&kind) {
                    found.push(kind);
                }
            }
        }
        if found.is_empty() {
            return Err(self.unknown(words));
        }
        Ok(found)
    }

    fn unknown(&self, word: &str) -> Error {
        let mut text = format!("the server doesn't have a resource type {word:?}");
        let names = self.kinds.iter().flat_map(|kind| [&kind.plural, &kind.singular]);
        let near = names
            .map(|name| (strsim::damerau_levenshtein(name, &word.to_lowercase()), name))
            .filter(|(distance, name)| *distance <= 2 && *distance * 2 < name.len())
            .min_by_key(|(distance, _)| *distance);
        if let Some((_, name)) = near.filter(|_| self.suggests) {
            text.push_str(&format!("; did you mean {name:?}?"));
        }
        Error::plain(text)
    }

    fn category(&self, word: &str) -> Vec<&Kind> {
        let mut members: Vec<&Kind> = Vec::new();
        for kind in self.kinds.iter().filter(|kind| kind.categories.iter().any(|category| category == word)) {
            let is_there =
                members.iter().any(|known| known.plural == kind.plural && known.group == kind.group);
            if !is_there {
                members.push(kind);
            }
        }
        members
    }

    /// The kind of an object by its `apiVersion` and `kind`.
    pub fn of(&self, api_version: &str, kind: &str) -> Option<&Kind> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.kinds.iter().find(|known| known.group == group && known.version == version && known.kind == kind)
    }

    /// Only what is preferred: one version of each kind.
    pub fn preferred(&self) -> Vec<&Kind> {
        let mut kinds: Vec<&Kind> = Vec::new();
        for kind in &self.kinds {
            if !kinds.iter().any(|known| known.group == kind.group && known.plural == kind.plural) {
                kinds.push(kind);
            }
        }
        kinds
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    items(value).iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(
        group: &str,
        version: &str,
        kind: &str,
        plural: &str,
        short: &[&str],
        categories: &[&str],
    ) -> Kind {
        Kind {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: plural.into(),
            singular: kind.to_lowercase(),
            short: short.iter().map(ToString::to_string).collect(),
            categories: categories.iter().map(ToString::to_string).collect(),
            namespaced: true,
            ..Kind::default()
        }
    }

    fn discovery() -> Discovery {
        let kinds = vec![
            kind("", "v1", "Pod", "pods", &["po"], &["all"]),
            kind("", "v1", "Event", "events", &["ev"], &[]),
            kind("apps", "v1", "Deployment", "deployments", &["deploy"], &["all"]),
            kind(
                "autoscaling",
                "v2",
                "HorizontalPodAutoscaler",
                "horizontalpodautoscalers",
                &["hpa"],
                &["all"],
            ),
            kind(
                "autoscaling",
                "v1",
                "HorizontalPodAutoscaler",
                "horizontalpodautoscalers",
                &["hpa"],
                &["all"],
            ),
            kind("events.k8s.io", "v1", "Event", "events", &["ev"], &[]),
        ];
        Discovery { kinds, ..Discovery::default() }
    }

    #[test]
    fn words_for_kinds() {
        let discovery = discovery();
        let check = |word: &str, expected: &str| {
            let found = discovery.find(word).map(|kind| format!("{} {}", kind.api_version(), kind.plural));
            assert_eq!(found.unwrap_or_default(), expected, "{word}");
        };
        for word in ["po", "pod", "pods", "Pod", "PODS", "pods.v1.", "pod.v1"] {
            check(word, "v1 pods");
        }
        check("deploy", "apps/v1 deployments");
        check("deployments.apps", "apps/v1 deployments");
        check("deployment.v1.apps", "apps/v1 deployments");
        check("hpa", "autoscaling/v2 horizontalpodautoscalers");
        check("hpa.v1.autoscaling", "autoscaling/v1 horizontalpodautoscalers");
        check("events", "v1 events");
        check("events.events.k8s.io", "events.k8s.io/v1 events");
        check("nonsense", "");
        check("pods.apps", "");
    }

    #[test]
    fn categories_and_lists() {
        let discovery = discovery();
        let names = |words: &str| -> Vec<String> {
            discovery
                .find_all(words)
                .unwrap()
                .iter()
                .map(|kind| kind.api_version() + "/" + &kind.plural)
                .collect()
        };
        assert_eq!(
            names("all"),
            ["v1/pods", "apps/v1/deployments", "autoscaling/v2/horizontalpodautoscalers"]
        );
        assert_eq!(names("deploy,po,pods"), ["apps/v1/deployments", "v1/pods"]);
    }

    #[test]
    fn paths() {
        let deployment = discovery().find("deploy").unwrap().clone();
        assert_eq!(deployment.path(Some("a"), Some("x")), "/apis/apps/v1/namespaces/a/deployments/x");
        assert_eq!(deployment.path(None, None), "/apis/apps/v1/deployments");
        assert_eq!(deployment.qualified(), "deployment.apps");
    }
}
