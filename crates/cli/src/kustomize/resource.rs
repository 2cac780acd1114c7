//! An object on its way through the levels.

use serde_json::{Map, Value};

#[derive(Debug, Clone)]
pub struct Resource {
    pub object: Value,
    /// Names that it had before, by which patches and references may call it.
    pub former: Vec<String>,
    /// Its name is to end with a digest of its contents.
    pub is_hashed: bool,
}

/// Kinds that no namespace holds; whatever is not known is taken to be in one.
const CLUSTER_SCOPED: [&str; 26] = [
    "APIService",
    "CSIDriver",
    "CSINode",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "CustomResourceDefinition",
    "DeviceClass",
    "FlowSchema",
    "GatewayClass",
    "IngressClass",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "ResourceSlice",
    "RuntimeClass",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

impl Resource {
    pub fn new(object: Value) -> Resource {
        Resource { object, former: Vec::new(), is_hashed: false }
    }

    fn text(&self, field: &str) -> &str {
        self.object[field].as_str().unwrap_or_default()
    }

    pub fn kind(&self) -> &str {
        self.text("kind")
    }

    pub fn group(&self) -> &str {
        self.text("apiVersion").split_once('/').map_or("", |(group, _)| group)
    }

    pub fn version(&self) -> &str {
        let version = self.text("apiVersion");
        version.split_once('/').map_or(version, |(_, version)| version)
    }

    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub fn namespace(&self) -> &str {
        self.object["metadata"]["namespace"].as_str().unwrap_or_default()
    }

    /// `Deployment/web`, for messages.
    pub fn shown(&self) -> String {
        format!("{}/{}", self.kind(), self.name())
    }

    pub fn is_called(&self, name: &str) -> bool {
        self.name() == name || self.former.iter().any(|former| former == name)
    }

    pub fn rename(&mut self, name: String) {
        if self.name() == name {
            return;
        }
        let former = self.name().to_owned();
        self.former.push(former);
        entry(&mut self.object, "metadata").insert("name".to_owned(), name.into());
    }

    pub fn is_namespaced(&self) -> bool {
        !CLUSTER_SCOPED.contains(&self.kind())
    }

    /// Of Kubernetes' own groups, whose fields are known.
    pub fn is_native(&self) -> bool {
        let group = self.group();
        !group.contains('.') || group.ends_with(".k8s.io")
    }
}

/// The map below a field, made where there is none.
pub fn entry<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let value = &mut object[field];
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was just made one"),
    }
}
