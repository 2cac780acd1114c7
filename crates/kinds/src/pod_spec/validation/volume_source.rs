//! The sources of volumes that users of a cluster write by hand.
//!
//! Sources that only name a driver's own settings are left to their drivers.

use std::collections::HashSet;

use super::certificate_source;
use super::field_ref::{self, Use};
use super::resources::{Holder, resource_list};
use super::volumes::{backstep_problems, descending_problems};
use crate::At;
use crate::{FieldErrors, Quantity, format};

const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(super) fn validate(name: &str, source: &At<'_>, errors: &mut FieldErrors) {
    match name {
        "emptyDir" => empty_dir(source, errors),
        "hostPath" => host_path(source, errors),
        "secret" => {
            source.field("secretName").need(errors);
            files(source, errors);
        }
        "configMap" => {
            source.field("name").need(errors);
            files(source, errors);
        }
        "downwardAPI" => {
            mode(&source.field("defaultMode"), errors);
            downward_files(source, errors);
        }
        "projected" => projected(source, errors),
        "persistentVolumeClaim" => {
            source.field("claimName").need(errors);
        }
        "ephemeral" => {
            let template = source.field("volumeClaimTemplate");
            if template.need(errors) {
                claim_spec(&template.field("spec"), errors);
            }
        }
        "nfs" => {
            source.field("server").need(errors);
            let path = source.field("path");
            if path.need(errors) && !path.text().starts_with('/') {
                path.invalid(errors, "must be an absolute path");
            }
        }
        "csi" => {
            source.field("driver").need_form(errors, format::subdomain);
        }
        "image" => {
            source.field("reference").need(errors);
            source.field("pullPolicy").one_of(errors, &["Always", "IfNotPresent", "Never"]);
        }
        _ => {}
    }
}

/// The spec of a PersistentVolumeClaim that a template makes.
pub(crate) fn claim_spec(spec: &At<'_>, errors: &mut FieldErrors) {
    let modes = spec.field("accessModes");
    if !modes.is_set() {
        modes.required(errors, "at least 1 access mode is required");
    }
    for mode in modes.items() {
        mode.one_of(errors, ACCESS_MODES);
    }
    if modes.len() > 1 && modes.items().any(|mode| mode.text() == "ReadWriteOncePod") {
        modes.forbidden(errors, "may not use ReadWriteOncePod with other access modes");
    }
    let requests = spec.field("resources").field("requests");
    let storage = requests.field("storage");
    match Quantity::from_json(storage.value) {
        _ if !storage.exists() => errors.required(requests.path.key("storage"), ""),
        Ok(size) if size <= Quantity::ZERO => {
            errors.invalid(requests.path.key("storage"), size.to_string(), "must be greater than zero");
        }
        _ => resource_list(&requests, Holder::Claim, errors),
    }
    spec.field("volumeMode").one_of(errors, &["Block", "Filesystem"]);
    spec.field("storageClassName").has_form(errors, format::subdomain);
}

fn empty_dir(source: &At<'_>, errors: &mut FieldErrors) {
    let limit = source.field("sizeLimit");
    match Quantity::from_json(limit.value) {
        _ if !limit.exists() => {}
        Ok(size) if !size.is_negative() => {}
        Ok(_) => limit.forbidden(errors, "SizeLimit field must be a valid resource quantity"),
        Err(error) => limit.invalid(errors, error.to_string()),
    }
}

fn host_path(source: &At<'_>, errors: &mut FieldErrors) {
    let path = source.field("path");
    if path.need(errors) {
        path.problems(errors, backstep_problems(path.text()));
    }
    source.field("type").one_of(errors, HOST_PATH_TYPES);
}

/// `items` and modes of a secret, config map or projection of one.
fn files(source: &At<'_>, errors: &mut FieldErrors) {
    mode(&source.field("defaultMode"), errors);
    for item in source.field("items").items() {
        item.field("key").need(errors);
        file_path(&item.field("path"), errors);
        mode(&item.field("mode"), errors);
    }
}

fn downward_files(source: &At<'_>, errors: &mut FieldErrors) {
    for item in source.field("items").items() {
        file_path(&item.field("path"), errors);
        mode(&item.field("mode"), errors);
        match (item.field("fieldRef"), item.field("resourceFieldRef")) {
            (field, resource) if field.exists() && resource.exists() => {
                item.invalid(errors, "fieldRef and resourceFieldRef can not be specified simultaneously");
            }
            (field, resource) if !field.exists() && !resource.exists() => {
                item.required(errors, "one of fieldRef and resourceFieldRef is required");
            }
            (field, resource) => {
                field_ref::field(&field, Use::File, errors);
                field_ref::resource(&resource, Use::File, errors);
            }
        }
    }
}

fn projected(source: &At<'_>, errors: &mut FieldErrors) {
    mode(&source.field("defaultMode"), errors);
    let mut paths = HashSet::new();
    for part in source.field("sources").items() {
        let fields = part.value.as_object().into_iter().flatten();
        let mut kinds = fields.filter(|(_, value)| !value.is_null()).map(|(name, _)| name.as_str());
        let Some(kind) = kinds.next() else {
            part.required(errors, "must specify a volume type");
            continue;
        };
        for extra in kinds {
            part.field(extra).forbidden(errors, "may not specify more than 1 volume type per source");
        }
        let at = part.field(kind);
        projection(kind, &at, errors);
        let own = PATHS.iter().map(|name| at.field(name));
        let items = at.field("items");
        for path in items.items().map(|item| item.field("path")).chain(own).filter(At::is_set) {
            if !paths.insert(path.text()) {
                path.invalid(errors, "conflicting duplicate paths");
            }
        }
    }
}

/// The fields of projections that name a file.
const PATHS: [&str; 4] = ["path", "credentialBundlePath", "keyPath", "certificateChainPath"];

fn projection(kind: &str, source: &At<'_>, errors: &mut FieldErrors) {
    match kind {
        "secret" | "configMap" => {
            source.field("name").need(errors);
            files(source, errors);
        }
        "downwardAPI" => downward_files(source, errors),
        "serviceAccountToken" => {
            let seconds = source.field("expirationSeconds");
            match seconds.int() {
                Some(n) if n < 600 => {
                    seconds.invalid(errors, "may not specify a duration less than 10 minutes");
                }
                Some(n) if n > 1 << 32 => {
                    seconds.invalid(errors, "may not specify a duration larger than 2^32 seconds");
                }
                _ => {}
            }
            file_path(&source.field("path"), errors);
        }
        "clusterTrustBundle" => {
            certificate_source::trust_bundle(source, errors);
            file_path(&source.field("path"), errors);
        }
        "podCertificate" => certificate_source::pod_certificate(source, errors),
        _ => {}
    }
}

pub(super) fn file_path(path: &At<'_>, errors: &mut FieldErrors) {
    if !path.need(errors) {
        return;
    }
    path.problems(errors, descending_problems(path.text()));
    if path.text().starts_with("..") && !path.text().starts_with("../") {
        path.invalid(errors, "must not start with '..'");
    }
}

fn mode(mode: &At<'_>, errors: &mut FieldErrors) {
    if mode.int().is_some_and(|bits| !(0..=0o777).contains(&bits)) {
        mode.invalid(errors, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}
