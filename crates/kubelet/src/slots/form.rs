//! What slots of a runtime look like, and which pods look the same: a slot is made as an instance of a function that asks
//! for nothing of its own, and a pod that asks for more than can be added later gets a sandbox of its own. Pure.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use k8s_cri::v1 as cri;
use prost::Message;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::door;
use crate::Config;
use crate::container::{container_security, linux_resources};
use crate::cri::{CONTAINER_NAME, ImageRecord, POD_NAME, POD_NAMESPACE, POD_UID};
use crate::pod::{DesiredPod, QosClass};
use crate::sandbox::{ResolvConf, Surroundings, sandbox_config};

/// Of pods in the runtime that belong to nobody.
const NAMESPACE: &str = "minik8s-slots";
/// The container, as functions call theirs.
const CONTAINER: &str = "function";
/// As in `crates/functions/src/revision.rs`; where they differ no slot is ever adopted, and a test fails.
const USER: i64 = 65_532;
/// Of variables that interpreters and libraries read when they start: too late for a slot.
const EARLY: [&str; 11] = [
    "PYTHON",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_EXTRA_CA_CERTS",
    "NODE_DEBUG",
    "NODE_ICU_DATA",
    "LD_",
    "MALLOC_",
    "GLIBC_",
    "UV_",
    "OPENSSL_",
];

/// How slots of one image are made.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    pub image: String,
    image_id: String,
    sandbox: cri::PodSandboxConfig,
    security: cri::LinuxContainerSecurityContext,
    resources: cri::LinuxContainerResources,
}

