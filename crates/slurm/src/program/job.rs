//! Follows one job from its files to its results.

use std::time::Duration;

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, Client};
use tokio::signal::unix::{SignalKind, signal};

use super::output::Output;
use super::source::Package;
use super::{SubmitFlags, keep, pace, report, results};
use crate::decide::{Decision, Step, decide};
use crate::kinds::{GpuJob, GpuJobStatus, Phase, SlurmCluster};
use crate::remote::{BUILD, CANCEL, CLEAN, Failure, LOOK, SUBMIT, Ssh, UPLOAD};
use crate::script;
use crate::seen::Seen;

/// Slurm's own programs get 20 s each there.
const LOOK_LIMIT: Duration = Duration::from_secs(75);
const UPLOAD_LIMIT: Duration = Duration::from_secs(1800);
const BUILD_SECONDS: u32 = 1800;
const SUBMIT_LIMIT: Duration = Duration::from_secs(140);

pub struct Follower {
    client: Client,
    api: Api<GpuJob>,
    name: String,
    flags: SubmitFlags,
    cluster: SlurmCluster,
    ssh: Ssh,
    package: Option<Package>,
    output: Output,
    /// Rounds since something last changed, for the pauses between them.
    looks: u32,
    /// Looks in a row that Slurm answered and that led to the same decision.
    sure: u32,
    last: Option<(Step, Option<String>)>,
}

/// How a round ended.
enum Round {
    Again,
    Over,
}

impl Follower {
    pub fn new(
        client: Client,
        namespace: &str,
        flags: SubmitFlags,
        name: String,
        cluster: SlurmCluster,
        ssh: Ssh,
    ) -> Self {
        let api = Api::namespaced(client.clone(), namespace);
        Follower {
            client,
            api,
            name,
            flags,
            cluster,
            ssh,
            package: None,
            output: Output::default(),
            looks: 0,
            sure: 0,
            last: None,
        }
    }

