//! The files that the engine and Alertmanager read.

use serde_json::json;

use super::{Engine, Settings};

const GLOBAL: &str = include_str!("global.yml");
const SCRAPE: &str = include_str!("scrape.yml");
/// A target that is asked often must also answer quickly.
const LONGEST_TIMEOUT: u32 = 10;

/// What Prometheus reads.
pub fn prometheus_config(settings: &Settings) -> String {
    let timeout = match settings.interval.strip_suffix('s').and_then(|seconds| seconds.parse::<u32>().ok()) {
        Some(seconds) => seconds.min(LONGEST_TIMEOUT),
        None => LONGEST_TIMEOUT,
    };
    let global = GLOBAL.replace("INTERVAL", &settings.interval).replace("TIMEOUT", &format!("{timeout}s"));
    format!("{global}\n{SCRAPE}")
}

/// What the engine reads: VictoriaMetrics only how to scrape.
pub fn scrape_config(settings: &Settings) -> String {
    match settings.engine {
        Engine::Prometheus => prometheus_config(settings),
        Engine::VictoriaMetrics => {
            format!("global: {{scrape_interval: {}}}\n{SCRAPE}", settings.interval)
        }
    }
}

/// JSON, which is YAML: whatever is in the address stays in it.
pub fn alertmanager_config(settings: &Settings) -> String {
    let receiver = match &settings.webhook {
        Some(url) => json!({"name": "default", "webhook_configs": [{"url": url, "send_resolved": true}]}),
        None => json!({"name": "default"}),
    };
    let config = json!({
        "route": {"receiver": "default", "group_by": ["alertname", "namespace"],
            "group_wait": "5s", "group_interval": "1m", "repeat_interval": "4h"},
        "receivers": [receiver],
        // Who is down need not be told of all that follows from it.
        "inhibit_rules": [{"source_matchers": ["alertname=KubeNodeNotReady"],
            "target_matchers": ["severity=warning"], "equal": ["node"]}],
    });
    config.to_string()
}
