//! The security context of pods and containers. Pure.

use std::path::Path;

use k8s_cri::v1 as cri;
use k8s_openapi::api::core::v1 as core;
use thiserror::Error;

use super::app_armor::AppArmor;
use crate::cri::ImageRecord;
use crate::pod::{ContainerSpec, DesiredPod, Kind};

/// Paths below /proc that a container must not see, unless it asks for an unmasked /proc.
const MASKED: [&str; 10] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/sys/firmware",
];
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SecurityError {
    #[error("container has runAsNonRoot and image will run as root")]
    Root,
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({0}), cannot verify user is non-root"
    )]
    NamedUser(String),
    #[error("container's runAsUser breaks non-root policy")]
    RootUser,
}

pub fn namespaces(desired_pod: &DesiredPod) -> cri::NamespaceOption {
    let spec = desired_pod.spec();
    let is = |flag: Option<bool>| flag.unwrap_or(false);
    let mode = |host: bool, otherwise: cri::NamespaceMode| {
        if host { cri::NamespaceMode::Node as i32 } else { otherwise as i32 }
    };
    let shared = is(spec.and_then(|s| s.share_process_namespace));
    let own = if shared { cri::NamespaceMode::Pod } else { cri::NamespaceMode::Container };
    cri::NamespaceOption {
        network: mode(desired_pod.host_network(), cri::NamespaceMode::Pod),
        ipc: mode(is(spec.and_then(|s| s.host_ipc)), cri::NamespaceMode::Pod),
        pid: mode(is(spec.and_then(|s| s.host_pid)), own),
        ..Default::default()
    }
}

/// Seccomp profiles of the node stand below `profiles`.
pub fn sandbox_security(desired_pod: &DesiredPod, profiles: &Path) -> cri::LinuxSandboxSecurityContext {
    let context = pod_context(desired_pod);
    let privileged = desired_pod.containers.iter().any(|c| own(c).privileged == Some(true));
    cri::LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(desired_pod)),
        run_as_user: context.run_as_user.map(|value| cri::Int64Value { value }),
        run_as_group: context.run_as_group.filter(|_| context.run_as_user.is_some()).map(int64),
        supplemental_groups: groups(&context),
        supplemental_groups_policy: policy(&context),
        privileged,
        seccomp: seccomp(context.seccomp_profile.as_ref(), privileged, profiles),
        selinux_options: selinux(context.se_linux_options.as_ref()),
        ..Default::default()
    }
}

/// `target_id` is the container whose process namespace an ephemeral container joins; seccomp profiles of the node
/// stand below `profiles`.
pub fn container_security(
    desired_pod: &DesiredPod,
    container: &ContainerSpec,
    image: &ImageRecord,
    target_id: Option<&str>,
    profiles: &Path,
) -> Result<cri::LinuxContainerSecurityContext, SecurityError> {
    let pod = pod_context(desired_pod);
    let own = own(container);
    let user = own.run_as_user.or(pod.run_as_user);
    let group = own.run_as_group.or(pod.run_as_group);
    if own.run_as_non_root.or(pod.run_as_non_root) == Some(true) {
        verify_non_root(user, image)?;
    }
    let privileged = own.privileged == Some(true);
    let unmasked = own.proc_mount.as_deref() == Some("Unmasked") || privileged;
    let paths = |list: &[&str]| match unmasked {
        true => Vec::new(),
        false => list.iter().map(|&path| path.to_owned()).collect(),
    };
    let mut namespaces = namespaces(desired_pod);
    if let (Kind::Ephemeral, Some(id)) = (container.kind, target_id) {
        namespaces.pid = cri::NamespaceMode::Target as i32;
        namespaces.target_id = id.to_owned();
    }
    // A group without a user is a user of the image with another group.
    let (numeric, named) = match (user, group, image.uid) {
        (Some(user), _, _) => (Some(user), String::new()),
        (None, Some(_), Some(user)) => (Some(user), String::new()),
        (None, Some(_), None) if image.username.is_empty() => (Some(0), String::new()),
        (None, _, Some(user)) => (Some(user), String::new()),
        (None, _, None) => (None, image.username.clone()),
    };
    Ok(cri::LinuxContainerSecurityContext {
        capabilities: Some(capabilities(own.capabilities.as_ref())),
        privileged,
        namespace_options: Some(namespaces),
        run_as_user: numeric.map(int64),
        run_as_username: named,
        run_as_group: group.map(int64),
        readonly_rootfs: own.read_only_root_filesystem.unwrap_or(false),
        supplemental_groups: groups(&pod),
        supplemental_groups_policy: policy(&pod),
        no_new_privs: own.allow_privilege_escalation == Some(false),
        masked_paths: paths(&MASKED),
        readonly_paths: paths(&READ_ONLY),
        seccomp: seccomp(own.seccomp_profile.as_ref().or(pod.seccomp_profile.as_ref()), privileged, profiles),
        selinux_options: selinux(own.se_linux_options.as_ref().or(pod.se_linux_options.as_ref())),
        apparmor: AppArmor::of(desired_pod, container).map(|profile| profile.to_cri()),
        ..Default::default()
    })
}

