//! Nodes: what they are, what they have, and who uses it.

use minik8s_meta::Quantity;
use serde_json::Value;

use super::super::page::{Page, amount, items, shown};
use crate::client::Call;
use crate::error::Result;
use crate::print::{self, time};
use crate::session::Session;

const ROLE: &str = "node-role.kubernetes.io/";

pub async fn write(session: &Session, node: &Value, page: &mut Page) -> Result<bool> {
    let (metadata, spec, status) = (&node["metadata"], &node["spec"], &node["status"]);
    let name = shown(&metadata["name"]);
    page.field(0, "Name", &name);
    page.field(0, "Roles", roles(node));
    page.labels(node);
    page.annotations(node);
    page.field(0, "CreationTimestamp", time::long(&metadata["creationTimestamp"]));
    let mut taints: Vec<&Value> = items(&spec["taints"]).iter().collect();
    taints.sort_by_key(|taint| (shown(&taint["effect"]), shown(&taint["key"])));
    let taints: Vec<String> = taints.into_iter().map(taint).collect();
    match taints.as_slice() {
        [] => page.field(0, "Taints", "<none>"),
        [first, rest @ ..] => {
            page.field(0, "Taints", first);
            rest.iter().for_each(|taint| page.line(0, format!("\t{taint}")));
        }
    }
    page.field(0, "Unschedulable", spec["unschedulable"] == true);
    lease(session, &name, page).await?;
    conditions(items(&status["conditions"]), page);
    page.line(0, "Addresses:");
    for address in items(&status["addresses"]) {
        page.field(1, &shown(&address["type"]), shown(&address["address"]));
    }
    for (label, field) in [("Capacity", "capacity"), ("Allocatable", "allocatable")] {
        let mut names: Vec<&String> =
            status[field].as_object().into_iter().flatten().map(|(name, _)| name).collect();
        names.sort();
        if !names.is_empty() {
            page.line(0, format!("{label}:"));
            names.iter().for_each(|name| page.field(1, name, amount(&status[field][name.as_str()])));
        }
    }
    system_info(&status["nodeInfo"], page);
    page.maybe(0, "PodCIDR", &spec["podCIDR"]);
    let ranges: Vec<String> = items(&spec["podCIDRs"]).iter().map(shown).collect();
    if !ranges.is_empty() {
        page.field(0, "PodCIDRs", ranges.join(","));
    }
    page.maybe(0, "ProviderID", &spec["providerID"]);
    let selector = format!("spec.nodeName={name},status.phase!=Failed,status.phase!=Succeeded");
    let pods =
        session.client().await?.send(Call::get("/api/v1/pods").query("fieldSelector", selector)).await?;
    allocations(print::members(&pods), status, page);
    Ok(true)
}

fn roles(node: &Value) -> String {
    let labels = node["metadata"]["labels"].as_object();
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, _)| key.strip_prefix(ROLE))
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }
}

fn taint(taint: &Value) -> String {
    let value = taint["value"].as_str().filter(|value| !value.is_empty());
    let value = value.map(|value| format!("={value}")).unwrap_or_default();
    format!("{}{value}:{}", shown(&taint["key"]), shown(&taint["effect"]))
}

/// One that never was is told as kubectl tells it.
fn moment(time: &Value) -> String {
    if time.is_null() { "Mon, 01 Jan 0001 00:00:00 +0000".to_owned() } else { time::long(time) }
}

async fn lease(session: &Session, name: &str, page: &mut Page) -> Result<()> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}");
    match session.client().await?.get(path).await {
        Err(crate::error::Error::Server(error)) => {
            page.field(0, "Lease", format!("Failed to get lease: {}", error.message))
        }
        Err(error) => return Err(error),
        Ok(lease) => {
            page.line(0, "Lease:");
            let or_unset = |value: &Value| if value.is_null() { "<unset>".to_owned() } else { shown(value) };
            page.field(1, "HolderIdentity", or_unset(&lease["spec"]["holderIdentity"]));
            page.field(
                1,
                "AcquireTime",
                if lease["spec"]["acquireTime"].is_null() {
                    "<unset>".to_owned()
                } else {
                    time::long(&lease["spec"]["acquireTime"])
                },
            );
            page.field(1, "RenewTime", time::long(&lease["spec"]["renewTime"]));
        }
    }
    Ok(())
}

