//! No directories of the node.

use crate::check::{Check, Revision, Violation};
use crate::level::Level;
use crate::pod::Pod;
use crate::wording::{plural, quoted};

pub const ID: &str = "hostPathVolumes";

pub const CHECK: Check =
    Check { id: ID, level: Level::Baseline, revisions: &[Revision::since(0, since_1_0)] };

fn since_1_0(pod: &Pod<'_>) -> Option<Violation> {
    let bad = pod.volumes().filter(|volume| !volume["hostPath"].is_null());
    let bad: Vec<&str> = bad.filter_map(|volume| volume["name"].as_str()).collect();
    (!bad.is_empty()).then(|| Violation {
        reason: "hostPath volumes",
        detail: format!("{} {}", plural("volume", "volumes", bad.len()), quoted(&bad)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::testing::expect;

    #[test]
    fn host_path_volumes_are_forbidden() {
        let host = |name: &str| json!({"name": name, "hostPath": {"path": "/"}});
        expect(
            &CHECK,
            0,
            &[
                (json!({"spec": {}}), ""),
                (
                    json!({"spec": {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": null}]}}),
                    "",
                ),
                (json!({"spec": {"volumes": [host("a")]}}), "hostPath volumes (volume \"a\")"),
                (
                    json!({"spec": {"volumes": [host("a"), {"name": "b", "emptyDir": {}}, host("c")]}}),
                    "hostPath volumes (volumes \"a\", \"c\")",
                ),
            ],
        );
    }
}
