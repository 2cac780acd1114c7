//! What `minik8s monitoring enable` may be told.

use std::str::FromStr;

use minik8s_meta::Quantity;
use minik8s_meta::packaged_image::{PROMETHEUS, VICTORIA_METRICS};
use thiserror::Error;

/// Who scrapes, keeps and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    #[default]
    Prometheus,
    VictoriaMetrics,
}

impl Engine {
    pub fn name(self) -> &'static str {
        match self {
            Engine::Prometheus => "prometheus",
            Engine::VictoriaMetrics => "victoria-metrics",
        }
    }

    pub fn image(self) -> &'static str {
        match self {
            Engine::Prometheus => PROMETHEUS,
            Engine::VictoriaMetrics => VICTORIA_METRICS,
        }
    }

    /// Where it answers queries.
    pub fn port(self) -> u16 {
        match self {
            Engine::Prometheus => 9090,
            Engine::VictoriaMetrics => 8428,
        }
    }
}

impl FromStr for Engine {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let known = [Engine::Prometheus, Engine::VictoriaMetrics];
        known.into_iter().find(|one| one.name() == text).ok_or_else(|| SettingsError::Engine(text.to_owned()))
    }
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum SettingsError {
    #[error("{0:?} is no engine: use prometheus or victoria-metrics")]
    Engine(String),
    #[error("{0:?} is no time: give a number and a unit, as 15d, 12h or 30s")]
    Time(String),
    #[error("{0:?} is no size: give one as 10Gi")]
    Size(String),
    #[error("{0:?} is no address: give one as http://alerts.example/hook")]
    Webhook(String),
}

/// All of it, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub engine: Engine,
    /// How long samples are kept.
    pub retention: String,
    /// How often targets are asked.
    pub interval: String,
    /// Size of the volume that keeps samples; None keeps them as long as the pod lives.
    pub claim: Option<String>,
    /// Who hears of alerts.
    pub webhook: Option<String>,
}

impl Settings {
    pub fn check(&self) -> Result<(), SettingsError> {
        for time in [&self.retention, &self.interval] {
            if !is_time(time) {
                return Err(SettingsError::Time(time.clone()));
            }
        }
        if let Some(size) = &self.claim {
            let size_of = size.parse::<Quantity>().ok().filter(|size| size.value() > 0);
            size_of.ok_or_else(|| SettingsError::Size(size.clone()))?;
        }
        if let Some(webhook) = &self.webhook {
            let host = webhook.strip_prefix("http://").or_else(|| webhook.strip_prefix("https://"));
            let is_plain = !webhook.chars().any(|c| c.is_whitespace() || c.is_control());
            if !is_plain || host.is_none_or(|host| host.is_empty() || host.starts_with('/')) {
                return Err(SettingsError::Webhook(webhook.clone()));
            }
        }
        Ok(())
    }
}

/// One number and one unit that both engines read.
fn is_time(text: &str) -> bool {
    let number = text.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let unit = &text[number.len()..];
    matches!(unit, "s" | "m" | "h" | "d" | "w" | "y")
        && number.len() <= 6
        && number.parse::<u32>().is_ok_and(|number| number > 0)
}
