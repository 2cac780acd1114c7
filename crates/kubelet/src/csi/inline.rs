//! Volumes of drivers that a pod brings along (`csi` among its volumes): published for the pod, and never staged.

use k8s_openapi::api::core::v1 as core;
use minik8s_csi::{Mode, Mount, Pairs, VolumeCapability, digest, node};

use super::publication::{csi_driver, give_tokens, registered, secret};
use super::record::{Kept, Record, published_path};
use super::{CsiError, requests};
use crate::context::VolumeContext;
use crate::pod::DesiredPod;
use crate::storage::fs_group;

/// In names of volumes there is no such sign.
pub fn dir_name(volume: &str) -> String {
    format!("inline~{volume}")
}

pub async fn publish(
    context: &VolumeContext,
    desired_pod: &DesiredPod,
    volume: &core::Volume,
    source: &core::CSIVolumeSource,
    is_start: bool,
) -> Result<(), CsiError> {
    let registered = registered(context, &source.driver)?;
    let driver = csi_driver(context, &source.driver).await?;
    if !requests::offers(driver.as_ref(), "Ephemeral") {
        return Err(CsiError::NoInline(source.driver.clone()));
    }
    let name = dir_name(&volume.name);
    let target = published_path(&context.node.config, &desired_pod.uid, &name);
    let published = Kept {
        dir: target.parent().map(ToOwned::to_owned).unwrap_or_default(),
        record: Record {
            driver: source.driver.clone(),
            handle: format!("csi-{}", digest(&format!("{}{}", desired_pod.uid, volume.name))),
            volume: String::new(),
            is_attached: false,
            is_complete: false,
        },
    };
    let is_there = Record::read(&published.dir)?.is_some_and(|record| record.is_complete);
    let republishes = driver.as_ref().is_some_and(|driver| driver.spec.requires_republish == Some(true));
    if !is_start && is_there && !republishes {
        return Ok(());
    }
    published.record.write(&published.dir)?;
    let mut volume_context: Pairs =
        source.volume_attributes.clone().unwrap_or_default().into_iter().collect();
    volume_context.insert("csi.storage.k8s.io/ephemeral".to_owned(), "true".to_owned());
    if requests::wants_pod_info(driver.as_ref()) {
        volume_context.extend(requests::pod_info(desired_pod, true));
    }
    let mut secrets = match &source.node_publish_secret_ref {
        Some(reference) => secret(context, &desired_pod.namespace, &reference.name).await?,
        None => Pairs::new(),
    };
    give_tokens(context, desired_pod, driver.as_ref(), &mut volume_context, &mut secrets).await?;
    let security = desired_pod.spec().and_then(|spec| spec.security_context.clone()).unwrap_or_default();
    let group = security.fs_group.and_then(|group| u32::try_from(group).ok());
    let mount = Mount {
        fs_type: source.fs_type.clone().unwrap_or_default(),
        mount_flags: Vec::new(),
        volume_mount_group: group
            .filter(|_| registered.can.has(node::Can::VolumeMountGroup))
            .map(|group| group.to_string())
            .unwrap_or_default(),
    };
    let call = node::PublishVolume {
        volume_id: published.record.handle.clone(),
        target_path: target.to_string_lossy().into_owned(),
        volume_capability: Some(VolumeCapability::new(false, mount, Mode::SingleNodeWriter)),
        readonly: source.read_only == Some(true),
        secrets,
        volume_context,
        ..Default::default()
    };
    registered.driver.call(&call).await?;
    let takes = requests::takes_group(
        driver.as_ref(),
        &registered.can,
        source.fs_type.as_deref(),
        &["ReadWriteOnce".to_owned()],
    );
    if let Some(group) = group.filter(|_| takes && source.read_only != Some(true) && !is_there) {
        tokio::task::spawn_blocking(move || fs_group::apply(&target, group, false)).await??;
    }
    Ok(Record::complete(&published.dir)?)
}
