//! Which changes of a pod are judged anew: those that can bring in what was not judged before. Other changes
//! (labels, tolerations) are let through, so that pods from before a policy can still be cared for.

use serde_json::Value;

use crate::pod::items;

/// True if a container came, went or has another image.
pub fn is_significant(new: &Value, old: &Value) -> bool {
    let fixed = ["containers", "initContainers"].iter().any(|list| {
        let (new, old) = (&new["spec"][list], &old["spec"][list]);
        items(new).count() != items(old).count()
            || items(new).zip(items(old)).any(|(new, old)| image(new) != image(old))
    });
    let before = |name: &Value| {
        let mut ephemeral = items(&old["spec"]["ephemeralContainers"]);
        ephemeral.find(|container| container["name"] == *name)
    };
    fixed
        || items(&new["spec"]["ephemeralContainers"])
            .any(|container| before(&container["name"]).is_none_or(|old| image(old) != image(container)))
}

fn image(container: &Value) -> &str {
    container["image"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn update_is_significant_when_containers_change() {
        let old = json!({"spec": {
            "containers": [{"name": "a", "image": "i"}], "initContainers": [{"name": "b", "image": "i"}],
            "ephemeralContainers": [{"name": "e", "image": "i"}],
        }});
        let check = |pointer: &str, value: Value, expected: bool| {
            let mut new = old.clone();
            match new.pointer_mut(pointer) {
                Some(place) => *place = value,
                None => panic!("{pointer} is not there"),
            }
            assert_eq!(is_significant(&new, &old), expected, "{pointer}: {new}");
        };
        assert!(!is_significant(&old, &old));
        check("/spec/containers/0/image", json!("other"), true);
        check("/spec/containers", json!([]), true);
        check("/spec/initContainers/0/image", json!("other"), true);
        check("/spec/initContainers", json!([]), true);
        check("/spec/ephemeralContainers/0/image", json!("other"), true);
        check("/spec/ephemeralContainers/0/name", json!("f"), true);
        check("/spec/ephemeralContainers", json!([]), false);
        check("/spec/containers/0/name", json!("renamed"), false);
    }
}
