//! ConfigMaps, Secrets, service accounts, namespaces, limits, quotas and priorities.

use base64::Engine;
use serde_json::Value;

use super::super::page::{Page, amount, items, shown};
use crate::error::Result;
use crate::print;
use crate::session::Session;

fn sorted(map: &Value) -> Vec<(&String, &Value)> {
    let mut pairs: Vec<(&String, &Value)> = map.as_object().into_iter().flatten().collect();
    pairs.sort_by_key(|(key, _)| key.as_str());
    pairs
}

fn decoded(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    base64::engine::general_purpose::STANDARD.decode(text).map_or(0, |bytes| bytes.len())
}

pub fn config_map(object: &Value, page: &mut Page) {
    page.head(object);
    page.line(0, "\nData\n====");
    for (key, value) in sorted(&object["data"]) {
        page.line(0, format!("{key}:\n----\n{}\n", shown(value)));
    }
    page.line(0, "\nBinaryData\n====");
    for (key, value) in sorted(&object["binaryData"]) {
        page.line(0, format!("{key}: {} bytes", decoded(value)));
    }
    page.line(0, "");
}

pub fn secret(object: &Value, page: &mut Page) {
    page.head(object);
    page.line(0, format!("\nType:\t{}", shown(&object["type"])));
    page.line(0, "\nData\n====");
    for (key, value) in sorted(&object["data"]) {
        page.field(0, key, format!("{} bytes", decoded(value)));
    }
}

pub async fn service_account(session: &Session, object: &Value, page: &mut Page) -> Result<bool> {
    page.head(object);
    let names = |list: &Value| items(list).iter().map(|item| shown(&item["name"])).collect::<Vec<_>>();
    let (namespace, name) = (shown(&object["metadata"]["namespace"]), shown(&object["metadata"]["name"]));
    // Who may see the account need not be allowed to see Secrets.
    let secrets = session
        .client()
        .await?
        .get(format!("/api/v1/namespaces/{namespace}/secrets"))
        .await
        .unwrap_or_default();
    let tokens: Vec<String> = print::members(&secrets)
        .iter()
        .filter(|secret| secret["type"] == "kubernetes.io/service-account-token")
        .filter(|secret| secret["metadata"]["annotations"]["kubernetes.io/service-account.name"] == name)
        .map(|secret| shown(&secret["metadata"]["name"]))
        .collect();
    for (label, list) in [
        ("Image pull secrets", names(&object["imagePullSecrets"])),
        ("Mountable secrets", names(&object["secrets"])),
        ("Tokens", tokens),
    ] {
        match list.as_slice() {
            [] => page.field(0, label, "<none>"),
            [first, rest @ ..] => {
                page.field(0, label, first);
                rest.iter().for_each(|name| page.line(0, format!("\t{name}")));
            }
        }
    }
    Ok(true)
}

pub async fn namespace(session: &Session, object: &Value, page: &mut Page) -> Result<bool> {
    page.head(object);
    page.field(0, "Status", shown(&object["status"]["phase"]));
    let conditions = items(&object["status"]["conditions"]);
    if !conditions.is_empty() {
        page.line(0, "Conditions:");
        page.line(1, "Type\tStatus\tLastTransitionTime\tReason\tMessage");
        page.line(1, "----\t------\t------------------\t------\t-------");
        for condition in conditions {
            let cells = ["type", "status", "lastTransitionTime", "reason", "message"]
                .map(|field| shown(&condition[field]));
            page.line(1, cells.join("\t"));
        }
    }
    let name = shown(&object["metadata"]["name"]);
    let client = session.client().await?;
    let quotas = client.get(format!("/api/v1/namespaces/{name}/resourcequotas")).await.unwrap_or_default();
    let ranges = client.get(format!("/api/v1/namespaces/{name}/limitranges")).await.unwrap_or_default();
    page.line(0, "");
    match items(&quotas["items"]) {
        [] => page.line(0, "No resource quota."),
        quotas => {
            page.line(0, "Resource Quotas");
            for quota in quotas {
                page.field(1, "Name", shown(&quota["metadata"]["name"]));
                page.line(1, "Resource\tUsed\tHard");
                page.line(1, "--------\t---\t---");
                for row in quota_rows(quota) {
                    page.line(1, row.join("\t"));
                }
            }
        }
    }
    page.line(0, "");
    match items(&ranges["items"]) {
        [] => page.line(0, "No LimitRange resource."),
        ranges => {
            page.line(0, "Resource Limits");
            page.line(0, format!(" {}", LIMIT_COLUMNS.join("\t")));
            page.line(0, format!(" {}", LIMIT_COLUMNS.map(|column| "-".repeat(column.len())).join("\t")));
            for row in ranges.iter().flat_map(limit_rows) {
                page.line(0, format!(" {}", row.join("\t")));
            }
        }
    }
    Ok(false)
}

fn quota_rows(quota: &Value) -> Vec<Vec<String>> {
    let hard =
        if quota["status"]["hard"].is_object() { &quota["status"]["hard"] } else { &quota["spec"]["hard"] };
    let row = |(name, hard): (&String, &Value)| {
        let used = &quota["status"]["used"][name];
        vec![name.clone(), if used.is_null() { "0".to_owned() } else { amount(used) }, amount(hard)]
    };
    sorted(hard).into_iter().map(row).collect()
}

pub fn quota(object: &Value, page: &mut Page) {
    page.field(0, "Name", shown(&object["metadata"]["name"]));
    page.field(0, "Namespace", shown(&object["metadata"]["namespace"]));
    let scopes: Vec<String> = items(&object["spec"]["scopes"]).iter().map(shown).collect();
    if !scopes.is_empty() {
        page.field(0, "Scopes", scopes.join(", "));
    }
    page.line(0, "Resource\tUsed\tHard");
    page.line(0, "--------\t----\t----");
    for row in quota_rows(object) {
        page.line(0, row.join("\t"));
    }
}

const LIMIT_COLUMNS: [&str; 7] =
    ["Type", "Resource", "Min", "Max", "Default Request", "Default Limit", "Max Limit/Request Ratio"];

fn limit_rows(range: &Value) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for limit in items(&range["spec"]["limits"]) {
        let fields = ["min", "max", "defaultRequest", "default", "maxLimitRequestRatio"];
        let mut resources: Vec<&String> = fields
            .iter()
            .flat_map(|field| limit[*field].as_object().into_iter().flatten().map(|(name, _)| name))
            .collect();
        resources.sort();
        resources.dedup();
        for resource in resources {
            let cell = |field: &str| {
                let value = &limit[field][resource.as_str()];
                if value.is_null() { "-".to_owned() } else { amount(value) }
            };
            let mut row = vec![shown(&limit["type"]), resource.clone()];
            row.extend(fields.map(cell));
            rows.push(row);
        }
    }
    rows
}

pub fn limit_range(object: &Value, page: &mut Page) {
    page.field(0, "Name", shown(&object["metadata"]["name"]));
    page.field(0, "Namespace", shown(&object["metadata"]["namespace"]));
    page.table(0, &LIMIT_COLUMNS, &limit_rows(object));
}

pub fn priority_class(object: &Value, page: &mut Page) {
    page.field(0, "Name", shown(&object["metadata"]["name"]));
    page.field(0, "Value", shown(&object["value"]));
    page.field(0, "GlobalDefault", object["globalDefault"] == true);
    page.field(0, "PreemptionPolicy", shown(&object["preemptionPolicy"]));
    page.field(0, "Description", shown(&object["description"]));
    page.field(0, "Annotations", print::table::labels(&object["metadata"]["annotations"]));
}
