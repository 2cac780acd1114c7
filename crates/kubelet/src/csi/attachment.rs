//! Volumes that must be attached to the node before they are used, and the server's word that they are.
//!
//! The agent says first that a volume is in use, and looks then whether it is attached; the server takes a volume from its
//! list only if it is not in use, in a write that fails if the agent has written meanwhile. So no volume is detached under
//! a pod, whoever is late.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use kube::api::{Patch, PatchParams};
use minik8s_csi::{Pairs, attachment_name};
use minik8s_informer::Lenient;
use serde_json::json;
use tokio::time::Instant;

use super::CsiError;
use super::record::{self, Record};
use crate::context::VolumeContext;

/// Then the pod says what it waits for, and asks again.
const TIMEOUT: Duration = Duration::from_secs(15);
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Waits until a volume that is recorded as in use is attached; gives what the attachment says to the driver.
pub async fn wait(context: &VolumeContext, volume: &Record) -> Result<Pairs, CsiError> {
    tell_in_use(context).await?;
    let nodes: Api<Lenient<Node>> = Api::all(context.client.clone());
    let begun = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let node = nodes.get(&context.node.config.node_name).await?.into_inner();
        let is_attached = has_attached(&node, &volume.unique_name());
        let is_late = begun.elapsed() > TIMEOUT;
        // Before the server has said so, the attachment only tells why not.
        if is_attached || is_late {
            match attachment(context, volume).await? {
                Ok(metadata) if is_attached => return Ok(metadata),
                found if is_late => {
                    let why = found.err().unwrap_or_else(|| "the server is about to say so".to_owned());
                    return Err(CsiError::NotAttached(volume.volume.clone(), why));
                }
                _ => {}
            }
        }
        tokio::time::sleep(pause).await;
        // Attaching takes a tenth of a second where nothing has to be moved: a pause that doubles would wait as long again.
        pause = (pause * 5 / 4).min(LONGEST_PAUSE);
    }
}

fn has_attached(node: &Node, unique_name: &str) -> bool {
    let attached = node.status.iter().flat_map(|status| status.volumes_attached.iter().flatten());
    attached.into_iter().any(|volume| volume.name == unique_name)
}

/// What the attachment says, or why there is none.
async fn attachment(context: &VolumeContext, volume: &Record) -> Result<Result<Pairs, String>, kube::Error> {
    let name = attachment_name(&volume.driver, &volume.handle, &context.node.config.node_name);
    let attachments: Api<Lenient<VolumeAttachment>> = Api::all(context.client.clone());
    let found = match attachments.get_opt(&name).await {
        // A node may not look for what is not there.
        Err(kube::Error::Api(status)) if status.code == 403 => None,
        other => other?.map(Lenient::into_inner),
    };
    let Some(found) = found else { return Ok(Err(format!("volumeattachment {name} is not there"))) };
    if found.metadata.deletion_timestamp.is_some() {
        return Ok(Err(format!("volumeattachment {name} is being deleted")));
    }
    let status = found.status.unwrap_or_default();
    if !status.attached {
        let error = status.attach_error.and_then(|error| error.message);
        let attacher = format!("the attacher of {} has not answered yet", volume.driver);
        return Ok(Err(error.unwrap_or(attacher)));
    }
    Ok(Ok(status.attachment_metadata.unwrap_or_default().into_iter().collect()))
}

/// Tells which volumes must not be detached, if that is news.
pub async fn tell_in_use(context: &VolumeContext) -> Result<(), CsiError> {
    let _alone = context.csi.telling_in_use.lock().await;
    let names = record::in_use(&context.node.config)?;
    let told = context.csi.told_in_use.lock().clone();
    if told.as_ref() == Some(&names) {
        return Ok(());
    }
    let nodes: Api<Lenient<Node>> = Api::all(context.client.clone());
    // An agent of before may have said more, or nothing at all; later nobody but we says it.
    if told.is_none() {
        let Some(node) = nodes.get_opt(&context.node.config.node_name).await? else {
            // It is about to be registered.
            return Ok(());
        };
        let status = node.into_inner().status.unwrap_or_default();
        if status.volumes_in_use.unwrap_or_default() == names {
            *context.csi.told_in_use.lock() = Some(names);
            return Ok(());
        }
    }
    let patch = json!({"status": {"volumesInUse": names}});
    nodes.patch_status(&context.node.config.node_name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    *context.csi.told_in_use.lock() = Some(names);
    Ok(())
}
