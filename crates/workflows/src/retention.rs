//! Which finished runs go: too many of a workflow, too old, or too much history in all. Deleting a run deletes its
//! history in the same commit. It never touches a run that is not over, nor one that ended just now.

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_runtime::{Action, Caches, Controller, Key, Plan, Watches, key_of};

use crate::kinds::{History, Phase, Workflow, WorkflowRun};

/// Runs of one workflow that are kept, of each sort, and how long.
const KEPT: i64 = 100;
const TTL_SECONDS: i64 = 7 * 24 * 3600;
/// History of all runs together.
const MOST_BYTES: i64 = 256 * 1024 * 1024;
/// Who has waited for a run can still read how it ended.
const GRACE: SignedDuration = SignedDuration::from_secs(60);

pub struct Retention;

/// The runs of a workflow, or all history.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    Workflow(Key),
    Everything,
}

pub struct Observed {
    runs: Vec<Arc<WorkflowRun>>,
    /// None for the bound on all history.
    limits: Option<History>,
}

impl Controller for Retention {
    type Key = Subject;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "workflow-retention"
    }

    fn watch(&self, watches: &Watches<Subject>) {
        watches.on_change::<WorkflowRun>(|old, new| {
            let Some(run) = new.filter(|run| run.is_over()) else { return Vec::new() };
            if old.is_some_and(WorkflowRun::is_over) {
                return Vec::new();
            }
            let key = Key::new(key_of(run).namespace, run.spec.workflow.as_str());
            vec![Subject::Workflow(key), Subject::Everything]
        });
        watches.on::<Workflow>(|_, workflow| vec![Subject::Workflow(key_of(workflow))]);
    }

    fn observe(&self, caches: &Caches, subject: &Subject) -> Option<Observed> {
        let cache = caches.of::<WorkflowRun>();
        let (mut runs, limits) = match subject {
            Subject::Workflow(key) => {
                let workflow = caches.of::<Workflow>().get(key);
                let limits = workflow.and_then(|workflow| workflow.spec.history.clone()).unwrap_or_default();
                let mut runs = cache.in_namespace(&key.namespace);
                runs.retain(|run| run.spec.workflow == key.name);
                (runs, Some(limits))
            }
            Subject::Everything => (cache.list(), None),
        };
        let is_of_a_run = |run: &WorkflowRun| {
            // One whose result another run awaits, or has just got, goes with that run.
            let mut owners = run.metadata.owner_references.iter().flatten();
            let owner = owners.find(|owner| owner.kind == "WorkflowRun")?;
            cache.get(&Key::new(key_of(run).namespace, owner.name.as_str()))
        };
        runs.retain(|run| run.is_settled() && run.metadata.deletion_timestamp.is_none());
        runs.retain(|run| match is_of_a_run(run) {
            None => true,
            Some(owner) => limits.is_none() && owner.is_settled(),
        });
        Some(Observed { runs, limits })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let mut newest_first: Vec<&Arc<WorkflowRun>> = seen.runs.iter().collect();
        newest_first.sort_by_key(|run| std::cmp::Reverse(ended(run)));
        let surplus: Vec<&Arc<WorkflowRun>> = match &seen.limits {
            Some(limits) => beyond(&newest_first, limits, now, &mut plan),
            None => too_much(&newest_first),
        };
        for run in surplus {
            let end = ended(run).unwrap_or(Timestamp::MIN);
            if now.duration_since(end) < GRACE {
                plan.again_at(end + GRACE, now);
            } else {
                plan.act(Action::delete(&**run));
            }
        }
        plan
    }
}

fn ended(run: &WorkflowRun) -> Option<Timestamp> {
    run.status.as_ref().and_then(|status| status.completion_time.as_ref()).map(|time| time.0)
}

fn succeeded(run: &WorkflowRun) -> bool {
    run.phase() == Some(Phase::Succeeded)
}

/// Those beyond a workflow's limits.
fn beyond<'a>(
    newest_first: &[&'a Arc<WorkflowRun>],
    limits: &History,
    now: Timestamp,
    plan: &mut Plan,
) -> Vec<&'a Arc<WorkflowRun>> {
    let ttl = SignedDuration::from_secs(limits.ttl_seconds.unwrap_or(TTL_SECONDS));
    let (mut good, mut bad) = (limits.successful.unwrap_or(KEPT), limits.failed.unwrap_or(KEPT));
    let mut surplus = Vec::new();
    for &run in newest_first {
        let left = if succeeded(run) { &mut good } else { &mut bad };
        *left -= 1;
        let dies = ended(run).and_then(|end| end.checked_add(ttl).ok());
        if *left < 0 || dies.is_some_and(|dies| dies <= now) {
            surplus.push(run);
        } else if let Some(dies) = dies {
            plan.again_at(dies, now);
        }
    }
    surplus
}

