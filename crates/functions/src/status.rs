//! What a function says of itself, and what its pods say of it.

use k8s_openapi::api::core::v1::{ContainerState, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::function::{
    ACTIVE, Function, FunctionFailure, FunctionInstance, FunctionProblem, FunctionShare, FunctionStatus,
    REVISION_READY, TRAFFIC,
};
use minik8s_runtime::{EventRecord, Plan};

use crate::build::{self, Dependencies};
use crate::controller::Observed;
use crate::plan::write_endpoints;
use crate::revision::{CONTAINER, hash_of};

/// Of what an instance wrote before it ended.
const LONGEST_MESSAGE: usize = 2000;
/// The API refuses its instances.
const REFUSED: &str = "Refused";

/// What a plan has decided on.
#[derive(Default)]
pub struct Outcome {
    /// Of the newest revision.
    pub number: i64,
    /// Just now the newest revision has begun to serve.
    pub switched: bool,
    /// What the newest revision depends on is being fetched.
    pub building: bool,
    pub serving: Option<String>,
    pub desired: usize,
    pub live: usize,
    pub instances: Vec<FunctionInstance>,
    pub verdict: Verdict,
    /// The API lets no instance start.
    pub refused: Option<FunctionProblem>,
    /// The part of each revision that gets requests, where there are several.
    pub shares: Vec<FunctionShare>,
    /// Why some revision does not get its part.
    pub unsplit: Vec<String>,
}

/// Why instances do not start, if they do not.
#[derive(Default)]
pub struct Verdict {
    newest: String,
    /// The last start that failed; none once one has succeeded.
    pub failure: Option<FunctionFailure>,
    /// What a pod waits for that has not started.
    waiting: Option<FunctionProblem>,
}

impl Verdict {
    pub fn of(seen: &Observed, newest: &str, dependencies: &Dependencies, now: Timestamp) -> Verdict {
        let known = seen.function.status.as_ref().and_then(|status| status.failure.clone());
        // What was missing has been fetched since.
        let is_built = matches!(dependencies, Dependencies::Ready(_));
        let known = known.filter(|known| known.reason != build::FAILED || !is_built);
        let builds = seen.builds.iter().filter(|pod| seen.owns(pod) && hash_of(&pod.metadata) == newest);
        let there = seen.pods.iter().chain(builds).filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let ended = there.clone().find(|pod| has_ended(pod) || build::failure_of(pod).is_some());
        let recovered = known
            .as_ref()
            .is_some_and(|f| there.clone().any(|pod| is_ready(pod) && hash_of(&pod.metadata) == f.revision));
        let failure = match ended {
            Some(pod) => {
                let revision = hash_of(&pod.metadata).to_owned();
                let before = known.filter(|known| known.revision == revision && !recovered);
                let (reason, message) = termination(pod);
                let count = before.map_or(0, |before| before.count).saturating_add(1);
                Some(FunctionFailure { revision, count, at: Time(now), reason, message })
            }
            None => known.filter(|_| !recovered),
        };
        Verdict { newest: newest.to_owned(), failure, waiting: there.filter_map(|pod| waits_for(pod)).next() }
    }
}

impl Outcome {
    /// For those whose requests cannot be answered.
    pub fn problem(&self) -> Option<FunctionProblem> {
        if self.instances.iter().any(|instance| instance.ready) {
            return None;
        }
        // A newest revision that fails is no reason to refuse what the one before it answers.
        let asked = self.serving.as_ref().unwrap_or(&self.verdict.newest);
        let relevant = |failure: &&FunctionFailure| failure.revision == *asked;
        let failed = self.verdict.failure.as_ref().filter(relevant).map(|failure| FunctionProblem {
            reason: failure.reason.clone(),
            message: failure.message.clone(),
        });
        // What has served is lost once in a while: requests wait for the next one, unless that does not start either.
        let is_certain =
            self.serving.is_none() || self.verdict.failure.as_ref().is_some_and(|one| one.count > 1);
        let failed = failed.filter(|_| self.instances.is_empty() && is_certain);
        failed.or_else(|| self.verdict.waiting.clone()).or_else(|| self.refused.clone())
    }

    fn building_message(&self) -> String {
        let waits = self.verdict.waiting.as_ref();
        let waits = waits.map(|waits| format!("; {}: {}", waits.reason, waits.message)).unwrap_or_default();
        format!("what it depends on is being fetched{waits}")
    }
}

pub fn write(seen: &Observed, outcome: &Outcome, now: Timestamp, plan: &mut Plan) {
    let function = &*seen.function;
    let old = function.status.clone().unwrap_or_default();
    let is_newest = outcome.serving.as_deref() == Some(&*outcome.verdict.newest);
    let failure = outcome.verdict.failure.as_ref();
    let ready = match failure.filter(|failure| failure.revision == outcome.verdict.newest) {
        _ if is_newest => ("True", "Serving", String::new()),
        Some(failure) => ("False", failure.reason.as_str(), failure.message.clone()),
        None if outcome.building => ("Unknown", "Building", outcome.building_message()),
        None => ("Unknown", "Starting", "its first instance has not answered yet".to_owned()),
    };
    let problem = outcome.problem();
    let active = match &problem {
        Some(problem) => ("False", problem.reason.as_str(), problem.message.clone()),
        None => ("True", "Ready", String::new()),
    };
    let told = condition(function, REVISION_READY).is_some_and(|known| known.message == ready.2);
    if ready.0 == "False" && !told {
        plan.event(EventRecord::warning(function, "RevisionFailed", ready.2.clone()));
    }
    let mut conditions = vec![
        told_condition(function, REVISION_READY, ready, now),
        told_condition(function, ACTIVE, active, now),
    ];
    if !function.spec.traffic.is_empty() {
        let split = match outcome.unsplit.as_slice() {
            [] => ("True", "Split", String::new()),
            waits => ("False", "Waiting", waits.join("; ")),
        };
        conditions.push(told_condition(function, TRAFFIC, split, now));
    }
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let status = FunctionStatus {
        observed_generation: function.metadata.generation,
        revision: outcome.number,
        serving_revision: if is_newest { outcome.number } else { old.serving_revision },
        serving: outcome.serving.clone(),
        desired: count(outcome.desired),
        replicas: count(outcome.live),
        ready_replicas: count(outcome.instances.iter().filter(|instance| instance.ready).count()),
        url: Some(seen.url.clone()),
        failure: outcome.verdict.failure.clone(),
        conditions,
    };
    plan.status(function, Function { status: Some(status), ..function.clone() });
}

/// A pod that the API refuses (a quota, Pod Security) is why requests are not answered.
pub fn plan_failure(seen: &Observed, error: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let function = &*seen.function;
    // Each try names another pod: to write that down every time would be a change that leads to the next try.
    let known = condition(function, ACTIVE).filter(|known| known.reason == REFUSED);
    let message = known.map_or(error, |known| known.message.as_str()).to_owned();
    let mut status = function.status.clone().unwrap_or_default();
    status.observed_generation = function.metadata.generation;
    status.conditions.retain(|condition| condition.type_ != ACTIVE);
    status.conditions.push(told_condition(function, ACTIVE, ("False", REFUSED, message.clone()), now));
    plan.status(function, Function { status: Some(status), ..function.clone() });
    let serves = seen.endpoints.as_ref().is_some_and(|endpoints| !endpoints.spec.instances.is_empty());
    if !serves {
        let refused = Some(FunctionProblem { reason: REFUSED.to_owned(), message });
        write_endpoints(seen, &Outcome { refused, ..Outcome::default() }, &mut plan);
    }
    plan
}

pub fn condition<'a>(function: &'a Function, kind: &str) -> Option<&'a Condition> {
    function.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == kind)
}

