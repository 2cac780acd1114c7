//! `rollout mesh`: the pods of a Service replaced by such of another image, by the mesh's RollingUpdate. The cluster does
//! the work; this makes the object and tells how far it is.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use crate::client::Call;
use crate::discovery::Kind;
use crate::error::{Error, Result};
use crate::flags::duration;
use crate::output;
use crate::print;
use crate::select::Target;
use crate::session::{MERGE, Session, Writing};
use crate::verbs::gone;

const SIDECAR: &str = "minik8s-proxy";

#[derive(Debug, Args)]
pub struct MeshRollout {
    /// The Service whose pods are replaced
    #[arg(value_name = "SERVICE")]
    service: String,
    /// The new image, or CONTAINER=IMAGE where pods have several containers; may be repeated
    #[arg(long = "image", value_name = "IMAGE", required_unless_present = "abort", conflicts_with = "abort")]
    images: Vec<String>,
    /// So many pods stay ready all the time
    #[arg(long, value_name = "N", default_value_t = 1)]
    min_alive: i32,
    /// Half of it passes after pods were taken away, half after others have come
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    interval: Duration,
    /// Go back when so many percent points more requests fail than before
    #[arg(long, value_name = "PERCENT")]
    max_errors: Option<i32>,
    /// Go back to the pods that there were
    #[arg(long)]
    abort: bool,
    /// How long to wait until it is over; 0 not to wait
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = duration)]
    timeout: Duration,
}

pub async fn run(session: &Session, flags: &MeshRollout) -> Result<()> {
    let kind = session.kind("rollingupdates.minik8s.io").await.map_err(|_| {
        Error::plain("this cluster has no mesh: start its servers with minik8s server --mesh")
    })?;
    let name = match flags.abort {
        true => abort(session, &kind, &flags.service).await?,
        false => begin(session, &kind, flags).await?,
    };
    if flags.timeout.is_zero() {
        return Ok(());
    }
    let namespace = Some(session.namespace().await?.to_owned());
    let target = Target { kind, namespace, name, object: Value::Null };
    match tokio::time::timeout(flags.timeout, follow(session, &target, flags.abort)).await {
        Ok(ended) => ended,
        Err(_) => Err(gone::timed_out(&target)),
    }
}

async fn begin(session: &Session, kind: &Kind, flags: &MeshRollout) -> Result<String> {
    let (client, namespace) = (session.client().await?, session.namespace().await?);
    let service = client.find(format!("/api/v1/namespaces/{namespace}/services/{}", flags.service)).await?;
    let service = service.ok_or_else(|| Error::plain(format!("there is no Service {}", flags.service)))?;
    let selector = service["spec"]["selector"].as_object().filter(|selector| !selector.is_empty());
    let selector =
        selector.ok_or_else(|| Error::plain(format!("Service {} selects no pods", flags.service)))?;
    let labels: Vec<String> = selector
        .iter()
        .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
        .collect();
    let pods =
        Call::get(format!("/api/v1/namespaces/{namespace}/pods")).query("labelSelector", labels.join(","));
    let list = client.send(pods).await?;
    let pod = print::members(&list).first().cloned();
    let pod = pod.ok_or_else(|| Error::plain(format!("Service {} has no pods to replace", flags.service)))?;
    let images = images(&flags.images, &pod).map_err(Error::plain)?;
    let object = json!({
        "apiVersion": "minik8s.io/v1",
        "kind": "RollingUpdate",
        "metadata": {"generateName": format!("{}-", flags.service), "namespace": namespace},
        "spec": {
            "serviceRef": flags.service,
            "port": service["spec"]["ports"][0]["port"],
            "minimumAlive": flags.min_alive,
            "interval": flags.interval.as_secs(),
            "maxErrors": flags.max_errors,
            "images": images,
        },
    });
    let how = Writing { manager: "kubectl-rollout", ..Writing::default() };
    let made = session.create(kind, &object, &how).await?;
    let name = made["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    output::line(format_args!("rollingupdate.minik8s.io/{name} created"));
    Ok(name)
}

/// By the container. An image alone is for the only container of pods.
fn images(words: &[String], pod: &Value) -> Result<BTreeMap<String, String>, String> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let names: Vec<&str> =
        containers.filter_map(|one| one["name"].as_str()).filter(|name| *name != SIDECAR).collect();
    let mut images = BTreeMap::new();
    for word in words {
        // A registry's port comes before a slash, an equals sign never.
        let (name, image) = match (word.split_once('='), names.as_slice()) {
            (Some((name, image)), _) => (name, image),
            (None, [only]) => (*only, word.as_str()),
            (None, _) => {
                return Err(format!(
                    "say whose image {word} is, CONTAINER=IMAGE: there are {}",
                    names.join(", ")
                ));
            }
        };
        if !names.contains(&name) {
            return Err(format!("pods have no container {name}: there are {}", names.join(", ")));
        }
        images.insert(name.to_owned(), image.to_owned());
    }
    Ok(images)
}