impl Form {
    /// `None` if this image cannot be run as functions are.
    pub fn new(
        image: &str,
        record: &ImageRecord,
        config: &Config,
        host_dns: &ResolvConf,
        memory: u64,
    ) -> Option<Self> {
        let pod = json!({
            "metadata": {"name": "slot", "namespace": NAMESPACE, "uid": "slot"},
            "spec": {
                "restartPolicy": "Never",
                "securityContext": {
                    "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [{
                    "name": CONTAINER, "image": image,
                    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                }],
            },
        });
        let pod = DesiredPod::new(Arc::new(serde_json::from_value(pod).ok()?));
        let container = pod.container(CONTAINER)?;
        let security = container_security(&pod, container, record, None, &config.seccomp_dir()).ok()?;
        let node = Surroundings { config, host_dns };
        Some(Form {
            image: image.to_owned(),
            image_id: record.id.clone(),
            sandbox: sandbox_config(&pod, &node, 0),
            security,
            resources: linux_resources(&Default::default(), QosClass::BestEffort, memory as i64),
        })
    }

    /// The same for all that are made alike.
    pub fn digest(&self) -> String {
        let mut digest = Sha256::new();
        digest.update(&self.image_id);
        digest.update(sandbox_rules(&self.sandbox).encode_to_vec());
        digest.update(self.security.encode_to_vec());
        digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    pub fn sandbox_config(&self, uid: &str, dir: &Path, cgroup: &str) -> cri::PodSandboxConfig {
        let mut config = self.sandbox.clone();
        config.metadata = Some(cri::PodSandboxMetadata {
            name: uid.to_owned(),
            uid: uid.to_owned(),
            namespace: NAMESPACE.to_owned(),
            attempt: 0,
        });
        config.hostname = "slot".to_owned();
        config.labels = labels(uid);
        config.log_directory = dir.join("log").to_string_lossy().into_owned();
        if let Some(linux) = &mut config.linux {
            linux.cgroup_parent = cgroup.to_owned();
        }
        config
    }

    pub fn container_config(&self, uid: &str, dir: &Path) -> cri::ContainerConfig {
        let name = || (CONTAINER_NAME.to_owned(), CONTAINER.to_owned());
        cri::ContainerConfig {
            metadata: Some(cri::ContainerMetadata { name: CONTAINER.to_owned(), attempt: 0 }),
            image: Some(cri::ImageSpec {
                image: self.image_id.clone(),
                user_specified_image: self.image.clone(),
                ..Default::default()
            }),
            envs: vec![cri::KeyValue { key: door::VARIABLE.to_owned(), value: door::path_in_container() }],
            mounts: vec![cri::Mount {
                container_path: door::MOUNTED_AT.to_owned(),
                host_path: door::dir(dir).to_string_lossy().into_owned(),
                readonly: true,
                ..Default::default()
            }],
            labels: labels(uid).into_iter().chain([name()]).collect(),
            log_path: log_path(),
            linux: Some(cri::LinuxContainerConfig {
                resources: Some(self.resources.clone()),
                security_context: Some(self.security.clone()),
            }),
            ..Default::default()
        }
    }

    /// Why a pod cannot have one of these sandboxes.
    pub fn refuses_sandbox(&self, config: &cri::PodSandboxConfig) -> Option<&'static str> {
        if sandbox_rules(config) != sandbox_rules(&self.sandbox) {
            return Some("its security settings are not those of functions");
        }
        let linux = config.linux.as_ref();
        if linux.is_some_and(|linux| !linux.sysctls.is_empty() || linux.overhead.is_some()) {
            return Some("it has sysctls, or overhead of a runtime class");
        }
        (!config.port_mappings.is_empty()).then_some("it has ports of the host")
    }

    /// Why a container of a pod cannot be the one that runs already.
    pub fn refuses(&self, config: &cri::ContainerConfig) -> Option<&'static str> {
        let image = config.image.as_ref().map(|image| image.image.as_str());
        match image == Some(self.image_id.as_str()) {
            true => self.refuses_shape(config),
            false => Some("its image is another"),
        }
    }

    /// The same, by all but the image.
    pub fn refuses_shape(&self, config: &cri::ContainerConfig) -> Option<&'static str> {
        if !config.command.is_empty() || !config.args.is_empty() || !config.working_dir.is_empty() {
            return Some("it has a command or a working directory of its own");
        }
        if config.stdin || config.tty || !config.devices.is_empty() || !config.cdi_devices.is_empty() {
            return Some("it has devices or a terminal");
        }
        let linux = config.linux.clone().unwrap_or_default();
        if linux.security_context.as_ref() != Some(&self.security) {
            return Some("its security settings are not those of functions");
        }
        if config.envs.iter().any(|variable| EARLY.iter().any(|early| variable.key.starts_with(early))) {
            return Some("it has variables that an interpreter reads when it starts");
        }
        config
            .mounts
            .iter()
            .any(|mount| !can_be_added(mount))
            .then_some("it has a mount that cannot be added later")
    }

    /// What is to be changed in the container's cgroup.
    pub fn changed_resources(&self, config: &cri::ContainerConfig) -> Option<cri::LinuxContainerResources> {
        let wanted = config.linux.as_ref()?.resources.clone()?;
        (wanted != self.resources).then_some(wanted)
    }
}

/// The log of a slot, and of an instance, below its pod's directory.
pub fn log_path() -> String {
    format!("{CONTAINER}/0.log")
}

/// Everything of a sandbox that others' are compared by.
fn sandbox_rules(config: &cri::PodSandboxConfig) -> cri::LinuxSandboxSecurityContext {
    config.linux.as_ref().and_then(|linux| linux.security_context.clone()).unwrap_or_default()
}