fn verify_non_root(user: Option<i64>, image: &ImageRecord) -> Result<(), SecurityError> {
    match (user, image.uid) {
        (Some(0), _) => Err(SecurityError::RootUser),
        (Some(_), _) => Ok(()),
        (None, Some(0)) => Err(SecurityError::Root),
        (None, Some(_)) => Ok(()),
        (None, None) if image.username.is_empty() => Err(SecurityError::Root),
        (None, None) => Err(SecurityError::NamedUser(image.username.clone())),
    }
}

fn pod_context(desired_pod: &DesiredPod) -> core::PodSecurityContext {
    desired_pod.spec().and_then(|spec| spec.security_context.clone()).unwrap_or_default()
}

fn own(container: &ContainerSpec) -> core::SecurityContext {
    container.spec.security_context.clone().unwrap_or_default()
}

fn int64(value: i64) -> cri::Int64Value {
    cri::Int64Value { value }
}

/// The volumes' group is a supplemental group too.
fn groups(context: &core::PodSecurityContext) -> Vec<i64> {
    let listed = context.supplemental_groups.iter().flatten().copied();
    context.fs_group.into_iter().chain(listed).collect()
}

fn policy(context: &core::PodSecurityContext) -> i32 {
    match is_strict(context) {
        true => cri::SupplementalGroupsPolicy::Strict as i32,
        false => cri::SupplementalGroupsPolicy::Merge as i32,
    }
}

fn is_strict(context: &core::PodSecurityContext) -> bool {
    context.supplemental_groups_policy.as_deref() == Some("Strict")
}

/// The only groups that the pod's containers may have beside their main one; `None` if those of the image come
/// on top.
pub fn strict_groups(desired_pod: &DesiredPod) -> Option<Vec<i64>> {
    let context = pod_context(desired_pod);
    is_strict(&context).then(|| groups(&context))
}

fn capabilities(wanted: Option<&core::Capabilities>) -> cri::Capability {
    let list = |names: Option<&Vec<String>>| names.cloned().unwrap_or_default();
    cri::Capability {
        add_capabilities: list(wanted.and_then(|c| c.add.as_ref())),
        drop_capabilities: list(wanted.and_then(|c| c.drop.as_ref())),
        ..Default::default()
    }
}

/// For nodes that have it; elsewhere a runtime passes over it.
fn selinux(wanted: Option<&core::SELinuxOptions>) -> Option<cri::SeLinuxOption> {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    wanted.map(|options| cri::SeLinuxOption {
        user: text(&options.user),
        role: text(&options.role),
        r#type: text(&options.type_),
        level: text(&options.level),
    })
}

