//! Probes and lifecycle hooks.

use serde_json::Value;

use crate::At;
use crate::{FieldErrors, format};

/// The probes and hooks of a container that stays up.
pub(super) fn of_container(container: &At<'_>, spec: &At<'_>, errors: &mut FieldErrors) {
    for (field, once) in [("livenessProbe", true), ("readinessProbe", false), ("startupProbe", true)] {
        let probe = container.field(field);
        if probe.exists() {
            validate_probe(&probe, errors);
            let successes = probe.field("successThreshold");
            if once && successes.int().is_some_and(|n| n != 1) {
                successes.invalid(errors, "must be 1");
            }
        }
    }
    let readiness_grace = container.field("readinessProbe").field("terminationGracePeriodSeconds");
    if readiness_grace.exists() {
        readiness_grace.invalid(errors, "must not be set for readinessProbes");
    }
    let lifecycle = container.field("lifecycle");
    for hook in ["postStart", "preStop"].map(|hook| lifecycle.field(hook)) {
        if hook.exists() {
            validate_handler(&hook, &["exec", "httpGet", "tcpSocket", "sleep"], errors);
            validate_sleep(&hook.field("sleep"), spec, errors);
        }
    }
    if lifecycle.field("stopSignal").is_set() && !spec.field("os").field("name").is_set() {
        lifecycle
            .field("stopSignal")
            .forbidden(errors, "may not be set for containers with empty `spec.os.name`");
    }
}

fn validate_probe(probe: &At<'_>, errors: &mut FieldErrors) {
    validate_handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], errors);
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        probe.field(field).not_negative(errors);
    }
    let grace = probe.field("terminationGracePeriodSeconds");
    if grace.int().is_some_and(|n| n <= 0) {
        grace.invalid(errors, "must be greater than 0");
    }
}

fn validate_sleep(sleep: &At<'_>, spec: &At<'_>, errors: &mut FieldErrors) {
    let seconds = sleep.field("seconds");
    let grace = spec.field("terminationGracePeriodSeconds").int().unwrap_or(30);
    if seconds.int().is_some_and(|n| n < 0 || n > grace) {
        let rule = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        seconds.invalid(errors, rule);
    }
}

fn validate_handler(handler: &At<'_>, kinds: &[&str], errors: &mut FieldErrors) {
    let mut set = kinds.iter().filter(|kind| handler.field(kind).exists());
    if set.next().is_none() {
        handler.required(errors, "must specify a handler type");
    }
    for extra in set {
        handler.field(extra).forbidden(errors, "may not specify more than 1 handler type");
    }
    let exec = handler.field("exec");
    if exec.exists() {
        exec.field("command").need(errors);
    }
    let http = handler.field("httpGet");
    if http.exists() {
        http.field("path").need(errors);
        validate_port(&http.field("port"), errors);
        http.field("scheme").one_of(errors, &["HTTP", "HTTPS"]);
        for header in http.field("httpHeaders").items() {
            header.field("name").problems(errors, header_problems(header.field("name").text()));
        }
    }
    let tcp = handler.field("tcpSocket");
    if tcp.exists() {
        validate_port(&tcp.field("port"), errors);
    }
    let grpc = handler.field("grpc");
    if grpc.exists() {
        validate_port(&grpc.field("port"), errors);
    }
}

/// A number, or the name of one of the container's ports.
fn validate_port(port: &At<'_>, errors: &mut FieldErrors) {
    match port.value {
        Value::String(name) => port.problems(errors, format::port_name(name)),
        Value::Null => port.required(errors, ""),
        number => port.problems(errors, format::port_number(number.as_i64().unwrap_or(0))),
    }
}

fn header_problems(name: &str) -> Vec<String> {
    match !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        true => Vec::new(),
        false => vec![
            "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', \
             regex used for validation is '[-A-Za-z0-9]+')"
                .to_owned(),
        ],
    }
}
