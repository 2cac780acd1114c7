//! The containers of all three lists, and what they must not have in common.

use std::collections::HashSet;

use serde_json::Value;

use super::volumes::Volumes;
use super::{Place, env, handlers, mounts, ports, resources, security};
use crate::At;
use crate::pod_spec::containers::{EPHEMERAL, INIT, MAIN, is_sidecar};
use crate::{FieldErrors, format};

/// What the containers of one pod are checked against.
pub(super) struct Containers<'a> {
    pub spec: &'a At<'a>,
    pub volumes: &'a Volumes<'a>,
    pub place: Place,
}

impl Containers<'_> {
    pub fn validate(&self, errors: &mut FieldErrors) {
        let main = self.spec.field(MAIN);
        if !main.is_set() {
            main.required(errors, "");
        }
        let mut names = HashSet::new();
        for container in main.items() {
            self.one(&container, &mut names, errors);
            handlers::of_container(&container, self.spec, errors);
            restart_policy(&container, &["Always", "Never", "OnFailure"], errors);
        }
        ports::no_shared_host_ports(&main, errors);
        for container in self.spec.field(INIT).items() {
            self.one(&container, &mut names, errors);
            self.init(&container, errors);
        }
        let targets = names.clone();
        for container in self.spec.field(EPHEMERAL).items() {
            self.one(&container, &mut names, errors);
            ephemeral(&container, &targets, errors);
        }
        if self.place == Place::Template && self.spec.field(EPHEMERAL).is_set() {
            self.spec.field(EPHEMERAL).forbidden(errors, "ephemeral containers not allowed in pod template");
        }
    }

    /// What holds for every container.
    fn one<'c>(&self, container: &At<'c>, names: &mut HashSet<&'c str>, errors: &mut FieldErrors) {
        let name = container.field("name");
        name.need_form(errors, format::label);
        if name.is_set() && !names.insert(name.text()) {
            name.duplicate(errors);
        }
        let image = container.field("image");
        if image.need(errors) && image.text().trim() != image.text() {
            image.invalid(errors, "must not have leading or trailing whitespace");
        }
        container.field("terminationMessagePolicy").need_one_of(errors, &["FallbackToLogsOnError", "File"]);
        container.field("imagePullPolicy").need_one_of(errors, &["Always", "IfNotPresent", "Never"]);
        ports::validate(&container.field("ports"), errors);
        if self.spec.field("hostNetwork").is_true() {
            ports::same_on_host(&container.field("ports"), self.place, errors);
        }
        env::validate(&container.field("env"), errors);
        env::validate_from(&container.field("envFrom"), errors);
        mounts::validate(container, self.volumes, errors);
        resources::validate(container, resources::Holder::Container, errors);
        resources::claims(container, &self.spec.field("resourceClaims"), errors);
        resources::resize_policy(&container.field("resizePolicy"), errors);
        security::container(container, errors);
    }

    fn init(&self, container: &At<'_>, errors: &mut FieldErrors) {
        restart_policy(container, &["Always", "Never", "OnFailure"], errors);
        if is_sidecar(container.value) {
            handlers::of_container(container, self.spec, errors);
            return;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if container.field(field).exists() {
                container
                    .field(field)
                    .forbidden(errors, "may not be set for init containers without restartPolicy=Always");
            }
        }
    }
}

fn restart_policy(container: &At<'_>, supported: &[&str], errors: &mut FieldErrors) {
    container.field("restartPolicy").one_of(errors, supported);
    let rules = container.field("restartPolicyRules");
    if rules.is_set() && !container.field("restartPolicy").is_set() {
        container
            .field("restartPolicy")
            .required(errors, "must specify restartPolicy when restart rules are used");
    }
    for rule in rules.items() {
        rule.field("action").need_one_of(errors, &["Restart", "RestartAllContainers"]);
        let codes = rule.field("exitCodes");
        if !codes.exists() {
            codes.required(errors, "must be specified");
            continue;
        }
        codes.field("operator").need_one_of(errors, &["In", "NotIn"]);
        if codes.field("values").len() > 255 {
            errors.too_many(codes.field("values").path, codes.field("values").len(), 255);
        }
    }
}

/// Ephemeral containers join a pod that already runs, so it cannot make room for them.
fn ephemeral(container: &At<'_>, targets: &HashSet<&str>, errors: &mut FieldErrors) {
    for field in [
        "ports",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
        "resizePolicy",
        "restartPolicy",
    ] {
        if container.field(field).is_set() {
            container.field(field).forbidden(errors, "cannot be set for an Ephemeral Container");
        }
    }
    let asks = |list: &str| container.value["resources"][list].as_object().is_some_and(|map| !map.is_empty());
    if asks("limits") || asks("requests") {
        container.field("resources").forbidden(errors, "cannot be set for an Ephemeral Container");
    }
    for mount in container.field("volumeMounts").items() {
        for field in ["subPath", "subPathExpr"] {
            if mount.field(field).is_set() {
                mount.field(field).forbidden(errors, "cannot be set for an Ephemeral Container");
            }
        }
    }
    let target = container.field("targetContainerName");
    if target.is_set() && !targets.contains(target.text()) {
        errors.not_found(target.path.clone(), Value::clone(target.value));
    }
}
