//! What a namespace's labels say. Labels that make no sense enforce the strictest policy and warn of none.

use std::fmt;

use serde_json::{Map, Value};

use crate::level::Level;
use crate::version::Version;

/// A level as of a version: `restricted:v1.30`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LevelVersion {
    pub level: Level,
    pub version: Version,
}

impl LevelVersion {
    pub const PRIVILEGED: LevelVersion = LevelVersion { level: Level::Privileged, version: Version::Latest };
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level, self.version)
    }
}

/// What is refused, what is recorded, and what is warned of in one namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    pub enforce: LevelVersion,
    pub audit: LevelVersion,
    pub warn: LevelVersion,
}

/// A label whose value means nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelError {
    pub label: &'static str,
    pub value: String,
    pub why: &'static str,
}

const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
const ENFORCE_VERSION: &str = "pod-security.kubernetes.io/enforce-version";
const AUDIT: &str = "pod-security.kubernetes.io/audit";
const AUDIT_VERSION: &str = "pod-security.kubernetes.io/audit-version";
const WARN: &str = "pod-security.kubernetes.io/warn";
const WARN_VERSION: &str = "pod-security.kubernetes.io/warn-version";

const LEVELS: &str = "must be one of privileged, baseline, restricted";
const VERSIONS: &str = "must be \"latest\" or \"v1.x\"";

impl Policy {
    pub const PRIVILEGED: Policy = Policy {
        enforce: LevelVersion::PRIVILEGED,
        audit: LevelVersion::PRIVILEGED,
        warn: LevelVersion::PRIVILEGED,
    };

    /// The policy that these labels of a namespace ask for. There always is one, whatever the errors.
    pub fn of(labels: Option<&Map<String, Value>>) -> (Policy, Vec<LabelError>) {
        let (mut policy, mut errors) = (Policy::PRIVILEGED, Vec::new());
        let Some(labels) = labels else { return (policy, errors) };
        let text = |label: &str| labels.get(label).and_then(Value::as_str);
        let mut level = |label: &'static str, otherwise: Level| {
            let value = text(label)?;
            let parsed = Level::parse(value);
            if parsed.is_none() {
                errors.push(LabelError { label, value: value.to_owned(), why: LEVELS });
            }
            Some((parsed.unwrap_or(otherwise), parsed.is_some()))
        };
        // Fails closed for what is refused, open for what is only said.
        let enforce = level(ENFORCE, Level::Restricted);
        let audit = level(AUDIT, Level::Privileged);
        let warn = level(WARN, Level::Privileged);
        let mut version = |label: &'static str| {
            let value = text(label)?;
            let parsed = Version::parse(value);
            if parsed.is_none() {
                errors.push(LabelError { label, value: value.to_owned(), why: VERSIONS });
            }
            Some(parsed.unwrap_or(Version::Latest))
        };
        let versions = [ENFORCE_VERSION, AUDIT_VERSION, WARN_VERSION].map(&mut version);
        for ((mode, level), version) in [&mut policy.enforce, &mut policy.audit, &mut policy.warn]
            .into_iter()
            .zip([enforce, audit, warn])
            .zip(versions)
        {
            mode.level = level.map_or(mode.level, |(level, _)| level);
            mode.version = version.unwrap_or(mode.version);
        }
        // Who refuses pods wants to hear of workloads whose pods will be refused.
        let is_asked = matches!(enforce, Some((_, true)));
        if warn.is_none() && is_asked && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if versions[2].is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        errors.sort_by_key(|error| ORDER.iter().position(|label| *label == error.label));
        (policy, errors)
    }

    /// True if nothing is refused, recorded or warned of.
    pub fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|mode| mode.level == Level::Privileged)
    }
}

/// In which order errors are listed.
const ORDER: [&str; 6] = [ENFORCE, ENFORCE_VERSION, AUDIT, AUDIT_VERSION, WARN, WARN_VERSION];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(labels: Value, expected: [&str; 3], errors: &[&str]) {
        let full: Map<String, Value> = labels
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (format!("pod-security.kubernetes.io/{key}"), value.clone()))
            .collect();
        let (policy, found) = Policy::of(Some(&full));
        let got = [policy.enforce, policy.audit, policy.warn].map(|mode| mode.to_string());
        assert_eq!(got, expected, "{labels}");
        let labels_of = |error: &LabelError| error.label.rsplit('/').next().unwrap_or_default().to_owned();
        let found: Vec<String> = found.iter().map(labels_of).collect();
        assert_eq!(found, errors, "{labels}");
    }

    #[test]
    fn policy_without_labels_is_privileged() {
        assert_eq!(Policy::of(None), (Policy::PRIVILEGED, Vec::new()));
        check(json!({}), ["privileged:latest"; 3], &[]);
        assert!(Policy::PRIVILEGED.is_privileged());
    }

    #[test]
    fn policy_of_labels_follows_upstream() {
        let p = "privileged:latest";
        check(json!({"enforce": "baseline"}), ["baseline:latest", p, "baseline:latest"], &[]);
        check(
            json!({"enforce": "restricted", "enforce-version": "v1.30"}),
            ["restricted:v1.30", p, "restricted:v1.30"],
            &[],
        );
        check(
            json!({"enforce": "restricted", "enforce-version": "v1.30", "warn-version": "v1.2"}),
            ["restricted:v1.30", p, "restricted:v1.2"],
            &[],
        );
        check(json!({"enforce": "restricted", "warn": "privileged"}), ["restricted:latest", p, p], &[]);
        check(
            json!({"audit": "restricted", "audit-version": "v1.99", "warn": "baseline"}),
            [p, "restricted:v1.99", "baseline:latest"],
            &[],
        );
        check(json!({"enforce-version": "v1.9"}), ["privileged:v1.9", p, p], &[]);
    }

    #[test]
    fn policy_of_invalid_labels_enforces_the_strictest_and_warns_of_nothing() {
        let p = "privileged:latest";
        check(json!({"enforce": "strict"}), ["restricted:latest", p, p], &["enforce"]);
        check(json!({"enforce": ""}), ["restricted:latest", p, p], &["enforce"]);
        check(
            json!({"warn-version": "1", "warn": "x", "audit": "y", "audit-version": "z", "enforce-version": "v1"}),
            [p; 3],
            &["enforce-version", "audit", "audit-version", "warn", "warn-version"],
        );
    }
}
