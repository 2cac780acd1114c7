//! What a Gateway must be like beside its listeners, with the messages of the project's own definitions.

use std::net::IpAddr;

use minik8s_api::{At, FieldErrors};

use super::validate::most;

pub fn addresses(all: &At<'_>, errors: &mut FieldErrors) {
    most(all, 16, errors);
    let (mut ips, mut hostnames) = (Vec::new(), Vec::new());
    for address in all.items() {
        let value = address.field("value");
        let text = value.text();
        if text.is_empty() {
            continue;
        }
        match address.field("type").text() {
            "" | "IPAddress" => {
                if text.parse::<IpAddr>().is_err() {
                    value.invalid(errors, "must be an IP address");
                }
                ips.push(text);
            }
            "Hostname" => {
                if !is_hostname(text.strip_prefix("*.").unwrap_or(text)) {
                    let text = "Hostname value must be empty or contain only valid characters (matching \
                                ^(\\*\\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$)";
                    address.invalid(errors, text);
                }
                hostnames.push(text);
            }
            _ => {}
        }
    }
    for (kind, mut values) in [("IPAddress", ips), ("Hostname", hostnames)] {
        let count = values.len();
        values.sort_unstable();
        values.dedup();
        if values.len() < count {
            all.invalid(errors, format!("{kind} values must be unique"));
        }
    }
}

/// Labels and annotations of what is made for a Gateway.
pub fn infrastructure(of: &At<'_>, errors: &mut FieldErrors) {
    for (field, lower, upper) in [("labels", "label", "Label"), ("annotations", "annotation", "Annotation")] {
        let all = of.field(field);
        if !all.entries().all(|(key, _)| is_key(key)) {
            let text = format!(
                "{upper} keys must be in the form of an optional DNS subdomain prefix followed by a required name segment \
                 of up to 63 characters."
            );
            all.invalid(errors, text);
        }
        if all.entries().any(|(key, _)| key.split('/').next().is_some_and(|prefix| prefix.len() >= 253)) {
            let text = format!(
                "If specified, the {lower} key's prefix must be a DNS subdomain not longer than 253 characters in total."
            );
            all.invalid(errors, text);
        }
    }
}

/// What a Gateway asks of clients, by port.
pub fn frontend_ports(all: &At<'_>, errors: &mut FieldErrors) {
    let mut ports: Vec<Option<i64>> = all.items().map(|one| one.field("port").int()).collect();
    let count = ports.len();
    ports.sort_unstable();
    ports.dedup();
    if ports.len() < count {
        all.invalid(errors, "Port for TLS configuration must be unique within the Gateway");
    }
}

/// Of a TLSRoute.
pub fn tls_hostnames(all: &At<'_>, errors: &mut FieldErrors) {
    let texts = || all.items().map(|hostname| hostname.text());
    if texts().any(|text| text.parse::<IpAddr>().is_ok()) {
        all.invalid(errors, "Hostnames cannot contain an IP");
    }
    if texts().any(|text| !text.contains('*') && !is_hostname(text)) {
        all.invalid(errors, "Hostnames must be valid based on RFC-1123");
    }
    let is_wildcard = |text: &str| text.strip_prefix("*.").is_some_and(is_hostname);
    if texts().any(|text| text.contains('*') && !is_wildcard(text)) {
        let text = "Wildcards on hostnames must be the first label, and the rest of hostname must be valid based on RFC-1123";
        all.invalid(errors, text);
    }
}

fn is_hostname(text: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.split('.').all(|label| {
        let has_ends =
            label.bytes().next().is_some_and(is_fit) && label.bytes().next_back().is_some_and(is_fit);
        has_ends && label.bytes().all(|byte| is_fit(byte) || byte == b'-')
    })
}

fn is_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric();
    let has_ends = name.bytes().next().is_some_and(is_fit) && name.bytes().next_back().is_some_and(is_fit);
    let is_name =
        has_ends && name.len() <= 63 && name.bytes().all(|byte| is_fit(byte) || b"-_.".contains(&byte));
    is_name && prefix.is_none_or(is_hostname)
}
