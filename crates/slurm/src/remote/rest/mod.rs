//! Slurm's REST daemon (API v0.0.38). It submits jobs, tells of them and ends them, and carries no files: sources go inside
//! the job's script, which compiles them where the job runs, and the end of the output comes back in the job's comment.
//!
//! Nobody holds a lock there, so jobs are `singleton`: of two with one name the second waits for the first, and is taken from
//! the queue when it is seen. The token is a header, never an argument or a part of an address.

mod answer;
mod description;
mod look;
mod probe;
mod script;

use std::path::Path;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Request};
use kube::client::Body;
use minik8s_meta::error_chain;
use serde_json::Value;

use super::{Failure, Place};
use crate::decide::is_terminal;
use crate::kinds::{GpuJob, SlurmCluster, SlurmClusterSpec};
use crate::program::Package;
use crate::seen::Seen;

const LIMIT: Duration = Duration::from_secs(30);
/// Slurm's word for an id that it does not know, and for a job that has ended.
const NO_SUCH_JOB: i64 = 2017;
const ALREADY_DONE: i64 = 2021;
/// The daemon's own, for accounts that match nothing.
const NOTHING_FOUND: i64 = 9003;

pub struct Rest {
    client: kube::Client,
    user: String,
}

impl Rest {
    /// `secret` is the mounted Secret, `state` a directory that nobody else can read.
    pub fn new(spec: &SlurmClusterSpec, secret: &Path, state: &Path) -> Result<Self, String> {
        let daemon = spec.slurmrestd.clone().unwrap_or_default();
        let token = std::fs::read_to_string(secret.join("token"))
            .map_err(|_| "the Secret has no token: put one of `scontrol token` there".to_owned())?;
        let url = daemon.url.parse().map_err(|error| format!("spec.slurmrestd.url: {error}"))?;
        let is_plain = daemon.url.starts_with("http://");
        let mut config = kube::Config::new(url);
        // Only who is named is trusted. Without this, the machine's own list has to be there even if nobody reads it.
        if is_plain || daemon.certificate_authority.is_some() {
            config.root_cert = Some(Vec::new());
        }
        if let Some(authority) = &daemon.certificate_authority {
            let file = state.join("authority.pem");
            std::fs::write(&file, authority).map_err(|error| format!("{}: {error}", file.display()))?;
            config.root_cert_file = Some(file);
        }
        (config.connect_timeout, config.read_timeout) = (Some(Duration::from_secs(10)), Some(LIMIT));
        // A submission that nobody answered may have gone well: only a look can tell.
        config.default_retry = false;
        let mut token = HeaderValue::from_str(token.trim()).map_err(|_| "the token is no JWT".to_owned())?;
        token.set_sensitive(true);
        let user = HeaderValue::from_str(&spec.user).map_err(|error| format!("spec.user: {error}"))?;
        config.headers = vec![
            (HeaderName::from_static("x-slurm-user-name"), user),
            (HeaderName::from_static("x-slurm-user-token"), token),
        ];
        let client = kube::Client::try_from(config).map_err(|error| format!("spec.slurmrestd: {error}"))?;
        Ok(Rest { client, user: spec.user.clone() })
    }

    pub async fn look(&self, place: &Place) -> Result<Seen, Failure> {
        let jobs = self.jobs(place).await?;
        let (ours, again) = look::first(jobs);
        for id in again {
            tracing::warn!(job = place.name, id, "submitted twice: the second is taken from the queue");
            self.end(id).await?;
        }
        let has_ended = ours.iter().all(|job| is_terminal(job["job_state"].as_str().unwrap_or_default()));
        let accounts = match has_ended {
            true => self.get(&format!("/slurmdb/v0.0.38/jobs?job_name={}", place.name)).await,
            false => Ok(Value::Null),
        };
        Ok(look::seen(place, &ours, accounts.map_err(|failure| failure.to_string())))
    }

