//! No capabilities beyond those that container runtimes give by default.

use crate::check::{Check, Revision, Violation};
use crate::level::Level;
use crate::pod::{Pod, items};
use crate::wording::{Sorted, containers, quoted};

pub const ID: &str = "capabilities_baseline";

pub const CHECK: Check =
    Check { id: ID, level: Level::Baseline, revisions: &[Revision::since(0, since_1_0)] };

const ALLOWED: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

fn since_1_0(pod: &Pod<'_>) -> Option<Violation> {
    let (mut names, mut forbidden) = (Vec::new(), Sorted::new());
    for container in pod.containers() {
        let added = items(&container.security()["capabilities"]["add"]).filter_map(|one| one.as_str());
        let mut bad = added.filter(|one| !ALLOWED.contains(one)).peekable();
        if bad.peek().is_some() {
            names.push(container.name);
        }
        forbidden.extend(bad);
    }
    (!names.is_empty()).then(|| Violation {
        reason: "non-default capabilities",
        detail: format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&names),
            quoted(forbidden)
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::testing::expect;

    #[test]
    fn capabilities_beyond_the_default_are_forbidden() {
        let with = |name: &str, add: &[&str]| json!({"name": name, "securityContext": {"capabilities": {"add": add}}});
        expect(
            &CHECK,
            0,
            &[
                (json!({"spec": {"containers": [{"name": "c"}]}}), ""),
                (json!({"spec": {"containers": [with("c", &ALLOWED)]}}), ""),
                (
                    json!({"spec": {"containers": [{"name": "c", "securityContext": {"capabilities": {"drop": ["X"]}}}]}}),
                    "",
                ),
                (
                    json!({"spec": {"containers": [with("c", &["NET_RAW"])]}}),
                    "non-default capabilities (container \"c\" must not include \"NET_RAW\" in securityContext.capabilities.add)",
                ),
                (
                    json!({"spec": {"containers": [with("c", &["SYS_ADMIN", "CHOWN", "ALL"])],
                        "initContainers": [with("i", &["SYS_ADMIN"])], "ephemeralContainers": [with("e", &["CAP_CHOWN"])]}}),
                    "non-default capabilities (containers \"i\", \"c\", \"e\" must not include \"ALL\", \
                     \"CAP_CHOWN\", \"SYS_ADMIN\" in securityContext.capabilities.add)",
                ),
            ],
        );
    }
}