    pub async fn run(mut self) -> anyhow::Result<()> {
        let mut stop = signal(SignalKind::terminate())?;
        let mut stopping = false;
        let mut uid = None;
        loop {
            let Some(job) = self.api.get_opt(&self.name).await.context("cannot read the GPUJob")? else {
                return Ok(());
            };
            // Another job of the same name has a pod of its own.
            if *uid.get_or_insert(job.metadata.uid.clone()) != job.metadata.uid {
                return Ok(());
            }
            // Asked to end, it stays only for what nobody else could do any more: to clean up behind a deleted job.
            if stopping && job.metadata.deletion_timestamp.is_none() {
                return Ok(());
            }
            if let Round::Over = self.round(&job).await? {
                return Ok(());
            }
            let pause = if stopping { Duration::from_millis(500) } else { pace::pause(self.looks) };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.unwanted(&job) => self.looks = 0,
                _ = stop.recv(), if !stopping => stopping = true,
            }
        }
    }

    /// One look and what it leads to. Trouble with the cluster is told and passes; trouble with the API ends the process,
    /// which is started anew.
    async fn round(&mut self, job: &GpuJob) -> anyhow::Result<Round> {
        let old = job.status.clone().unwrap_or_default();
        if old.phase.is_over() {
            return self.clean(job, old).await;
        }
        match self.look_and_act(job, &old).await {
            Ok(round) => Ok(round),
            Err(error) => match error.downcast_ref::<Failure>() {
                Some(failure) if failure.is_passing() => {
                    self.unreachable(job, old, &failure.to_string()).await?;
                    Ok(Round::Again)
                }
                Some(failure) => {
                    let status = GpuJobStatus {
                        reason: Some("ClusterTrouble".to_owned()),
                        message: Some(failure.to_string()),
                        ..old
                    };
                    self.fail(job, status).await
                }
                None => Err(error),
            },
        }
    }

    async fn look_and_act(&mut self, job: &GpuJob, old: &GpuJobStatus) -> anyhow::Result<Round> {
        if self.package.is_none() && !job.is_unwanted() {
            match Package::make(job, &self.cluster, &self.flags) {
                Ok(package) => self.package = Some(package),
                Err(error) => {
                    let (reason, message) = ("NoSource".to_owned(), format!("{error:#}"));
                    let status = GpuJobStatus { reason: Some(reason), message: Some(message), ..old.clone() };
                    return self.fail(job, status).await;
                }
            }
        }
        let digest = self.package.as_ref().map(|package| package.digest.clone()).unwrap_or_default();
        let dir = self.cluster.directory(job.uid());
        let name = job.slurm_name(job.attempt());
        let attempt = job.attempt().to_string();
        let since = since(job);
        let text = self.ssh.run(LOOK, &[&dir, &name, &attempt, &since], LOOK_LIMIT).await?;
        let seen = Seen::read(&String::from_utf8_lossy(&text));
        if seen.queue.is_err() {
            self.sure = 0;
        }
        let decision = decide(job, &digest, &seen, self.sure);
        let told = Some((decision.step.clone(), decision.reason.clone()));
        self.sure = if self.last == told { self.sure.saturating_add(1) } else { 0 };
        self.last = told;
        let mut status = report::status(old, &decision, &seen, Timestamp::now());
        status.cluster = self.cluster.metadata.name.clone();
        self.looks = if status == *old { self.looks.saturating_add(1) } else { self.looks.min(1) };
        if status.phase != old.phase {
            self.looks = 0;
            report::tell(&self.client, job, &status, Timestamp::now()).await;
        }
        report::write(&self.api, job, &status).await.context("cannot write the status")?;
        let job = GpuJob { status: Some(status.clone()), ..job.clone() };
        match decision.step {
            Step::Upload => self.upload(&dir, &digest).await?,
            Step::Build => {
                let limit = Duration::from_secs(u64::from(BUILD_SECONDS) + 30);
                self.ssh.run(BUILD, &[&dir, &BUILD_SECONDS.to_string()], limit).await?;
            }
            Step::Submit => {
                let comment = format!("minik8s {}/{} {}", job.namespace(), job.name(), job.uid());
                self.ssh.run(SUBMIT, &[&dir, &name, &attempt, &comment, &since], SUBMIT_LIMIT).await?;
            }
            Step::Cancel => drop(self.ssh.run(CANCEL, &[&name], LOOK_LIMIT).await?),
            Step::Wait => self.follow(&job, &dir, &decision).await?,
            Step::Retry => {
                let status = GpuJobStatus { attempt: status.attempt + 1, slurm_id: None, ..status };
                report::write(&self.api, &job, &status).await.context("cannot write the status")?;
                self.looks = 0;
            }
            Step::Finish => return self.finish(&job, &dir, &decision, status).await,
        }
        // What was just done has changed something: look at once.
        if matches!(decision.step, Step::Upload | Step::Build | Step::Submit) {
            self.looks = 0;
        }
        Ok(Round::Again)
    }

    async fn upload(&self, dir: &str, digest: &str) -> anyhow::Result<()> {
        let Some(package) = &self.package else { return Ok(()) };
        match self.ssh.run_with(UPLOAD, &[dir, digest], package.reader()?, UPLOAD_LIMIT).await {
            // Cut off, or the disk there is full: the words say which, and the next round tries again.
            Err(Failure::Ended { said, .. }) => {
                Err(Failure::Unreachable(format!("the files did not arrive whole: {said}")).into())
            }
            other => Ok(other.map(drop)?),
        }
    }

    async fn follow(&mut self, job: &GpuJob, dir: &str, decision: &Decision) -> Result<(), Failure> {
        if decision.phase == Phase::Running
            && self.output.follow(&self.ssh, dir, &outputs(job, decision)).await?
        {
            self.looks = self.looks.min(4);
        }
        Ok(())
    }

    /// Brings back what there is, tells the end, and leaves nothing on the cluster. In this order: whoever is killed in
    /// between does it again.
    async fn finish(
        &mut self,
        job: &GpuJob,
        dir: &str,
        decision: &Decision,
        mut status: GpuJobStatus,
    ) -> anyhow::Result<Round> {
        let mut phase = decision.phase;
        if job.metadata.deletion_timestamp.is_none() && !decision.tasks.is_empty() {
            let outputs = outputs(job, decision);
            self.output.follow(&self.ssh, dir, &outputs).await?;
            let fetched = results::fetch(&self.ssh, dir, &job.spec.results.files, &outputs).await?;
            let unmatched = fetched.unmatched;
            status.results = match &self.flags.results {
                Some(claim) => keep::in_claim(claim, job, fetched.files)?,
                None => keep::with_job(&self.client, job, fetched.files).await?,
            };
            let lost: Vec<&str> = status
                .results
                .iter()
                .filter(|file| file.problem.is_some())
                .map(|file| file.name.as_str())
                .collect();
            let problem = match (lost.is_empty(), unmatched.is_empty()) {
                (false, _) => Some(format!("results that could not be brought back: {}", lost.join(", "))),
                (true, false) => Some(format!("no file matches the results {}", unmatched.join(", "))),
                (true, true) => None,
            };
            // A program that succeeded without its results has not.
            if let Some(problem) = problem.filter(|_| phase == Phase::Completed) {
                phase = Phase::Failed;
                status.reason = Some("ResultsMissing".to_owned());
                status.message = Some(problem);
            }
        }
        let status = report::ended(status, phase, Timestamp::now());
        self.end(job, status).await
    }

    async fn fail(&mut self, job: &GpuJob, status: GpuJobStatus) -> anyhow::Result<Round> {
        self.end(job, report::ended(status, Phase::Failed, Timestamp::now())).await
    }

    async fn end(&mut self, job: &GpuJob, status: GpuJobStatus) -> anyhow::Result<Round> {
        report::write(&self.api, job, &status).await.context("cannot write the status")?;
        report::tell(&self.client, job, &status, Timestamp::now()).await;
        self.looks = 0;
        let job = GpuJob { status: Some(status.clone()), ..job.clone() };
        self.clean(&job, status).await
    }

    async fn clean(&mut self, job: &GpuJob, status: GpuJobStatus) -> anyhow::Result<Round> {
        if status.cleaned {
            return Ok(Round::Over);
        }
        if job.uid().is_empty() {
            bail!("the GPUJob has no UID");
        }
        let dir = self.cluster.directory(job.uid());
        // Nothing of it may still run there: an end that was seen too early, or a task that was requeued.
        let stopped = self.ssh.run(CANCEL, &[&job.slurm_name(job.attempt())], LOOK_LIMIT).await;
        let cleaned = match stopped {
            // Where there is no scancel there is no job.
            Ok(_) | Err(Failure::Ended { code: 127, .. }) => self.ssh.run(CLEAN, &[&dir], LOOK_LIMIT).await,
            failed => failed,
        };
        match cleaned {
            Ok(_) => {
                let status = GpuJobStatus { cleaned: true, unreachable_since: None, ..status };
                report::write(&self.api, job, &status).await.context("cannot write the status")?;
                Ok(Round::Over)
            }
            Err(failure) => {
                self.unreachable(job, status, &failure.to_string()).await?;
                Ok(Round::Again)
            }
        }
    }

    /// Nothing is known and nothing is done again; it catches up when the cluster answers.
    async fn unreachable(&mut self, job: &GpuJob, old: GpuJobStatus, why: &str) -> anyhow::Result<()> {
        self.looks = self.looks.saturating_add(1).max(4);
        (self.sure, self.last) = (0, None);
        tracing::warn!(job = job.name(), cause = why, "the cluster cannot be reached");
        let since = old.unreachable_since.clone().unwrap_or(Time(Timestamp::now()));
        let status = GpuJobStatus { unreachable_since: Some(since), message: Some(why.to_owned()), ..old };
        report::write(&self.api, job, &status).await.context("cannot write the status")
    }

    /// Until somebody cancels or deletes the job; for ever if it is already so.
    async fn unwanted(&self, job: &GpuJob) {
        if job.is_unwanted() {
            return std::future::pending().await;
        }
        let params = WatchParams::default().fields(&format!("metadata.name={}", self.name));
        let version = job.metadata.resource_version.as_deref().unwrap_or("0");
        let Ok(watch) = self.api.watch(&params, version).await else { return std::future::pending().await };
        let mut watch = watch.boxed();
        while let Ok(Some(event)) = watch.try_next().await {
            match event {
                WatchEvent::Modified(job) if job.is_unwanted() => return,
                WatchEvent::Deleted(_) => return,
                _ => {}
            }
        }
        std::future::pending().await
    }
}

fn outputs(job: &GpuJob, decision: &Decision) -> Vec<String> {
    let tasks: Vec<i64> = decision.tasks.iter().filter_map(|task| task.id.index).collect();
    match decision.tasks.first() {
        Some(first) => script::output_files(job, first.id.job, &tasks),
        None => Vec::new(),
    }
}

/// From when Slurm's accounts are searched: clocks and time zones differ by less than a day.
fn since(job: &GpuJob) -> String {
    let created = job.metadata.creation_timestamp.as_ref().map_or_else(Timestamp::now, |time| time.0);
    let day_before = created.checked_sub(SignedDuration::from_hours(24)).unwrap_or(created);
    day_before.strftime("%Y-%m-%d").to_string()
}
