//! Volumes that are images: pulled as their policy says when the pod starts, and not again.

use std::collections::BTreeMap;

use super::operation::{Operation, OperationError, Result};
use crate::function_code;
use crate::image::ViewMount;
use crate::image_pull;
use crate::volume::PodVolumes;

impl Operation {
    /// What to mount for the pod's image volumes; those that are mounted already need nothing.
    pub(super) async fn image_views(&self) -> Result<BTreeMap<String, Vec<ViewMount>>> {
        let mut views = BTreeMap::new();
        let failed = |e: String| OperationError::new("FailedMount", e);
        let volumes = PodVolumes::new(&self.context.node.config, &self.desired_pod);
        for (volume, source) in volumes.missing_images().map_err(|e| failed(e.to_string()))? {
            let reference = source.reference.as_deref().unwrap_or_default();
            let code = function_code::mounts(
                &self.context.node.config,
                &self.context.client,
                &self.desired_pod.pod.metadata,
                reference,
            )
            .await;
            if let Some(code) = code {
                views.insert(volume.to_owned(), code);
                continue;
            }
            let wanted = image_pull::Wanted {
                image: reference,
                policy: source.pull_policy.as_deref(),
                container: None,
            };
            let image = image_pull::ensure(&self.context, &self.desired_pod, wanted).await?;
            let view = self.context.node.runtime.view_image(&image, &self.desired_pod.uid, volume).await;
            views.insert(volume.to_owned(), view.map_err(|e| failed(e.to_string()))?);
        }
        Ok(views)
    }
}
