//! Containers say that they do not run as root, unless root is nobody on the node (since 1.35).

use crate::check::{Check, Revision, Violation};
use crate::level::Level;
use crate::pod::Pod;
use crate::wording::{containers, setters};

pub const CHECK: Check = Check {
    id: "runAsNonRoot",
    level: Level::Restricted,
    revisions: &[Revision::since(0, since_1_0), Revision::since(35, since_1_35)],
};

fn since_1_0(pod: &Pod<'_>) -> Option<Violation> {
    let whole = pod.security()["runAsNonRoot"].as_bool();
    let (mut explicit, mut implicit) = (Vec::new(), Vec::new());
    for container in pod.containers() {
        match container.security()["runAsNonRoot"].as_bool() {
            Some(true) => {}
            Some(false) => explicit.push(container.name),
            None if whole == Some(true) => {}
            None => implicit.push(container.name),
        }
    }
    let who = setters(whole == Some(false), &explicit);
    let detail = if !who.is_empty() {
        format!("{} must not set securityContext.runAsNonRoot=false", who.join(" and "))
    } else if !implicit.is_empty() {
        format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&implicit))
    } else {
        return None;
    };
    Some(Violation { reason: "runAsNonRoot != true", detail })
}

fn since_1_35(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_user_namespace() { None } else { since_1_0(pod) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::check::testing::expect;

    #[test]
    fn run_as_non_root_must_be_said() {
        let pod = |whole: Value, one: Value, users: Value| {
            json!({"spec": {"hostUsers": users, "securityContext": {"runAsNonRoot": whole}, "containers": [
                {"name": "c", "securityContext": {"runAsNonRoot": one}}, {"name": "d"}]}})
        };
        let (yes, no, unset) = (json!(true), json!(false), json!(null));
        let cases = [
            (pod(yes.clone(), unset.clone(), unset.clone()), ""),
            (
                pod(unset.clone(), yes.clone(), yes.clone()),
                "runAsNonRoot != true (pod or container \"d\" must set securityContext.runAsNonRoot=true)",
            ),
            (
                pod(unset.clone(), unset.clone(), unset.clone()),
                "runAsNonRoot != true (pod or containers \"c\", \"d\" must set securityContext.runAsNonRoot=true)",
            ),
            (
                pod(yes.clone(), no.clone(), unset.clone()),
                "runAsNonRoot != true (container \"c\" must not set securityContext.runAsNonRoot=false)",
            ),
            (
                pod(no.clone(), no.clone(), unset.clone()),
                "runAsNonRoot != true (pod and container \"c\" must not set securityContext.runAsNonRoot=false)",
            ),
            (
                pod(no.clone(), yes.clone(), unset.clone()),
                "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)",
            ),
            (json!({"spec": {"containers": [{"name": "c", "securityContext": {"runAsNonRoot": true}}]}}), ""),
        ];
        for minor in [0, 34, 35] {
            expect(&CHECK, minor, &cases);
        }
        let own = pod(no, unset, json!(false));
        expect(&CHECK, 35, &[(own.clone(), "")]);
        expect(
            &CHECK,
            34,
            &[(own, "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)")],
        );
    }
}
