//! Conditions of an autoscaler, kept with the time of their last change. Pure.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerCondition as Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

pub fn condition(kind: &str, is: bool, reason: &str, message: impl Into<String>) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: if is { "True" } else { "False" }.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.into()),
        ..Condition::default()
    }
}

/// The new conditions, with the old times where nothing changed; those not spoken of stay as they are.
pub fn merged(old: &[Condition], new: Vec<Condition>, now: Timestamp) -> Vec<Condition> {
    let mut all = old.to_vec();
    for mut condition in new {
        let known = all.iter().position(|c| c.type_ == condition.type_);
        let same = known.filter(|&i| all[i].status == condition.status);
        condition.last_transition_time =
            same.and_then(|i| all[i].last_transition_time.clone()).or(Some(Time(now)));
        match known {
            Some(i) => all[i] = condition,
            None => all.push(condition),
        }
    }
    all
}
