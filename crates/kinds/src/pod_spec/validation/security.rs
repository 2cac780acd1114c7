//! Security contexts of pods and containers.

use std::collections::HashSet;

use crate::At;
use crate::{FieldErrors, format};

/// `securityContext` of a pod, and the host's namespaces.
pub(super) fn pod(spec: &At<'_>, errors: &mut FieldErrors) {
    let context = spec.field("securityContext");
    identity(&context, errors);
    id(&context.field("fsGroup"), errors);
    for group in context.field("supplementalGroups").items() {
        id(&group, errors);
    }
    context.field("fsGroupChangePolicy").one_of(errors, &["Always", "OnRootMismatch"]);
    context.field("supplementalGroupsPolicy").one_of(errors, &["Merge", "Strict"]);
    context.field("seLinuxChangePolicy").one_of(errors, &["MountOption", "Recursive"]);
    sysctls(&context.field("sysctls"), spec, errors);
    let share = spec.field("shareProcessNamespace");
    if share.is_true() && spec.field("hostPID").is_true() {
        share.invalid(errors, "ShareProcessNamespace and HostPID cannot both be enabled");
    }
}

/// `securityContext` of a container.
pub(super) fn container(container: &At<'_>, errors: &mut FieldErrors) {
    let context = container.field("securityContext");
    if !context.exists() {
        return;
    }
    identity(&context, errors);
    context.field("procMount").one_of(errors, &["Default", "Unmasked"]);
    if context.field("allowPrivilegeEscalation").value == false {
        if context.field("privileged").is_true() {
            context
                .invalid(errors, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
        }
        let added = context.field("capabilities").field("add");
        if added.items().any(|capability| capability.text() == "CAP_SYS_ADMIN") {
            context.invalid(
                errors,
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            );
        }
    }
}

/// What pods and containers have in common.
fn identity(context: &At<'_>, errors: &mut FieldErrors) {
    id(&context.field("runAsUser"), errors);
    id(&context.field("runAsGroup"), errors);
    profile(&context.field("seccompProfile"), "seccomp", errors);
    profile(&context.field("appArmorProfile"), "AppArmor", errors);
}

fn id(id: &At<'_>, errors: &mut FieldErrors) {
    if let Some(number) = id.int() {
        id.problems(errors, format::in_range(number, 0, i64::from(i32::MAX)));
    }
}

fn profile(profile: &At<'_>, what: &str, errors: &mut FieldErrors) {
    if !profile.exists() {
        return;
    }
    let kind = profile.field("type");
    if !matches!(kind.text(), "Localhost" | "RuntimeDefault" | "Unconfined") {
        match kind.is_set() {
            true => kind.not_supported(errors, &["Localhost", "RuntimeDefault", "Unconfined"]),
            false => kind.required(errors, &format!("type is required when {what}Profile is set")),
        }
    }
    let file = profile.field("localhostProfile");
    match (kind.text() == "Localhost", file.is_set()) {
        (true, false) => file.required(errors, &format!("must be set when {what} type is Localhost")),
        (false, true) => file.invalid(errors, format!("can only be set when {what} type is Localhost")),
        (true, true) if what == "seccomp" => {
            file.problems(errors, super::volumes::descending_problems(file.text()));
        }
        _ => {}
    }
}

fn sysctls(sysctls: &At<'_>, spec: &At<'_>, errors: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for sysctl in sysctls.items() {
        let name = sysctl.field("name");
        if !name.need(errors) {
            continue;
        }
        if !is_sysctl(name.text()) {
            name.invalid(
                errors,
                "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
            );
        }
        // `/` and `.` both separate; the two spellings are one setting.
        if !seen.insert(name.text().replace('/', ".")) {
            name.duplicate(errors);
        }
        let dotted = name.text().replace('/', ".");
        if dotted.starts_with("net.") && spec.field("hostNetwork").is_true() {
            name.invalid(errors, "may not be specified when 'hostNetwork' is true");
        }
        let ipc = ["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."];
        if ipc.iter().any(|prefix| dotted.starts_with(prefix)) && spec.field("hostIPC").is_true() {
            name.invalid(errors, "may not be specified when 'hostIPC' is true");
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let lower = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let part = |part: &str| {
        let bytes = part.as_bytes();
        bytes.iter().all(|&b| lower(b) || b == b'-' || b == b'_')
            && bytes.first().is_some_and(|&b| lower(b))
            && bytes.last().is_some_and(|&b| lower(b))
    };
    name.len() <= 253 && name.split(['.', '/']).all(part)
}
