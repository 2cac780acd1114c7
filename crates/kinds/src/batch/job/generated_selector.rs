//! The selector that every Job gets unless its author insists on one: by the Job's uid, so that no two
//! Jobs ever share a pod.

use serde_json::{Value, json};

use crate::fill;

pub(super) const UID: &str = "batch.kubernetes.io/controller-uid";
const NAME: &str = "batch.kubernetes.io/job-name";
/// The labels of old, which tools still look for.
const OLD_UID: &str = "controller-uid";
const OLD_NAME: &str = "job-name";

/// Labels the template and selects by the uid. The uid must be in the metadata.
pub(super) fn generate(job: &mut Value) {
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let (uid, name) = (job["metadata"]["uid"].clone(), job["metadata"]["name"].clone());
    let Some(spec) = job.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    let labels = fill::object(spec, "template")
        .and_then(|template| fill::object(template, "metadata"))
        .and_then(|metadata| fill::map(metadata, "labels"));
    if let Some(labels) = labels {
        for (label, value) in [(OLD_UID, &uid), (OLD_NAME, &name), (UID, &uid), (NAME, &name)] {
            labels.entry(label).or_insert_with(|| value.clone());
        }
    }
    let matched = fill::object(spec, "selector").and_then(|selector| fill::map(selector, "matchLabels"));
    if let Some(matched) = matched
        && !matched.contains_key(UID)
    {
        matched.insert(UID.to_owned(), json!(uid));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn pods_are_found_by_uid() {
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {"spec": {}}}});
        super::generate(&mut job);
        assert_eq!(job["spec"]["selector"], json!({"matchLabels": {super::UID: "u"}}));
        assert_eq!(
            job["spec"]["template"]["metadata"]["labels"],
            json!({"controller-uid": "u", "job-name": "j", super::UID: "u", super::NAME: "j"})
        );
    }

    #[test]
    fn a_manual_selector_stays() {
        let spec = json!({"manualSelector": true, "selector": {"matchLabels": {"a": "b"}}});
        let mut job = json!({"metadata": {"name": "j", "uid": "u"}, "spec": spec});
        super::generate(&mut job);
        assert_eq!(job["spec"], spec);
    }
}
