//! What a namespace's policy makes of one pod or template: refused, recorded, warned of.

use crate::evaluate::{Verdict, evaluate};
use crate::pod::Pod;
use crate::policy::{LevelVersion, Policy};

/// Whether the pod itself is at stake. A workload is never refused: its pods will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Pod,
    Template,
}

/// Each text is there if the mode's policy is violated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    pub refusal: Option<String>,
    pub audit: Option<String>,
    /// Never beside a refusal, which says enough.
    pub warning: Option<String>,
}

impl Decision {
    pub fn make(policy: &Policy, pod: &Pod<'_>, subject: Subject) -> Decision {
        // Most namespaces have one policy for two or three modes.
        let mut known: Vec<(LevelVersion, Verdict)> = Vec::new();
        let mut violation = |mode: LevelVersion, verb: &str| {
            let index = known.iter().position(|(other, _)| *other == mode).unwrap_or_else(|| {
                known.push((mode, evaluate(mode, pod)));
                known.len() - 1
            });
            let verdict = &known[index].1;
            (!verdict.is_allowed()).then(|| format!("{verb} PodSecurity \"{mode}\": {}", verdict.details()))
        };
        let refusal = match subject {
            Subject::Pod => violation(policy.enforce, "violates"),
            Subject::Template => None,
        };
        let audit = violation(policy.audit, "would violate");
        let warning = if refusal.is_none() { violation(policy.warn, "would violate") } else { None };
        Decision { refusal, audit, warning }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Level, Version};

    #[test]
    fn decision_follows_mode_and_subject() {
        let level = |level| LevelVersion { level, version: Version::Latest };
        let policy =
            |enforce, audit, warn| Policy { enforce: level(enforce), audit: level(audit), warn: level(warn) };
        let object = json!({"spec": {"hostPID": true}});
        let pod = Pod::of(&object);
        let text =
            |verb: &str| format!("{verb} PodSecurity \"baseline:latest\": host namespaces (hostPID=true)");
        let (says, would) = (text("violates"), text("would violate"));
        let check = |policy: Policy, subject, expected: [Option<&str>; 3]| {
            let made = Decision::make(&policy, &pod, subject);
            let got = [made.refusal.as_deref(), made.audit.as_deref(), made.warning.as_deref()];
            assert_eq!(got, expected, "{policy:?} {subject:?}");
        };
        use Level::{Baseline, Privileged};
        let (says, would) = (Some(says.as_str()), Some(would.as_str()));
        check(policy(Baseline, Privileged, Baseline), Subject::Pod, [says, None, None]);
        check(policy(Baseline, Baseline, Baseline), Subject::Pod, [says, would, None]);
        check(policy(Privileged, Privileged, Baseline), Subject::Pod, [None, None, would]);
        check(policy(Privileged, Privileged, Privileged), Subject::Pod, [None, None, None]);
        check(policy(Baseline, Baseline, Baseline), Subject::Template, [None, would, would]);
        check(policy(Baseline, Privileged, Privileged), Subject::Template, [None, None, None]);
    }
}
