//! What `minik8s trigger list` and `describe` print.

use anyhow::Context;
use kube::Api;
use kube::api::ListParams;
use minik8s_meta::trigger::{READY, Trigger, TriggerSource};

use crate::output;

pub async fn list(triggers: &Api<Trigger>, namespace: &str) -> anyhow::Result<()> {
    let found = triggers.list(&ListParams::default()).await.context("cannot list triggers")?;
    if found.items.is_empty() {
        eprintln!("No triggers in namespace {namespace}.");
        return Ok(());
    }
    let row = |a: &str, b: &str, c: &str, d: &str, e: &str| format!("{a:<20} {b:<28} {c:<24} {d:<8} {e}");
    output::line(row("NAME", "SOURCE", "TARGET", "READY", "FIRED"))?;
    for trigger in &found.items {
        let status = trigger.status.clone().unwrap_or_default();
        output::line(row(
            trigger.metadata.name.as_deref().unwrap_or_default(),
            &source(&trigger.spec.source),
            &target(trigger),
            &ready(trigger).0,
            &status.fired.to_string(),
        ))?;
    }
    Ok(())
}

pub async fn describe(triggers: &Api<Trigger>, namespace: &str, name: &str) -> anyhow::Result<()> {
    let found = triggers.get_opt(name).await.with_context(|| format!("cannot read trigger {name}"))?;
    let trigger = found.with_context(|| {
        format!("there is no trigger {name} in namespace {namespace}; see `minik8s trigger list`")
    })?;
    let status = trigger.status.clone().unwrap_or_default();
    let (is_ready, message) = ready(&trigger);
    let time = |time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        time.map_or("never".to_owned(), |time| time.0.to_string())
    };
    let line = |name: &str, value: &str| output::words(&format!("{name:<10} {value}\n"));
    line("Name:", name)?;
    line("Source:", &source(&trigger.spec.source))?;
    line("Target:", &target(&trigger))?;
    line("Ready:", format!("{is_ready} {message}").trim())?;
    if let Some(address) = &status.address {
        line("Address:", &format!("http://NODE{address}"))?;
    }
    line("Fired:", &format!("{} times; last {}", status.fired, time(status.last_fired.as_ref())))?;
    if trigger.spec.source.schedule.is_some() {
        line("Next:", &time(status.next_fire.as_ref()))?;
    }
    if status.failed > 0 {
        let told = format!("{} calls of the last hour; see `minik8s get invocations`", status.failed);
        line("Failed:", &told)?;
    }
    Ok(())
}

/// Status and message of the condition.
fn ready(trigger: &Trigger) -> (String, String) {
    let conditions = trigger.status.iter().flat_map(|status| &status.conditions);
    let ready = conditions.into_iter().find(|condition| condition.type_ == READY);
    ready.map_or(("Unknown".to_owned(), String::new()), |one| (one.status.clone(), one.message.clone()))
}

fn target(trigger: &Trigger) -> String {
    match &trigger.spec.target.workflow {
        Some(workflow) => format!("workflow/{workflow}"),
        None => format!("function/{}", trigger.spec.target.function.as_deref().unwrap_or_default()),
    }
}

fn source(source: &TriggerSource) -> String {
    if let Some(schedule) = &source.schedule {
        return format!("schedule {}", schedule.cron);
    }
    if let Some(object) = &source.object {
        return format!("object {}", object.kind);
    }
    if let Some(file) = &source.file {
        let path = file.path.as_deref().unwrap_or_default();
        return format!("file {}/{path}", file.claim_name);
    }
    if let Some(events) = &source.cloud_events {
        return format!("cloudevents {}", events.types.join(","));
    }
    "webhook".to_owned()
}
