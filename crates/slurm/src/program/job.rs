//! Follows one job from its files to its results.

use std::time::Duration;

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, Client};
use minik8s_runtime::Recorder;
use tokio::signal::unix::{SignalKind, signal};

use super::output::Output;
use super::source::Package;
use super::{SubmitFlags, keep, pace, report, results};
use crate::decide::{Decision, Step, decide};
use crate::kinds::{GpuJob, GpuJobStatus, Phase, SlurmCluster};
use crate::remote::{Failure, Place, Remote};
use crate::script;
use crate::seen::Seen;

pub struct Follower {
    client: Client,
    recorder: Recorder,
    api: Api<GpuJob>,
    name: String,
    flags: SubmitFlags,
    cluster: SlurmCluster,
    remote: Remote,
    package: Option<Package>,
    output: Output,
    /// This process has printed all of the output.
    has_printed: bool,
    /// Rounds since something last changed, for the pauses between them.
    looks: u32,
    /// Looks in a row that Slurm answered and that led to the same decision.
    sure: u32,
    last: Option<(Step, Option<String>)>,
}

/// How a round ended.
enum Round {
    /// Something was done: what it has changed is seen at once.
    Now,
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
        remote: Remote,
    ) -> Self {
        let api = Api::namespaced(client.clone(), namespace);
        Follower {
            recorder: Recorder::start(client.clone()),
            client,
            api,
            name,
            flags,
            cluster,
            remote,
            package: None,
            output: Output::default(),
            has_printed: false,
            looks: 0,
            sure: 0,
            last: None,
        }
    }

    pub async fn run(mut self) -> anyhow::Result<()> {
        let ended = self.rounds().await;
        self.recorder.flush().await;
        ended
    }

    async fn rounds(&mut self) -> anyhow::Result<()> {
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
            match self.round(&job).await? {
                Round::Now => continue,
                Round::Again => {}
                Round::Over => return Ok(()),
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
            self.print_again(job, &old).await;
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
                    let refused = matches!(failure, Failure::Refused(_));
                    let reason = if refused { "SubmissionRefused" } else { "ClusterTrouble" };
                    let status = GpuJobStatus {
                        reason: Some(reason.to_owned()),
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
        let place = Place::of(job, &self.cluster, &digest);
        let seen = self.remote.look(&place).await?;
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
            report::tell(&self.recorder, job, &status);
        }
        report::write(&self.api, job, &status).await.context("cannot write the status")?;
        let job = GpuJob { status: Some(status.clone()), ..job.clone() };
        match decision.step {
            Step::Upload => {
                if let Some(package) = &self.package {
                    self.remote.upload(&place, package).await?;
                }
            }
            Step::Build => self.remote.build(&place).await?,
            Step::Submit => {
                self.remote.submit(&place, &job, &self.cluster, self.package.as_ref()).await?;
            }
            Step::Cancel => self.remote.cancel(&place).await?,
            Step::Wait => self.follow(&job, &place.directory, &decision).await?,
            Step::Retry => {
                let status = GpuJobStatus { attempt: status.attempt + 1, slurm_id: None, ..status };
                report::write(&self.api, &job, &status).await.context("cannot write the status")?;
                self.looks = 0;
            }
            Step::Finish => return self.finish(&job, &place.directory, &decision, &seen, status).await,
        }
        // What was just done has changed something, unless it was done before.
        if matches!(decision.step, Step::Upload | Step::Build | Step::Submit) {
            self.looks = 0;
            return Ok(if self.sure == 0 { Round::Now } else { Round::Again });
        }
        Ok(Round::Again)
    }

    async fn follow(&mut self, job: &GpuJob, dir: &str, decision: &Decision) -> Result<(), Failure> {
        let Some(ssh) = self.remote.files().filter(|_| decision.phase == Phase::Running) else {
            return Ok(());
        };
        if self.output.follow(ssh, dir, &outputs(job, decision)).await? {
            self.looks = self.looks.min(4);
        }
        Ok(())
    }

    /// Whoever was killed after it had told the end has taken its log along. A log is no reason to stay, so trouble is
    /// passed over: what was brought back is there in any case.
    async fn print_again(&mut self, job: &GpuJob, status: &GpuJobStatus) {
        if std::mem::replace(&mut self.has_printed, true) || status.cleaned {
            return;
        }
        let place = Place::of(job, &self.cluster, "");
        match self.remote.files() {
            Some(ssh) => {
                let files = script::outputs_of(job, status);
                drop(self.output.follow(ssh, &place.directory, &files).await);
            }
            None => {
                if let Ok(seen) = self.remote.look(&place).await {
                    Output::print(seen.output_tail.as_bytes());
                }
            }
        }
    }

    /// Brings back what there is, tells the end, and leaves nothing on the cluster. In this order: whoever is killed in
    /// between does it again.
    async fn finish(
        &mut self,
        job: &GpuJob,
        dir: &str,
        decision: &Decision,
        seen: &Seen,
        mut status: GpuJobStatus,
    ) -> anyhow::Result<Round> {
        let mut phase = decision.phase;
        Output::print(seen.output_tail.as_bytes());
        let is_wanted = job.metadata.deletion_timestamp.is_none() && !decision.tasks.is_empty();
        if let Some(ssh) = self.remote.files().filter(|_| is_wanted) {
            let outputs = outputs(job, decision);
            self.output.follow(ssh, dir, &outputs).await?;
            let fetched = results::fetch(ssh, dir, &job.spec.results.files, &outputs).await?;
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
        self.has_printed = true;
        let status = report::ended(status, phase, Timestamp::now());
        self.end(job, status).await
    }

    async fn fail(&mut self, job: &GpuJob, status: GpuJobStatus) -> anyhow::Result<Round> {
        self.end(job, report::ended(status, Phase::Failed, Timestamp::now())).await
    }

    async fn end(&mut self, job: &GpuJob, status: GpuJobStatus) -> anyhow::Result<Round> {
        report::write(&self.api, job, &status).await.context("cannot write the status")?;
        report::tell(&self.recorder, job, &status);
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
        let cleaned = self.remote.clean(&Place::of(job, &self.cluster, "")).await;
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
