//! Where a job is on its cluster, and what it is known by there.

use jiff::{SignedDuration, Timestamp};

use crate::kinds::{GpuJob, SlurmCluster};

/// One attempt of a job.
#[derive(Debug, Clone)]
pub struct Place {
    /// Of the job's files.
    pub directory: String,
    /// Slurm's name of the job, with its UID: nothing else is the job for sure.
    pub name: String,
    pub comment: String,
    pub attempt: String,
    /// From when Slurm's accounts are searched.
    pub since: String,
    /// Slurm's number, as far as it is known: a hint where to look.
    pub id: Option<i64>,
    /// Of the files that are to be there.
    pub digest: String,
}

impl Place {
    pub fn of(job: &GpuJob, cluster: &SlurmCluster, digest: &str) -> Self {
        Place {
            directory: cluster.directory(job.uid()),
            name: job.slurm_name(job.attempt()),
            comment: format!("minik8s {}/{} {}", job.namespace(), job.name(), job.uid()),
            attempt: job.attempt().to_string(),
            since: since(job),
            id: job.status.as_ref().and_then(|status| status.slurm_id),
            digest: digest.to_owned(),
        }
    }
}

/// Clocks and time zones differ by less than a day.
fn since(job: &GpuJob) -> String {
    let created = job.metadata.creation_timestamp.as_ref().map_or_else(Timestamp::now, |time| time.0);
    let day_before = created.checked_sub(SignedDuration::from_hours(24)).unwrap_or(created);
    day_before.strftime("%Y-%m-%d").to_string()
}
