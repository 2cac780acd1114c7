//! No share in the node's namespaces.

use crate::check::{Check, Revision, Violation};
use crate::level::Level;
use crate::pod::Pod;

pub const CHECK: Check =
    Check { id: "hostNamespaces", level: Level::Baseline, revisions: &[Revision::since(0, since_1_0)] };

fn since_1_0(pod: &Pod<'_>) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| pod.spec[field] == true);
    let shared: Vec<String> = shared.map(|field| format!("{field}=true")).collect();
    (!shared.is_empty()).then(|| Violation { reason: "host namespaces", detail: shared.join(", ") })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::testing::expect;

    #[test]
    fn host_namespaces_are_forbidden() {
        expect(
            &CHECK,
            0,
            &[
                (json!({"spec": {}}), ""),
                (json!({"spec": {"hostNetwork": false, "hostPID": false, "hostIPC": false}}), ""),
                (json!({"spec": {"hostUsers": true}}), ""),
                (json!({"spec": {"hostNetwork": true}}), "host namespaces (hostNetwork=true)"),
                (
                    json!({"spec": {"hostIPC": true, "hostPID": true, "hostNetwork": true}}),
                    "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
                ),
            ],
        );
    }
}