/// The newest of the Service, be it at work or done.
async fn abort(session: &Session, kind: &Kind, service: &str) -> Result<String> {
    let (client, namespace) = (session.client().await?, session.namespace().await?);
    let list = client.get(kind.path(Some(namespace), None)).await?;
    let members = print::members(&list);
    let of_service = members.iter().filter(|one| one["spec"]["serviceRef"] == service);
    let newest =
        of_service.max_by_key(|one| one["metadata"]["creationTimestamp"].as_str().map(str::to_owned));
    let newest =
        newest.ok_or_else(|| Error::plain(format!("there is no RollingUpdate of Service {service}")))?;
    if newest["status"]["phase"] == "Aborted" {
        return Err(Error::plain(format!(
            "the last RollingUpdate of Service {service} has gone back already"
        )));
    }
    let name = newest["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let how = Writing { manager: "kubectl-rollout", ..Writing::default() };
    let path = kind.path(Some(namespace), Some(&name));
    session.patch(path, MERGE, &json!({"spec": {"abort": true}}), &how).await?;
    output::line(format_args!("rollingupdate.minik8s.io/{name} aborted"));
    Ok(name)
}

async fn follow(session: &Session, target: &Target, aborted: bool) -> Result<()> {
    let told = std::sync::Mutex::new(String::new());
    let look = |object: &Value| -> bool {
        let text = describe(object);
        if told.lock().is_ok_and(|mut told| std::mem::replace(&mut *told, text.clone()) != text) {
            output::line(&text);
        }
        is_over(object)
    };
    let object = gone::until(session, target, look).await?;
    let message = object["status"]["message"].as_str().unwrap_or_default().to_owned();
    match object["status"]["phase"].as_str() {
        Some("Done") => Ok(()),
        Some("Aborted") if aborted => Ok(()),
        _ => Err(Error::plain(message)),
    }
}

/// Not by what was said of an earlier spec.
fn is_over(object: &Value) -> bool {
    let status = &object["status"];
    status["observedGeneration"] == object["metadata"]["generation"]
        && matches!(status["phase"].as_str(), Some("Done" | "Aborted" | "Failed"))
}

fn describe(object: &Value) -> String {
    let status = &object["status"];
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let mut text = format!(
        "{}: {} of {} pods updated, {} ready",
        status["phase"].as_str().unwrap_or("Pending"),
        number(&status["updated"]),
        number(&status["total"]),
        number(&status["available"]),
    );
    let batch = &status["batch"];
    if let Some(step) = batch["step"].as_str() {
        text += &format!("; batch {} {step}", number(&batch["number"]));
    }
    if number(&status["requests"]["failed"]) > 0 {
        let (failed, total) = (&status["requests"]["failed"], &status["requests"]["total"]);
        text += &format!("; {} of {} requests failed", number(failed), number(total));
    }
    if let Some(message) = status["message"].as_str() {
        text += &format!("; {message}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_of_containers() {
        let check = |words: &[&str], containers: &[&str], expected: Result<Value, &str>| {
            let containers: Vec<Value> = containers.iter().map(|name| json!({"name": name})).collect();
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let found = images(&words, &json!({"spec": {"containers": containers}}));
            match expected {
                Ok(expected) => assert_eq!(json!(found.unwrap()), expected),
                Err(part) => assert!(found.unwrap_err().contains(part)),
            }
        };
        check(&["web:2"], &["main"], Ok(json!({"main": "web:2"})));
        check(&["host:5000/web:2"], &["main"], Ok(json!({"main": "host:5000/web:2"})));
        check(&["b=web:2"], &["a", "b"], Ok(json!({"b": "web:2"})));
        check(&["web:2"], &["a", "b"], Err("say whose image"));
        check(&["c=web:2"], &["a", "b"], Err("no container c: there are a, b"));
    }

    #[test]
    fn progress_is_told() {
        let object = json!({"metadata": {"generation": 2}, "status": {"phase": "Draining", "updated": 1, "total": 3,
            "available": 3, "observedGeneration": 2, "batch": {"number": 2, "step": "InFlight"},
            "requests": {"total": 90, "failed": 2}}});
        let text = "Draining: 1 of 3 pods updated, 3 ready; batch 2 InFlight; 2 of 90 requests failed";
        assert_eq!((describe(&object).as_str(), is_over(&object)), (text, false));
        let done =
            json!({"metadata": {"generation": 2}, "status": {"phase": "Done", "observedGeneration": 1}});
        assert!(!is_over(&done), "that was about an earlier spec");
    }
}
