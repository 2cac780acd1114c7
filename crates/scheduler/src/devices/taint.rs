//! Taints of devices, by their drivers and by administrators, and who bears them.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::resource::v1::{DeviceTaint, DeviceTaintRule, DeviceToleration};

use super::pool::Device;

pub fn taints_of(device: &Device, rules: &HashMap<String, Arc<DeviceTaintRule>>) -> Vec<DeviceTaint> {
    let own = device.api.taints.iter().flatten().cloned();
    let id = &device.id;
    let is_meant = |rule: &&Arc<DeviceTaintRule>| {
        rule.spec.device_selector.as_ref().is_none_or(|selector| {
            let says =
                |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
            says(&selector.driver, &id.driver)
                && says(&selector.pool, &id.pool)
                && says(&selector.device, &id.device)
        })
    };
    own.chain(rules.values().filter(is_meant).map(|rule| rule.spec.taint.clone())).collect()
}

/// The first taint that keeps new claims away and that the request does not tolerate.
pub fn untolerated<'a>(
    taints: &'a [DeviceTaint],
    tolerations: &[DeviceToleration],
) -> Option<&'a DeviceTaint> {
    let keeps_away = |taint: &&DeviceTaint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    taints.iter().filter(keeps_away).find(|taint| !tolerations.iter().any(|one| tolerates(one, taint)))
}

fn tolerates(toleration: &DeviceToleration, taint: &DeviceTaint) -> bool {
    let is_empty = |text: &Option<String>| text.as_deref().unwrap_or("").is_empty();
    let effect = is_empty(&toleration.effect) || toleration.effect.as_deref() == Some(&*taint.effect);
    let key = is_empty(&toleration.key) || toleration.key.as_deref() == Some(&*taint.key);
    let value = match toleration.operator.as_deref() {
        Some("Exists") => true,
        _ => toleration.value.as_deref().unwrap_or("") == taint.value.as_deref().unwrap_or(""),
    };
    effect && key && value
}
