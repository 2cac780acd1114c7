//! When a trigger fires by the clock, what its status says, and the pod that looks at its files. After a time in which
//! nobody looked, only the newest moment that was missed fires.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::tz::TimeZone;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_meta::trigger::{FORBID, READY, Trigger, TriggerSchedule, TriggerStatus};
use minik8s_meta::{CronSchedule, time_zone};
use minik8s_runtime::{Action, EventRecord, Plan, Target};
use serde_json::json;

use super::event::Event;
use super::{EVENTS, Observed, call, file, nats};

/// Moments that were missed are looked for this far back.
const MEMORY: SignedDuration = SignedDuration::from_hours(1);

/// The type of events of schedules.
pub const SCHEDULE_EVENT: &str = "io.minik8s.schedule";

/// Status, reason and message of the condition.
pub type Ready = (&'static str, &'static str, String);

pub fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let trigger = &*seen.trigger;
    if trigger.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let mut status = trigger.status.clone().unwrap_or_default();
    status.failed = i64::try_from(seen.failed).unwrap_or(i64::MAX);
    status.address = address(trigger);
    let suspended = trigger.spec.suspend == Some(true);
    let source = &trigger.spec.source;
    let ready = match (&source.schedule, &source.file) {
        _ if suspended => {
            status.next_fire = None;
            Some(("False", "Suspended", "spec.suspend is true".to_owned()))
        }
        (Some(schedule), _) => Some(by_the_clock(seen, schedule, &mut status, now, &mut plan)),
        (_, Some(file)) => Some(file::plan(seen, file, &mut plan)),
        _ if source.nats.is_some() => Some(nats::plan(seen, &mut plan)),
        // Whoever watches the objects says whether it may.
        _ if source.object.is_some() => None,
        _ => Some(("True", "Listening", String::new())),
    };
    if suspended {
        file::stop(seen, &mut plan);
    }
    if let Some(ready) = ready {
        status.conditions = vec![condition(trigger, ready, now)];
    }
    plan.status(trigger, Trigger { status: Some(status), ..trigger.clone() });
    plan
}

/// Where events are posted.
fn address(trigger: &Trigger) -> Option<String> {
    let meta = &trigger.metadata;
    let (namespace, name) = (meta.namespace.as_deref()?, meta.name.as_deref()?);
    let source = &trigger.spec.source;
    if source.webhook.is_some() {
        return Some(format!("/fn/{namespace}/-/hooks/{name}"));
    }
    source.cloud_events.is_some().then(|| format!("/fn/{namespace}/-/events"))
}

struct Clock {
    schedule: CronSchedule,
    zone: TimeZone,
}

impl Clock {
    fn of(schedule: &TriggerSchedule) -> Result<Clock, String> {
        let zone = match schedule.time_zone.as_deref().filter(|name| !name.is_empty()) {
            None => TimeZone::UTC,
            Some(name) => time_zone(name).ok_or_else(|| format!("unknown time zone {name}"))?,
        };
        let schedule = CronSchedule::parse(&schedule.cron).map_err(|error| error.to_string())?;
        Ok(Clock { schedule, zone })
    }

    fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        self.schedule.next_after(&time.to_zoned(self.zone.clone())).map(|time| time.timestamp())
    }
}

fn by_the_clock(
    seen: &Observed,
    schedule: &TriggerSchedule,
    status: &mut TriggerStatus,
    now: Timestamp,
    plan: &mut Plan,
) -> Ready {
    let clock = match Clock::of(schedule) {
        Ok(clock) => clock,
        Err(message) => return ("False", "BadSchedule", message),
    };
    let trigger = &*seen.trigger;
    let created = trigger.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let known = status.last_fired.as_ref().map_or(created, |time| time.0);
    let since = known.max(now.checked_sub(MEMORY).unwrap_or(known));
    let (mut due, mut next) = (None, clock.next_after(since));
    while let Some(moment) = next.filter(|moment| *moment <= now) {
        due = Some(moment);
        next = clock.next_after(moment);
    }
    let mut ready = ("True", "Scheduled", String::new());
    if let Some(moment) = due {
        match fire(seen, schedule, moment, plan) {
            Ok(has_fired) => status.fired += i64::from(has_fired),
            Err(problem) => ready = ("False", "BadInput", problem),
        }
        status.last_fired = Some(Time(moment));
    }
    status.next_fire = next.map(Time);
    if let Some(next) = next {
        plan.again_at(next, now);
    }
    ready
}

/// False for a moment that is left out.
fn fire(
    seen: &Observed,
    schedule: &TriggerSchedule,
    moment: Timestamp,
    plan: &mut Plan,
) -> Result<bool, String> {
    let trigger = &*seen.trigger;
    let event = moment_event(trigger, moment);
    if trigger.spec.target.workflow.is_some() {
        // Whoever takes events knows a run that is there already; here it is not seen.
        plan.act(Action::Post { target: Target::of(trigger), subresource: EVENTS, body: event.0 });
        return Ok(true);
    }
    let made = call::call(trigger, &event)?;
    let name = made.object["metadata"]["name"].as_str().unwrap_or_default();
    let before = seen.running.iter().find(|running| *running != name);
    if let Some(before) = before.filter(|_| schedule.concurrency_policy.as_deref() == Some(FORBID)) {
        let told = format!("Not called at {moment}: the call {before} has not ended");
        plan.event(EventRecord::normal(trigger, "CallAlreadyActive", told));
        return Ok(false);
    }
    // A plan that was cut short has made it already.
    if !seen.made.contains(name) {
        let namespace = trigger.metadata.namespace.clone().unwrap_or_default();
        plan.act(Action::Create { kind: made.kind, namespace, object: made.object, told: None });
    }
    Ok(true)
}

fn moment_event(trigger: &Trigger, moment: Timestamp) -> Event {
    Event(json!({
        "specversion": "1.0",
        "id": moment.as_second().to_string(),
        "source": source_of(trigger),
        "type": SCHEDULE_EVENT,
        "time": moment.to_string(),
    }))
}

/// What events of a trigger's own name as their source.
pub fn source_of(trigger: &Trigger) -> String {
    let meta = &trigger.metadata;
    let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
    format!("/namespaces/{}/triggers/{}", namespace.unwrap_or_default(), name.unwrap_or_default())
}

pub fn condition(trigger: &Trigger, (status, reason, message): Ready, now: Timestamp) -> Condition {
    let known = trigger.status.as_ref().and_then(|old| old.conditions.iter().find(|one| one.type_ == READY));
    let same = known.filter(|known| known.status == status);
    Condition {
        type_: READY.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: trigger.metadata.generation,
        last_transition_time: same.map_or(Time(now), |known| known.last_transition_time.clone()),
    }
}
