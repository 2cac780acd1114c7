//! What the metrics of an autoscaler must look like.

use super::validate::object_reference;
use crate::At;
use crate::{FieldErrors, format, validate_label_selector};

/// Types of metrics and the field that each fills.
const SOURCES: &[(&str, &str)] = &[
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

pub(super) fn metrics(list: &At<'_>, errors: &mut FieldErrors) {
    for metric in list.items() {
        let ty = metric.field("type");
        if !ty.is_set() {
            ty.required(errors, "must specify a metric source type");
            continue;
        }
        let Some((_, expected)) = SOURCES.iter().find(|(name, _)| *name == ty.text()) else {
            let names: Vec<&str> = SOURCES.iter().map(|(name, _)| *name).collect();
            ty.not_supported(errors, &names);
            continue;
        };
        let source = metric.field(expected);
        match source.exists() {
            true => metric_source(expected, &source, errors),
            false => source.required(errors, "must populate information for the given metric source"),
        }
        for (_, other) in SOURCES.iter().filter(|(_, other)| other != expected) {
            if metric.field(other).exists() {
                metric.field(other).forbidden(errors, "must populate the given metric source only");
            }
        }
    }
}

fn metric_source(kind: &str, source: &At<'_>, errors: &mut FieldErrors) {
    let target = source.field("target");
    metric_target(&target, errors);
    let (value, average) = (target.field("value"), target.field("averageValue"));
    match kind {
        "resource" | "containerResource" => {
            if !source.field("name").is_set() {
                source.field("name").required(errors, "must specify a resource name");
            }
            if kind == "containerResource" && !source.field("container").is_set() {
                source.field("container").required(errors, "must specify a container");
            }
            resource_target(&target, errors);
        }
        "pods" => {
            identifier(&source.field("metric"), errors);
            if !average.exists() {
                average.required(errors, "must specify a positive target averageValue");
            }
        }
        "object" => {
            object_reference(&source.field("describedObject"), errors);
            identifier(&source.field("metric"), errors);
            if !value.exists() && !average.exists() {
                average.required(errors, "must set either a target value or averageValue");
            }
        }
        _ => {
            identifier(&source.field("metric"), errors);
            match (value.exists(), average.exists()) {
                (false, false) => {
                    average.required(errors, "must set either a target value for metric or a per-pod target")
                }
                (true, true) => {
                    value.forbidden(errors, "may not set both a target value for metric and a per-pod target")
                }
                _ => {}
            }
        }
    }
}

fn resource_target(target: &At<'_>, errors: &mut FieldErrors) {
    let (utilization, average) = (target.field("averageUtilization"), target.field("averageValue"));
    match (utilization.exists(), average.exists()) {
        (false, false) => {
            utilization.required(errors, "must set either a target raw value or a target utilization");
        }
        (true, true) => {
            average.forbidden(errors, "may not set both a target raw value and a target utilization");
        }
        _ => {}
    }
}

fn metric_target(target: &At<'_>, errors: &mut FieldErrors) {
    let ty = target.field("type");
    match ty.text() {
        "" => ty.required(errors, "must specify a metric target type"),
        "Utilization" | "Value" | "AverageValue" => {}
        _ => ty.invalid(errors, "must be either Utilization, Value, or AverageValue"),
    }
    for field in ["value", "averageValue"].map(|name| target.field(name)) {
        if field.quantity(errors).is_some_and(|quantity| quantity.is_negative() || quantity.is_zero()) {
            field.invalid(errors, "must be positive");
        }
    }
    let utilization = target.field("averageUtilization");
    if utilization.int().is_some_and(|percent| percent < 1) {
        utilization.invalid(errors, "must be greater than 0");
    }
}

fn identifier(metric: &At<'_>, errors: &mut FieldErrors) {
    let name = metric.field("name");
    match name.is_set() {
        true => name.has_form(errors, format::path_segment),
        false => name.required(errors, "must specify a metric name"),
    }
    let selector = metric.field("selector");
    validate_label_selector(selector.value, &selector.path, errors);
}
