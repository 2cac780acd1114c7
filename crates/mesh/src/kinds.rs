//! The mesh's kinds: their names, columns and rules.

use jiff::Timestamp;
use minik8s_api::{Cell, Column, FieldErrors, NameRule, Resource, Strategy, table};
use minik8s_meta::gateway::ServiceRoute;
use minik8s_meta::mesh::{MeshAck, MeshProgress, MeshRoute, MeshService, PROGRAMMED, Subset, VirtualService};
use serde_json::Value;

use crate::{policy, rolling_update, validate};

pub fn all() -> Vec<Resource> {
    vec![
        // Acknowledgements are called after it and a node, without a dot before the node.
        Resource::of::<VirtualService>(VirtualServices)
            .short(&["vs"])
            .named(NameRule::Label)
            .status()
            .counted(),
        Resource::of::<Subset>(Subsets).counted(),
        rolling_update::resource(),
        policy::resource(),
        Resource::of::<ServiceRoute>(ServiceRoutes).status().counted(),
        Resource::of::<MeshRoute>(MeshRoutes),
        Resource::of::<MeshService>(MeshServices),
        Resource::of::<MeshAck>(MeshAcks).created_by_put(),
        Resource::of::<MeshProgress>(MeshProgresses).created_by_put(),
    ]
}

struct VirtualServices;

impl Strategy for VirtualServices {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        validate::virtual_service(object, errors);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        let shown = ["Name", "Service", "Port", "Subsets", "Proxies", "Programmed", "Age"];
        Some(table::texts_and_wide(&shown, &["Message"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let problem = conditions.filter(|condition| condition["status"] == "False").map(|c| &c["message"]);
        let message = problem.filter_map(Value::as_str).find(|text| !text.is_empty()).unwrap_or_default();
        let count = |field: &str| table::text_or(&status["proxies"][field], "0");
        vec![
            table::name(object),
            table::text_or(&spec["serviceRef"], table::NONE).into(),
            table::text_or(&spec["port"], table::NONE).into(),
            subsets(&spec["subsets"]).into(),
            format!("{}/{}", count("applied"), count("total")).into(),
            programmed(status).into(),
            table::age(object, now),
            message.into(),
        ]
    }
}

/// Whether all proxies follow.
pub fn programmed(status: &Value) -> String {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == PROGRAMMED);
    found.map_or("Unknown".to_owned(), |one| table::text_or(&one["status"], "Unknown"))
}

/// `v1=90,v3=10`; `v2?` where requests are matched.
fn subsets(subsets: &Value) -> String {
    let all = subsets.as_array().into_iter().flatten();
    let each = all.map(|subset| {
        let name = subset["name"].as_str().unwrap_or_default();
        match &subset["weight"] {
            Value::Number(weight) => format!("{name}={weight}"),
            _ if subset["url"].is_string() || subset["headers"].is_object() => format!("{name}?"),
            _ => name.to_owned(),
        }
    });
    each.collect::<Vec<_>>().join(",")
}

struct Subsets;

impl Strategy for Subsets {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        validate::subset(object, errors);
    }
}

struct ServiceRoutes;

impl Strategy for ServiceRoutes {
    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Ports", "Rules", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let spec = &object["spec"];
        vec![
            table::name(object),
            table::count(&spec["ports"]).to_string().into(),
            table::count(&spec["rules"]).to_string().into(),
            table::age(object, now),
        ]
    }
}

struct MeshRoutes;

impl Strategy for MeshRoutes {
    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Addresses", "Endpoints", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let spec = &object["spec"];
        let words = |list: &Value| -> String {
            let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
            texts.collect::<Vec<_>>().join(",")
        };
        let rules = spec["rules"].as_array().into_iter().flatten();
        let targets = spec["gateway"]["targets"].as_array().into_iter().flatten();
        let endpoints =
            rules.chain(targets).flat_map(|rule| rule["endpoints"].as_array().into_iter().flatten());
        let shown: Vec<String> = endpoints
            .map(|one| format!("{}={}", one["address"].as_str().unwrap_or_default(), one["weight"]))
            .collect();
        vec![
            table::name(object),
            words(&spec["addresses"]).into(),
            shown.join(",").into(),
            table::age(object, now),
        ]
    }
}

struct MeshServices;

impl Strategy for MeshServices {
    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Addresses", "Endpoints", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let ports = || object["spec"]["ports"].as_array().into_iter().flatten();
        let all =
            |field: &'static str| ports().flat_map(move |port| port[field].as_array().into_iter().flatten());
        let addresses: Vec<&str> = all("addresses").filter_map(Value::as_str).collect();
        let endpoint = |one: &Value| {
            let account = one["serviceAccount"].as_str().map(|account| format!("({account})"));
            format!("{}{}", one["address"].as_str().unwrap_or_default(), account.unwrap_or_default())
        };
        let endpoints: Vec<String> = all("endpoints").map(endpoint).collect();
        vec![
            table::name(object),
            addresses.join(",").into(),
            endpoints.join(",").into(),
            table::age(object, now),
        ]
    }
}

struct MeshAcks;

impl Strategy for MeshAcks {
    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Revision", "Waiting", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let spec = &object["spec"];
        vec![
            table::name(object),
            table::text_or(&spec["revision"], table::NONE).into(),
            table::count(&spec["waiting"]).to_string().into(),
            table::age(object, now),
        ]
    }
}

struct MeshProgresses;

impl Strategy for MeshProgresses {
    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Routed", "Changing", "Idle", "Requests", "Failed", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let spec = &object["spec"];
        let count = |field: &str| table::count(&spec[field]).to_string().into();
        let since = |field: &str| table::text_or(&spec["since"][field], "0").into();
        vec![
            table::name(object),
            count("routed"),
            count("changing"),
            count("idle"),
            since("total"),
            since("failed"),
            table::age(object, now),
        ]
    }
}
