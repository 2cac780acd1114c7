//! How far a roll may go above and below the wanted number.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

pub(super) fn replicas(deployment: &Deployment) -> i32 {
    deployment.spec.replicas.unwrap_or(1)
}

pub(super) fn max_surge(deployment: &Deployment) -> i32 {
    resolve(deployment).0
}

/// Never more than the wanted number.
pub(super) fn max_unavailable(deployment: &Deployment) -> i32 {
    if super::is_recreate(deployment) || replicas(deployment) == 0 {
        return 0;
    }
    resolve(deployment).1.min(replicas(deployment))
}

/// Surge rounds up and unavailability down; both zero would never move, so then one may be missing.
fn resolve(deployment: &Deployment) -> (i32, i32) {
    if super::is_recreate(deployment) {
        return (0, 0);
    }
    let strategy = deployment.spec.strategy.as_ref();
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let quarter = IntOrString::String("25%".to_owned());
    let total = replicas(deployment);
    let surge = rolling.and_then(|r| r.max_surge.as_ref()).unwrap_or(&quarter);
    let unavailable = rolling.and_then(|r| r.max_unavailable.as_ref()).unwrap_or(&quarter);
    match (portion(surge, total, true), portion(unavailable, total, false)) {
        (0, 0) => (0, 1),
        both => both,
    }
}

/// A number, or a percentage of `total`.
pub fn portion(value: &IntOrString, total: i32, round_up: bool) -> i32 {
    match value {
        IntOrString::Int(number) => (*number).max(0),
        IntOrString::String(text) => {
            let percent = text.trim().strip_suffix('%').and_then(|p| p.parse::<i64>().ok()).unwrap_or(0);
            let hundredths = percent.max(0).saturating_mul(i64::from(total.max(0)));
            let rounded = if round_up { hundredths.saturating_add(99) / 100 } else { hundredths / 100 };
            i32::try_from(rounded).unwrap_or(i32::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions() {
        let check = |value: IntOrString, total, up, down| {
            assert_eq!(
                (portion(&value, total, true), portion(&value, total, false)),
                (up, down),
                "{value:?}"
            );
        };
        check(IntOrString::Int(3), 10, 3, 3);
        check(IntOrString::Int(-3), 10, 0, 0);
        check(IntOrString::String("25%".to_owned()), 10, 3, 2);
        check(IntOrString::String("100%".to_owned()), 7, 7, 7);
        check(IntOrString::String("nonsense".to_owned()), 7, 0, 0);
        check(IntOrString::String("9999999999%".to_owned()), i32::MAX, i32::MAX, i32::MAX);
    }
}
