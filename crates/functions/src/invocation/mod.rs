//! Invocation: a call that was accepted and will be carried out, by the router of the node that it names.
//!
//! The controller chooses that node where nobody has, chooses another where it is gone, and deletes what ended long ago.
//! It never calls a function.

mod destination;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use minik8s_api::{At, Cell, Column, FieldErrors, Part, Resource, Strategy, fill, table};
use minik8s_meta::function::{Function, FunctionAsync};
use minik8s_meta::invocation::Invocation;
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches, key_of};
use serde_json::Value;

use crate::calls::LateClient;

/// Text of a payload: what a router takes as a body is more, but objects are kept in memory.
const LARGEST_PAYLOAD: usize = 256 << 10;

pub fn resource(client: &LateClient) -> Resource {
    let handler = destination::DestinationHandler(client.clone());
    Resource::of::<Invocation>(Invocations).status().counted().handled(
        destination::DESTINATION,
        "Invocation",
        &["create"],
        handler,
    )
}

struct Invocations;

impl Strategy for Invocations {
    fn default(&self, object: &mut Value) {
        if let Some(spec) = fill::object(object, "spec") {
            fill::field(spec, "ttlSeconds", 3600);
            fill::field(spec, "contentType", "application/json");
        }
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        spec.field("function").need(errors);
        crate::validate::destinations(&spec, errors);
        let payload = spec.field("payload");
        if payload.text().len() > LARGEST_PAYLOAD {
            payload.forbidden(
                errors,
                format!("has more than {LARGEST_PAYLOAD} bytes: call the function without async"),
            );
        }
        for (field, most) in [
            ("attempts", 100),
            ("ttlSeconds", 2_592_000),
            ("backoffSeconds", 3600),
            ("maxAgeSeconds", 2_592_000),
        ] {
            let at = spec.field(field);
            if at.int().is_some_and(|number| !(1..=most).contains(&number)) {
                at.invalid(errors, format!("must be between 1 and {most}"));
            }
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let (spec, old) = (At::root(object).field("spec"), At::root(old).field("spec"));
        for field in ["function", "payload", "contentType"] {
            spec.field(field).unchanged(errors, &old.field(field));
        }
    }

    fn selectable(&self, object: &Value) -> Vec<(&str, String)> {
        vec![("spec.node", object["spec"]["node"].as_str().unwrap_or_default().to_owned())]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &["spec.node"]
    }

    fn selectable_parts(&self, _field: &str) -> Option<&'static [Part]> {
        Some(&[("spec", "node")])
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Function", "Phase", "Attempts", "Code", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let status = &object["status"];
        vec![
            table::name(object),
            table::text_or(&object["spec"]["function"], "").into(),
            table::text_or(&status["phase"], "Pending").into(),
            table::text_or(&status["attempts"], "0").into(),
            table::text_or(&status["code"], table::NONE).into(),
            table::age(object, now),
        ]
    }
}

pub struct InvocationController;

pub struct Observed {
    invocation: Arc<Invocation>,
    /// Nodes that are ready, in order.
    ready: Vec<String>,
    /// Whether a function was told already how it ended.
    told_before: bool,
    /// What the function itself says of whom to tell.
    destinations: Option<FunctionAsync>,
}

impl Controller for InvocationController {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "invocation-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<Invocation>();
        watches.needs::<Function>();
        watches.on_change::<Node>({
            let caches = Arc::downgrade(watches.caches());
            move |old, new| {
                // Nodes report every few seconds; only those that come or go matter.
                if old.is_some_and(is_ready) == new.is_some_and(is_ready) {
                    return Vec::new();
                }
                let Some(caches) = caches.upgrade() else { return Vec::new() };
                let open = caches.of::<Invocation>().list();
                open.iter().filter(|one| !one.has_ended()).map(|one| key_of(&**one)).collect()
            }
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let invocation = caches.of::<Invocation>().get(key)?;
        let nodes = caches.of::<Node>().list();
        let mut ready: Vec<String> = nodes
            .iter()
            .filter(|node| is_ready(node))
            .filter_map(|node| node.metadata.name.clone())
            .collect();
        ready.sort();
        let phase = invocation.status.as_ref().map_or("", |status| status.phase.as_str());
        let told = Key::new(&*key.namespace, destination::told_name(&key.name, phase));
        let told_before = caches.of::<Invocation>().get(&told).is_some();
        let function = caches.of::<Function>().get(&Key::new(&*key.namespace, &*invocation.spec.function));
        let destinations = function.and_then(|function| function.spec.async_calls.clone());
        Some(Observed { invocation, ready, told_before, destinations })
    }

    fn plan(&self, seen: &Observed, now: k8s_openapi::jiff::Timestamp) -> Plan {
        plan::plan(seen, now)
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|one| one.type_ == "Ready" && one.status == "True")
}
