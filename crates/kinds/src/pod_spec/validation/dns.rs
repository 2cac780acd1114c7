//! How the pod resolves names.

use crate::At;
use crate::{FieldErrors, format};

const MAX_NAMESERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_CHARACTERS: usize = 2048;

pub(super) fn validate(spec: &At<'_>, errors: &mut FieldErrors) {
    let policy = spec.field("dnsPolicy");
    policy.need_one_of(errors, &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]);
    let config = spec.field("dnsConfig");
    let servers = config.field("nameservers");
    if policy.text() == "None" {
        match config.exists() {
            false => config.required(errors, "must provide `dnsConfig` when `dnsPolicy` is None"),
            true if !servers.is_set() => {
                servers.required(errors, "must provide at least one DNS nameserver when `dnsPolicy` is None")
            }
            true => {}
        }
    }
    if servers.len() > MAX_NAMESERVERS {
        servers.invalid(errors, format!("must not have more than {MAX_NAMESERVERS} nameservers"));
    }
    for server in servers.items() {
        server.problems(errors, format::ip(server.text()));
    }
    searches(&config.field("searches"), errors);
    for option in config.field("options").items() {
        if !option.field("name").is_set() {
            option.field("name").required(errors, "must not be empty");
        }
    }
}

fn searches(searches: &At<'_>, errors: &mut FieldErrors) {
    if searches.len() > MAX_SEARCHES {
        searches.invalid(errors, format!("must not have more than {MAX_SEARCHES} search paths"));
    }
    let characters: usize = searches.items().map(|search| search.text().len() + 1).sum();
    if characters > MAX_SEARCH_CHARACTERS + 1 {
        searches.invalid(
            errors,
            format!("must not have more than {MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"),
        );
    }
    for search in searches.items() {
        let text = search.text().strip_suffix('.').unwrap_or(search.text());
        if search.text() != "." {
            // Names of services in use elsewhere (`_tcp.example.com`) are good search domains too.
            search.problems(errors, format::subdomain(&text.replace('_', "a")));
        }
    }
}