fn told_condition(
    function: &Function,
    kind: &str,
    (status, reason, message): (&str, &str, String),
    now: Timestamp,
) -> Condition {
    let known = condition(function, kind);
    let generation = function.metadata.generation;
    let same = known.filter(|known| known.status == status);
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: generation,
        last_transition_time: same.map_or(Time(now), |known| known.last_transition_time.clone()),
    }
}

pub fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// A pod that runs and has an address.
pub fn instance(pod: &Pod) -> Option<FunctionInstance> {
    let status = pod.status.as_ref()?;
    let ip = status.pod_ip.clone().filter(|ip| !ip.is_empty())?;
    state(pod)?.running.as_ref()?;
    Some(FunctionInstance {
        pod: pod.metadata.name.clone().unwrap_or_default(),
        ip,
        node: pod.spec.as_ref()?.node_name.clone().unwrap_or_default(),
        ready: is_ready(pod),
        revision: crate::revision::hash_of(&pod.metadata).to_owned(),
    })
}

fn state(pod: &Pod) -> Option<&ContainerState> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let name = if build::key_of(pod).is_some() { build::CONTAINER } else { CONTAINER };
    statuses.iter().find(|status| status.name == name)?.state.as_ref()
}

/// Why a pod ended.
fn termination(pod: &Pod) -> (String, String) {
    let (reason, message) = termination_message(pod);
    match build::key_of(pod) {
        Some(_) => (build::FAILED.to_owned(), build::failure_of(pod).map_or(message, str::to_owned)),
        None => (reason, message),
    }
}

fn termination_message(pod: &Pod) -> (String, String) {
    let terminated = state(pod).and_then(|state| state.terminated.as_ref());
    let own = pod.status.as_ref();
    let reason = terminated.and_then(|end| end.reason.clone()).or_else(|| own?.reason.clone());
    let message = terminated.and_then(|end| end.message.clone()).filter(|message| !message.trim().is_empty());
    let code = terminated.map_or(0, |end| end.exit_code);
    let message = message.or_else(|| own?.message.clone());
    let message =
        message.unwrap_or_else(|| format!("the instance ended with exit code {code} and said nothing"));
    let cut = message.char_indices().rev().nth(LONGEST_MESSAGE).map_or(0, |(at, _)| at);
    (reason.unwrap_or_else(|| "Ended".to_owned()), message[cut..].trim_end().to_owned())
}

