//! SELinux types made for containers only; no other user or role.

use serde_json::Value;

use crate::check::{Check, Revision, Violation};
use crate::level::Level;
use crate::pod::Pod;
use crate::wording::{Sorted, plural, quoted, setters};

pub const CHECK: Check = Check {
    id: "seLinuxOptions",
    level: Level::Baseline,
    revisions: &[Revision::since(0, since_1_0), Revision::since(31, since_1_31)],
};

fn since_1_0(pod: &Pod<'_>) -> Option<Violation> {
    find(pod, &["", "container_t", "container_init_t", "container_kvm_t"])
}

fn since_1_31(pod: &Pod<'_>) -> Option<Violation> {
    find(pod, &["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"])
}

/// What is wrong with the options seen so far.
#[derive(Default)]
struct Faults<'a> {
    types: Sorted<'a>,
    user: bool,
    role: bool,
}

impl<'a> Faults<'a> {
    /// Notes the faults of these options; true if there are any.
    fn note(&mut self, security: &'a Value, allowed: &[&str]) -> bool {
        let options = &security["seLinuxOptions"];
        let text = |field: &str| options[field].as_str().unwrap_or_default();
        let (bad_type, user, role) =
            (!allowed.contains(&text("type")), !text("user").is_empty(), !text("role").is_empty());
        if bad_type {
            self.types.insert(text("type"));
        }
        self.user |= user;
        self.role |= role;
        bad_type || user || role
    }
}

fn find(pod: &Pod<'_>, allowed: &[&str]) -> Option<Violation> {
    let mut faults = Faults::default();
    let pod_sets = faults.note(pod.security(), allowed);
    let mut names = Vec::new();
    for container in pod.containers() {
        if faults.note(container.security(), allowed) {
            names.push(container.name);
        }
    }
    let who = setters(pod_sets, &names);
    if who.is_empty() {
        return None;
    }
    let mut what = Vec::new();
    if !faults.types.is_empty() {
        what.push(format!("{} {}", plural("type", "types", faults.types.len()), quoted(&faults.types)));
    }
    if faults.user {
        what.push("user may not be set".to_owned());
    }
    if faults.role {
        what.push("role may not be set".to_owned());
    }
    let detail =
        format!("{} set forbidden securityContext.seLinuxOptions: {}", who.join(" and "), what.join("; "));
    Some(Violation { reason: "seLinuxOptions", detail })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::testing::expect;

    #[test]
    fn se_linux_options_are_limited_to_containers() {
        let pod = |options: Value| json!({"spec": {"securityContext": {"seLinuxOptions": options}}});
        let one = |options: Value| json!({"name": "c", "securityContext": {"seLinuxOptions": options}});
        let mut cases: Vec<(Value, &str)> = ["", "container_t", "container_init_t", "container_kvm_t"]
            .into_iter()
            .map(|ty| (pod(json!({"type": ty, "level": "s0"})), ""))
            .collect();
        cases.extend([
            (json!({"spec": {"containers": [{"name": "c"}]}}), ""),
            (
                pod(json!({"type": "spc_t"})),
                "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type \"spc_t\")",
            ),
            (
                json!({"spec": {"containers": [one(json!({"user": "u"}))]}}),
                "seLinuxOptions (container \"c\" set forbidden securityContext.seLinuxOptions: user may not be set)",
            ),
            (
                json!({"spec": {"securityContext": {"seLinuxOptions": {"type": "b"}},
                    "containers": [one(json!({"user": "u", "role": "r", "type": "a"}))]}}),
                "seLinuxOptions (pod and container \"c\" set forbidden securityContext.seLinuxOptions: types \"a\", \
                 \"b\"; user may not be set; role may not be set)",
            ),
        ]);
        for minor in [0, 30, 31] {
            expect(&CHECK, minor, &cases);
        }
        let engine = pod(json!({"type": "container_engine_t"}));
        let bad =
            "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type \"container_engine_t\")";
        expect(&CHECK, 30, &[(engine.clone(), bad)]);
        expect(&CHECK, 31, &[(engine, "")]);
    }
}
