//! The revisions of a workload: ReplicaSets of a Deployment, ControllerRevisions of the others.

use serde_json::{Value, json};

use crate::client::Call;
use crate::error::{Error, Result};
use crate::flags::DryRun;
use crate::print::{self, tabs, yaml};
use crate::select::Target;
use crate::session::{JSON_PATCH, STRATEGIC, Session, Writing};
use crate::verbs::describe;
use crate::verbs::pod_target;

const REVISION: &str = "deployment.kubernetes.io/revision";
const CAUSE: &str = "kubernetes.io/change-cause";

/// One revision with what the pods were like in it.
struct Revision {
    number: i64,
    cause: String,
    /// Of a Deployment the pods' template, else the patch that leads back.
    content: Value,
}

/// All revisions, the oldest first.
async fn revisions(session: &Session, target: &Target) -> Result<Vec<Revision>> {
    let is_deployment = target.kind.kind == "Deployment";
    if !is_deployment && !matches!(target.kind.kind.as_str(), "DaemonSet" | "StatefulSet") {
        return Err(Error::plain(format!("no history viewer has been implemented for {}", target.kind.kind)));
    }
    let plural = if is_deployment { "replicasets" } else { "controllerrevisions" };
    let namespace = target.namespace.as_deref().unwrap_or_default();
    let call = Call::get(format!("/apis/apps/v1/namespaces/{namespace}/{plural}"))
        .maybe("labelSelector", pod_target::selector(&target.object));
    let list = session.client().await?.send(call).await?;
    let uid = &target.object["metadata"]["uid"];
    let is_own = |object: &&Value| {
        object["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|owner| owner["uid"] == *uid)
    };
    let revision = |object: &Value| {
        let annotations = &object["metadata"]["annotations"];
        let number = match is_deployment {
            true => annotations[REVISION].as_str().and_then(|text| text.parse().ok()),
            false => object["revision"].as_i64(),
        };
        let content = if is_deployment { object["spec"]["template"].clone() } else { object["data"].clone() };
        Some(Revision {
            number: number?,
            cause: annotations[CAUSE].as_str().unwrap_or("<none>").to_owned(),
            content,
        })
    };
    let mut all: Vec<Revision> = print::members(&list).iter().filter(is_own).filter_map(revision).collect();
    all.sort_by_key(|revision| revision.number);
    Ok(all)
}

/// The list, or one revision at length.
pub async fn show(session: &Session, target: &Target, revision: i64) -> Result<String> {
    let all = revisions(session, target).await?;
    let head = target.shown();
    if revision > 0 {
        let one = all.iter().find(|known| known.number == revision);
        let one = one.ok_or_else(|| Error::plain("unable to find the specified revision"))?;
        let template = match &one.content["spec"]["template"] {
            Value::Null => one.content.clone(),
            template => template.clone(),
        };
        return Ok(format!("{head} with revision #{revision}\n{}", describe::template(&template)));
    }
    let mut text = "REVISION\tCHANGE-CAUSE\n".to_owned();
    for known in &all {
        text.push_str(&format!("{}\t{}\n", known.number, known.cause));
    }
    Ok(format!("{head} \n{}\n", tabs::align(&text, tabs::DESCRIPTION)))
}

/// Goes back; tells what was done.
pub async fn undo(session: &Session, target: &Target, to: i64, dry_run: DryRun) -> Result<&'static str> {
    let all = revisions(session, target).await?;
    if target.object["spec"]["paused"] == true {
        return Err(Error::plain(format!(
            "you cannot rollback a paused deployment; resume it first with 'kubectl rollout resume {}' and try again",
            target.shown()
        )));
    }
    let chosen = match to {
        0 => all.iter().rev().nth(1),
        number => all.iter().find(|known| known.number == number),
    };
    let chosen = match (chosen, to) {
        (Some(chosen), _) => chosen,
        (None, 0) => {
            return Err(Error::plain(format!(
                "no rollout history found for {} {:?}",
                target.kind.singular, target.name
            )));
        }
        (None, number) => {
            return Err(Error::plain(format!("unable to find specified revision {number} in history")));
        }
    };
    let how = Writing { manager: "kubectl-rollout", dry_run, validation: None };
    if target.kind.kind != "Deployment" {
        if dry_run != DryRun::Client {
            session.patch(target.path(), STRATEGIC, &chosen.content, &how).await?;
        }
        return Ok("rolled back");
    }
    let mut template = chosen.content.clone();
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.shift_remove("pod-template-hash");
    }
    if same(&template, &target.object["spec"]["template"]) {
        return Ok("skipped rollback (current template already matches revision)");
    }
    let patch = json!([
        {"op": "replace", "path": "/spec/template", "value": template},
    ]);
    if dry_run != DryRun::Client {
        session.patch(target.path(), JSON_PATCH, &patch, &how).await?;
    }
    Ok("rolled back")
}

fn same(a: &Value, b: &Value) -> bool {
    yaml::to_string(a) == yaml::to_string(b)
}
