//! Ports of containers.

use std::collections::HashSet;

use super::Place;
use crate::At;
use crate::{FieldErrors, format};

pub(super) fn validate(ports: &At<'_>, errors: &mut FieldErrors) {
    let mut names = HashSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if name.is_set() {
            let problems = format::port_name(name.text());
            if problems.is_empty() && !names.insert(name.text()) {
                name.duplicate(errors);
            }
            name.problems(errors, problems);
        }
        let number = port.field("containerPort");
        match number.int().unwrap_or(0) {
            0 => number.required(errors, ""),
            n => number.problems(errors, format::port_number(n)),
        }
        let host = port.field("hostPort");
        if let Some(n) = host.int().filter(|&n| n != 0) {
            host.problems(errors, format::port_number(n));
        }
        port.field("protocol").need_one_of(errors, &["SCTP", "TCP", "UDP"]);
    }
}

/// On the host's network there is only one number. A template may leave the second to the pod.
pub(super) fn same_on_host(ports: &At<'_>, place: Place, errors: &mut FieldErrors) {
    for port in ports.items() {
        let host = port.field("hostPort");
        let number = host.int().unwrap_or(0);
        if (place == Place::Pod || number != 0) && number != port.field("containerPort").int().unwrap_or(0) {
            errors.invalid(host.path, number, "must match `containerPort` when `hostNetwork` is true");
        }
    }
}

/// No two containers of a pod may listen on the same port of the host.
pub(super) fn no_shared_host_ports(containers: &At<'_>, errors: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for container in containers.items() {
        for port in container.field("ports").items() {
            let Some(number) = port.field("hostPort").int().filter(|&n| n != 0) else { continue };
            let text = |field: &str| port.field(field).text();
            let id = format!("{}/{}/{number}", text("protocol"), text("hostIP"));
            if !seen.insert(id.clone()) {
                errors.duplicate(port.field("hostPort").path, id);
            }
        }
    }
}
