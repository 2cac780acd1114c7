//! Logs of pods that are gone: every node is asked for those that it keeps.

use minik8s_meta::LabelSelector;
use serde_json::Value;

use super::Logs;
use crate::client::Call;
use crate::error::{Error, Result};
use crate::output;
use crate::session::Session;

/// A container of a pod that is gone.
pub struct Ended {
    pub call: Call,
    pub place: String,
}

/// Which of the kept logs are wanted. Pure.
struct Wanted<'a> {
    /// None for all.
    namespace: Option<&'a str>,
    name: Option<&'a str>,
    labels: LabelSelector,
    container: Option<&'a str>,
}

/// All that nodes keep of what is asked for. A node that does not answer is told, and passed over.
pub async fn find(session: &Session, verb: &Logs) -> Result<Vec<Ended>> {
    let namespace = session.namespace().await?;
    let labels = LabelSelector::parse(verb.selectors.selector.as_deref().unwrap_or_default());
    let wanted = Wanted {
        namespace: (!verb.all_namespaces).then_some(namespace),
        name: verb.words.first().map(|word| plain_name(word)),
        labels: labels.map_err(|error| Error::plain(format!("-l: {error}")))?,
        container: verb.container.as_deref().or(verb.words.get(1).map(String::as_str)),
    };
    let client = session.client().await?;
    let nodes = client.send(Call::get("/api/v1/nodes")).await?;
    let mut found = Vec::new();
    for node in crate::print::members(&nodes) {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let base = format!("/api/v1/nodes/{name}/proxy/endedLogs");
        match client.send(Call::get(base.clone())).await {
            Ok(kept) => found.extend(wanted.of(&kept).into_iter().map(|(path, place)| {
                Ended {
                    call: Call::get(format!("{base}/{path}"))
                        .maybe("sinceSeconds", verb.since.map(|since| since.as_secs_f64().ceil().to_string()))
                        .maybe("sinceTime", verb.since_time.clone())
                        .accept("*/*"),
                    place,
                }
            })),
            Err(Error::Server(error)) if error.code == 403 => return Err(Error::Server(error)),
            Err(error) => output::remark(format_args!("node {name} does not tell of ended logs: {error}")),
        }
    }
    Ok(found)
}

/// `pod/web` is web.
pub fn plain_name(word: &str) -> &str {
    word.strip_prefix("pod/").or_else(|| word.strip_prefix("pods/")).unwrap_or(word)
}

impl Wanted<'_> {
    /// The ways to these logs below the node's list, and what they are called.
    fn of(&self, kept: &Value) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for pod in kept.as_array().into_iter().flatten() {
            let text = |field: &str| pod[field].as_str().unwrap_or_default();
            let (namespace, name, uid) = (text("namespace"), text("name"), text("uid"));
            let is_wanted = self.namespace.is_none_or(|wanted| wanted == namespace)
                && self.name.is_none_or(|wanted| wanted == name)
                && self.labels.matches(pod["labels"].as_object());
            // A node tells what it likes: a name that is none would lead elsewhere.
            let is_plain = [namespace, name, uid].iter().all(|part| is_path_segment(part));
            if !is_wanted || !is_plain {
                continue;
            }
            for container in pod["containers"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                if self.container.is_none_or(|wanted| wanted == container) && is_path_segment(container) {
                    let path = format!("{namespace}/{name}/{uid}/{container}");
                    found.push((path, format!("[ended/{name}/{container}]")));
                }
            }
        }
        found
    }
}

fn is_path_segment(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    !text.is_empty() && text != "." && text != ".." && text.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kept_logs_by_namespace_name_labels_and_container() {
        let pod = |namespace: &str, name: &str, app: &str| {
            json!({"namespace": namespace, "name": name, "uid": "u1", "labels": {"app": app},
                "containers": ["main", "side"]})
        };
        let kept = json!([
            pod("a", "web-1", "web"), pod("a", "db-1", "db"), pod("b", "web-1", "web"),
            pod("a", "../../pods", "web"), {"nonsense": true}, 5
        ]);
        let check = |namespace: Option<&str>,
                     name: Option<&str>,
                     labels: &str,
                     container: Option<&str>,
                     want: &[&str]| {
            let labels = LabelSelector::parse(labels).unwrap();
            let found = Wanted { namespace, name, labels, container }.of(&kept);
            let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
            assert_eq!(paths, want);
        };
        check(Some("a"), None, "app=web", None, &["a/web-1/u1/main", "a/web-1/u1/side"]);
        check(None, None, "app=web", Some("main"), &["a/web-1/u1/main", "b/web-1/u1/main"]);
        check(Some("a"), Some("db-1"), "", Some("side"), &["a/db-1/u1/side"]);
        check(Some("c"), None, "", None, &[]);
        assert_eq!((plain_name("pod/x"), plain_name("x")), ("x", "x"));
    }
}
