//! The usual masks over /proc. Since 1.35 a pod with users of its own may take them off at baseline, and the
//! rule without that exception is restricted's.

use crate::check::{Check, Revision, Violation};
use crate::level::Level;
use crate::pod::Pod;
use crate::wording::{Sorted, containers, quoted};

pub const BASELINE: Check = Check {
    id: "procMount",
    level: Level::Baseline,
    revisions: &[Revision::since(0, since_1_0), Revision::since(35, since_1_35)],
};

pub const RESTRICTED: Check = Check {
    id: "procMount_restricted",
    level: Level::Restricted,
    revisions: &[Revision { since: 35, find: since_1_0, overrides: &["procMount"] }],
};

fn since_1_0(pod: &Pod<'_>) -> Option<Violation> {
    let (mut names, mut types) = (Vec::new(), Sorted::new());
    for container in pod.containers() {
        let Some(ty) = container.security()["procMount"].as_str().filter(|ty| *ty != "Default") else {
            continue;
        };
        names.push(container.name);
        types.insert(ty);
    }
    (!names.is_empty()).then(|| Violation {
        reason: "procMount",
        detail: format!("{} must not set securityContext.procMount to {}", containers(&names), quoted(types)),
    })
}

fn since_1_35(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_user_namespace() { None } else { since_1_0(pod) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::testing::expect;

    #[test]
    fn proc_mount_must_be_masked() {
        let with = |ty: &str| json!({"name": "c", "securityContext": {"procMount": ty}});
        let bad = "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")";
        let cases = [
            (json!({"spec": {"containers": [{"name": "c"}]}}), ""),
            (json!({"spec": {"containers": [with("Default")]}}), ""),
            (json!({"spec": {"containers": [with("Unmasked")]}}), bad),
            (json!({"spec": {"hostUsers": true, "containers": [with("Unmasked")]}}), bad),
        ];
        for minor in [0, 34, 35] {
            expect(&BASELINE, minor, &cases);
        }
        expect(&RESTRICTED, 35, &cases);
        let own = json!({"spec": {"hostUsers": false, "containers": [with("Unmasked")]}});
        expect(&BASELINE, 34, &[(own.clone(), bad)]);
        expect(&BASELINE, 35, &[(own.clone(), "")]);
        expect(&RESTRICTED, 35, &[(own.clone(), bad)]);
        expect(&RESTRICTED, 34, &[(own, "")]);
    }
}
