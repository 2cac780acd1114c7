//! LimitRange: bounds and defaults for what pods of a namespace ask for.

use std::collections::{BTreeSet, HashSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::LimitRange;
use serde_json::{Map, Value};

use crate::At;
use crate::{Cell, Column, FieldErrors, Quantity, Resource, Strategy, format};
use crate::{fill, table};

pub(crate) fn resource() -> Resource {
    Resource::of::<LimitRange>(LimitRanges).created_by_put().short(&["limits"])
}

struct LimitRanges;

impl Strategy for LimitRanges {
    fn default(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec") else { return };
        for item in fill::items(spec, "limits") {
            if item["type"] == "Container" {
                fill_missing(item, "default", "max");
                fill_missing(item, "defaultRequest", "default");
                fill_missing(item, "defaultRequest", "min");
            }
        }
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let mut types = HashSet::new();
        for item in At::root(object).field("spec").field("limits").items() {
            let ty = item.field("type");
            validate_type(&ty, errors);
            if !types.insert(ty.text()) {
                ty.duplicate(errors);
            }
            validate_item(&item, errors);
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::created_columns())
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Cell> {
        table::created_row(object)
    }
}

/// What a map does not have, it takes from another.
fn fill_missing(item: &mut Value, to: &str, from: &str) {
    let Some(source) = item[from].as_object().filter(|source| !source.is_empty()).cloned() else {
        if item[from].is_null() {
            fill::remove(item, from);
        }
        return;
    };
    let Some(target): Option<&mut Map<String, Value>> = fill::map(item, to) else { return };
    for (key, value) in source {
        target.entry(key).or_insert(value);
    }
}

fn validate_type(ty: &At<'_>, errors: &mut FieldErrors) {
    let problems = format::qualified_name(ty.text());
    let well_formed = problems.is_empty();
    ty.problems(errors, problems);
    let standard = matches!(ty.text(), "Pod" | "Container" | "PersistentVolumeClaim");
    if well_formed && !standard && !ty.text().contains('/') {
        ty.invalid(errors, "must be a standard limit type or fully qualified");
    }
}

fn validate_item(item: &At<'_>, errors: &mut FieldErrors) {
    let maps =
        ["min", "max", "default", "defaultRequest", "maxLimitRequestRatio"].map(|name| item.field(name));
    let [min, max, default, request, ratio] = &maps;
    if item.field("type").text() == "Pod" {
        for map in [default, request].into_iter().filter(|map| map.is_set()) {
            map.forbidden(errors, "may not be specified when `type` is 'Pod'");
        }
    }
    let storage = |map: &At<'_>| map.field("storage").exists();
    if item.field("type").text() == "PersistentVolumeClaim" && !storage(min) && !storage(max) {
        item.required(
            errors,
            "either minimum or maximum storage value is required, but neither was provided",
        );
    }
    let keys: BTreeSet<&str> = maps.iter().flat_map(|map| map.entries().map(|(key, _)| key)).collect();
    for key in keys {
        let mut amount = |map: &At<'_>| entry(map, key).quantity(errors);
        let amounts = [amount(min), amount(max), amount(default), amount(request), amount(ratio)];
        validate_amounts(key, &maps, amounts, errors);
    }
}

/// `min ≤ defaultRequest ≤ default ≤ max`, as far as they are there.
fn validate_amounts(key: &str, maps: &[At<'_>; 5], amounts: [Option<Quantity>; 5], errors: &mut FieldErrors) {
    let [min_at, max_at, default_at, request_at, ratio_at] = maps.each_ref().map(|map| entry(map, key));
    let [min, max, default, request, ratio] = amounts;
    let mut ordered = |at: &At<'_>,
                       low: (Option<Quantity>, &At<'_>, &str),
                       high: (Option<Quantity>, &At<'_>, &str)| {
        if let (Some(small), Some(large)) = (low.0, high.0)
            && small > large
        {
            let (small, large) = (table::text_or(low.1.value, ""), table::text_or(high.1.value, ""));
            at.invalid(errors, format!("{} value {small} is greater than {} value {large}", low.2, high.2));
        }
    };
    ordered(&min_at, (min, &min_at, "min"), (max, &max_at, "max"));
    ordered(&request_at, (min, &min_at, "min"), (request, &request_at, "default request"));
    ordered(&request_at, (request, &request_at, "default request"), (max, &max_at, "max"));
    ordered(&request_at, (request, &request_at, "default request"), (default, &default_at, "default limit"));
    ordered(&default_at, (min, &min_at, "min"), (default, &default_at, "default"));
    ordered(&default_at, (default, &default_at, "default"), (max, &max_at, "max"));
    if ratio.is_some_and(|ratio| ratio.milli() < 1000) {
        let shown = table::text_or(ratio_at.value, "");
        ratio_at.invalid(errors, format!("ratio {shown} is less than 1"));
    }
}

fn entry<'a>(map: &At<'a>, key: &str) -> At<'a> {
    At { path: map.path.key(key), value: &map.value[key] }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::check;

    fn range(item: Value) -> Value {
        json!({ "spec": { "limits": [item] } })
    }

    #[test]
    fn defaults() {
        check::defaults(
            "limitranges",
            range(json!({"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}})),
            range(json!({"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"},
                "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2", "memory": "1Mi"}})),
        );
        check::defaults(
            "limitranges",
            range(json!({"type": "Pod", "max": {"cpu": "2"}})),
            range(json!({"type": "Pod", "max": {"cpu": "2"}})),
        );
    }

    #[test]
    fn validation() {
        #[track_caller]
        fn check(item: Value, expected: &[&str]) {
            check::errors("limitranges", range(item), expected);
        }
        check(json!({"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "100m"}}), &[]);
        check(
            json!({"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "2"}, "default": {"cpu": "1"}}),
            &[
                "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
                "spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1",
                "spec.limits[0].default[cpu]: Invalid value: \"1\": min value 2 is greater than default value 1",
            ],
        );
        check(
            json!({"type": "PersistentVolumeClaim"}),
            &["spec.limits[0]: Required value: either minimum or maximum"],
        );
        check(
            json!({"type": "Robot"}),
            &["spec.limits[0].type: Invalid value: \"Robot\": must be a standard limit type"],
        );
        check(
            json!({"type": "Pod", "maxLimitRequestRatio": {"cpu": "500m"}, "max": {"cpu": "x"}}),
            &[
                "spec.limits[0].max[cpu]: Invalid value: \"x\": quantities must match",
                "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"500m\": ratio 500m is less than 1",
            ],
        );
    }
}
