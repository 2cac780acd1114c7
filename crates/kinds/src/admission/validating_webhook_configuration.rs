//! ValidatingWebhookConfiguration: web services that refuse requests.

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use serde_json::Value;

use super::webhooks;
use crate::{Cell, Column, FieldErrors, Resource, Strategy};

pub(crate) fn resource() -> Resource {
    Resource::of::<ValidatingWebhookConfiguration>(Configurations)
        .versioned_puts()
        .category("api-extensions")
        .counted()
}

struct Configurations;

impl Strategy for Configurations {
    fn default(&self, object: &mut Value) {
        webhooks::default(object, false);
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        webhooks::validate(object, errors);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(webhooks::columns())
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        webhooks::row(object, now)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn defaults() {
        let webhook = json!({"rules": [{}], "clientConfig": {"service": {}}});
        let object = check::defaulted("validatingwebhookconfigurations", json!({"webhooks": [webhook]}));
        assert_eq!(
            object["webhooks"][0],
            json!({
                "rules": [{"scope": "*"}], "clientConfig": {"service": {"port": 443}},
                "failurePolicy": "Fail", "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
                "timeoutSeconds": 10,
            })
        );
        let object = check::defaulted("mutatingwebhookconfigurations", json!({"webhooks": [webhook]}));
        assert_eq!(object["webhooks"][0]["reinvocationPolicy"], "Never");
    }

    #[test]
    fn validation() {
        let good = json!({
            "name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://a.b"},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        });
        check::errors("validatingwebhookconfigurations", json!({"webhooks": [good]}), &[]);
        check::errors(
            "validatingwebhookconfigurations",
            json!({"webhooks": [good, {"name": "a.b", "rules": [{"operations": ["*", "READ"]}], "timeoutSeconds": 40, "clientConfig": {}}]}),
            &[
                "webhooks[1].name: Invalid value: \"a.b\": should be a domain with at least three segments",
                "webhooks[1].rules[0].operations: Invalid value: [\"*\",\"READ\"]: if '*' is present",
                "webhooks[1].rules[0].apiGroups: Required value",
                "webhooks[1].rules[0].apiVersions: Required value",
                "webhooks[1].rules[0].resources: Required value",
                "webhooks[1].rules[0].operations[1]: Unsupported value: \"READ\"",
                "webhooks[1].sideEffects: Required value",
                "webhooks[1].timeoutSeconds: Invalid value: 40: the timeout value must be between 1 and 30 seconds",
                "webhooks[1].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
                "webhooks[1].clientConfig: Required value: exactly one of url or service is required",
            ],
        );
    }
}
