//! All checks of a level and version, on one pod.

use crate::check::Violation;
use crate::checks::{CHECKS, NEWEST};
use crate::level::Level;
use crate::pod::Pod;
use crate::policy::LevelVersion;

/// What a policy says of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict(Vec<Violation>);

pub fn evaluate(policy: LevelVersion, pod: &Pod<'_>) -> Verdict {
    if policy.level == Level::Privileged {
        return Verdict(Vec::new());
    }
    let minor = policy.version.minor(NEWEST);
    let valid = CHECKS.iter().filter(|check| check.level <= policy.level);
    let valid: Vec<_> = valid.filter_map(|check| Some((check.id, check.at(minor)?))).collect();
    let is_overridden = |id: &str| valid.iter().any(|(_, revision)| revision.overrides.contains(&id));
    let needed = valid.iter().filter(|(id, _)| !is_overridden(id));
    Verdict(needed.filter_map(|(_, revision)| (revision.find)(pod)).collect())
}

impl Verdict {
    pub fn is_allowed(&self) -> bool {
        self.0.is_empty()
    }

    /// `privileged, hostPort`: the same for all pods with the same faults.
    pub fn reasons(&self) -> String {
        let reasons: Vec<&str> = self.0.iter().map(|violation| violation.reason).collect();
        reasons.join(", ")
    }

    /// `privileged (container "a" must not set …), hostPort (…)`.
    pub fn details(&self) -> String {
        let one = |violation: &Violation| match violation.detail.as_str() {
            "" => violation.reason.to_owned(),
            detail => format!("{} ({detail})", violation.reason),
        };
        let all: Vec<String> = self.0.iter().map(one).collect();
        all.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::version::Version;

    fn reasons(level: Level, version: Version, pod: &Value) -> String {
        evaluate(LevelVersion { level, version }, &Pod::of(pod)).reasons()
    }

    #[test]
    fn evaluate_orders_baseline_before_restricted_in_upstreams_words() {
        let pod = json!({"spec": {"containers": [{"name": "c"}]}});
        let policy = LevelVersion { level: Level::Restricted, version: Version::Latest };
        let expected = "allowPrivilegeEscalation != false (container \"c\" must set \
            securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set \
            securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"c\" must set \
            securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set \
            securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";
        assert_eq!(evaluate(policy, &Pod::of(&pod)).details(), expected);
        let pod = json!({"spec": {"hostPID": true, "containers": [{"name": "c",
            "securityContext": {"privileged": true, "runAsUser": 0, "capabilities": {"add": ["SYS_ADMIN"]}}}]}});
        assert_eq!(
            reasons(Level::Baseline, Version::Latest, &pod),
            "non-default capabilities, host namespaces, privileged"
        );
        assert_eq!(
            reasons(Level::Restricted, Version::Latest, &pod),
            "host namespaces, privileged, allowPrivilegeEscalation != false, unrestricted capabilities, \
             runAsNonRoot != true, runAsUser=0, seccompProfile"
        );
    }

    #[test]
    fn evaluate_follows_the_version() {
        let pod = json!({"spec": {"containers": [{"name": "c"}]}});
        let restricted = |minor| reasons(Level::Restricted, Version::Minor(minor), &pod);
        assert_eq!(restricted(0), "runAsNonRoot != true");
        assert_eq!(restricted(8), "allowPrivilegeEscalation != false, runAsNonRoot != true");
        assert_eq!(restricted(19), "allowPrivilegeEscalation != false, runAsNonRoot != true, seccompProfile");
        let newest = restricted(NEWEST);
        assert_eq!(
            newest,
            "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile"
        );
        assert_eq!(restricted(u64::MAX), newest, "a version of the future is the newest known");
    }

    #[test]
    fn evaluate_allows_everything_to_the_privileged() {
        let pod = json!({"spec": {"hostPID": true, "hostNetwork": true, "containers": [
            {"name": "c", "securityContext": {"privileged": true}}]}});
        assert_eq!(reasons(Level::Privileged, Version::Latest, &pod), "");
        assert_ne!(reasons(Level::Baseline, Version::Latest, &pod), "");
    }

    #[test]
    fn evaluate_allows_a_restricted_pod() {
        let pod = json!({"spec": {
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "c", "securityContext":
                {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
        }});
        for minor in 0..=NEWEST {
            assert_eq!(reasons(Level::Restricted, Version::Minor(minor), &pod), "", "v1.{minor}");
        }
    }

    /// Upstream: a rule that restricted has of its own stands in for baseline's, so that none is told twice.
    #[test]
    fn evaluate_tells_each_fault_once() {
        let pod = json!({"spec": {
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "Unconfined"}},
            "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
            "containers": [{"name": "c", "securityContext":
                {"procMount": "Unmasked", "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["X"]}}}],
        }});
        assert_eq!(
            reasons(Level::Restricted, Version::Latest, &pod),
            "unrestricted capabilities, procMount, restricted volume types, seccompProfile"
        );
        assert_eq!(
            reasons(Level::Baseline, Version::Latest, &pod),
            "non-default capabilities, hostPath volumes, procMount, seccompProfile"
        );
    }
}
