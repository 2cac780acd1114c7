//! Containers of pods and templates.

use serde_json::Value;

use super::super::page::{Page, amount, items, shown};
use crate::print::time;

/// All containers below a label. In a template names stand one blank deeper, as kubectl has it.
pub fn list(
    label: &str,
    level: usize,
    containers: &[Value],
    statuses: &[Value],
    pod: Option<&Value>,
    page: &mut Page,
) {
    page.line(level, format!("{label}:"));
    let space = if pod.is_some() { "  " } else { "   " };
    for container in containers {
        page.line(0, format!("{space}{}:", shown(&container["name"])));
        let status = statuses.iter().find(|status| status["name"] == container["name"]);
        basics(container, status, page);
        words("Command", &container["command"], page);
        words("Args", &container["args"], page);
        if let Some(status) = status {
            state("State", &status["state"], page);
            if status["lastState"]["terminated"].is_object() {
                state("Last State", &status["lastState"], page);
            }
            page.field(2, "Ready", if status["ready"] == true { "True" } else { "False" });
            page.field(2, "Restart Count", shown(&status["restartCount"]));
        }
        for (label, field) in [("Limits", "limits"), ("Requests", "requests")] {
            amounts(label, &container["resources"][field], page);
        }
        for (label, field) in
            [("Liveness", "livenessProbe"), ("Readiness", "readinessProbe"), ("Startup", "startupProbe")]
        {
            if container[field].is_object() {
                page.field(2, label, probe(&container[field]));
            }
        }
        environment(container, pod, page);
        mounts(container, page);
    }
}

fn basics(container: &Value, status: Option<&Value>, page: &mut Page) {
    if let Some(status) = status {
        page.field(2, "Container ID", shown(&status["containerID"]));
    }
    page.field(2, "Image", shown(&container["image"]));
    if let Some(status) = status {
        page.field(2, "Image ID", shown(&status["imageID"]));
    }
    let ports = items(&container["ports"]);
    let joined = |field: &str| {
        let port = |port: &Value| {
            format!("{}/{}", port[field].as_i64().unwrap_or(0), port["protocol"].as_str().unwrap_or("TCP"))
        };
        ports.iter().map(port).collect::<Vec<_>>().join(", ")
    };
    let plural = if joined("containerPort").contains(',') { "s" } else { "" };
    let or_none = |text: String| if text.is_empty() { "<none>".to_owned() } else { text };
    page.field(2, &format!("Port{plural}"), or_none(joined("containerPort")));
    page.field(2, &format!("Host Port{plural}"), or_none(joined("hostPort")));
    if let Some(profile) = container["securityContext"]["seccompProfile"]["type"].as_str() {
        page.field(2, "SeccompProfile", profile);
    }
}

fn words(label: &str, list: &Value, page: &mut Page) {
    if items(list).is_empty() {
        return;
    }
    page.line(2, format!("{label}:"));
    for word in items(list) {
        for line in shown(word).split('\n') {
            page.line(3, line);
        }
    }
}

fn state(label: &str, state: &Value, page: &mut Page) {
    if state["running"].is_object() {
        page.field(2, label, "Running");
        page.field(3, "Started", time::long(&state["running"]["startedAt"]));
        return;
    }
    let ended = &state["terminated"];
    if ended.is_object() {
        page.field(2, label, "Terminated");
        page.maybe(3, "Reason", &ended["reason"]);
        page.maybe(3, "Message", &ended["message"]);
        page.field(3, "Exit Code", shown(&ended["exitCode"]));
        if ended["signal"].as_i64().is_some_and(|signal| signal > 0) {
            page.field(3, "Signal", shown(&ended["signal"]));
        }
        page.field(3, "Started", time::long(&ended["startedAt"]));
        page.field(3, "Finished", time::long(&ended["finishedAt"]));
        return;
    }
    page.field(2, label, "Waiting");
    page.maybe(3, "Reason", &state["waiting"]["reason"]);
}

/// Resources in order.
fn amounts(label: &str, amounts: &Value, page: &mut Page) {
    let mut names: Vec<&String> = amounts.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    names.sort();
    if names.is_empty() {
        return;
    }
    page.line(2, format!("{label}:"));
    for name in names {
        page.field(3, name, amount(&amounts[name]));
    }
}

