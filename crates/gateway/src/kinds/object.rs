//! What every kind of the group has: version, kind, metadata, spec, and a status.

/// The type of one kind, with the traits that clients and the server need.
#[macro_export]
#[doc(hidden)]
macro_rules! gateway_kind {
    ($(#[$doc:meta])* $type:ident($schema:literal, $kind:literal, $plural:literal, $scope:ident): $spec:ty, $status:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[schemars(rename = $schema)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $type {
            /// APIVersion defines the versioned schema of this representation of an object.
            pub api_version: String,
            /// Kind is the name of this object's schema.
            pub kind: String,
            /// Standard object's metadata.
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
            /// spec is what the user wants.
            pub spec: $spec,
            /// status is what the cluster has made of it.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub status: Option<$status>,
        }

        impl Default for $type {
            fn default() -> Self {
                $type {
                    api_version: minik8s_meta::api_version::<$type>(),
                    kind: minik8s_meta::kind::<$type>(),
                    metadata: Default::default(),
                    spec: Default::default(),
                    status: None,
                }
            }
        }

        minik8s_meta::served_type!($type: "gateway.networking.k8s.io" "v1" $kind $plural $scope);
    };
}
