//! Makes a file system as large as its volume has become, while a pod uses it.

use minik8s_csi::{CapacityRange, node};

use super::publication::secrets;
use super::record::{Kept, staging_dir};
use super::{CsiError, Publication, Registered, requests};
use crate::quantity;

/// Only where the claim still waits for the node. A driver that cannot grow volumes on nodes has nothing to do here.
pub async fn expand(
    wanted: &Publication<'_>,
    registered: &Registered,
    published: &Kept,
) -> Result<(), CsiError> {
    let Publication { context, volume, claim, .. } = wanted;
    let spec = volume.spec.clone().unwrap_or_default();
    let size = spec.capacity.as_ref().and_then(|all| quantity::value(&all.get("storage")?.0)).unwrap_or(0);
    let told = claim.status.as_ref().and_then(|status| status.capacity.as_ref()?.get("storage"));
    let told = told.and_then(|size| quantity::value(&size.0)).unwrap_or(0);
    if size <= told || !registered.can.has(node::Can::ExpandVolume) {
        return Ok(());
    }
    let source = spec.csi.unwrap_or_default();
    let staged = Kept {
        dir: staging_dir(&context.node.config, &source.driver, &source.volume_handle),
        record: published.record.clone(),
    };
    let staging = match registered.can.has(node::Can::StageUnstageVolume) {
        true => staged.staging().to_string_lossy().into_owned(),
        false => String::new(),
    };
    let call = node::ExpandVolume {
        volume_id: source.volume_handle,
        volume_path: published.target().to_string_lossy().into_owned(),
        capacity_range: Some(CapacityRange::at_least(size)),
        staging_target_path: staging,
        volume_capability: Some(requests::capability(volume, &registered.can, wanted.user.group)),
        secrets: secrets(context, source.node_expand_secret_ref.as_ref()).await?,
    };
    registered.driver.call(&call).await.map(drop).map_err(CsiError::from)
}
