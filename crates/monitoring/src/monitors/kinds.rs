//! The fields that these kinds have here: their metadata, and a spec that is kept whole, whatever version of the operator
//! it was written for. What is read of it is checked (`rules.rs`).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minik8s_meta::{api_version, kind, served_type};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A spec of any form.
pub fn any(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

macro_rules! kind_with_spec {
    ($(#[$doc:meta])* $type:ident, $name:literal, $plural:literal, $schema:literal, $version:literal, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[schemars(rename = $schema)]
        #[serde(rename_all = "camelCase")]
        pub struct $type {
            /// APIVersion defines the versioned schema of this representation of an object.
            #[serde(default = $version)]
            pub api_version: String,
            /// Kind is the name of this object's schema.
            #[serde(default = $kind)]
            pub kind: String,
            /// Standard object's metadata.
            #[serde(default)]
            pub metadata: ObjectMeta,
            /// spec is what the user wants.
            #[serde(default)]
            #[schemars(schema_with = "any")]
            pub spec: Value,
            /// status is what an operator says, where one runs.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(schema_with = "any")]
            pub status: Option<Value>,
        }

        served_type!($type: "monitoring.coreos.com" "v1" $name $plural NamespaceResourceScope);
    };
}

kind_with_spec!(
    /// ServiceMonitor selects Services whose endpoints are scraped.
    ServiceMonitor, "ServiceMonitor", "servicemonitors", "com.coreos.monitoring.v1.ServiceMonitor",
    "api_version::<ServiceMonitor>", "kind::<ServiceMonitor>"
);
kind_with_spec!(
    /// PodMonitor selects pods that are scraped.
    PodMonitor, "PodMonitor", "podmonitors", "com.coreos.monitoring.v1.PodMonitor",
    "api_version::<PodMonitor>", "kind::<PodMonitor>"
);
kind_with_spec!(
    /// Probe has a prober (such as the blackbox exporter) look at addresses or Ingresses.
    Probe, "Probe", "probes", "com.coreos.monitoring.v1.Probe",
    "api_version::<Probe>", "kind::<Probe>"
);
kind_with_spec!(
    /// PrometheusRule has groups of alerting and recording rules.
    PrometheusRule, "PrometheusRule", "prometheusrules", "com.coreos.monitoring.v1.PrometheusRule",
    "api_version::<PrometheusRule>", "kind::<PrometheusRule>"
);
