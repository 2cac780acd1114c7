//! All capabilities are dropped; only `NET_BIND_SERVICE` may be taken back.

use super::capabilities_baseline;
use crate::check::{Check, Revision, Violation};
use crate::level::Level;
use crate::pod::{Pod, items};
use crate::wording::{Sorted, containers, quoted};

pub const CHECK: Check = Check {
    id: "capabilities_restricted",
    level: Level::Restricted,
    revisions: &[
        Revision { since: 22, find: since_1_22, overrides: &[capabilities_baseline::ID] },
        Revision { since: 25, find: since_1_25, overrides: &[capabilities_baseline::ID] },
    ],
};

fn since_1_22(pod: &Pod<'_>) -> Option<Violation> {
    let (mut keeping, mut adding, mut forbidden) = (Vec::new(), Vec::new(), Sorted::new());
    for container in pod.containers() {
        let capabilities = &container.security()["capabilities"];
        if !items(&capabilities["drop"]).any(|one| one == "ALL") {
            keeping.push(container.name);
        }
        let added = items(&capabilities["add"]).filter_map(|one| one.as_str());
        let mut bad = added.filter(|one| *one != "NET_BIND_SERVICE").peekable();
        if bad.peek().is_some() {
            adding.push(container.name);
        }
        forbidden.extend(bad);
    }
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details
            .push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&keeping)));
    }
    if !adding.is_empty() {
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&adding),
            quoted(forbidden)
        ));
    }
    (!details.is_empty())
        .then(|| Violation { reason: "unrestricted capabilities", detail: details.join("; ") })
}

/// A Windows pod cannot set them.
fn since_1_25(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { since_1_22(pod) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::testing::expect;

    #[test]
    fn capabilities_must_be_dropped() {
        let with = |name: &str, drop: &[&str], add: &[&str]| json!({"name": name, "securityContext": {"capabilities": {"drop": drop, "add": add}}});
        let bare = "unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"])";
        let cases = [
            (json!({"spec": {"containers": [with("c", &["ALL"], &[])]}}), ""),
            (json!({"spec": {"containers": [with("c", &["ALL"], &["NET_BIND_SERVICE"])]}}), ""),
            (json!({"spec": {"containers": [{"name": "c"}]}}), bare),
            (json!({"spec": {"containers": [with("c", &["all"], &[])]}}), bare),
            (
                json!({"spec": {"containers": [with("c", &["ALL"], &["CHOWN"])]}}),
                "unrestricted capabilities (container \"c\" must not include \"CHOWN\" in securityContext.capabilities.add)",
            ),
            (
                json!({"spec": {"containers": [with("c", &["CHOWN"], &["KILL", "CHOWN"])], "initContainers": [with("i", &[], &["KILL"])]}}),
                "unrestricted capabilities (containers \"i\", \"c\" must set securityContext.capabilities.drop=[\"ALL\"]; \
                 containers \"i\", \"c\" must not include \"CHOWN\", \"KILL\" in securityContext.capabilities.add)",
            ),
        ];
        expect(&CHECK, 22, &cases);
        expect(&CHECK, 37, &cases);
        let windows = json!({"spec": {"os": {"name": "windows"}, "containers": [{"name": "c"}]}});
        expect(&CHECK, 24, &[(windows.clone(), bare)]);
        expect(&CHECK, 25, &[(windows, "")]);
        expect(&CHECK, 21, &[(json!({"spec": {"containers": [{"name": "c"}]}}), "")]);
    }
}