    /// The job's own, whatever their state: by number where that is known, which is used again, so by name in any case.
    async fn jobs(&self, place: &Place) -> Result<Vec<Value>, Failure> {
        let ours = |answer: Value| {
            let jobs = answer["jobs"].as_array().cloned().unwrap_or_default();
            let is_ours = |job: &Value| job["name"] == *place.name && job["user_name"] == *self.user;
            jobs.into_iter().filter(is_ours).collect::<Vec<_>>()
        };
        if let Some(id) = place.id {
            let answer = self.call(Method::GET, &format!("/slurm/v0.0.38/job/{id}"), None).await?;
            match answer::trouble(&answer) {
                Some((NO_SUCH_JOB, _)) => {}
                Some((_, words)) => return Err(self.unreachable(words)),
                None => {
                    let found = ours(answer);
                    if !found.is_empty() {
                        return Ok(found);
                    }
                }
            }
        }
        Ok(ours(self.get("/slurm/v0.0.38/jobs").await?))
    }

    pub async fn submit(
        &self,
        place: &Place,
        job: &GpuJob,
        cluster: &SlurmCluster,
        package: &Package,
    ) -> Result<(), Failure> {
        let script = script::of(place, job, package)?;
        let body = description::of(place, job, cluster, script).map_err(Failure::Refused)?;
        let answer = self.call(Method::POST, "/slurm/v0.0.38/job/submit", Some(body)).await?;
        match answer::trouble(&answer) {
            // Some that it takes come with a warning.
            _ if answer["job_id"].as_i64().is_some_and(|id| id > 0) => Ok(()),
            Some((code, words)) if answer::is_refusal(code) => Err(Failure::Refused(words)),
            Some((_, words)) => Err(self.unreachable(words)),
            None => Err(Failure::Unreachable("slurmrestd does not say what became of the job".to_owned())),
        }
    }

    pub async fn cancel(&self, place: &Place) -> Result<(), Failure> {
        for job in self.jobs(place).await? {
            if !is_terminal(job["job_state"].as_str().unwrap_or_default()) {
                self.end(job["job_id"].as_i64().unwrap_or_default()).await?;
            }
        }
        Ok(())
    }

    async fn end(&self, id: i64) -> Result<(), Failure> {
        // As scancel without a signal: the job's own processes are told first.
        let answer = self.call(Method::DELETE, &format!("/slurm/v0.0.38/job/{id}"), None).await?;
        match answer::trouble(&answer) {
            None | Some((NO_SUCH_JOB | ALREADY_DONE, _)) => Ok(()),
            Some((_, words)) => Err(self.unreachable(words)),
        }
    }

    async fn get(&self, path: &str) -> Result<Value, Failure> {
        let answer = self.call(Method::GET, path, None).await?;
        match answer::trouble(&answer) {
            None | Some((NOTHING_FOUND, _)) => Ok(answer),
            Some((_, words)) => Err(self.unreachable(words)),
        }
    }

    /// Whatever the daemon answers; its troubles are in there.
    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, Failure> {
        let unreachable = |error: &dyn std::error::Error| {
            Failure::Unreachable(format!("slurmrestd: {}", error_chain(error)))
        };
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(Body::from(body)).map_err(|error| unreachable(&error))?;
        let exchange = async {
            let response = self.client.send(request).await?;
            let status = response.status();
            Ok::<_, kube::Error>((status, response.into_body().collect_bytes().await?))
        };
        let answer = tokio::time::timeout(LIMIT, exchange).await.map_err(|_| Failure::TimedOut(LIMIT))?;
        let (status, bytes) = answer.map_err(|error| unreachable(&error))?;
        serde_json::from_slice(&bytes).map_err(|_| {
            let words: String = String::from_utf8_lossy(&bytes).chars().take(200).collect();
            self.unreachable(format!("{status}: {words}"))
        })
    }

    /// The daemon has one answer for a token that is no good and for a controller that is down.
    fn unreachable(&self, words: String) -> Failure {
        Failure::Unreachable(format!(
            "slurmrestd: {words} (is the Secret's token one of the user {}, and still valid?)",
            self.user
        ))
    }
}
