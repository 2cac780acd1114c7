//! Job: runs pods until enough of them have succeeded.

mod generated_selector;
mod policies;
mod row;
mod update;
mod validation;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use crate::pod_spec::{cells, template, warnings};
use crate::{Cell, Column, FieldErrors, Resource, Strategy};
use crate::{fill, table};

pub(in crate::batch) use validation::validate_spec;

pub(crate) fn resource() -> Resource {
    Resource::of::<Job>(Jobs).in_all().counted().status()
}

struct Jobs;

impl Strategy for Jobs {
    fn default(&self, object: &mut Value) {
        let labels = object["spec"]["template"]["metadata"]["labels"].clone();
        if labels.as_object().is_some_and(|labels| !labels.is_empty())
            && let Some(metadata) = fill::object(object, "metadata")
            && let Some(map) = fill::map(metadata, "labels")
            && map.is_empty()
        {
            metadata["labels"] = labels;
        }
        if let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) {
            fill_in(spec);
            fill_in_nested(spec);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        generated_selector::generate(object);
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        validation::validate(object, errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        update::validate(object, old, errors);
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        warnings::of_workload(object)
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("status.successful", object["status"]["succeeded"].as_i64().unwrap_or(0).to_string())]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &["status.successful"]
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts_and_wide(
            &["Name", "Status", "Completions", "Duration", "Age"],
            &["Containers", "Images", "Selector"],
        ))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let mut row = vec![
            table::name(object),
            row::status(object).into(),
            row::completions(object).into(),
            row::duration(object, now).into(),
            table::age(object, now),
        ];
        row.extend(cells::wide_cells(&object["spec"]));
        row
    }
}

fn fill_in(spec: &mut Value) {
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        spec["completions"] = json!(1);
    }
    fill::field(spec, "parallelism", 1);
    let per_index = !spec["backoffLimitPerIndex"].is_null();
    fill::field(spec, "backoffLimit", if per_index { i64::from(i32::MAX) } else { 6 });
    fill::field(spec, "completionMode", "NonIndexed");
    fill::field(spec, "suspend", false);
    fill::field(spec, "manualSelector", false);
    // A policy about failures wants to see each failure before its replacement starts.
    let judged = !spec["podFailurePolicy"].is_null();
    fill::field(spec, "podReplacementPolicy", if judged { "Failed" } else { "TerminatingOrFailed" });
}

/// What a Job in a CronJob's template gets too.
pub(crate) fn fill_in_nested(spec: &mut Value) {
    template::fill_in(spec, "template");
    let Some(policy) = spec.get_mut("podFailurePolicy") else { return };
    for rule in fill::items(policy, "rules") {
        for pattern in fill::items(rule, "onPodConditions") {
            fill::field(pattern, "status", "True");
        }
    }
}

#[cfg(test)]
mod tests;
