//! The two kinds of this feature: `SlurmCluster`, a login node and how to get in, and `GPUJob`, a program to run there.

mod gpu_job;
mod job_resource;
mod job_status;
mod job_validation;
mod slurm_cluster;
mod slurm_options;
mod slurmrestd;

pub use gpu_job::{GpuJob, GpuJobSpec};
pub use job_resource::gpu_jobs;
pub use job_status::{Accounting, GpuJobStatus, Phase, ResultFile, TaskStatus};
pub use job_validation::path_problem;
pub use slurm_cluster::{
    Gpus, PartitionStatus, SlurmCluster, SlurmClusterSpec, SlurmClusterStatus, host_key, slurm_clusters,
};
pub use slurm_options::SlurmOptions;
