//! `minik8s gpu logs`: a job's output, which is the log of its pod; and when the pod has lost it, what was kept with the job.
//!
//! A pod that is killed starts anew and prints everything again. What was shown before is skipped, by its length.

use std::time::Duration;

use anyhow::bail;
use futures::AsyncReadExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::LogParams;
use kube::{Api, Client};

use super::results::Parts;
use super::{get, write};
use crate::controller::pod_name;
use crate::kinds::GpuJob;
use crate::script;

const PAUSE: Duration = Duration::from_millis(500);

pub async fn run(client: Client, jobs: &Api<GpuJob>, name: &str, follow: bool) -> anyhow::Result<()> {
    let first = get(jobs, name).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), first.namespace());
    let (mut job, mut shown, mut has_log) = (first, 0, false);
    loop {
        // Asked before: what is over then has printed all that it will.
        let is_over = job.status.as_ref().is_some_and(|status| status.phase.is_over());
        has_log |= show(&pods, name, LogParams { follow, ..LogParams::default() }, &mut shown).await?;
        if is_over || !follow {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        let Some(now) = jobs.get_opt(name).await? else { return Ok(()) };
        if now.metadata.uid != job.metadata.uid {
            return Ok(());
        }
        job = now;
    }
    let status = job.status.clone().unwrap_or_default();
    if shown > 0 {
        return Ok(());
    }
    if status.phase.is_over() {
        return lost(client, &pods, &job).await;
    }
    if !has_log {
        let message = status.message.unwrap_or_default();
        bail!("there is no output yet: the job is {:?} {message}", status.phase);
    }
    Ok(())
}

/// The pod was killed after it had told the job's end, or is gone: its log before, or what was brought back.
async fn lost(client: Client, pods: &Api<Pod>, job: &GpuJob) -> anyhow::Result<()> {
    let mut shown = 0;
    show(pods, job.name(), LogParams { previous: true, ..LogParams::default() }, &mut shown).await?;
    let status = job.status.clone().unwrap_or_default();
    if shown > 0 {
        return Ok(());
    }
    let outputs = script::outputs_of(job, &status);
    let is_output = |name: &String| outputs.contains(name);
    let mut kept = status.results.iter().filter(|file| is_output(&file.name) && file.problem.is_none());
    if let Some(claim) = job.spec.results.claim.as_ref().filter(|_| kept.clone().next().is_some()) {
        bail!("the pod has lost the output; it is in the claim {claim}, in the folder {}", job.name());
    }
    let mut parts = Parts::new(Api::<ConfigMap>::namespaced(client, job.namespace()));
    for file in kept.clone() {
        write(&parts.read(file, |_| {}).await?)?;
    }
    // Of a program that did not compile this is all that there is to read.
    if let Some(message) = status.message.filter(|_| kept.next().is_none()) {
        eprintln!("There is no output: the job is {:?}. {message}", status.phase);
    }
    Ok(())
}

/// Prints a log from where it was shown; says whether there is one.
async fn show(pods: &Api<Pod>, job: &str, params: LogParams, shown: &mut u64) -> anyhow::Result<bool> {
    let log = match pods.log_stream(&pod_name(job), &params).await {
        Ok(log) => log,
        Err(kube::Error::Api(error)) if matches!(error.code, 400 | 404) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let (mut log, mut buffer) = (std::pin::pin!(log), vec![0; 1 << 16]);
    let mut skip = *shown;
    loop {
        // A connection that breaks is made again by whoever follows.
        let read = match log.read(&mut buffer).await {
            Err(_) if params.follow => return Ok(true),
            read => read?,
        };
        if read == 0 {
            return Ok(true);
        }
        let known = usize::try_from(skip).unwrap_or(usize::MAX).min(read);
        skip -= known as u64;
        *shown += (read - known) as u64;
        write(&buffer[known..read])?;
    }
}