fn labels(uid: &str) -> HashMap<String, String> {
    let pairs = [(POD_NAME, uid), (POD_NAMESPACE, NAMESPACE), (POD_UID, uid)];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn can_be_added(mount: &cri::Mount) -> bool {
    let path = Path::new(&mount.container_path);
    let is_plain = path.components().skip(1).all(|part| matches!(part, std::path::Component::Normal(_)));
    let system = ["/proc", "/sys", door::MOUNTED_AT, "/usr", "/bin", "/lib"];
    mount.propagation == cri::MountPropagation::PropagationPrivate as i32
        && !mount.selinux_relabel
        && mount.image.is_none()
        && mount.uid_mappings.is_empty()
        && path.is_absolute()
        && is_plain
        && path.components().count() > 1
        && !system.iter().any(|system| path.starts_with(system))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> Form {
        form_of("sha256:1")
    }

    fn form_of(id: &str) -> Form {
        let config = Config::new("n", Path::new("/d"), "127.0.0.1".parse().unwrap());
        let image = ImageRecord { id: id.into(), uid: Some(USER), ..ImageRecord::default() };
        Form::new("python", &image, &config, &ResolvConf::default(), 1 << 30).unwrap()
    }

    #[test]
    fn slot_belongs_to_nobody_and_holds_nothing() {
        let (form, dir) = (form(), Path::new("/d/slots/slot-1"));
        let sandbox = form.sandbox_config("slot-1", dir, "/pods/slot-1");
        assert_eq!(sandbox.labels[POD_UID], "slot-1");
        assert_eq!(sandbox.linux.unwrap().cgroup_parent, "/pods/slot-1");
        let container = form.container_config("slot-1", dir);
        let mounted: Vec<_> = container.mounts.iter().map(|mount| mount.container_path.as_str()).collect();
        assert_eq!(mounted, ["/fn/slot"], "no token, no volume");
        assert_eq!(container.envs.len(), 1);
        let security = container.linux.unwrap().security_context.unwrap();
        assert!(!security.privileged && security.no_new_privs);
    }

    /// Slots have the digest of their form, and go where it is another than that of today.
    #[test]
    fn runtime_with_another_image_has_another_form() {
        let (before, after) = (form_of("sha256:1"), form_of("sha256:2"));
        assert_eq!(before.digest(), form_of("sha256:1").digest());
        assert_eq!(before.image, after.image, "its name stays");
        assert_ne!(before.digest(), after.digest());
        let made = before.container_config("slot-1", Path::new("/d"));
        assert_eq!(after.refuses(&made), Some("its image is another"));
    }

    #[test]
    fn only_pods_that_look_the_same_fit() {
        let form = form();
        let own = form.container_config("slot-1", Path::new("/d"));
        let plain = cri::ContainerConfig { mounts: Vec::new(), ..own };
        let check = |fits: bool, change: &dyn Fn(&mut cri::ContainerConfig)| {
            let mut config = plain.clone();
            change(&mut config);
            assert_eq!(form.refuses(&config).is_none(), fits, "{:?}", form.refuses(&config));
        };
        let mount = |path: &str, propagation: cri::MountPropagation| cri::Mount {
            container_path: path.to_owned(),
            propagation: propagation as i32,
            ..Default::default()
        };
        let private = cri::MountPropagation::PropagationPrivate;
        let shared = cri::MountPropagation::PropagationHostToContainer;
        let variable = |key: &str| cri::KeyValue { key: key.to_owned(), value: "1".to_owned() };
        check(true, &|_| ());
        check(true, &|config| config.mounts = vec![mount("/fn/code", private), mount("/tmp", private)]);
        check(false, &|config| config.mounts = vec![mount("/fn/code", shared)]);
        for path in ["/", "/fn/slot", "/fn/../etc", "relative", "/usr/lib", "/proc/1"] {
            check(false, &|config| config.mounts = vec![mount(path, private)]);
        }
        check(true, &|config| config.envs.push(variable("SIZE")));
        check(false, &|config| config.envs.push(variable("PYTHONPATH")));
        check(false, &|config| config.command = vec!["sh".to_owned()]);
        check(false, &|config| config.image = None);
        check(false, &|config| config.tty = true);
        check(false, &|config| {
            let security = config.linux.as_mut().unwrap().security_context.as_mut().unwrap();
            security.run_as_user = Some(cri::Int64Value { value: 0 });
        });
    }

    #[test]
    fn only_sandboxes_that_look_the_same_fit() {
        let form = form();
        let plain = form.sandbox_config("slot-1", Path::new("/d"), "/c");
        assert_eq!(form.refuses_sandbox(&plain), None);
        let mut ports = plain.clone();
        ports.port_mappings.push(cri::PortMapping::default());
        assert!(form.refuses_sandbox(&ports).is_some());
        let mut rules = plain.clone();
        rules.linux.as_mut().unwrap().security_context.as_mut().unwrap().privileged = true;
        assert!(form.refuses_sandbox(&rules).is_some());
        let mut sysctls = plain;
        sysctls.linux.as_mut().unwrap().sysctls.insert("kernel.shm_rmid_forced".into(), "1".into());
        assert!(form.refuses_sandbox(&sysctls).is_some());
    }
}