/// What a pod waits for that could take for ever: a node, an image.
fn waits_for(pod: &Pod) -> Option<FunctionProblem> {
    let conditions = pod.status.as_ref()?.conditions.iter().flatten();
    let unplaced = conditions.filter(|c| c.type_ == "PodScheduled" && c.status == "False").find_map(|c| {
        Some(FunctionProblem { reason: c.reason.clone()?, message: c.message.clone().unwrap_or_default() })
    });
    unplaced.or_else(|| {
        let waiting = state(pod)?.waiting.as_ref()?;
        let reason = waiting
            .reason
            .clone()
            .filter(|reason| !matches!(reason.as_str(), "ContainerCreating" | "PodInitializing"))?;
        Some(FunctionProblem { reason, message: waiting.message.clone().unwrap_or_default() })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "f-0a-x"}, "status": status})).unwrap()
    }

    fn container(state: Value) -> Value {
        json!({"containerStatuses": [{"name": CONTAINER, "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": state}]})
    }

    #[test]
    fn pod_that_may_wait_for_ever_says_for_what() {
        let check = |status: Value, expected: Option<(&str, &str)>| {
            let found = waits_for(&pod(status.clone()));
            let found = found.as_ref().map(|one| (one.reason.as_str(), one.message.as_str()));
            assert_eq!(found, expected, "{status}");
        };
        let placed = |status: &str| {
            json!({"conditions": [{"type": "PodScheduled", "status": status, "reason": "Unschedulable",
                "message": "0/2 nodes are available: 2 Insufficient memory."}]})
        };
        let told = "0/2 nodes are available: 2 Insufficient memory.";
        check(placed("False"), Some(("Unschedulable", told)));
        check(placed("True"), None);
        let waiting =
            |reason: &str| container(json!({"waiting": {"reason": reason, "message": "no such tag"}}));
        check(waiting("ImagePullBackOff"), Some(("ImagePullBackOff", "no such tag")));
        check(waiting("ErrImagePull"), Some(("ErrImagePull", "no such tag")));
        check(waiting("ContainerCreating"), None);
        check(waiting("PodInitializing"), None);
        check(container(json!({"running": {}})), None);
        check(json!({}), None);
    }

    #[test]
    fn ended_pod_says_its_last_lines() {
        let traceback =
            "Traceback (most recent call last):\n  main.py:1\nModuleNotFoundError: no module named 'x'\n";
        let end = |message: Value| {
            termination(&pod(container(
                json!({"terminated": {"exitCode": 1, "reason": "Error", "message": message}}),
            )))
        };
        assert_eq!(end(json!(traceback)), ("Error".to_owned(), traceback.trim_end().to_owned()));
        let (_, long) = end(json!(format!("{}ends with é", "é".repeat(3 * LONGEST_MESSAGE))));
        assert!(long.chars().count() <= LONGEST_MESSAGE + 1 && long.ends_with("ends with é"));
        assert!(end(json!(" ")).1.contains("exit code 1 and said nothing"));
    }

    /// What callers hear, by how often it failed and whether some revision has served.
    #[test]
    fn problem_is_the_failure_of_the_revision_that_is_asked() {
        let failure = |revision: &str, count: i32| FunctionFailure {
            revision: revision.to_owned(),
            count,
            at: Time(Timestamp::UNIX_EPOCH),
            reason: "Error".to_owned(),
            message: "ImportError: x".to_owned(),
        };
        let outcome = |serving: Option<&str>, failure: Option<FunctionFailure>| Outcome {
            serving: serving.map(str::to_owned),
            verdict: Verdict { newest: "new".to_owned(), failure, waiting: None },
            ..Outcome::default()
        };
        let message = |outcome: &Outcome| outcome.problem().map(|problem| problem.message);
        let import = Some("ImportError: x".to_owned());
        assert_eq!(message(&outcome(None, Some(failure("new", 1)))), import, "its first revision");
        assert_eq!(
            message(&outcome(Some("old"), Some(failure("new", 9)))),
            None,
            "the one before it answers"
        );
        assert_eq!(message(&outcome(Some("new"), Some(failure("new", 1)))), None, "the next may start");
        assert_eq!(message(&outcome(Some("new"), Some(failure("new", 2)))), import);

        let named =
            |reason: &str| Some(FunctionProblem { reason: reason.to_owned(), message: reason.to_owned() });
        let mut waits = outcome(Some("new"), None);
        assert_eq!(message(&waits), None);
        waits.refused = named("exceeded quota");
        assert_eq!(waits.problem(), named("exceeded quota"));
        waits.verdict.waiting = named("Unschedulable");
        assert_eq!(waits.problem(), named("Unschedulable"), "a pod is there");
        waits.instances = vec![FunctionInstance { ready: true, ..FunctionInstance::default() }];
        assert_eq!(waits.problem(), None, "some instance answers");
    }
}
