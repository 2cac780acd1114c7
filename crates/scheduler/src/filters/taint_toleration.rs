//! Tainted nodes take only pods that tolerate every hard taint.

use k8s_openapi::api::core::v1::{Taint, Toleration};

use super::{Check, Filter, Refusal};
use crate::snapshot::{PodInfo, Snapshot};
use crate::waking::Waking;

pub struct TaintToleration;

impl Filter for TaintToleration {
    fn name(&self) -> &'static str {
        "TaintToleration"
    }

    fn prepare<'a>(&self, pod: &'a PodInfo, _: &'a Snapshot) -> Option<Check<'a>> {
        Some(Box::new(|node| {
            let hard = node.taints.iter().filter(|t| t.effect == "NoSchedule" || t.effect == "NoExecute");
            for taint in hard {
                if !tolerates(&pod.tolerations, taint) {
                    let value = taint.value.as_deref().unwrap_or("");
                    let reason = format!("node(s) had untolerated taint {{{}: {value}}}", taint.key);
                    return Err(Refusal::fixed(reason));
                }
            }
            Ok(())
        }))
    }

    fn helped_by(&self) -> Waking {
        Waking::NODE
    }
}

/// Whether any toleration covers the taint.
pub fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| covers(toleration, taint))
}

fn covers(toleration: &Toleration, taint: &Taint) -> bool {
    let key = toleration.key.as_deref().unwrap_or("");
    let effect = toleration.effect.as_deref().unwrap_or("");
    let exists = toleration.operator.as_deref() == Some("Exists");
    let key_fits = key == taint.key || (key.is_empty() && exists);
    let effect_fits = effect.is_empty() || effect == taint.effect;
    let value = |v: &Option<String>| v.clone().unwrap_or_default();
    key_fits && effect_fits && (exists || value(&toleration.value) == value(&taint.value))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_covers_what() {
        let check = |toleration: Value, expected: bool| {
            let shown = toleration.to_string();
            let taint: Taint =
                serde_json::from_value(json!({"key": "a", "value": "b", "effect": "NoSchedule"})).unwrap();
            let toleration: Toleration = serde_json::from_value(toleration).unwrap();
            assert_eq!(tolerates(&[toleration], &taint), expected, "{shown}");
        };
        check(json!({"key": "a", "value": "b", "effect": "NoSchedule"}), true);
        check(json!({"key": "a", "operator": "Equal", "value": "b"}), true);
        check(json!({"key": "a", "operator": "Exists"}), true);
        check(json!({"operator": "Exists"}), true);
        check(json!({}), false);
        check(json!({"key": "a", "value": "c"}), false);
        check(json!({"key": "a", "operator": "Exists", "effect": "NoExecute"}), false);
        check(json!({"key": "c", "operator": "Exists"}), false);
    }
}