/// A profile of the node is one that its administrator put there, never another file: pods can write files, too.
fn seccomp(
    profile: Option<&core::SeccompProfile>,
    privileged: bool,
    profiles: &Path,
) -> Option<cri::SecurityProfile> {
    use cri::security_profile::ProfileType;
    let kind = match profile.map(|p| p.type_.as_str()) {
        _ if privileged => ProfileType::Unconfined,
        Some("RuntimeDefault") => ProfileType::RuntimeDefault,
        Some("Localhost") => ProfileType::Localhost,
        _ => ProfileType::Unconfined,
    };
    let localhost_ref = match kind {
        ProfileType::Localhost => {
            let name = profile.and_then(|p| p.localhost_profile.as_deref()).unwrap_or_default();
            profiles.join(name.trim_start_matches('/')).to_string_lossy().into_owned()
        }
        _ => String::new(),
    };
    Some(cri::SecurityProfile { profile_type: kind as i32, localhost_ref })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn context(
        pod: Value,
        container: Value,
        image: ImageRecord,
    ) -> Result<cri::LinuxContainerSecurityContext, SecurityError> {
        let pod = json!({"metadata": {}, "spec": {"securityContext": pod,
            "containers": [{"name": "main", "securityContext": container}]}});
        let desired_pod = DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()));
        container_security(&desired_pod, &desired_pod.containers[0], &image, None, Path::new("/data/seccomp"))
    }

    #[test]
    fn who_a_container_runs_as() {
        let root = ImageRecord::default;
        let image =
            |uid: Option<i64>, username: &str| ImageRecord { uid, username: username.into(), ..root() };
        let check =
            |pod: Value, container: Value, image: ImageRecord, want: Result<(Option<i64>, &str), &str>| {
                let got = context(pod, container, image)
                    .map(|c| (c.run_as_user.map(|u| u.value), c.run_as_username))
                    .map_err(|e| e.to_string());
                let want = want.map(|(uid, name)| (uid, name.to_owned())).map_err(str::to_owned);
                assert_eq!(got, want);
            };
        check(json!({}), json!({}), root(), Ok((None, "")));
        check(json!({}), json!({}), image(Some(65_535), ""), Ok((Some(65_535), "")));
        check(json!({}), json!({}), image(None, "web"), Ok((None, "web")));
        check(json!({"runAsUser": 5}), json!({}), root(), Ok((Some(5), "")));
        check(json!({"runAsUser": 5}), json!({"runAsUser": 6}), root(), Ok((Some(6), "")));
        let non_root = || json!({"runAsNonRoot": true});
        check(non_root(), json!({}), root(), Err("container has runAsNonRoot and image will run as root"));
        check(
            non_root(),
            json!({"runAsUser": 0}),
            root(),
            Err("container's runAsUser breaks non-root policy"),
        );
        check(non_root(), json!({"runAsUser": 7}), root(), Ok((Some(7), "")));
        check(non_root(), json!({}), image(Some(9), ""), Ok((Some(9), "")));
        check(non_root(), json!({"runAsNonRoot": false}), root(), Ok((None, "")));
        let named =
            "container has runAsNonRoot and image has non-numeric user (web), cannot verify user is non-root";
        check(non_root(), json!({}), image(None, "web"), Err(named));
    }

    #[test]
    fn security_profiles_reach_the_runtime() {
        use cri::security_profile::ProfileType;
        let local = json!({"type": "Localhost", "localhostProfile": "a/b.json"});
        let container = json!({"seccompProfile": local, "appArmorProfile": {"type": "RuntimeDefault"},
            "seLinuxOptions": {"type": "container_t"}});
        let got =
            context(json!({"seLinuxOptions": {"level": "s0"}}), container, ImageRecord::default()).unwrap();
        let seccomp = got.seccomp.unwrap();
        assert_eq!(seccomp.profile_type, ProfileType::Localhost as i32);
        assert_eq!(seccomp.localhost_ref, "/data/seccomp/a/b.json");
        assert_eq!(got.apparmor.unwrap().profile_type, ProfileType::RuntimeDefault as i32);
        assert_eq!(got.selinux_options.unwrap().r#type, "container_t");
        let got = context(json!({}), json!({}), ImageRecord::default()).unwrap();
        assert_eq!((got.apparmor, got.selinux_options), (None, None));
    }

    #[test]
    fn groups_and_privileges() {
        let pod = json!({"fsGroup": 3000, "supplementalGroups": [7], "supplementalGroupsPolicy": "Strict"});
        let got = context(pod, json!({"allowPrivilegeEscalation": false}), ImageRecord::default()).unwrap();
        assert_eq!(got.supplemental_groups, [3000, 7]);
        assert_eq!(got.supplemental_groups_policy, cri::SupplementalGroupsPolicy::Strict as i32);
        assert!(got.no_new_privs && !got.masked_paths.is_empty());
        let got = context(json!({}), json!({"privileged": true}), ImageRecord::default()).unwrap();
        assert!(got.privileged && got.masked_paths.is_empty() && !got.no_new_privs);
    }
}
