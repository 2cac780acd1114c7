//! The traits of k8s-openapi for types that it does not have: our own kinds, and those of metrics.

/// `served_type!(Dns: "minik8s.io" "v1" "DNS" "dns" NamespaceResourceScope)`: group, version, kind, plural and scope of
/// a type with `metadata`.
#[macro_export]
macro_rules! served_type {
    ($type:ident: $group:literal $version:literal $kind:literal $plural:literal $scope:ident) => {
        impl k8s_openapi::Resource for $type {
            const API_VERSION: &'static str = concat!($group, "/", $version);
            const GROUP: &'static str = $group;
            const KIND: &'static str = $kind;
            const VERSION: &'static str = $version;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = k8s_openapi::$scope;
        }

        impl k8s_openapi::Metadata for $type {
            type Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

            fn metadata(&self) -> &Self::Ty {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut Self::Ty {
                &mut self.metadata
            }
        }
    };
}

/// What an object of the type says as its `apiVersion`.
pub fn api_version<T: k8s_openapi::Resource>() -> String {
    T::API_VERSION.to_owned()
}

/// What an object of the type says as its `kind`.
pub fn kind<T: k8s_openapi::Resource>() -> String {
    T::KIND.to_owned()
}