/// Enough to keep all history within its bound: the oldest first, those that failed last.
fn too_much<'a>(newest_first: &[&'a Arc<WorkflowRun>]) -> Vec<&'a Arc<WorkflowRun>> {
    let bytes = |run: &WorkflowRun| run.status.as_ref().and_then(|status| status.history_bytes).unwrap_or(0);
    let mut surplus_bytes = newest_first.iter().map(|run| bytes(run)).sum::<i64>() - MOST_BYTES;
    let oldest_first = || newest_first.iter().rev().copied();
    let order =
        oldest_first().filter(|run| succeeded(run)).chain(oldest_first().filter(|run| !succeeded(run)));
    let mut seen = HashSet::new();
    order
        .take_while(|run| {
            let goes = surplus_bytes > 0;
            surplus_bytes -= bytes(run);
            goes
        })
        .filter(|run| seen.insert(run.metadata.uid.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use minik8s_runtime::testing::{Simulation, World, check_convergence};
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn run(name: &str, phase: &str, age: i64, bytes: i64) -> Arc<WorkflowRun> {
        let end = Timestamp::from_second(NOW - age).unwrap();
        let run = json!({"metadata": {"name": name, "namespace": "a", "uid": name}, "spec": {"workflow": "w"},
            "status": {"phase": phase, "completionTime": end.to_string(), "historyBytes": bytes}});
        Arc::new(serde_json::from_value(run).unwrap())
    }

    fn deleted(runs: Vec<Arc<WorkflowRun>>, limits: Option<History>) -> (Vec<String>, Plan) {
        let plan = Retention.plan(&Observed { runs, limits }, Timestamp::from_second(NOW).unwrap());
        (plan.actions.iter().map(|action| action.subject().1.name).collect(), plan)
    }

    #[test]
    fn newest_runs_of_each_sort_stay() {
        let runs = vec![
            run("old", "Succeeded", 300, 1),
            run("new", "Succeeded", 200, 1),
            run("bad", "Failed", 400, 1),
            run("aborted", "Aborted", 500, 1),
        ];
        let limits = History { successful: Some(1), failed: Some(1), ttl_seconds: None };
        assert_eq!(deleted(runs, Some(limits)).0, ["old", "aborted"]);
    }

    #[test]
    fn runs_go_by_age_and_never_at_once() {
        let limits = History { ttl_seconds: Some(100), successful: Some(0), ..History::default() };
        let runs = vec![
            run("old", "Failed", 101, 1),
            run("young", "Failed", 90, 1),
            run("fresh", "Succeeded", 10, 1),
        ];
        let (names, plan) = deleted(runs, Some(limits));
        assert_eq!(names, ["old"]);
        // The next look: ten seconds for `young`, fifty for `fresh`.
        assert_eq!(plan.again_after, Some(std::time::Duration::from_secs(10)));
    }

    #[test]
    fn all_history_is_bounded_and_failures_go_last() {
        let half = MOST_BYTES / 2;
        let runs = vec![
            run("failed", "Failed", 5000, half),
            run("older", "Succeeded", 4000, 10),
            run("newer", "Succeeded", 3000, half),
            run("newest", "Succeeded", 2000, 5),
        ];
        assert_eq!(deleted(runs.clone(), None).0, ["older", "newer"]);
        assert!(deleted(runs[..2].to_vec(), None).0.is_empty());
    }

    #[test]
    fn retention_converges_on_the_newest_runs() {
        let build = || {
            let mut world = World::default();
            let history = json!({"successful": 1, "failed": 1, "ttlSeconds": 1_000_000_000});
            let workflow = json!({"metadata": {"name": "w", "namespace": "a"},
                "spec": {"definition": {}, "history": history}});
            world.insert::<Workflow>(&serde_json::from_value(workflow).unwrap());
            for (name, phase, age) in [("a", "Succeeded", 9), ("b", "Succeeded", 8), ("c", "Failed", 7)] {
                world.insert(&*run(name, phase, age, 1));
            }
            Simulation::new(world).with(Retention)
        };
        check_convergence(build, |simulation| {
            let left = simulation.world.list::<WorkflowRun>();
            let names: Vec<_> = left.iter().map(|run| run.metadata.name.as_deref().unwrap()).collect();
            assert_eq!(names, ["b", "c"]);
        });
    }
}
