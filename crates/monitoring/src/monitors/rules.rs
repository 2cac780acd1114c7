//! What monitors may say, and advice about what is read but not done here.

use minik8s_api::{At, FieldErrors, Resource, Strategy, validate_label_selector};
use serde_json::Value;

use super::duration;
use super::kinds::{PodMonitor, Probe, ServiceMonitor};
use super::relabel::{Rule, is_label_name};

pub fn service_monitor() -> Resource {
    Resource::of::<ServiceMonitor>(Rules("endpoints")).short(&["smon"]).counted().status()
}

pub fn pod_monitor() -> Resource {
    Resource::of::<PodMonitor>(Rules("podMetricsEndpoints")).short(&["pmon"]).counted().status()
}

pub fn probe() -> Resource {
    Resource::of::<Probe>(ProbeRules).short(&["prb"]).counted().status()
}

/// Fields that would need configuration of the engine itself.
const NOT_DONE: &[&str] = &[
    "metricRelabelings",
    "basicAuth",
    "bearerTokenSecret",
    "bearerTokenFile",
    "authorization",
    "oauth2",
    "proxyUrl",
];

/// Of ServiceMonitor and PodMonitor; the name is that of their list of endpoints.
struct Rules(&'static str);

impl Strategy for Rules {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        let selector = spec.field("selector");
        match selector.exists() {
            true => validate_label_selector(selector.value, &selector.path, errors),
            false => selector.required(errors, "which objects are scraped; {} selects all"),
        }
        let endpoints = spec.field(self.0);
        if !endpoints.is_set() {
            endpoints.required(errors, "at least one");
        }
        for endpoint in endpoints.items() {
            validate_scrape(&endpoint, errors);
            validate_relabelings(&endpoint.field("relabelings"), errors);
        }
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        let endpoints = At::root(object).field("spec").field(self.0);
        endpoints.items().flat_map(|endpoint| not_done(&endpoint)).collect()
    }
}

struct ProbeRules;

impl Strategy for ProbeRules {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        validate_scrape(&spec, errors);
        let url = spec.field("prober").field("url");
        if url.text().is_empty() {
            url.required(errors, "where the prober is, as blackbox.monitoring.svc:9115");
        } else if url.text().contains("://") || url.text().contains('/') {
            url.invalid(errors, "HOST:PORT is expected; scheme and path are fields of their own");
        }
        let targets = spec.field("targets");
        let (fixed, ingress) = (targets.field("staticConfig"), targets.field("ingress"));
        if fixed.exists() == ingress.exists() {
            targets.required(errors, "one of staticConfig and ingress");
        }
        for (name, label) in fixed.field("labels").entries() {
            if !is_label_name(name) {
                label.invalid(errors, format!("{name:?} is no name of a label"));
            }
        }
        validate_relabelings(&fixed.field("relabelingConfigs"), errors);
        validate_relabelings(&ingress.field("relabelingConfigs"), errors);
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        not_done(&At::root(object).field("spec"))
    }
}

fn validate_scrape(endpoint: &At<'_>, errors: &mut FieldErrors) {
    for name in ["interval", "scrapeTimeout"] {
        let field = endpoint.field(name);
        if field.exists() && !field.text().is_empty() && duration::milliseconds(field.text()).is_none() {
            field.invalid(errors, "not a valid duration string: give one as 30s or 1m30s");
        }
    }
    let length = |name: &str| duration::milliseconds(endpoint.field(name).text());
    if let (Some(interval), Some(timeout)) = (length("interval"), length("scrapeTimeout"))
        && timeout > interval
    {
        endpoint.field("scrapeTimeout").invalid(errors, "scrape timeout greater than scrape interval");
    }
    let scheme = endpoint.field("scheme");
    if scheme.is_set() && !["http", "https"].contains(&scheme.text().to_lowercase().as_str()) {
        scheme.not_supported(errors, &["http", "https"]);
    }
}

fn validate_relabelings(relabelings: &At<'_>, errors: &mut FieldErrors) {
    for rule in relabelings.items() {
        if let Err(problem) = Rule::read(rule.value) {
            rule.invalid(errors, problem);
        }
    }
}

fn not_done(endpoint: &At<'_>) -> Vec<String> {
    let mut fields: Vec<String> = NOT_DONE
        .iter()
        .map(|name| endpoint.field(name))
        .filter(At::is_set)
        .map(|field| format!("{} is kept but not applied: see docs/monitoring.md", field.path))
        .collect();
    let tls = endpoint.field("tlsConfig");
    if tls.entries().any(|(name, _)| name != "insecureSkipVerify") {
        fields.push(format!("{} is kept but not applied: certificates of targets are not checked", tls.path));
    }
    fields
}
