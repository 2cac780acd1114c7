//! Quality of service: which pods suffer first when the node runs short. Pure.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::desired_pod::{DesiredPod, Kind};
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
    let counted = desired_pod.containers.iter().filter(|spec| spec.kind != Kind::Ephemeral);
    let containers: Vec<_> = counted.map(|spec| spec.spec.resources.clone().unwrap_or_default()).collect();
    class_of(&containers)
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
    use super::*;

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
