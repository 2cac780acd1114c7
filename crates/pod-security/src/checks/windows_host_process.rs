//! No processes of the Windows node itself.

use serde_json::Value;

use crate::check::{Check, Revision, Violation};
use crate::level::Level;
use crate::pod::Pod;
use crate::wording::setters;

pub const CHECK: Check =
    Check { id: "windowsHostProcess", level: Level::Baseline, revisions: &[Revision::since(0, since_1_0)] };

fn since_1_0(pod: &Pod<'_>) -> Option<Violation> {
    let names = pod.containers().filter(|container| is_host_process(container.security()));
    let names: Vec<&str> = names.map(|container| container.name).collect();
    let who = setters(is_host_process(pod.security()), &names);
    (!who.is_empty()).then(|| Violation {
        reason: "hostProcess",
        detail: format!("{} must not set securityContext.windowsOptions.hostProcess=true", who.join(" and ")),
    })
}

fn is_host_process(security: &Value) -> bool {
    security["windowsOptions"]["hostProcess"] == true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::testing::expect;

    #[test]
    fn host_process_is_forbidden() {
        let set = |value: bool| json!({"windowsOptions": {"hostProcess": value}});
        expect(
            &CHECK,
            0,
            &[
                (json!({"spec": {"containers": [{"name": "c"}]}}), ""),
                (
                    json!({"spec": {"securityContext": set(false), "containers": [{"name": "c", "securityContext": set(false)}]}}),
                    "",
                ),
                (
                    json!({"spec": {"securityContext": set(true), "containers": [{"name": "c"}]}}),
                    "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
                ),
                (
                    json!({"spec": {"securityContext": set(true), "containers": [
                        {"name": "c", "securityContext": set(true)}, {"name": "d", "securityContext": set(true)}]}}),
                    "hostProcess (pod and containers \"c\", \"d\" must not set securityContext.windowsOptions.hostProcess=true)",
                ),
            ],
        );
    }
}
