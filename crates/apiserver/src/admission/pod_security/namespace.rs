//! The labels themselves: values that mean nothing are refused, and who tightens a policy hears which pods
//! already violate it. Those go on running.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use minik8s_api::{FieldErrors, Path};
use minik8s_pod_security::{LabelError, Level, LevelVersion, Pod, Policy, Survey};
use minik8s_store::{Entry, Range};
use serde_json::Value;

use crate::admission::{Operation, Request};
use crate::catalog::Served;
use crate::codec;
use crate::error::{ApiError, Result};
use crate::object::Object;
use crate::registry::Registry;

/// Of more pods than these, or after this time, the rest is not looked at.
const MOST_PODS: usize = 3000;
const LONGEST: Duration = Duration::from_secs(1);

pub async fn review(registry: &Registry, request: &mut Request<'_>) -> Result<()> {
    let (policy, errors) = Policy::of(request.object.labels());
    let (old, old_errors) = request.old.map_or((None, Vec::new()), |old| {
        let (policy, errors) = Policy::of(old.labels());
        (Some(policy), errors)
    });
    // What was wrong before does not stop other changes.
    if !errors.is_empty() && errors != old_errors {
        return Err(invalid(request.object.name(), errors));
    }
    let Some(old) = old.filter(|_| request.operation == Operation::Update) else { return Ok(()) };
    if is_tightened(policy.enforce, old.enforce) {
        for warning in existing(registry, request.object.name(), policy.enforce).await {
            request.call.warn(warning);
        }
    }
    Ok(())
}

fn invalid(name: &str, errors: Vec<LabelError>) -> ApiError {
    let labels = Path::new("metadata").field("labels");
    let mut fields = FieldErrors::default();
    for LabelError { label, value, why } in errors {
        fields.invalid(labels.key(label), value, why);
    }
    ApiError::invalid("", "Namespace", name, fields)
}

/// Whether pods that were allowed may not be any more.
fn is_tightened(new: LevelVersion, old: LevelVersion) -> bool {
    new != old && new.level != Level::Privileged && (new.version != old.version || new.level > old.level)
}

/// What to say about the pods that are there.
async fn existing(registry: &Registry, namespace: &str, enforce: LevelVersion) -> Vec<String> {
    const FAILED: &str = "failed to list pods while checking new PodSecurity enforce level";
    let listed = async {
        let pods = registry.built_in("", "v1", "pods")?;
        let range = Range { prefix: pods.keys_in(namespace), ..Range::default() };
        let page = registry.store.range(range).await?;
        Ok::<_, ApiError>((pods, page.entries))
    };
    let Ok((pods, entries)) = listed.await else { return vec![FAILED.to_owned()] };
    let total = entries.len();
    // Up to a second of work: not among the requests.
    let surveyed = tokio::task::spawn_blocking(move || survey(&pods, &entries, enforce)).await;
    surveyed.map_or_else(|_| vec![FAILED.to_owned()], |survey| survey.warnings(namespace, total))
}

/// Looks at one pod of each controller first: the others are most likely like it.
fn survey(pods: &Arc<Served>, entries: &[Entry], enforce: LevelVersion) -> Survey {
    let until = Instant::now() + LONGEST;
    let (mut survey, mut seen, mut later) = (Survey::new(enforce), HashSet::new(), Vec::new());
    let may_go_on = |survey: &Survey| survey.checked() < MOST_PODS && Instant::now() < until;
    let read = |entry: &Entry| codec::decode_split(pods, entry).map(|split| split.object);
    for entry in entries {
        if !may_go_on(&survey) {
            return survey;
        }
        let Ok(pod) = read(entry) else { continue };
        match controller(&pod) {
            Some(uid) if !seen.insert(uid.to_owned()) => later.push(entry),
            _ => survey.add(&Pod::of(&pod)),
        }
    }
    for entry in later {
        if !may_go_on(&survey) {
            return survey;
        }
        if let Ok(pod) = read(entry) {
            survey.add(&Pod::of(&pod));
        }
    }
    survey
}

fn controller(pod: &Value) -> Option<&str> {
    let owners = pod["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)?["uid"].as_str()
}

#[cfg(test)]
mod tests {
    use minik8s_pod_security::Version;

    use super::*;

    #[test]
    fn policy_is_tightened_by_a_higher_level_or_another_version() {
        use Level::{Baseline, Privileged, Restricted};
        let of = |level, minor| LevelVersion { level, version: Version::Minor(minor) };
        let cases = [
            (of(Baseline, 1), of(Privileged, 1), true),
            (of(Restricted, 1), of(Baseline, 1), true),
            (of(Baseline, 1), of(Baseline, 1), false),
            (of(Baseline, 1), of(Restricted, 1), false),
            (of(Baseline, 2), of(Restricted, 1), true),
            (of(Baseline, 2), of(Baseline, 1), true),
            (of(Privileged, 2), of(Privileged, 1), false),
        ];
        for (new, old, expected) in cases {
            assert_eq!(is_tightened(new, old), expected, "{old} -> {new}");
        }
    }
}
