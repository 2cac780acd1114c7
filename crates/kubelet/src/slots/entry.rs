//! What enters a slot with its pod, and what the pod's container looks like from then on. Pure but for the files.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_cri::v1 as cri;
use serde_json::json;

use super::form;
use super::inject::Bind;
use super::record::{AdoptedContainer, SlotRecord};
use crate::cri::*;

/// A log that the runtime has open goes on in the pod's directory, also after the runtime has opened it anew.
pub fn move_log(slot: &Path, pod: &Path) -> io::Result<()> {
    let path = form::log_path();
    let (from, to) = (slot.join(&path), pod.join(&path));
    let (Some(from_dir), Some(to_dir)) = (from.parent(), to.parent()) else { return Ok(()) };
    fs::create_dir_all(to_dir)?;
    fs::rename(&from, &to)?;
    fs::remove_dir(from_dir)?;
    std::os::unix::fs::symlink(to_dir, from_dir)
}

/// The pod's own mounts, and the files that the runtime writes for each sandbox.
pub fn binds(
    dir: &Path,
    mounts: &[cri::Mount],
    hostname: &str,
    dns: &cri::DnsConfig,
) -> io::Result<Vec<Bind>> {
    let etc = dir.join("etc");
    fs::create_dir_all(&etc)?;
    let own = [("hostname", format!("{hostname}\n")), ("resolv.conf", resolv_conf(dns))];
    let mut binds = Vec::new();
    for (name, content) in own.into_iter().filter(|(_, content)| !content.is_empty()) {
        let (source, target) = (etc.join(name), Path::new("/etc").join(name));
        fs::write(&source, content)?;
        if !mounts.iter().any(|mount| Path::new(&mount.container_path) == target) {
            binds.push(Bind { source, target, read_only: false });
        }
    }
    binds.extend(mounts.iter().map(|mount| Bind {
        source: PathBuf::from(&mount.host_path),
        target: PathBuf::from(&mount.container_path),
        read_only: mount.readonly,
    }));
    // What is mounted below another is mounted after it.
    binds.sort_by_key(|bind| bind.target.components().count());
    Ok(binds)
}

fn resolv_conf(dns: &cri::DnsConfig) -> String {
    let line = |key: &str, words: &[String]| match words {
        [] => String::new(),
        words => format!("{key} {}\n", words.join(" ")),
    };
    let servers: String = dns.servers.iter().map(|server| format!("nameserver {server}\n")).collect();
    format!("{}{servers}{}", line("search", &dns.searches), line("options", &dns.options))
}

pub fn adopted_container(config: &cri::ContainerConfig, sandbox: &cri::PodSandboxConfig) -> AdoptedContainer {
    let annotation = |key: &str| config.annotations.get(key).cloned().unwrap_or_default();
    let log = Path::new(&sandbox.log_directory).join(&config.log_path);
    AdoptedContainer {
        hash: annotation(CONTAINER_HASH),
        restart_delay: annotation(RESTART_DELAY).parse().unwrap_or_default(),
        resources: annotation(RESOURCES),
        log_path: log.to_string_lossy().into_owned(),
        termination_message: annotation(TERMINATION_MESSAGE),
        started: None,
    }
}

/// What a slot's program reads: its environment.
pub fn message(config: &cri::ContainerConfig, sandbox: &cri::PodSandboxConfig) -> Vec<u8> {
    let variables = config.envs.iter().map(|variable| (variable.key.as_str(), variable.value.as_str()));
    let env: BTreeMap<&str, &str> =
        [("HOSTNAME", sandbox.hostname.as_str())].into_iter().chain(variables).collect();
    json!({"env": env}).to_string().into_bytes()
}

/// The slot's container as the pod's; `None` as long as it is not.
pub fn translated(slot: &SlotRecord, record: ContainerRecord) -> Option<ContainerRecord> {
    let adopted = slot.adoption.as_ref()?.container.clone()?;
    let state = match (adopted.started, record.state) {
        (None, _) => ContainerState::Created,
        (Some(started), ContainerState::Running { .. }) => ContainerState::Running { started },
        (started, ContainerState::Exited { finished, code, reason, message, .. }) => {
            ContainerState::Exited { started, finished, code, reason, message }
        }
        (_, other) => other,
    };
    Some(ContainerRecord {
        state,
        hash: adopted.hash,
        restart_delay: Duration::from_secs(adopted.restart_delay),
        resources: adopted.resources,
        log_path: adopted.log_path,
        termination_message: adopted.termination_message,
        ..record
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::record::Adoption;
    use super::*;

    #[test]
    fn resolv_conf_is_written_as_resolvers_read_it() {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let dns = cri::DnsConfig {
            servers: words(&["10.0.0.10"]),
            searches: words(&["a.svc", "svc"]),
            options: words(&["ndots:5"]),
        };
        assert_eq!(resolv_conf(&dns), "search a.svc svc\nnameserver 10.0.0.10\noptions ndots:5\n");
        assert_eq!(resolv_conf(&cri::DnsConfig::default()), "");
    }

    #[test]
    fn log_goes_on_in_the_pods_directory() {
        let dir = tempfile::tempdir().unwrap();
        let (slot, pod) = (dir.path().join("slot"), dir.path().join("pod"));
        fs::create_dir_all(slot.join("function")).unwrap();
        let path = slot.join(form::log_path());
        fs::write(&path, "waits\n").unwrap();
        move_log(&slot, &pod).unwrap();
        // As the runtime does after a rotation.
        fs::write(&path, "anew\n").unwrap();
        assert_eq!(fs::read_to_string(pod.join(form::log_path())).unwrap(), "anew\n");
    }

    #[test]
    fn container_is_the_pods_from_its_start_on() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let record = || ContainerRecord {
            id: "c".into(),
            sandbox_id: "s".into(),
            name: "function".into(),
            attempt: 0,
            state: ContainerState::Running { started: at(1) },
            image: "i".into(),
            image_id: "i".into(),
            hash: String::new(),
            restart_delay: Duration::ZERO,
            resources: String::new(),
            log_path: "/slot".into(),
            termination_message: String::new(),
        };
        let slot = |container: Option<AdoptedContainer>| SlotRecord {
            adoption: Some(Adoption { container, ..Adoption::default() }),
            ..SlotRecord::default()
        };
        assert_eq!(translated(&slot(None), record()), None);
        let new = AdoptedContainer { hash: "h".into(), log_path: "/pod".into(), ..Default::default() };
        assert_eq!(translated(&slot(Some(new.clone())), record()).unwrap().state, ContainerState::Created);
        let started = AdoptedContainer { started: Some(at(9)), ..new };
        let seen = translated(&slot(Some(started)), record()).unwrap();
        assert_eq!(seen.state, ContainerState::Running { started: at(9) });
        assert_eq!((seen.hash.as_str(), seen.log_path.as_str()), ("h", "/pod"));
    }
}
