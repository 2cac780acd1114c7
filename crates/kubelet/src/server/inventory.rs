//! `/containers` and `/images`: what is on the node, and unused images that go, for the API server alone.

use std::collections::{BTreeMap, BTreeSet};

use http::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tonic::Code;
use tracing::{info, warn};

use super::answer::{self, Body, Refusal};
use super::route::Query;
use crate::containerd::{FoundContainer, all_containers};
use crate::context::NodeContext;
use crate::image::NAMESPACE;
use crate::inventory::{
    ContainerEntry, ImageEntry, NotRemovable, Selection, Uses, container_entries, image_entries, is_of_cri,
    other_sockets, pod_label, unused,
};
use crate::stats;

pub async fn containers(context: &NodeContext) -> Result<Response<Body>, Refusal> {
    let own = context.config.cri_socket();
    let pods: BTreeSet<String> =
        context.pods.all().iter().filter_map(|pod| pod.metadata.uid.clone()).collect();
    let mut entries = Vec::new();
    let mut problems = Vec::new();
    let others = other_sockets(&own).into_iter().map(|socket| (socket.display().to_string(), socket));
    for (runtime, socket) in [(String::new(), own.clone())].into_iter().chain(others) {
        match all_containers(&socket).await {
            Ok(found) => entries.extend(container_entries(found, &runtime, &pods)),
            Err(status) => problems.push(format!("{}: {}", socket.display(), status.message())),
        }
    }
    entries.sort_by_cached_key(|entry: &ContainerEntry| {
        (entry.pod_namespace.clone(), entry.pod_name.clone(), entry.name.clone(), entry.id.clone())
    });
    Ok(answer::json(&json!({"kind": "NodeContainers", "containers": entries, "problems": problems})))
}

/// GET lists them. DELETE removes `?image=NAME`, or all that are unused: those that can be pulled again, with `?all=true`
/// also others. `?dryRun=All` tells what would go.
pub async fn images(
    context: &NodeContext,
    method: &Method,
    query: &Query,
) -> Result<Response<Body>, Refusal> {
    match *method {
        Method::GET => {
            let disk = stats::disk(&context.config.data_dir);
            let disk = json!({"capacity": disk.capacity, "available": disk.available});
            Ok(answer::json(&json!({"kind": "NodeImages", "images": entries(context).await?, "disk": disk})))
        }
        Method::DELETE => {
            let selection = match (query.get("image"), query.flag("all")) {
                (Some(""), _) => return Err(Refusal::bad_request("image: name one")),
                (Some(image), false) => Selection::One(image.to_owned()),
                (Some(_), true) => return Err(Refusal::bad_request("either image or all")),
                (None, true) => Selection::All,
                (None, false) => Selection::Pulled,
            };
            let dry_run = match query.get("dryRun") {
                None => false,
                Some("All") => true,
                Some(other) => return Err(Refusal::bad_request(format!("dryRun: {other:?} is not All"))),
            };
            remove(context, &selection, dry_run).await
        }
        _ => Err(Refusal::bad_request("GET or DELETE")),
    }
}

async fn entries(context: &NodeContext) -> Result<Vec<ImageEntry>, Refusal> {
    let images = context.runtime.images().await.map_err(Refusal::internal)?;
    Ok(image_entries(images, &uses(context).await?))
}

/// Whatever cannot be asked may use anything: then nothing is told.
async fn uses(context: &NodeContext) -> Result<Uses, Refusal> {
    let pods = context.pods.all();
    let names: BTreeMap<&str, String> =
        pods.iter().filter_map(|pod| Some((pod.metadata.uid.as_deref()?, pod_label(pod)))).collect();
    let mut uses = Uses::default();
    pods.iter().for_each(|pod| uses.add_pod(pod));
    for row in context.runtime.container_rows().await.map_err(Refusal::internal)? {
        let user = names.get(row.pod_uid.as_str()).unwrap_or(&row.name);
        uses.add(&row.image, user);
        uses.add(&row.image_id, user);
    }
    for container in not_of_cri(context).await? {
        uses.add(&container.image, &container.id);
    }
    Ok(uses)
}

/// Containers that `ctr` made among those of CRI. Only containerd can have such.
async fn not_of_cri(context: &NodeContext) -> Result<Vec<FoundContainer>, Refusal> {
    match all_containers(&context.config.cri_socket()).await {
        Ok(mut found) => {
            found.retain(|container| container.namespace == NAMESPACE && !is_of_cri(container));
            Ok(found)
        }
        Err(status) if status.code() == Code::Unimplemented => Ok(Vec::new()),
        Err(status) => Err(Refusal::internal(status.message())),
    }
}

async fn remove(
    context: &NodeContext,
    selection: &Selection,
    dry_run: bool,
) -> Result<Response<Body>, Refusal> {
    // An image that is being made here is nobody's yet.
    let _turn = context.image_maker.lock().await;
    let chosen = unused(entries(context).await?, selection).map_err(|error| match error {
        NotRemovable::NotFound(_) => Refusal::not_found(error.to_string()),
        NotRemovable::Used(..) => {
            Refusal { status: StatusCode::CONFLICT, reason: "Conflict", message: error.to_string() }
        }
    })?;
    let (mut removed, mut failed): (Vec<ImageEntry>, Vec<Value>) = (Vec::new(), Vec::new());
    for image in chosen {
        let name = image.names.first().unwrap_or(&image.id);
        if !dry_run {
            info!(image = name, "removing an unused image: somebody asked for it");
            if let Err(error) = context.runtime.remove_image(&image.id).await {
                warn!(%error, image = name, "cannot remove an image");
                failed.push(json!({"image": name, "message": error.to_string()}));
                continue;
            }
        }
        removed.push(image);
    }
    let freed: u64 = removed.iter().map(|image| image.size).sum();
    Ok(answer::json(&json!({"kind": "NodeImages", "dryRun": dry_run, "removed": removed, "failed": failed,
        "freedBytes": freed})))
}
