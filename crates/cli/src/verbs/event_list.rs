//! Events, in the order in which things happened.

use jiff::Timestamp;
use serde_json::Value;

use crate::client::Call;
use crate::error::Result;
use crate::print;
use crate::print::time;
use crate::session::Session;

/// The events of one object.
pub async fn of_object(session: &Session, object: &Value) -> Result<Vec<Value>> {
    let metadata = &object["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut fields = vec![format!("involvedObject.name={}", text(&metadata["name"]))];
    let kind = text(&object["kind"]);
    if !kind.is_empty() {
        fields.push(format!("involvedObject.kind={kind}"));
    }
    // The agent's events name a node by its name alone.
    if metadata["uid"].is_string() && kind != "Node" {
        fields.push(format!("involvedObject.uid={}", text(&metadata["uid"])));
    }
    let path = match metadata["namespace"].as_str() {
        Some(namespace) => format!("/api/v1/namespaces/{namespace}/events"),
        None => "/api/v1/events".to_owned(),
    };
    let list = session.client().await?.send(Call::get(path).query("fieldSelector", fields.join(","))).await?;
    let mut events = print::members(&list).to_vec();
    events.sort_by_key(last_time);
    Ok(events)
}

/// When an event happened last.
pub fn last_time(event: &Value) -> Option<Timestamp> {
    [
        &event["series"]["lastObservedTime"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["firstTimestamp"],
    ]
    .into_iter()
    .find_map(time::parse)
}

/// `5s (x3 over 2m)`.
pub fn seen(event: &Value) -> String {
    let first = [&event["firstTimestamp"], &event["eventTime"]].into_iter().find(|time| time.is_string());
    let series = &event["series"];
    let (count, last) = match series["count"].as_i64() {
        Some(count) => (count, &series["lastObservedTime"]),
        None => (event["count"].as_i64().unwrap_or(1), &event["lastTimestamp"]),
    };
    let first_age = time::age_of(first.unwrap_or(&Value::Null));
    if count > 1 && last.is_string() {
        return format!("{} (x{count} over {first_age})", time::age_of(last));
    }
    first_age
}
