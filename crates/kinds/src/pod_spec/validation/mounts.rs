//! Where a container sees the pod's volumes.

use std::collections::HashSet;

use serde_json::Value;

use super::volumes::{Backing, Volumes, descending_problems};
use crate::At;
use crate::FieldErrors;

pub(super) fn validate(container: &At<'_>, volumes: &Volumes<'_>, errors: &mut FieldErrors) {
    let devices = container.field("volumeDevices");
    let mut paths = HashSet::new();
    for mount in container.field("volumeMounts").items() {
        validate_mount(&mount, container, volumes, &mut paths, errors);
        let on_device = |field: &str, text: &str| devices.items().any(|d| d.field(field).text() == text);
        if on_device("name", mount.field("name").text()) {
            mount.field("name").invalid(errors, "must not already exist in volumeDevices");
        }
        if on_device("devicePath", mount.field("mountPath").text()) {
            mount.field("mountPath").invalid(errors, "must not already exist as a path in volumeDevices");
        }
    }
    validate_devices(&devices, volumes, errors);
}

fn validate_mount<'a>(
    mount: &At<'a>,
    container: &At<'_>,
    volumes: &Volumes<'_>,
    paths: &mut HashSet<&'a str>,
    errors: &mut FieldErrors,
) {
    let name = mount.field("name");
    if name.need(errors) && !volumes.contains_key(name.text()) {
        errors.not_found(name.path.clone(), Value::clone(name.value));
    }
    let path = mount.field("mountPath");
    if path.need(errors) && !paths.insert(path.text()) {
        path.invalid(errors, "must be unique");
    }
    let (sub_path, expression) = (mount.field("subPath"), mount.field("subPathExpr"));
    sub_path.has_form(errors, descending_problems);
    expression.has_form(errors, descending_problems);
    if sub_path.is_set() && expression.is_set() {
        expression.invalid(errors, "subPathExpr and subPath are mutually exclusive");
    }
    let propagation = mount.field("mountPropagation");
    propagation.one_of(errors, &["Bidirectional", "HostToContainer", "None"]);
    if propagation.text() == "Bidirectional"
        && !container.field("securityContext").field("privileged").is_true()
    {
        propagation
            .forbidden(errors, "Bidirectional mount propagation is available only to privileged containers");
    }
    validate_recursive_read_only(mount, errors);
}

fn validate_recursive_read_only(mount: &At<'_>, errors: &mut FieldErrors) {
    let recursive = mount.field("recursiveReadOnly");
    recursive.one_of(errors, &["Disabled", "Enabled", "IfPossible"]);
    if !matches!(recursive.text(), "Enabled" | "IfPossible") {
        return;
    }
    if !mount.field("readOnly").is_true() {
        recursive.forbidden(errors, "may only be specified when readOnly is true");
    }
    if !matches!(mount.field("mountPropagation").text(), "" | "None") {
        recursive.forbidden(errors, "may only be specified when mountPropagation is None or not specified");
    }
}

fn validate_devices(devices: &At<'_>, volumes: &Volumes<'_>, errors: &mut FieldErrors) {
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for device in devices.items() {
        let name = device.field("name");
        if name.need(errors) {
            match volumes.get(name.text()) {
                None => errors.not_found(name.path.clone(), Value::clone(name.value)),
                Some(Backing::Other) => {
                    name.invalid(
                        errors,
                        "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                    );
                }
                Some(Backing::Claim) => {}
            }
            if !names.insert(name.text()) {
                name.invalid(errors, "must be unique");
            }
        }
        let path = device.field("devicePath");
        if path.need(errors) {
            if !paths.insert(path.text()) {
                path.invalid(errors, "must be unique");
            }
            if path.text().split('/').any(|part| part == "..") {
                path.invalid(errors, "must not contain '..'");
            }
        }
    }
}