fn conditions(conditions: &[Value], page: &mut Page) {
    if conditions.is_empty() {
        return;
    }
    page.line(0, "Conditions:");
    page.line(1, "Type\tStatus\tLastHeartbeatTime\tLastTransitionTime\tReason\tMessage");
    page.line(1, "----\t------\t-----------------\t------------------\t------\t-------");
    for condition in conditions {
        let cells = [
            shown(&condition["type"]),
            shown(&condition["status"]),
            moment(&condition["lastHeartbeatTime"]),
            moment(&condition["lastTransitionTime"]),
            shown(&condition["reason"]),
            shown(&condition["message"]),
        ];
        page.line(1, cells.join(" \t"));
    }
}

fn system_info(info: &Value, page: &mut Page) {
    page.line(0, "System Info:");
    for (label, field) in [
        ("Machine ID", "machineID"),
        ("System UUID", "systemUUID"),
        ("Boot ID", "bootID"),
        ("Kernel Version", "kernelVersion"),
        ("OS Image", "osImage"),
        ("Operating System", "operatingSystem"),
        ("Architecture", "architecture"),
        ("Container Runtime Version", "containerRuntimeVersion"),
        ("Kubelet Version", "kubeletVersion"),
        ("Kube-Proxy Version", "kubeProxyVersion"),
    ] {
        page.field(1, label, shown(&info[field]));
    }
}

/// What a pod asks for: its containers together, or the largest of those that run first.
fn pod_amount(pod: &Value, field: &str, resource: &str) -> Quantity {
    let amount = |container: &Value| {
        Quantity::from_json(&container["resources"][field][resource]).unwrap_or(Quantity::ZERO)
    };
    let main = items(&pod["spec"]["containers"])
        .iter()
        .fold(Quantity::ZERO, |sum, container| sum + amount(container));
    let first = items(&pod["spec"]["initContainers"]).iter().map(amount);
    first.fold(main, |most, one| if one > most { one } else { most })
}

fn percent(part: Quantity, whole: Quantity) -> i64 {
    if whole.milli() > 0 { part.milli() * 100 / whole.milli() } else { 0 }
}

fn allocations(pods: &[Value], status: &Value, page: &mut Page) {
    let whole =
        |resource: &str| Quantity::from_json(&status["allocatable"][resource]).unwrap_or(Quantity::ZERO);
    page.field(0, "Non-terminated Pods", format!("({} in total)", pods.len()));
    page.line(1, "Namespace\tName\t\tCPU Requests\tCPU Limits\tMemory Requests\tMemory Limits\tAge");
    page.line(1, "---------\t----\t\t------------\t----------\t---------------\t-------------\t---");
    let shares = ["cpu", "memory"].map(|resource| ["requests", "limits"].map(|field| (resource, field)));
    for pod in pods {
        let mut row =
            vec![shown(&pod["metadata"]["namespace"]), shown(&pod["metadata"]["name"]), String::new()];
        for (resource, field) in shares.iter().flatten() {
            let amount = pod_amount(pod, field, resource);
            row.push(format!("{amount} ({}%)", percent(amount, whole(resource))));
        }
        row.push(time::age_of(&pod["metadata"]["creationTimestamp"]));
        page.line(1, row.join("\t"));
    }
    page.line(0, "Allocated resources:");
    page.line(1, "(Total limits may be over 100 percent, i.e., overcommitted.)");
    page.line(1, "Resource\tRequests\tLimits");
    page.line(1, "--------\t--------\t------");
    for resource in ["cpu", "memory", "ephemeral-storage"] {
        let sum =
            |field: &str| pods.iter().fold(Quantity::ZERO, |sum, pod| sum + pod_amount(pod, field, resource));
        let cell = |field: &str| format!("{} ({}%)", sum(field), percent(sum(field), whole(resource)));
        page.line(1, format!("{resource}\t{}\t{}", cell("requests"), cell("limits")));
    }
}
