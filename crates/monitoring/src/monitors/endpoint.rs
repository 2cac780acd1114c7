//! What a monitor says of how its targets are scraped, and the last steps to a target: relabelling, and what it may not
//! do.

use serde::Serialize;
use serde_json::Value;

use super::duration;
use super::relabel::{LabelSet, Rule};

/// As `http_sd_configs` reads it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    pub targets: [String; 1],
    pub labels: LabelSet,
}

/// One of `endpoints`, of `podMetricsEndpoints`, or a probe as a whole.
pub struct Endpoint<'a> {
    value: &'a Value,
    rules: Vec<Rule>,
}

/// Where the page of metrics is if nobody says, and how long it may take.
const PATH: &str = "/metrics";
const LONGEST_TIMEOUT: u64 = 10_000;

impl<'a> Endpoint<'a> {
    /// None where a rule cannot be read: it would have been refused, and to leave it out would be to scrape what it drops.
    pub fn new(value: &'a Value, relabelings: &Value) -> Option<Self> {
        let rules = relabelings.as_array().into_iter().flatten().map(Rule::read);
        Some(Endpoint { value, rules: rules.collect::<Result<_, _>>().ok()? })
    }

    pub fn honors_labels(&self) -> bool {
        self.value["honorLabels"] == true
    }

    /// The target at an address, unless it is dropped.
    pub fn target(&self, address: &str, namespace: &str, mut labels: LabelSet) -> Option<Group> {
        let text = |name: &str, otherwise: &str| {
            let given = self.value[name].as_str().filter(|text| !text.is_empty());
            given.unwrap_or(otherwise).to_owned()
        };
        let mut put = |name: &str, value: String| labels.insert(name.to_owned(), value);
        put("__address__", address.to_owned());
        put("__scheme__", text("scheme", "http").to_lowercase());
        put("__metrics_path__", text("path", PATH));
        for (name, values) in self.value["params"].as_object().into_iter().flatten() {
            if let Some(first) = values[0].as_str() {
                put(&format!("__param_{name}"), first.to_owned());
            }
        }
        let (interval, timeout) = (text("interval", ""), text("scrapeTimeout", ""));
        if let Some(length) = duration::milliseconds(&interval).filter(|length| *length > 0) {
            // An engine refuses a target that may take longer than until it is asked again.
            let wanted = duration::milliseconds(&timeout).unwrap_or(LONGEST_TIMEOUT).min(length);
            put("__scrape_interval__", interval);
            put("__scrape_timeout__", format!("{wanted}ms"));
        }
        if !self.rules.iter().all(|rule| rule.apply(&mut labels)) {
            return None;
        }
        let relabelled = labels.remove("__address__")?;
        if host(&relabelled) != host(address) {
            return None;
        }
        labels.insert("namespace".to_owned(), namespace.to_owned());
        labels.retain(|name, value| {
            let is_passing = name.starts_with("__meta_") || name.starts_with("__tmp");
            !is_passing && !value.is_empty()
        });
        Some(Group { targets: [relabelled], labels })
    }
}

/// Of `HOST:PORT`, also in brackets.
fn host(address: &str) -> &str {
    match address.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => address.rsplit_once(':').map_or(address, |(host, _)| host),
    }
}
