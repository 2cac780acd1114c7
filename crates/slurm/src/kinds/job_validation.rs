//! What a GPUJob must be. Values that end up in Slurm's own lines may hold only what cannot end a line or a word there;
//! `build`, `run` and `script` are the user's own shell code and run as nobody but the user.

use minik8s_api::{At, FieldErrors};
use serde_json::Value;

use super::slurm_options::{Form, OPTIONS};

/// Objects are limited to 1.5 MiB; larger sources belong into a ConfigMap or a claim.
const MOST_SOURCE: usize = 1 << 20;
const LONGEST_NAME: usize = 52;

pub(super) fn gpu_job(object: &Value, errors: &mut FieldErrors) {
    let root = At::root(object);
    let name = root.field("metadata").field("name");
    if name.text().len() > LONGEST_NAME {
        name.invalid(
            errors,
            format!("must be no more than {LONGEST_NAME} characters: its pod's name is longer"),
        );
    }
    let spec = root.field("spec");
    spec.field("cluster").has_form(errors, minik8s_meta::format::subdomain);
    source(&spec.field("source"), errors);
    commands(&spec, errors);
    options(&spec.field("slurm"), errors);
    results(&spec.field("results"), errors);
    spec.field("backoffLimit").not_negative(errors);
    spec.field("ttlSecondsAfterFinished").not_negative(errors);
}

fn source(source: &At<'_>, errors: &mut FieldErrors) {
    let places = ["files", "configMapRef", "volumeClaim"];
    if places.iter().all(|place| !source.field(place).is_set()) {
        source.required(
            errors,
            "give files, configMapRef or volumeClaim: there is nothing to bring to the cluster",
        );
    }
    let mut size = 0;
    for (name, file) in source.field("files").entries() {
        size += file.text().len();
        if let Some(problem) = path_problem(name) {
            file.invalid(errors, format!("the file's name {problem}"));
        }
    }
    if size > MOST_SOURCE {
        source.field("files").forbidden(errors, "more than 1 MiB: use a ConfigMap or a volumeClaim");
    }
    for place in
        ["configMapRef", "volumeClaim"].map(|place| source.field(place)).iter().filter(|p| p.exists())
    {
        place.field("name").need_form(errors, minik8s_meta::format::subdomain);
    }
    let path = source.field("volumeClaim").field("path");
    if let Some(problem) = path_problem(path.text()).filter(|_| path.is_set()) {
        path.invalid(errors, problem);
    }
}

fn commands(spec: &At<'_>, errors: &mut FieldErrors) {
    let (run, script) = (spec.field("run"), spec.field("slurm").field("script"));
    match (run.is_set(), script.is_set()) {
        (false, false) => run.required(errors, "the command that the job runs, e.g. ./matmul 1024"),
        (true, true) => run.forbidden(errors, "slurm.script is the whole job already"),
        _ => {}
    }
    if script.is_set() && !script.text().starts_with("#!") {
        script.invalid(errors, "must begin with #!, e.g. #!/bin/bash: sbatch demands it");
    }
    for field in [run, script, spec.field("build")] {
        if field.text().contains('\0') {
            field.invalid(errors, "must not contain a NUL character");
        }
    }
}

/// Ours, because the job is found by them.
const OURS: [&str; 8] = ["--job-name", "-J", "--comment", "--chdir", "-D", "--parsable", "--wrap", "--wait"];

fn options(slurm: &At<'_>, errors: &mut FieldErrors) {
    let of_form = |form: Form| {
        let named = OPTIONS.iter().filter(move |(_, other)| *other == form);
        named.map(move |(name, _)| slurm.field(name))
    };
    let texts = of_form(Form::Text).chain(slurm.field("modules").items());
    for field in texts.filter(At::is_set) {
        if !is_option_value(field.text()) {
            field
                .invalid(errors, "must not contain spaces, quotes or control characters, nor begin with '-'");
        }
    }
    for field in of_form(Form::Count) {
        if field.int().is_some_and(|count| count < 1) {
            field.invalid(errors, "must be 1 or more; leave it out for Slurm's default");
        }
    }
    for file in ["output", "error"].map(|name| slurm.field(name)).iter().filter(|file| file.is_set()) {
        if let Some(problem) = path_problem(file.text()) {
            file.invalid(errors, problem);
        }
    }
    for (name, value) in slurm.field("environment").entries() {
        let good = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !good {
            value.invalid(errors, "the variable's name must be letters, digits and '_'");
        }
        if value.text().contains('\0') {
            value.invalid(errors, "must not contain a NUL character");
        }
    }
    for option in slurm.field("options").items() {
        let name = option.text().split('=').next().unwrap_or_default();
        if !option.text().starts_with("--") || !is_option_value(option.text().trim_start_matches('-')) {
            option.invalid(errors, "must be one option as sbatch has it, without spaces, e.g. --nice=10");
        } else if OURS.iter().any(|ours| ours.starts_with(name) && name.len() > 3) {
            option.forbidden(errors, "minik8s finds the job by it and sets it itself");
        }
    }
}

fn results(results: &At<'_>, errors: &mut FieldErrors) {
    for pattern in results.field("files").items() {
        if let Some(problem) = path_problem(pattern.text()) {
            pattern.invalid(errors, problem);
        }
    }
    results.field("claim").has_form(errors, minik8s_meta::format::subdomain);
}

/// What can stand behind `#SBATCH --name=` as one word.
pub(crate) fn is_option_value(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.,:=@%+/[]()&|*!~^-".contains(c))
}

/// Why a text is no path that stays below where it begins.
pub fn path_problem(path: &str) -> Option<&'static str> {
    if path.is_empty() || path.len() > 1024 {
        return Some("must be 1 to 1024 characters long");
    }
    if path.starts_with('/') || path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Some("must be relative, without empty parts, '.' and '..'");
    }
    if path.starts_with('-') || path.chars().any(char::is_control) {
        return Some("must not begin with '-' or contain control characters");
    }
    None
}
