//! GPU jobs as a feature of the control plane.

use minik8s_api::Extension;
use minik8s_feature::{Parts, ServerFeature};

use crate::controller::{Jobs, Probes};
use crate::kinds;

pub struct GpuJobs;

impl ServerFeature for GpuJobs {
    fn name(&self) -> &'static str {
        "gpu-jobs"
    }

    fn extension(&self) -> Extension {
        Extension { kinds: vec![kinds::gpu_jobs(), kinds::slurm_clusters()], ..Extension::default() }
    }

    fn start(&self, parts: &mut Parts) {
        parts.controller(Jobs);
        parts.controller(Probes);
    }
}
