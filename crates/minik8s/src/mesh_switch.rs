//! The cluster's setting `mesh`: with a mesh or without one, whatever the flags of its servers say.
//!
//! Which kinds an API has is settled when a server starts. So a server that is to have others ends as if it had been told
//! to, and its program takes its own place, under the same process id: pods do not notice, clients do for a moment. It
//! never changes pods that are there.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::bail;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use minik8s_informer::{Caches, Key, ListOptions};
use minik8s_meta::Cidrs;
use minik8s_scheduler::SETTINGS;
use tokio_util::sync::CancellationToken;

/// Of the ConfigMap that has all settings.
pub const KEY: &str = "mesh";
/// By this a server that is started anew knows what it was started for.
const FLAG: &str = "--mesh-setting";

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    On,
    Off,
}

impl Switch {
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "on" => Ok(Switch::On),
            "off" => Ok(Switch::Off),
            _ => Err(format!("{text:?} is neither on nor off")),
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Switch::On => "on",
            Switch::Off => "off",
        }
    }
}

/// Whether there is a mesh.
pub fn is_on(setting: Option<Switch>, flag: bool) -> bool {
    setting.map_or(flag, |setting| setting == Switch::On)
}

const NEEDS_V4: &str =
    "a mesh needs IPv4, and --cluster-cidr has no range of it: give one of each family, or no mesh";

/// Proxies take IPv4 alone: in a cluster without it nobody would reach a pod that has one.
pub fn check(mesh: bool, pods: &Cidrs) -> anyhow::Result<()> {
    if mesh && pods.v4().is_none() {
        bail!(NEEDS_V4);
    }
    Ok(())
}

/// Returns when the setting wants the other; what it says then. `flag` is what holds without a setting, `has_v4` whether
/// pods have addresses of IPv4.
pub async fn wanted(
    client: Client,
    (flag, runs): (bool, bool),
    has_v4: bool,
    stop: CancellationToken,
) -> Option<Switch> {
    let caches = Caches::new(client, stop);
    let only = ListOptions::fields(format!("metadata.name={}", SETTINGS.1)).within(SETTINGS.0);
    let settings = caches.informer::<ConfigMap>(only);
    let mut changes = settings.subscribe();
    settings.wait_synced().await;
    loop {
        let map = settings.get(&Key::new(SETTINGS.0, SETTINGS.1));
        let text = map.as_ref().and_then(|map| map.data.as_ref()?.get(KEY));
        // One that somebody has written by hand, and that says nothing, changes nothing.
        let said = text.map(|text| Switch::parse(text)).transpose();
        if let Ok(setting) = said
            && is_on(setting, flag) != runs
        {
            if runs || has_v4 {
                return setting;
            }
            tracing::warn!("the cluster's setting mesh=on changes nothing: {NEEDS_V4}");
        }
        changes.next().await;
    }
}

/// The same program with the same flags takes the place of this one. Returns only if it cannot.
pub fn restart(setting: Option<Switch>) -> std::io::Error {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // A file that was replaced meanwhile is not what runs.
    let itself = PathBuf::from("/proc/self/exe");
    let program = std::env::current_exe().ok().filter(|path| path.exists()).unwrap_or(itself);
    let mut command = Command::new(program);
    if let Some(name) = arguments.first() {
        command.arg0(name);
    }
    command.args(with_setting(&arguments, setting)).exec()
}

/// Without the name of the program.
fn with_setting(arguments: &[OsString], setting: Option<Switch>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut rest = arguments.iter().skip(1);
    while let Some(argument) = rest.next() {
        match argument == FLAG {
            true => drop(rest.next()),
            false => kept.push(argument.clone()),
        }
    }
    kept.extend(setting.into_iter().flat_map(|setting| [FLAG, setting.as_str()]).map(OsString::from));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_comes_before_the_flag() {
        for (setting, flag, expected) in [
            (None, false, false),
            (None, true, true),
            (Some(Switch::On), false, true),
            (Some(Switch::Off), true, false),
        ] {
            assert_eq!(is_on(setting, flag), expected, "{setting:?} {flag}");
        }
        assert!(Switch::parse("yes").is_err());
    }

    #[test]
    fn mesh_without_ipv4_is_refused() {
        let check = |mesh: bool, pods: &str| check(mesh, &pods.parse().unwrap()).is_ok();
        assert!(check(true, "10.244.0.0/16") && check(true, "fd00:10::/48,10.244.0.0/16"));
        assert!(check(false, "fd00:10::/48") && !check(true, "fd00:10::/48"));
    }

    #[test]
    fn arguments_say_the_setting_once() {
        let check = |before: &str, setting: Option<Switch>, expected: &str| {
            let words: Vec<OsString> = before.split(' ').map(OsString::from).collect();
            let found = with_setting(&words, setting);
            assert_eq!(found.join(std::ffi::OsStr::new(" ")), expected, "{before}");
        };
        check("minik8s server --port 1", Some(Switch::On), "server --port 1 --mesh-setting on");
        check(
            "minik8s server --mesh-setting on --mesh",
            Some(Switch::Off),
            "server --mesh --mesh-setting off",
        );
        check("minik8s server --mesh-setting off --mesh", None, "server --mesh");
    }
}
