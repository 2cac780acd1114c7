//! DNS: a host name whose paths lead to different Services.
//!
//! The name resolves in pods and on nodes to the node's own HTTP router, which takes the path away that led to
//! the Service. Names with a wildcard are left to Ingress: a hosts file cannot say them.

mod validate;

use jiff::Timestamp;
use minik8s_meta::dns::Dns;
use serde_json::Value;

use crate::fill;
use crate::table::{self, NONE};
use crate::{Cell, Column, FieldErrors, Resource, Strategy};

pub(crate) fn resource() -> Resource {
    Resource::of::<Dns>(Names).status().counted()
}

struct Names;

impl Strategy for Names {
    fn default(&self, object: &mut Value) {
        for path in paths_mut(object) {
            fill::field(path, "path", "/");
        }
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        validate::dns(object, errors);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts_and_wide(&["Name", "Host", "Paths", "Targets", "Ready", "Age"], &["Message"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let rules = || object["spec"]["rules"].as_array().into_iter().flatten();
        let paths = || rules().flat_map(|rule| rule["paths"].as_array().into_iter().flatten());
        let hosts = rules().map(|rule| table::text_or(&rule["host"], ""));
        let targets = paths().map(|path| {
            let service = &path["backend"]["service"];
            format!("{}:{}", table::text_or(&service["name"], ""), table::text_or(&service["port"], ""))
        });
        let statuses = || object["status"]["paths"].as_array().into_iter().flatten();
        let ready = statuses().map(|path| if path["ready"] == true { "True" } else { "False" }.to_owned());
        let problems = statuses().filter_map(|path| path["message"].as_str()).map(str::to_owned);
        let ready = listed(ready, ",");
        vec![
            table::name(object),
            listed(hosts, ",").into(),
            listed(paths().map(|path| table::text_or(&path["path"], "/")), ",").into(),
            listed(targets, ",").into(),
            if ready == NONE { "Unknown".to_owned() } else { ready }.into(),
            table::age(object, now),
            listed(problems, "; ").into(),
        ]
    }
}

fn listed(texts: impl Iterator<Item = String>, between: &str) -> String {
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() { NONE.to_owned() } else { texts.join(between) }
}

fn paths_mut(object: &mut Value) -> impl Iterator<Item = &mut Value> {
    let rules = object.pointer_mut("/spec/rules").and_then(Value::as_array_mut).into_iter().flatten();
    rules
        .filter_map(|rule| rule.get_mut("paths").and_then(Value::as_array_mut))
        .flatten()
        .filter(|path| path.is_object())
}

#[cfg(test)]
mod tests;
