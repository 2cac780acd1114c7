//! Which pod, and which of its containers, `exec`, `attach`, `logs` and `port-forward` mean: a pod by name, or
//! a pod of a Deployment, Service, Job...

use std::time::Duration;

use serde_json::Value;

use crate::client::Call;
use crate::error::{Error, Result};
use crate::output;
use crate::print;
use crate::select::{self, Target};
use crate::session::Session;

/// Names the container to use where none is given.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// The object that `web`, `pod/web` or `deploy/web` names.
pub async fn named(session: &Session, word: &str) -> Result<Target> {
    let word = if word.contains('/') { word.to_owned() } else { format!("pod/{word}") };
    select::find_one(session, &[word], None).await
}

/// A running pod of the object, the oldest first. Waits for one, up to `timeout`.
pub async fn one_pod(session: &Session, target: &Target, timeout: Duration) -> Result<Value> {
    if target.kind.plural == "pods" {
        return Ok(target.object.clone());
    }
    let deadline = tokio::time::Instant::now() + timeout;
    let _progress = session.progress(format_args!("waiting for a pod of {}", target.shown()));
    loop {
        let mut pods = pods(session, target).await?;
        pods.sort_by_key(|pod| {
            (pod["status"]["phase"] != "Running", pod["metadata"]["creationTimestamp"].to_string())
        });
        match pods.into_iter().next() {
            Some(pod) if pod["status"]["phase"] == "Running" || tokio::time::Instant::now() > deadline => {
                return Ok(pod);
            }
            None if tokio::time::Instant::now() > deadline => {
                return Err(Error::plain(format!(
                    "timed out waiting for the condition: {} has no pods",
                    target.shown()
                )));
            }
            _ => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

/// All pods that an object selects.
pub async fn pods(session: &Session, target: &Target) -> Result<Vec<Value>> {
    if target.kind.plural == "pods" {
        return Ok(vec![target.object.clone()]);
    }
    let selector = selector(&target.object).ok_or_else(|| {
        Error::plain(format!("cannot find the pods of {}: it selects none", target.shown()))
    })?;
    let namespace = target.namespace.as_deref().unwrap_or_default();
    let call = Call::get(format!("/api/v1/namespaces/{namespace}/pods")).query("labelSelector", selector);
    let list = session.client().await?.send(call).await?;
    Ok(print::members(&list).to_vec())
}

/// The selector of a workload or Service, as a parameter.
pub fn selector(object: &Value) -> Option<String> {
    selector_text(&object["spec"]["selector"])
}

/// Labels and expressions in one line; None if there are none.
pub fn selector_text(selector: &Value) -> Option<String> {
    let structured = selector["matchLabels"].is_object() || selector["matchExpressions"].is_array();
    let labels = if structured { &selector["matchLabels"] } else { selector };
    let mut parts: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
        .collect();
    parts.sort();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        parts.push(match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({})", values.join(",")),
            Some("NotIn") => format!("{key} notin ({})", values.join(",")),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    (!parts.is_empty()).then(|| parts.join(","))
}

/// Names of all containers: main, then initial, then those added later.
pub fn containers(pod: &Value) -> Vec<String> {
    let mut names = Vec::new();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in pod["spec"][list].as_array().into_iter().flatten() {
            names.extend(container["name"].as_str().map(str::to_owned));
        }
    }
    names
}

/// The container that is meant. Says so on standard error where the choice was this program's.
pub fn container(session: &Session, pod: &Value, asked: Option<&str>, quiet: bool) -> Result<String> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let all = containers(pod);
    if let Some(asked) = asked {
        // kubectl leaves it to the server to refuse.
        return match session.as_kubectl || all.iter().any(|known| known == asked) {
            true => Ok(asked.to_owned()),
            false => Err(Error::plain(format!(
                "container {asked} not found in pod {name}{}",
                the_others(session, &all)
            ))),
        };
    }
    if let Some(annotated) = pod["metadata"]["annotations"][DEFAULT_CONTAINER].as_str()
        && all.iter().any(|known| known == annotated)
    {
        return Ok(annotated.to_owned());
    }
    let main = pod["spec"]["containers"][0]["name"].as_str().unwrap_or_default().to_owned();
    if all.len() > 1 && !quiet {
        output::remark(format_args!("Defaulted container {main:?} out of: {}", listed(pod)));
    }
    Ok(main)
}

/// What could have been asked for; kubectl does not say.
pub fn the_others(session: &Session, containers: &[String]) -> String {
    if session.as_kubectl { String::new() } else { format!("; it has: {}", containers.join(", ")) }
}

/// `app, setup (init)`.
fn listed(pod: &Value) -> String {
    let mut names = Vec::new();
    for (list, suffix) in
        [("containers", ""), ("ephemeralContainers", " (ephem)"), ("initContainers", " (init)")]
    {
        for container in pod["spec"][list].as_array().into_iter().flatten() {
            names.extend(container["name"].as_str().map(|name| format!("{name}{suffix}")));
        }
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::flags::GlobalFlags;

    #[test]
    fn selectors() {
        let check = |spec: Value, expected: Option<&str>| {
            assert_eq!(selector(&json!({"spec": {"selector": spec}})).as_deref(), expected);
        };
        check(json!({"app": "web"}), Some("app=web"));
        check(json!({"matchLabels": {"app": "web"}}), Some("app=web"));
        check(
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["x", "y"]}]}),
            Some("a in (x,y)"),
        );
        check(json!({}), None);
    }

    #[test]
    fn containers_of_a_pod() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "a"}, {"name": "b"}]}});
        let [own, kubectl] = [false, true].map(|kubectl| Session::new(GlobalFlags::default(), kubectl));
        assert_eq!(container(&own, &pod, None, true).unwrap(), "a");
        assert_eq!(container(&own, &pod, Some("i"), true).unwrap(), "i");
        let refused = container(&own, &pod, Some("x"), true).unwrap_err().to_string();
        assert!(
            refused.starts_with("error: container x not found in pod ") && refused.contains("; it has: ")
        );
        assert_eq!(container(&kubectl, &pod, Some("x"), true).unwrap(), "x", "the server refuses it");
        assert_eq!(listed(&pod), "a, b, i (init)");
    }
}
