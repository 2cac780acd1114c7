//! Flags about how a node keeps itself clean and alive. Names and defaults are those of upstream's kubelet.

use std::time::Duration;

use anyhow::bail;
use clap::Args;
use jiff::SignedDuration;
use minik8s_kubelet::{
    Config, HousekeepingSettings, ImageSettings, LogRetention, LogSettings, Thresholds, TopologyPolicy,
};

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Housekeeping of the node")]
pub struct HousekeepingFlags {
    /// Below which amounts pods are evicted; an empty list: never
    #[arg(long, value_name = "SIGNAL<AMOUNT,...>", default_value_t)]
    pub eviction_hard: Thresholds,
    /// How long the node still says that it is short of something after that has passed
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub eviction_pressure_transition_period: Duration,
    /// Percentage of the disk in use above which unused images are removed
    #[arg(long, value_name = "PERCENT", default_value_t = 85, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub image_gc_high_threshold: u8,
    /// Percentage of the disk in use down to which unused images are removed
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub image_gc_low_threshold: u8,
    /// An image that was unused for less time stays
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    pub minimum_image_ttl_duration: Duration,
    /// A container's log that is larger is rotated
    #[arg(long, value_name = "QUANTITY", default_value = "10Mi", value_parser = bytes)]
    pub container_log_max_size: u64,
    /// Log files that are kept of a container
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(2..))]
    pub container_log_max_files: u16,
    /// Keep logs of pods that are gone, compressed, up to this age and size, as 24h,1GiB; none by default
    #[arg(long, value_name = "AGE,SIZE")]
    pub log_retention: Option<LogRetention>,
    /// How often the node looks at what is left of its resources, and at its logs
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = period)]
    pub housekeeping_interval: Duration,
    /// A call of the container runtime that takes longer counts as hanging
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = period)]
    pub runtime_request_timeout: Duration,
    /// Longest pause before a container that keeps ending is started again; 1s to 5m
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = restart_period)]
    pub max_container_restart_period: Duration,
    /// Processes that a pod may have; as many as the machine allows by default
    #[arg(long, value_name = "N")]
    pub pod_max_pids: Option<u32>,
    /// Pods that may run on the node
    #[arg(long, value_name = "N", default_value_t = 110)]
    pub max_pods: u32,
    /// Pods whose devices are not near to each other: none, best-effort, restricted or single-numa-node
    #[arg(long, value_name = "POLICY", default_value_t)]
    pub topology_manager_policy: TopologyPolicy,
}

impl HousekeepingFlags {
    pub fn apply(&self, config: &mut Config) -> anyhow::Result<()> {
        if self.image_gc_low_threshold >= self.image_gc_high_threshold {
            bail!("--image-gc-low-threshold must be less than --image-gc-high-threshold");
        }
        let signed = |duration: Duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
        config.housekeeping = HousekeepingSettings {
            interval: self.housekeeping_interval,
            eviction: self.eviction_hard.clone(),
            pressure_transition: signed(self.eviction_pressure_transition_period),
            images: ImageSettings {
                high: self.image_gc_high_threshold,
                low: self.image_gc_low_threshold,
                youngest: signed(self.minimum_image_ttl_duration),
            },
            logs: LogSettings {
                largest: self.container_log_max_size,
                files: self.container_log_max_files.into(),
                retention: self.log_retention,
            },
        };
        config.runtime_timeout = self.runtime_request_timeout;
        config.longest_restart_delay = self.max_container_restart_period;
        config.pod_pids = self.pod_max_pids;
        config.max_pods = self.max_pods;
        config.topology_policy = self.topology_manager_policy;
        Ok(())
    }
}

/// `90s`, `2m`, `1h30m`.
fn duration(text: &str) -> Result<Duration, String> {
    let parsed: SignedDuration = text.parse().map_err(|e: jiff::Error| e.to_string())?;
    Duration::try_from(parsed).map_err(|_| "it must not be negative".to_owned())
}

/// Never nothing, which would be a loop without a pause.
fn period(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|period| match period.is_zero() {
        true => Err("it must not be zero".to_owned()),
        false => Ok(period),
    })
}

/// Upstream's bounds: a pause of nothing would be a busy loop, and more is what nobody waits for.
fn restart_period(text: &str) -> Result<Duration, String> {
    let allowed = Duration::from_secs(1)..=Duration::from_secs(300);
    duration(text).and_then(|period| match allowed.contains(&period) {
        true => Ok(period),
        false => Err("it must be between 1s and 5m".to_owned()),
    })
}

fn bytes(text: &str) -> Result<u64, String> {
    let quantity: minik8s_meta::Quantity = text.parse().map_err(|_| "it is not a quantity".to_owned())?;
    u64::try_from(quantity.value()).ok().filter(|bytes| *bytes > 0).ok_or("it must be positive".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: HousekeepingFlags,
    }

    fn parse(words: &[&str]) -> anyhow::Result<Config> {
        let line = Line::try_parse_from([&["minik8s"], words].concat())?;
        let mut config = Config::new("n", "/d".as_ref(), [127, 0, 0, 1].into());
        line.flags.apply(&mut config)?;
        Ok(config)
    }

    #[test]
    fn without_flags_everything_is_as_the_node_has_it() {
        let config = parse(&[]).unwrap();
        assert_eq!(config.housekeeping, HousekeepingSettings::default());
        let plain = Config::new("n", "/d".as_ref(), [127, 0, 0, 1].into());
        assert_eq!((config.runtime_timeout, config.max_pods), (plain.runtime_timeout, plain.max_pods));
        assert_eq!(config.longest_restart_delay, plain.longest_restart_delay);
    }

    #[test]
    fn flags() {
        let config =
            parse(&["--eviction-hard", "", "--container-log-max-size", "64Ki", "--pod-max-pids", "9"]);
        let config = config.unwrap();
        assert_eq!(config.housekeeping.eviction.iter().count(), 0);
        assert_eq!((config.housekeeping.logs.largest, config.pod_pids), (65_536, Some(9)));
        for wrong in [
            ["--eviction-hard", "ram<1"],
            ["--housekeeping-interval", "0s"],
            ["--housekeeping-interval", "soon"],
            ["--max-container-restart-period", "0s"],
            ["--max-container-restart-period", "6m"],
            ["--container-log-max-files", "1"],
            ["--container-log-max-size", "0"],
            ["--image-gc-low-threshold", "85"],
            ["--log-retention", "24h"],
        ] {
            assert!(parse(&wrong).is_err(), "{wrong:?}");
        }
    }
}
