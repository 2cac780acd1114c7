//! What nodes and pods use: collected from the nodes, served as `metrics.k8s.io`.

use std::sync::Arc;

use minik8s_api::Extension;
use minik8s_feature::{Parts, ServerFeature};
use minik8s_metrics::History;

use crate::resource_metrics::{self, Wants};

#[derive(Default)]
pub struct ResourceMetrics {
    pub history: Arc<History>,
    /// Pods' own metrics that somebody goes by.
    pub wants: Arc<Wants>,
}

impl ServerFeature for ResourceMetrics {
    fn name(&self) -> &'static str {
        "resource-metrics"
    }

    fn extension(&self) -> Extension {
        Extension { kinds: resource_metrics::resources(&self.history), ..Extension::default() }
    }

    fn start(&self, parts: &mut Parts) {
        let (client, caches, stop) = (parts.client.clone(), parts.caches.clone(), parts.stop.clone());
        parts.task(resource_metrics::run(client, caches, self.history.clone(), self.wants.clone(), stop));
    }
}
