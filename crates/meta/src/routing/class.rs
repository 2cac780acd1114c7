//! Which Ingresses are the router's.

use k8s_openapi::api::networking::v1::{Ingress, IngressClass};

/// What an IngressClass names as its controller to get the router.
pub const CONTROLLER: &str = "minik8s.io/router";
/// The IngressClass that every cluster has.
pub const CLASS: &str = "minik8s";

/// Before `spec.ingressClassName` there was only this.
const ANNOTATION: &str = "kubernetes.io/ingress.class";
const DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";

/// Whether the router serves this Ingress: its class is the router's, or it has none and no other controller's
/// class is the cluster's default.
pub fn serves<'a>(ingress: &Ingress, classes: impl IntoIterator<Item = &'a IngressClass>) -> bool {
    let mut classes = classes.into_iter();
    let wanted = ingress.spec.as_ref().and_then(|spec| spec.ingress_class_name.as_deref());
    let annotated = ingress.metadata.annotations.as_ref().and_then(|all| all.get(ANNOTATION));
    match (wanted, annotated) {
        (Some(name), _) => {
            let class = classes.find(|class| class.metadata.name.as_deref() == Some(name));
            class.is_some_and(is_ours)
        }
        (None, Some(name)) => name == CLASS,
        (None, None) => !classes.any(|class| is_default(class) && !is_ours(class)),
    }
}

fn is_ours(class: &IngressClass) -> bool {
    class.spec.as_ref().and_then(|spec| spec.controller.as_deref()) == Some(CONTROLLER)
}

fn is_default(class: &IngressClass) -> bool {
    class.metadata.annotations.as_ref().and_then(|all| all.get(DEFAULT)).is_some_and(|value| value == "true")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whose_ingress() {
        let class = |name: &str, controller: &str, default: &str| -> IngressClass {
            serde_json::from_value(json!({"metadata": {"name": name, "annotations": {DEFAULT: default}},
                "spec": {"controller": controller}}))
            .unwrap()
        };
        let ours = class("minik8s", CONTROLLER, "false");
        let (other, default) = (class("x", "x.io/y", "false"), class("x", "x.io/y", "true"));
        let check =
            |name: Option<&str>, annotation: Option<&str>, classes: &[&IngressClass], expected: bool| {
                let ingress = serde_json::from_value(json!({
                    "metadata": {"annotations": annotation.map(|name| json!({ANNOTATION: name}))},
                    "spec": {"ingressClassName": name},
                }))
                .unwrap();
                assert_eq!(serves(&ingress, classes.iter().copied()), expected, "{name:?} {annotation:?}");
            };
        check(None, None, &[], true);
        check(None, None, &[&ours, &other], true);
        check(None, None, &[&ours, &default], false);
        check(Some("minik8s"), None, &[&ours, &default], true);
        check(Some("minik8s"), None, &[], false);
        check(Some("x"), None, &[&ours, &other], false);
        check(None, Some("minik8s"), &[], true);
        check(None, Some("nginx"), &[&ours], false);
    }
}
