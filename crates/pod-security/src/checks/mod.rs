//! The controls, in the order in which violations are told: baseline's by name, then restricted's.

mod allow_privilege_escalation;
mod app_armor_profile;
mod capabilities_baseline;
mod capabilities_restricted;
mod host_namespaces;
mod host_path_volumes;
mod host_ports;
mod host_probes;
mod privileged;
mod proc_mount;
mod restricted_volumes;
mod run_as_non_root;
mod run_as_user;
mod se_linux_options;
mod seccomp_baseline;
mod seccomp_restricted;
mod sysctls;
mod windows_host_process;

use crate::check::Check;

/// The last minor version that changed a control.
pub const NEWEST: u64 = 37;

pub const CHECKS: &[&Check] = &[
    &app_armor_profile::CHECK,
    &capabilities_baseline::CHECK,
    &host_namespaces::CHECK,
    &host_path_volumes::CHECK,
    &host_ports::CHECK,
    &host_probes::CHECK,
    &privileged::CHECK,
    &proc_mount::BASELINE,
    &se_linux_options::CHECK,
    &seccomp_baseline::CHECK,
    &sysctls::CHECK,
    &windows_host_process::CHECK,
    &allow_privilege_escalation::CHECK,
    &capabilities_restricted::CHECK,
    &proc_mount::RESTRICTED,
    &restricted_volumes::CHECK,
    &run_as_non_root::CHECK,
    &run_as_user::CHECK,
    &seccomp_restricted::CHECK,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::Level;

    #[test]
    fn checks_stand_in_upstreams_order() {
        let keys: Vec<(Level, &str)> = CHECKS.iter().map(|check| (check.level, check.id)).collect();
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(keys, sorted);
        assert!(CHECKS.iter().all(|check| check.level != Level::Privileged));
    }

    #[test]
    fn checks_have_rising_versions_and_override_baseline_only() {
        let mut newest = 0;
        for check in CHECKS {
            let versions: Vec<u64> = check.revisions.iter().map(|revision| revision.since).collect();
            assert!(versions.is_sorted_by(|a, b| a < b) && !versions.is_empty(), "{}", check.id);
            newest = newest.max(versions.last().copied().unwrap_or(0));
            for id in check.revisions.iter().flat_map(|revision| revision.overrides) {
                assert_eq!(check.level, Level::Restricted, "{}", check.id);
                let overridden = CHECKS.iter().find(|other| other.id == *id);
                assert!(overridden.is_some_and(|other| other.level == Level::Baseline), "{id}");
            }
        }
        assert_eq!(newest, NEWEST);
    }
}
