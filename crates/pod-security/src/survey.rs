//! What a new policy would say of the pods that are there already. Pods with the same faults share a line.

use std::collections::BTreeMap;

use crate::evaluate::evaluate;
use crate::pod::Pod;
use crate::policy::LevelVersion;

/// Looks at pods one by one and remembers what it found.
pub struct Survey {
    enforce: LevelVersion,
    checked: usize,
    /// By faults: the first pod's name, and how many.
    found: BTreeMap<String, (String, usize)>,
}

impl Survey {
    pub fn new(enforce: LevelVersion) -> Self {
        Survey { enforce, checked: 0, found: BTreeMap::new() }
    }

    pub fn add(&mut self, pod: &Pod<'_>) {
        self.checked += 1;
        let verdict = evaluate(self.enforce, pod);
        if verdict.is_allowed() {
            return;
        }
        let name = pod.metadata["name"].as_str().unwrap_or_default();
        let (first, count) = self.found.entry(verdict.reasons()).or_insert_with(|| (name.to_owned(), 0));
        *count += 1;
        if name < first.as_str() {
            *first = name.to_owned();
        }
    }

    pub fn checked(&self) -> usize {
        self.checked
    }

    /// What to tell whoever sets the policy, where the namespace has `total` pods.
    pub fn warnings(&self, namespace: &str, total: usize) -> Vec<String> {
        let (checked, enforce) = (self.checked, self.enforce);
        let mut warnings = Vec::new();
        if checked < total {
            warnings.push(format!(
                "new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
            ));
        }
        if !self.found.is_empty() {
            warnings.push(format!(
                "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{enforce}\""
            ));
        }
        let mut lines: Vec<String> = self.found.iter().map(line).collect();
        lines.sort_unstable();
        warnings.extend(lines);
        warnings
    }
}

fn line((faults, (name, count)): (&String, &(String, usize))) -> String {
    match count {
        1 => format!("{name}: {faults}"),
        2 => format!("{name} (and 1 other pod): {faults}"),
        more => format!("{name} (and {} other pods): {faults}", more - 1),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Level, Version};

    fn survey(pods: &[(&str, bool, bool)]) -> Survey {
        let mut survey = Survey::new(LevelVersion { level: Level::Baseline, version: Version::Latest });
        for (name, privileged, host) in pods {
            let pod = json!({"metadata": {"name": name}, "spec": {"hostPID": host, "containers": [
                {"name": "c", "securityContext": {"privileged": privileged}}]}});
            survey.add(&Pod::of(&pod));
        }
        survey
    }

    #[test]
    fn survey_groups_pods_by_their_faults() {
        let survey = survey(&[
            ("z", true, false),
            ("b", true, false),
            ("c", true, false),
            ("fine", false, false),
            ("y", true, true),
            ("x", true, true),
            ("a", false, true),
        ]);
        assert_eq!(
            survey.warnings("n", 7),
            [
                "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
                "a: host namespaces",
                "b (and 2 other pods): privileged",
                "x (and 1 other pod): host namespaces, privileged",
            ]
        );
    }

    #[test]
    fn survey_says_how_far_it_came() {
        assert_eq!(survey(&[("fine", false, false)]).warnings("n", 1), [""; 0]);
        assert_eq!(
            survey(&[("fine", false, false)]).warnings("n", 5),
            ["new PodSecurity enforce level only checked against the first 1 of 5 existing pods"]
        );
    }
}
