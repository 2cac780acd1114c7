//! Services, Ingresses, IngressClasses and EndpointSlices.

use serde_json::Value;

use super::super::page::{Page, items, shown};
use super::selector;
use crate::client::Call;
use crate::error::Result;
use crate::print;
use crate::session::Session;

/// More addresses than this are only counted.
const MOST: usize = 3;

pub async fn service(session: &Session, object: &Value, page: &mut Page) -> Result<bool> {
    let spec = &object["spec"];
    page.head(object);
    page.field(0, "Selector", selector(&spec["selector"]));
    page.field(0, "Type", shown(&spec["type"]));
    page.maybe(0, "IP Family Policy", &spec["ipFamilyPolicy"]);
    let joined = |list: &Value| {
        let words: Vec<String> = items(list).iter().map(shown).collect();
        if words.is_empty() { "<none>".to_owned() } else { words.join(",") }
    };
    if spec["ipFamilies"].is_array() {
        page.field(0, "IP Families", joined(&spec["ipFamilies"]));
    }
    page.field(0, "IP", shown(&spec["clusterIP"]));
    page.field(0, "IPs", joined(&spec["clusterIPs"]));
    if !items(&spec["externalIPs"]).is_empty() {
        page.field(0, "External IPs", joined(&spec["externalIPs"]));
    }
    page.maybe(0, "Desired LoadBalancer IP", &spec["loadBalancerIP"]);
    page.maybe(0, "External Name", &spec["externalName"]);
    let balanced = items(&object["status"]["loadBalancer"]["ingress"]);
    if !balanced.is_empty() {
        let address = |entry: &Value| {
            let own = shown(&entry["ip"]);
            if own.is_empty() { shown(&entry["hostname"]) } else { own }
        };
        let mode =
            |entry: &Value| entry["ipMode"].as_str().map(|mode| format!(" ({mode})")).unwrap_or_default();
        let all: Vec<String> = balanced.iter().map(|entry| address(entry) + &mode(entry)).collect();
        page.field(0, "LoadBalancer Ingress", all.join(", "));
    }
    let slices = slices(session, object).await?;
    for port in items(&spec["ports"]) {
        let name = port["name"].as_str().filter(|name| !name.is_empty()).unwrap_or("<unset>");
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        page.line(0, format!("Port:\t{name}\t{}/{protocol}", port["port"]));
        page.field(0, "TargetPort", format!("{}/{protocol}", shown(&port["targetPort"])));
        if port["nodePort"].is_number() {
            page.line(0, format!("NodePort:\t{name}\t{}/{protocol}", port["nodePort"]));
        }
        page.field(0, "Endpoints", endpoints(&slices, port));
    }
    page.field(0, "Session Affinity", shown(&spec["sessionAffinity"]));
    page.maybe(0, "External Traffic Policy", &spec["externalTrafficPolicy"]);
    page.maybe(0, "Internal Traffic Policy", &spec["internalTrafficPolicy"]);
    if number(&spec["healthCheckNodePort"]) > 0 {
        page.field(0, "HealthCheck NodePort", shown(&spec["healthCheckNodePort"]));
    }
    if !items(&spec["loadBalancerSourceRanges"]).is_empty() {
        page.field(0, "LoadBalancer Source Ranges", joined(&spec["loadBalancerSourceRanges"]));
    }
    Ok(true)
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

async fn slices(session: &Session, service: &Value) -> Result<Vec<Value>> {
    let (namespace, name) = (shown(&service["metadata"]["namespace"]), shown(&service["metadata"]["name"]));
    let call = Call::get(format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"))
        .query("labelSelector", format!("kubernetes.io/service-name={name}"));
    Ok(print::members(&session.client().await?.send(call).await?).to_vec())
}

/// `10.0.0.1:80,10.0.0.2:80 + 3 more...`.
fn endpoints(slices: &[Value], port: &Value) -> String {
    let (mut all, mut found) = (Vec::new(), false);
    for slice in slices {
        for own in items(&slice["ports"]) {
            if own["name"].as_str().unwrap_or_default() != port["name"].as_str().unwrap_or_default() {
                continue;
            }
            found = true;
            for endpoint in items(&slice["endpoints"]).iter().filter(|e| e["conditions"]["ready"] != false) {
                for address in items(&endpoint["addresses"]) {
                    let address = shown(address);
                    let address = if address.contains(':') { format!("[{address}]") } else { address };
                    all.push(format!("{address}:{}", own["port"]));
                }
            }
        }
    }
    if slices.is_empty() && !found {
        return String::new();
    }
    let more = all.len().saturating_sub(MOST);
    all.truncate(MOST);
    let text = all.join(",");
    if more > 0 { format!("{text} + {more} more...") } else { text }
}

pub async fn ingress(session: &Session, object: &Value, page: &mut Page) -> Result<bool> {
    let (metadata, spec) = (&object["metadata"], &object["spec"]);
    page.field(0, "Name", shown(&metadata["name"]));
    page.labels(object);
    page.field(0, "Namespace", shown(&metadata["namespace"]));
    let addresses: Vec<String> = items(&object["status"]["loadBalancer"]["ingress"])
        .iter()
        .map(|entry| if entry["ip"].is_string() { shown(&entry["ip"]) } else { shown(&entry["hostname"]) })
        .collect();
    page.field(0, "Address", addresses.join(","));
    let class = spec["ingressClassName"].as_str().filter(|class| !class.is_empty());
    page.field(0, "Ingress Class", class.unwrap_or("<none>"));
    let namespace = shown(&metadata["namespace"]);
    match spec["defaultBackend"].is_object() {
        true => page.field(0, "Default backend", backend(session, &namespace, &spec["defaultBackend"]).await),
        false => page.field(0, "Default backend", "<default>"),
    }
    if !items(&spec["tls"]).is_empty() {
        page.line(0, "TLS:");
        for tls in items(&spec["tls"]) {
            let hosts: Vec<String> = items(&tls["hosts"]).iter().map(shown).collect();
            match tls["secretName"].as_str() {
                Some(secret) => page.line(1, format!("{secret} terminates {}", hosts.join(","))),
                None => page.line(1, format!("SNI routes {}", hosts.join(","))),
            }
        }
    }
    page.line(0, "Rules:");
    page.line(1, "Host\tPath\tBackends");
    page.line(1, "----\t----\t--------");
    let rules = items(&spec["rules"]);
    for rule in rules {
        let host = rule["host"].as_str().filter(|host| !host.is_empty()).unwrap_or("*");
        page.line(1, format!("{host}\t"));
        for path in items(&rule["http"]["paths"]) {
            let to = backend(session, &namespace, &path["backend"]).await;
            page.line(1, format!("\t{} \t{to}", shown(&path["path"])));
        }
    }
    if rules.is_empty() {
        let to = backend(session, &namespace, &spec["defaultBackend"]).await;
        page.line(1, format!("*\t*\t{to}"));
    }
    page.annotations(object);
    Ok(true)
}

/// `web:80 (10.0.0.1:80)`.
async fn backend(session: &Session, namespace: &str, backend: &Value) -> String {
    let service = &backend["service"];
    if !service.is_object() {
        let resource = &backend["resource"];
        return format!(
            "APIGroup: {}, Kind: {}, Name: {}",
            shown(&resource["apiGroup"]),
            shown(&resource["kind"]),
            shown(&resource["name"])
        );
    }
    let name = shown(&service["name"]);
    let wanted = &service["port"];
    let port = if wanted["number"].is_number() { shown(&wanted["number"]) } else { shown(&wanted["name"]) };
    let found = async {
        let path = format!("/api/v1/namespaces/{namespace}/services/{name}");
        let object = session.client().await?.get(path).await?;
        let ports = items(&object["spec"]["ports"]);
        let own = ports.iter().find(|own| own["port"] == wanted["number"] || own["name"] == wanted["name"]);
        let slices = slices(session, &object).await?;
        Ok::<_, crate::error::Error>(own.map(|own| endpoints(&slices, own)).unwrap_or_default())
    };
    match found.await {
        Ok(endpoints) => format!("{name}:{port} ({endpoints})"),
        Err(crate::error::Error::Server(error)) => format!("{name}:{port} (<error: {}>)", error.message),
        Err(error) => format!("{name}:{port} (<error: {error}>)"),
    }
}

pub fn ingress_class(object: &Value, page: &mut Page) {
    page.head(object);
    page.field(0, "Controller", shown(&object["spec"]["controller"]));
    let parameters = &object["spec"]["parameters"];
    if parameters.is_object() {
        page.line(0, "Parameters:");
        page.maybe(1, "APIGroup", &parameters["apiGroup"]);
        page.field(1, "Kind", shown(&parameters["kind"]));
        page.field(1, "Name", shown(&parameters["name"]));
    }
}

pub fn endpoint_slice(object: &Value, page: &mut Page) {
    page.head(object);
    page.field(0, "AddressType", shown(&object["addressType"]));
    let unset = |value: &Value| if value.is_null() { "<unset>".to_owned() } else { shown(value) };
    match items(&object["ports"]) {
        [] => page.field(0, "Ports", "<unset>"),
        ports => {
            page.line(0, "Ports:");
            let row =
                |port: &Value| vec![unset(&port["name"]), unset(&port["port"]), shown(&port["protocol"])];
            page.table(1, &["Name", "Port", "Protocol"], &ports.iter().map(row).collect::<Vec<_>>());
        }
    }
    if items(&object["endpoints"]).is_empty() {
        return page.field(0, "Endpoints", "<none>");
    }
    page.line(0, "Endpoints:");
    for endpoint in items(&object["endpoints"]) {
        let addresses: Vec<String> = items(&endpoint["addresses"]).iter().map(shown).collect();
        page.line(1, format!("- Addresses:\t{}", addresses.join(", ")));
        page.line(2, "Conditions:");
        page.field(3, "Ready", unset(&endpoint["conditions"]["ready"]));
        page.field(2, "Hostname", unset(&endpoint["hostname"]));
        if endpoint["targetRef"].is_object() {
            let target = &endpoint["targetRef"];
            page.field(2, "TargetRef", format!("{}/{}", shown(&target["kind"]), shown(&target["name"])));
        }
        page.field(2, "NodeName", unset(&endpoint["nodeName"]));
        page.field(2, "Zone", unset(&endpoint["zone"]));
    }
}
