//! Quality of service: which pods suffer first when the node runs short. Pure.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::desired_pod::{DesiredPod, Kind};
use super::limits::asked_by_containers;
use crate::quantity;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QosClass {
    Guaranteed,
    Burstable,
    BestEffort,
}

impl fmt::Display for QosClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

pub fn class(desired_pod: &DesiredPod) -> QosClass {
    if let Some(reported) = desired_pod.pod.status.as_ref().and_then(|s| s.qos_class.as_deref()) {
        match reported {
            "Guaranteed" => return QosClass::Guaranteed,
            "Burstable" => return QosClass::Burstable,
            "BestEffort" => return QosClass::BestEffort,
            _ => {}
        }
    }
    // As the API server does for pods that come from it.
    let whole = desired_pod.spec().and_then(|spec| spec.resources.as_ref());
    if let Some(whole) = whole.filter(|whole| says_something(whole)) {
        let mut whole = whole.clone();
        let requests = whole.requests.get_or_insert_default();
        for name in ["cpu", "memory"] {
            if let Some(sum) = asked_by_containers(desired_pod, name) {
                requests.entry(name.to_owned()).or_insert_with(|| Quantity(format!("{sum}m")));
            }
        }
        return class_of(&[whole]);
    }
    let counted = desired_pod.containers.iter().filter(|spec| spec.kind != Kind::Ephemeral);
    let containers: Vec<_> = counted.map(|spec| spec.spec.resources.clone().unwrap_or_default()).collect();
    class_of(&containers)
}

fn says_something(resources: &core::ResourceRequirements) -> bool {
    [&resources.requests, &resources.limits].into_iter().flatten().any(|list| !list.is_empty())
}

fn class_of(containers: &[core::ResourceRequirements]) -> QosClass {
    let amount = |list: &Option<BTreeMap<String, Quantity>>, name: &str| {
        list.as_ref().and_then(|l| l.get(name)).and_then(|q| quantity::milli(&q.0)).filter(|n| *n > 0)
    };
    let mut any = false;
    let mut guaranteed = true;
    for resources in containers {
        for name in ["cpu", "memory"] {
            let limit = amount(&resources.limits, name);
            let request = amount(&resources.requests, name).or(limit);
            any |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && limit == request;
        }
    }
    match (any, guaranteed) {
        (false, _) => QosClass::BestEffort,
        (true, true) => QosClass::Guaranteed,
        (true, false) => QosClass::Burstable,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn whole_pod_has_the_class_of_what_it_says_itself() {
        let check = |resources: serde_json::Value, want: QosClass| {
            let containers = json!([{"name": "a", "resources": {"requests": {"cpu": "1"}}}, {"name": "b"}]);
            let pod = json!({"metadata": {}, "spec": {"containers": containers, "resources": resources}});
            let desired_pod = DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()));
            assert_eq!(class(&desired_pod), want, "{resources}");
        };
        let both = json!({"cpu": "2", "memory": "1Gi"});
        check(json!({"requests": both, "limits": both}), QosClass::Guaranteed);
        check(json!({"limits": {"cpu": "2"}}), QosClass::Burstable);
        check(json!({ "limits": both }), QosClass::Burstable);
        check(json!({"limits": {"cpu": "1", "memory": "1Gi"}}), QosClass::Guaranteed);
        check(json!({"limits": {}}), QosClass::Burstable);
        check(serde_json::Value::Null, QosClass::Burstable);
    }

    #[test]
    fn classes() {
        let check = |containers: serde_json::Value, want: QosClass| {
            let list: Vec<core::ResourceRequirements> = serde_json::from_value(containers.clone()).unwrap();
            assert_eq!(class_of(&list), want, "{containers}");
        };
        use QosClass::*;
        let json = |text: &str| serde_json::from_str(text).unwrap();
        check(json("[{}]"), BestEffort);
        check(json(r#"[{"limits":{"cpu":"1","memory":"1Gi"}}]"#), Guaranteed);
        check(
            json(r#"[{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1000m","memory":"1Gi"}}]"#),
            Guaranteed,
        );
        check(json(r#"[{"limits":{"cpu":"1","memory":"1Gi"}},{}]"#), Burstable);
        check(json(r#"[{"requests":{"cpu":"1"}}]"#), Burstable);
        check(json(r#"[{"requests":{"cpu":"0"}}]"#), BestEffort);
        check(json(r#"[{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"500m"}}]"#), Burstable);
    }
}
