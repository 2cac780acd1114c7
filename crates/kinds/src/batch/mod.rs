//! The batch group: pods that run to completion.

pub(super) mod cron_job;
pub(super) mod job;
