//! No privileged containers: they are root on the node.

use crate::check::{Check, Revision, Violation};
use crate::level::Level;
use crate::pod::Pod;
use crate::wording::containers;

pub const CHECK: Check =
    Check { id: "privileged", level: Level::Baseline, revisions: &[Revision::since(0, since_1_0)] };

fn since_1_0(pod: &Pod<'_>) -> Option<Violation> {
    let bad = pod.containers().filter(|container| container.security()["privileged"] == true);
    let bad: Vec<&str> = bad.map(|container| container.name).collect();
    (!bad.is_empty()).then(|| Violation {
        reason: "privileged",
        detail: format!("{} must not set securityContext.privileged=true", containers(&bad)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::testing::expect;

    #[test]
    fn privileged_containers_are_forbidden() {
        let with = |name: &str, value: bool| json!({"name": name, "securityContext": {"privileged": value}});
        expect(
            &CHECK,
            0,
            &[
                (json!({"spec": {"containers": [{"name": "c"}]}}), ""),
                (json!({"spec": {"containers": [with("c", false)]}}), ""),
                (
                    json!({"spec": {"containers": [with("c", true)]}}),
                    "privileged (container \"c\" must not set securityContext.privileged=true)",
                ),
                (
                    json!({"spec": {"containers": [with("c", false)], "initContainers": [with("i", true)],
                        "ephemeralContainers": [with("e", true)]}}),
                    "privileged (containers \"i\", \"e\" must not set securityContext.privileged=true)",
                ),
            ],
        );
    }
}
