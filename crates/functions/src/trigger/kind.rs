//! What a Trigger must look like, and how it is listed.

use jiff::Timestamp;
use minik8s_api::{At, Cell, Column, CronSchedule, FieldErrors, Resource, Strategy, table, time_zone};
use minik8s_meta::trigger::{CONCURRENCY_POLICIES, FORBID, READY, Trigger};
use serde_json::Value;

use super::call::check_template;

/// Calls and the pod that looks at files are named after it.
const LONGEST_NAME: usize = 200;
const LONGEST_WITH_POD: usize = 40;
const SOURCES: [&str; 6] = ["schedule", "webhook", "cloudEvents", "object", "file", "nats"];
pub const OBJECT_EVENTS: [&str; 3] = ["Added", "Modified", "Deleted"];
pub const FILE_EVENTS: [&str; 3] = ["Created", "Modified", "Removed"];
/// What triggers make themselves: each would fire the next.
const OWN_KINDS: [&str; 4] = ["Invocation", "WorkflowRun", "Trigger", "FunctionDemand"];

pub fn resource() -> Resource {
    Resource::of::<Trigger>(Triggers).status().counted()
}

pub struct Triggers;

impl Strategy for Triggers {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let root = At::root(object);
        let spec = root.field("spec");
        let name = root.field("metadata").field("name");
        let has_pod = ["file", "nats"].iter().any(|name| spec.field("source").field(name).exists());
        let longest = if has_pod { LONGEST_WITH_POD } else { LONGEST_NAME };
        if name.text().len() > longest {
            name.invalid(
                errors,
                format!("must be no more than {longest} characters: calls are named after it"),
            );
        }
        target(&spec, errors);
        source(&spec.field("source"), errors);
        let input = spec.field("input");
        if let Err(problem) = check_template(input.value) {
            input.invalid(errors, problem);
        }
        let retry = spec.field("retry");
        for (field, most) in [("attempts", 100), ("backoffSeconds", 3600), ("maxAgeSeconds", 2_592_000)] {
            let at = retry.field(field);
            if at.int().is_some_and(|number| !(1..=most).contains(&number)) {
                at.invalid(errors, format!("must be between 1 and {most}"));
            }
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        let shown = ["Name", "Source", "Target", "Ready", "Fired", "Last", "Next", "Age"];
        Some(table::texts_and_wide(&shown, &["Address", "Message"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        let ready = conditions.find(|condition| condition["type"] == READY);
        vec![
            table::name(object),
            told_source(&spec["source"]).into(),
            told_target(&spec["target"]).into(),
            ready.map_or("Unknown".to_owned(), |ready| table::text_or(&ready["status"], "Unknown")).into(),
            table::text_or(&status["fired"], "0").into(),
            table::text_or(&status["lastFired"], table::NONE).into(),
            table::text_or(&status["nextFire"], table::NONE).into(),
            table::age(object, now),
            table::text_or(&status["address"], table::NONE).into(),
            ready.map_or(String::new(), |ready| table::text_or(&ready["message"], "")).into(),
        ]
    }
}

fn told_source(source: &Value) -> String {
    let text = |value: &Value| table::text_or(value, "");
    if source["schedule"].is_object() {
        return text(&source["schedule"]["cron"]);
    }
    if source["object"].is_object() {
        return format!("object {}", text(&source["object"]["kind"]));
    }
    if source["file"].is_object() {
        return format!("file {}/{}", text(&source["file"]["claimName"]), text(&source["file"]["path"]));
    }
    if source["nats"].is_object() {
        return format!("nats {}", text(&source["nats"]["subject"]));
    }
    SOURCES.iter().find(|name| source[**name].is_object()).map_or(table::NONE, |name| *name).to_owned()
}

fn told_target(target: &Value) -> String {
    match target["workflow"].as_str() {
        Some(workflow) => format!("workflow/{workflow}"),
        None => format!("function/{}", target["function"].as_str().unwrap_or_default()),
    }
}

fn target(spec: &At<'_>, errors: &mut FieldErrors) {
    let target = spec.field("target");
    match (target.field("function").is_set(), target.field("workflow").is_set()) {
        (false, false) => target.required(errors, "name a function or a workflow of this namespace"),
        (true, true) => target.invalid(errors, "must have one of function and workflow, not both"),
        (true, false) => {}
        (false, true) => {
            let policy = spec.field("source").field("schedule").field("concurrencyPolicy");
            if policy.text() == FORBID {
                policy.forbidden(errors, "is for functions: runs of workflows are not looked at");
            }
            for field in ["deadLetter", "retry"] {
                if spec.field(field).is_set() {
                    spec.field(field)
                        .forbidden(errors, "is for functions: a workflow says so itself, by Retry and Catch");
                }
            }
        }
    }
}

fn source(source: &At<'_>, errors: &mut FieldErrors) {
    let given: Vec<&str> = SOURCES.into_iter().filter(|name| source.field(name).exists()).collect();
    let [only] = given.as_slice() else {
        let detail = format!(
            "must have exactly one of {}, e.g. schedule: {{cron: \"*/5 * * * *\"}}",
            SOURCES.join(", ")
        );
        return source.required(errors, &detail);
    };
    let source = source.field(only);
    match *only {
        "schedule" => schedule(&source, errors),
        "webhook" => {
            source.field("secretRef").field("name").need(errors);
        }
        "cloudEvents" => {
            let secret = source.field("secretRef");
            if secret.exists() {
                secret.field("name").need(errors);
            }
        }
        "object" => objects(&source, errors),
        "nats" => nats(&source, errors),
        _ => file(&source, errors),
    }
}

fn nats(nats: &At<'_>, errors: &mut FieldErrors) {
    let url = nats.field("url");
    if url.need(errors)
        && let Err(problem) = super::nats::address(url.text())
    {
        url.invalid(errors, problem);
    }
    let subject = nats.field("subject");
    if subject.need(errors) && !super::nats::is_subject(subject.text()) {
        subject.invalid(errors, "must be words with dots between them, e.g. orders.*.paid or orders.>");
    }
    let group = nats.field("group");
    if group.is_set() && !super::nats::is_word(group.text()) {
        group.invalid(errors, "must be a word without spaces");
    }
    let secret = nats.field("secretRef");
    if secret.exists() {
        secret.field("name").need(errors);
    }
}

fn schedule(schedule: &At<'_>, errors: &mut FieldErrors) {
    let cron = schedule.field("cron");
    if cron.need(errors)
        && let Err(error) = CronSchedule::parse(cron.text())
    {
        cron.invalid(errors, error.to_string());
    }
    let zone = schedule.field("timeZone");
    if zone.is_set() && time_zone(zone.text()).is_none() {
        zone.invalid(errors, "unknown time zone");
    }
    schedule.field("concurrencyPolicy").one_of(errors, &CONCURRENCY_POLICIES);
}

fn objects(object: &At<'_>, errors: &mut FieldErrors) {
    object.field("apiVersion").need(errors);
    let kind = object.field("kind");
    if kind.need(errors) && OWN_KINDS.contains(&kind.text()) {
        kind.forbidden(errors, "triggers make such objects themselves: each would fire the next");
    }
    object.field("events").items().for_each(|event| event.one_of(errors, &OBJECT_EVENTS));
    let selector = object.field("labelSelector");
    if let Err(problem) =
        minik8s_meta::LabelSelector::from_value(Some(selector.value).filter(|one| !one.is_null()))
    {
        selector.invalid(errors, problem.to_string());
    }
}

fn file(file: &At<'_>, errors: &mut FieldErrors) {
    file.field("claimName").need(errors);
    let path = file.field("path");
    if path.text().starts_with('/') || path.text().split('/').any(|part| part == "..") {
        path.invalid(errors, "must be a path in the volume, without a slash at its beginning and without ..");
    }
    file.field("events").items().for_each(|event| event.one_of(errors, &FILE_EVENTS));
}
