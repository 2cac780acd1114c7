//! Nothing asks for root by number, unless root is nobody on the node (since 1.35).

use serde_json::Value;

use crate::check::{Check, Revision, Violation};
use crate::level::Level;
use crate::pod::Pod;
use crate::wording::setters;

pub const CHECK: Check = Check {
    id: "runAsUser",
    level: Level::Restricted,
    revisions: &[Revision::since(23, since_1_23), Revision::since(35, since_1_35)],
};

fn since_1_23(pod: &Pod<'_>) -> Option<Violation> {
    let names = pod.containers().filter(|container| is_root(container.security()));
    let names: Vec<&str> = names.map(|container| container.name).collect();
    let who = setters(is_root(pod.security()), &names);
    (!who.is_empty()).then(|| Violation {
        reason: "runAsUser=0",
        detail: format!("{} must not set runAsUser=0", who.join(" and ")),
    })
}

fn since_1_35(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_user_namespace() { None } else { since_1_23(pod) }
}

fn is_root(security: &Value) -> bool {
    security["runAsUser"].as_f64() == Some(0.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::testing::expect;

    #[test]
    fn run_as_user_must_not_be_root() {
        let pod = |whole: Value, one: Value, users: Value| {
            json!({"spec": {"hostUsers": users, "securityContext": {"runAsUser": whole}, "containers": [
                {"name": "c", "securityContext": {"runAsUser": one}}, {"name": "d"}]}})
        };
        let unset = json!(null);
        let cases = [
            (pod(unset.clone(), unset.clone(), unset.clone()), ""),
            (pod(json!(1000), json!(1), unset.clone()), ""),
            (pod(json!(0), json!(1), unset.clone()), "runAsUser=0 (pod must not set runAsUser=0)"),
            (pod(json!(1), json!(0), json!(true)), "runAsUser=0 (container \"c\" must not set runAsUser=0)"),
            (
                pod(json!(0), json!(0), unset.clone()),
                "runAsUser=0 (pod and container \"c\" must not set runAsUser=0)",
            ),
        ];
        for minor in [23, 34, 35] {
            expect(&CHECK, minor, &cases);
        }
        let own = pod(json!(0), unset, json!(false));
        expect(&CHECK, 34, &[(own.clone(), "runAsUser=0 (pod must not set runAsUser=0)")]);
        expect(&CHECK, 35, &[(own.clone(), "")]);
        expect(&CHECK, 22, &[(own, "")]);
    }
}
