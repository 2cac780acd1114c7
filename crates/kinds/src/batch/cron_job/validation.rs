//! What a CronJob must say.

use serde_json::Value;

use crate::At;
use crate::batch::job;
use crate::{CronSchedule, FieldErrors, metadata, time_zone};

/// A Job's name is the CronJob's and eleven characters; a pod's name must still fit behind it.
const MAX_NAME: usize = 52;

pub(super) fn validate(object: &Value, errors: &mut FieldErrors) {
    let object = At::root(object);
    let name = object.field("metadata").field("name");
    if name.text().len() > MAX_NAME {
        name.invalid(errors, format!("must be no more than {MAX_NAME} bytes"));
    }
    let spec = object.field("spec");
    schedule(&spec.field("schedule"), errors);
    zone(&spec.field("timeZone"), errors);
    for field in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        spec.field(field).not_negative(errors);
    }
    spec.field("concurrencyPolicy").need_one_of(errors, &["Allow", "Forbid", "Replace"]);
    template(&spec.field("jobTemplate"), errors);
}

fn schedule(schedule: &At<'_>, errors: &mut FieldErrors) {
    if !schedule.need(errors) {
        return;
    }
    if schedule.text().contains("TZ") {
        return schedule.invalid(errors, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    }
    if let Err(error) = CronSchedule::parse(schedule.text()) {
        schedule.invalid(errors, error.to_string());
    }
}

fn zone(zone: &At<'_>, errors: &mut FieldErrors) {
    match zone.value.as_str() {
        None => {}
        Some("") => zone.invalid(errors, "must be nil or non-empty string"),
        Some(name) if name.eq_ignore_ascii_case("local") => zone.invalid(
            errors,
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        ),
        Some(name) if time_zone(name).is_none() => {
            zone.invalid(errors, format!("unknown time zone {name}"));
        }
        Some(_) => {}
    }
}

fn template(template: &At<'_>, errors: &mut FieldErrors) {
    let at = template.field("metadata");
    let (labels, annotations) = (at.field("labels"), at.field("annotations"));
    metadata::validate_labels(labels.value, &labels.path, errors);
    metadata::validate_annotations(annotations.value, &annotations.path, errors);
    let spec = template.field("spec");
    job::validate_spec(&spec, errors);
    if spec.field("selector").exists() {
        spec.field("selector").invalid(errors, "`selector` will be auto-generated");
    }
    if spec.field("manualSelector").is_true() {
        spec.field("manualSelector").not_supported(errors, &["nil", "false"]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::check;

    fn cron_job(spec: Value) -> Value {
        let pod = json!({"restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "i:1"}]});
        let mut full = json!({
            "schedule": "*/5 * * * *",
            "jobTemplate": {"metadata": {"creationTimestamp": null}, "spec": {"template": {"spec": pod}}},
        });
        full.as_object_mut().expect("object").extend(spec.as_object().expect("object").clone());
        json!({"metadata": {"name": "cj", "creationTimestamp": "2026-01-01T11:00:00Z"}, "spec": full})
    }

    #[test]
    fn defaults() {
        let spec = check::defaulted("cronjobs", cron_job(json!({})))["spec"].clone();
        for (field, expected) in [
            ("concurrencyPolicy", json!("Allow")),
            ("suspend", json!(false)),
            ("successfulJobsHistoryLimit", json!(3)),
            ("failedJobsHistoryLimit", json!(1)),
        ] {
            assert_eq!(spec[field], expected, "{field}");
        }
        assert_eq!(spec["jobTemplate"]["metadata"], json!({}));
        assert_eq!(spec["jobTemplate"]["spec"].get("parallelism"), None);
        assert_eq!(spec["jobTemplate"]["spec"]["template"]["spec"]["dnsPolicy"], "ClusterFirst");
    }

    #[test]
    fn validation() {
        let check = |spec: Value, expected: &[&str]| check::errors("cronjobs", cron_job(spec), expected);
        check(json!({}), &[]);
        check(json!({"schedule": "@hourly", "timeZone": "Europe/Berlin"}), &[]);
        check(json!({"schedule": ""}), &["spec.schedule: Required value"]);
        check(
            json!({"schedule": "* * * *"}),
            &["spec.schedule: Invalid value: \"* * * *\": expected exactly 5 fields, found 4: [* * * *]"],
        );
        check(
            json!({"schedule": "TZ=UTC * * * * *"}),
            &["spec.schedule: Invalid value: \"TZ=UTC * * * * *\": cannot use TZ"],
        );
        check(
            json!({"timeZone": "Mars/Base"}),
            &["spec.timeZone: Invalid value: \"Mars/Base\": unknown time zone Mars/Base"],
        );
        check(json!({"timeZone": "Local"}), &["spec.timeZone: Invalid value: \"Local\": timeZone must be"]);
        check(json!({"concurrencyPolicy": "x"}), &["spec.concurrencyPolicy: Unsupported value: \"x\""]);
        check(json!({"startingDeadlineSeconds": -1}), &["spec.startingDeadlineSeconds: Invalid value: -1"]);
        check(
            json!({"jobTemplate": {"spec": {"selector": {}, "template": {"spec": {"containers": []}}}}}),
            &[
                "spec.jobTemplate.spec.template.spec.containers: Required value",
                "spec.jobTemplate.spec.template.spec.restartPolicy: Required value",
                "spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated",
            ],
        );
        let mut long = cron_job(json!({}));
        long["metadata"]["name"] = json!("a".repeat(53));
        check::errors("cronjobs", long, &["metadata.name: Invalid value"]);
    }

    #[test]
    fn row() {
        let mut object = check::defaulted("cronjobs", cron_job(json!({})));
        object["status"] = json!({"active": [{}], "lastScheduleTime": "2026-01-01T11:59:30Z"});
        check::row(
            "cronjobs",
            object,
            &["cj", "*/5 * * * *", "<none>", "False", "1", "30s", "60m", "c", "i:1", "<none>"],
        );
    }
}
