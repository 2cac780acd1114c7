//! No process gains more privileges than its parent has: `allowPrivilegeEscalation` must be false.

use crate::check::{Check, Revision, Violation};
use crate::level::Level;
use crate::pod::Pod;
use crate::wording::containers;

pub const CHECK: Check = Check {
    id: "allowPrivilegeEscalation",
    level: Level::Restricted,
    revisions: &[Revision::since(8, since_1_8), Revision::since(25, since_1_25)],
};

fn since_1_8(pod: &Pod<'_>) -> Option<Violation> {
    let bad = pod.containers().filter(|container| container.security()["allowPrivilegeEscalation"] != false);
    let bad: Vec<&str> = bad.map(|container| container.name).collect();
    (!bad.is_empty()).then(|| Violation {
        reason: "allowPrivilegeEscalation != false",
        detail: format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&bad)),
    })
}

/// A Windows pod cannot set it.
fn since_1_25(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { since_1_8(pod) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::testing::expect;

    #[test]
    fn allow_privilege_escalation_must_be_false_everywhere() {
        let with = |value| json!({"name": "c", "securityContext": {"allowPrivilegeEscalation": value}});
        let one = "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false)";
        let all = "allowPrivilegeEscalation != false (containers \"i\", \"c\", \"e\" must set securityContext.allowPrivilegeEscalation=false)";
        let windows = json!({"spec": {"os": {"name": "windows"}, "containers": [{"name": "c"}]}});
        let cases = [
            (json!({"spec": {"containers": [with(json!(false))]}}), ""),
            (json!({"spec": {"containers": [with(json!(true))]}}), one),
            (json!({"spec": {"containers": [with(json!(null))]}}), one),
            (json!({"spec": {"containers": [{"name": "c", "securityContext": {}}]}}), one),
            (
                json!({"spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}],
                    "ephemeralContainers": [{"name": "e"}]}}),
                all,
            ),
            (json!({"spec": {"os": {"name": "linux"}, "containers": [{"name": "c"}]}}), one),
        ];
        for minor in [8, 24, 25, 37] {
            expect(&CHECK, minor, &cases);
        }
        expect(&CHECK, 24, &[(windows.clone(), one)]);
        expect(&CHECK, 25, &[(windows, "")]);
        expect(&CHECK, 7, &[(json!({"spec": {"containers": [{"name": "c"}]}}), "")]);
    }
}
