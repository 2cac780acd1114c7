//! How much of a device's capacity a share of it takes, by the policy of its driver.

use k8s_openapi::api::resource::v1::{CapacityRequestPolicy, DeviceCapacity};
use minik8s_meta::{Quantity, QuantityFormat};

use super::pool::Device;
use super::usage::Capacity;

/// Of every capacity that the device has; None where it has less than is asked for, or none of it.
pub fn share(device: &Device, asked: &Capacity) -> Option<Capacity> {
    let has = device.api.capacity.as_ref();
    if !asked.keys().all(|name| has.is_some_and(|has| has.contains_key(name))) {
        return None;
    }
    let all = has.into_iter().flatten();
    all.map(|(name, capacity)| Some((name.clone(), amount(capacity, asked.get(name))?))).collect()
}

/// Whether a device that is given out whole has what is asked for.
pub fn suffices(device: &Device, asked: &Capacity) -> bool {
    asked.iter().all(|(name, amount)| total(device, name).is_some_and(|total| total >= *amount))
}

/// All that the device has of a capacity.
pub fn total(device: &Device, name: &str) -> Option<Quantity> {
    let capacity = device.api.capacity.as_ref()?.get(name)?;
    Quantity::try_from(&capacity.value).ok()
}

fn amount(capacity: &DeviceCapacity, asked: Option<&Quantity>) -> Option<Quantity> {
    let total = Quantity::try_from(&capacity.value).ok()?;
    let Some(policy) = &capacity.request_policy else {
        return Some(asked.copied().unwrap_or(total)).filter(|amount| *amount <= total);
    };
    let usual = policy.default.as_ref().and_then(|amount| Quantity::try_from(amount).ok());
    let wanted = asked.copied().or(usual).unwrap_or(total);
    rounded_up(policy, wanted).filter(|amount| *amount <= total)
}

/// The next valid amount.
fn rounded_up(policy: &CapacityRequestPolicy, wanted: Quantity) -> Option<Quantity> {
    let read =
        |amount: &k8s_openapi::apimachinery::pkg::api::resource::Quantity| Quantity::try_from(amount).ok();
    if let Some(values) = policy.valid_values.as_ref().filter(|values| !values.is_empty()) {
        return values.iter().filter_map(read).filter(|value| *value >= wanted).min();
    }
    let Some(range) = &policy.valid_range else { return Some(wanted) };
    let least = read(&range.min)?;
    let mut amount = if wanted < least { least } else { wanted };
    if let Some(step) = range.step.as_ref().and_then(read).map(|step| step.milli()).filter(|step| *step > 0) {
        let beyond = amount.milli().saturating_sub(least.milli());
        let steps = beyond / step + i64::from(beyond % step != 0);
        amount = of_milli(least.milli().saturating_add(steps.saturating_mul(step)));
    }
    let most = range.max.as_ref().and_then(read);
    most.is_none_or(|most| amount <= most).then_some(amount)
}

fn of_milli(milli: i64) -> Quantity {
    match milli % 1000 {
        0 => Quantity::new(milli / 1000, QuantityFormat::BinarySi),
        _ => Quantity::from_milli(milli),
    }
}