fn probe(probe: &Value) -> String {
    let or = |field: &str, default: i64| probe[field].as_i64().unwrap_or(default);
    let attributes = format!(
        "delay={}s timeout={}s period={}s #success={} #failure={}",
        or("initialDelaySeconds", 0),
        or("timeoutSeconds", 1),
        or("periodSeconds", 10),
        or("successThreshold", 1),
        or("failureThreshold", 3)
    );
    let text = |value: &Value| shown(value);
    let how = if probe["exec"].is_object() {
        let words: Vec<String> = items(&probe["exec"]["command"]).iter().map(text).collect();
        format!("exec [{}]", words.join(" "))
    } else if probe["httpGet"].is_object() {
        let get = &probe["httpGet"];
        let scheme = get["scheme"].as_str().unwrap_or("HTTP").to_lowercase();
        format!("http-get {scheme}://{}:{}{}", text(&get["host"]), text(&get["port"]), text(&get["path"]))
    } else if probe["tcpSocket"].is_object() {
        format!("tcp-socket {}:{}", text(&probe["tcpSocket"]["host"]), text(&probe["tcpSocket"]["port"]))
    } else if probe["grpc"].is_object() {
        format!("grpc <pod>:{} {}", text(&probe["grpc"]["port"]), text(&probe["grpc"]["service"]))
    } else {
        "unknown".to_owned()
    };
    format!("{how} {attributes}")
}

fn environment(container: &Value, pod: Option<&Value>, page: &mut Page) {
    let sources = items(&container["envFrom"]);
    if !sources.is_empty() {
        page.line(2, "Environment Variables from:");
        for source in sources {
            let (kind, reference) = match source["configMapRef"].is_object() {
                true => ("ConfigMap", &source["configMapRef"]),
                false => ("Secret", &source["secretRef"]),
            };
            let prefix = source["prefix"].as_str().filter(|prefix| !prefix.is_empty());
            let prefix = prefix.map(|prefix| format!(" with prefix '{prefix}'")).unwrap_or_default();
            let optional = reference["optional"] == true;
            page.line(3, format!("{}\t{kind}{prefix}\tOptional: {optional}", shown(&reference["name"])));
        }
    }
    let variables = items(&container["env"]);
    page.line(2, if variables.is_empty() { "Environment:\t<none>" } else { "Environment:" });
    for variable in variables {
        let (name, value) = (shown(&variable["name"]), variable_value(variable, container, pod));
        let mut lines = value.split('\n');
        page.line(3, format!("{name}:\t{}", lines.next().unwrap_or_default()));
        for line in lines {
            page.line(3, format!("\t{line}"));
        }
    }
}

fn variable_value(variable: &Value, container: &Value, pod: Option<&Value>) -> String {
    let from = &variable["valueFrom"];
    let text = |value: &Value| shown(value);
    if from["fieldRef"].is_object() {
        let (version, path) = (text(&from["fieldRef"]["apiVersion"]), text(&from["fieldRef"]["fieldPath"]));
        let version = if version.is_empty() { "v1".to_owned() } else { version };
        let value = pod
            .and_then(|pod| pod.pointer(&format!("/{}", path.replace('.', "/"))))
            .map(shown)
            .unwrap_or_default();
        let value = if value.is_empty() { String::new() } else { format!("{value} ") };
        return format!("{value}({version}:{path})");
    }
    if from["resourceFieldRef"].is_object() {
        let resource = text(&from["resourceFieldRef"]["resource"]);
        let value = resource.split_once('.').map(|(list, name)| text(&container["resources"][list][name]));
        return format!(
            "{} ({resource})",
            value.filter(|value| !value.is_empty()).unwrap_or_else(|| "node allocatable".to_owned())
        );
    }
    for (field, word) in [("configMapKeyRef", "of config map"), ("secretKeyRef", "in secret")] {
        let reference = &from[field];
        if reference.is_object() {
            let optional = reference["optional"] == true;
            return format!(
                "<set to the key '{}' {word} '{}'>\tOptional: {optional}",
                text(&reference["key"]),
                text(&reference["name"])
            );
        }
    }
    text(&variable["value"])
}

fn mounts(container: &Value, page: &mut Page) {
    let mut mounts: Vec<&Value> = items(&container["volumeMounts"]).iter().collect();
    mounts.sort_by_key(|mount| shown(&mount["mountPath"]));
    page.line(2, if mounts.is_empty() { "Mounts:\t<none>" } else { "Mounts:" });
    for mount in mounts {
        let mut flags = if mount["readOnly"] == true { "ro" } else { "rw" }.to_owned();
        if let Some(path) = mount["subPath"].as_str().filter(|path| !path.is_empty()) {
            flags.push_str(&format!(",path={path:?}"));
        }
        page.line(3, format!("{} from {} ({flags})", shown(&mount["mountPath"]), shown(&mount["name"])));
    }
}
