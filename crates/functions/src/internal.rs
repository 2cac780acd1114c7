//! The kinds by which controller and routers agree. Users read them, if at all, to find out what is wrong.

use jiff::Timestamp;
use minik8s_api::{Cell, Column, Resource, Strategy, table};
use minik8s_meta::function::{FunctionDemand, FunctionEndpoints};
use serde_json::Value;

pub fn endpoints() -> Resource {
    Resource::of::<FunctionEndpoints>(Endpoints)
}

pub fn demands() -> Resource {
    Resource::of::<FunctionDemand>(Demands).created_by_put()
}

struct Endpoints;

impl Strategy for Endpoints {
    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Instances", "Problem", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let spec = &object["spec"];
        vec![
            table::name(object),
            table::count(&spec["instances"]).to_string().into(),
            table::text_or(&spec["problem"]["reason"], table::NONE).into(),
            table::age(object, now),
        ]
    }
}

struct Demands;

impl Strategy for Demands {
    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Requests", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        vec![
            table::name(object),
            table::text_or(&object["spec"]["requests"], "0").into(),
            table::age(object, now),
        ]
    }
}
