//! Objects that name others follow them to their new names.

use serde_json::Value;

use super::resource::Resource;

/// An object that has, or had, another name.
struct Named {
    kind: String,
    namespace: String,
    former: Vec<String>,
    name: String,
    is_namespaced: bool,
}

pub fn follow(resources: &mut [Resource]) {
    let named: Vec<Named> = resources
        .iter()
        .filter(|resource| !resource.former.is_empty())
        .map(|resource| Named {
            kind: resource.kind().to_owned(),
            namespace: resource.namespace().to_owned(),
            former: resource.former.clone(),
            name: resource.name().to_owned(),
            is_namespaced: resource.is_namespaced(),
        })
        .collect();
    // Accounts are told of with their namespaces, which may have changed without their names.
    let accounts: Vec<(String, String)> = resources
        .iter()
        .filter(|resource| resource.kind() == "ServiceAccount" && !resource.namespace().is_empty())
        .map(|resource| (resource.name().to_owned(), resource.namespace().to_owned()))
        .collect();
    for resource in resources.iter_mut().filter(|resource| resource.is_native()) {
        let namespace = resource.namespace().to_owned();
        let Value::Object(map) = &mut resource.object else { continue };
        let book = Book { named: &named, accounts: &accounts, namespace: &namespace };
        for (field, below) in map.iter_mut().filter(|(field, _)| *field != "metadata") {
            book.walk(field, below);
        }
    }
}

struct Book<'a> {
    named: &'a [Named],
    accounts: &'a [(String, String)],
    /// Of the object that names others.
    namespace: &'a str,
}

impl Book<'_> {
    fn walk(&self, field: &str, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.walk(field, item)),
            Value::Object(_) => {
                self.object(field, value);
                let Value::Object(map) = value else { return };
                map.iter_mut().for_each(|(field, below)| self.walk(field, below));
            }
            Value::String(_) => {
                let kind = match field {
                    "serviceAccountName" | "serviceAccount" => "ServiceAccount",
                    "secretName" => "Secret",
                    "claimName" => "PersistentVolumeClaim",
                    "serviceName" => "Service",
                    "priorityClassName" => "PriorityClass",
                    "storageClassName" => "StorageClass",
                    "ingressClassName" => "IngressClass",
                    "runtimeClassName" => "RuntimeClass",
                    "volumeName" => "PersistentVolume",
                    _ => return,
                };
                self.rename(kind, value);
            }
            _ => {}
        }
    }

    /// Objects that hold the name of another as `name`.
    fn object(&self, field: &str, value: &mut Value) {
        let kind = match field {
            "configMap" | "configMapRef" | "configMapKeyRef" => "ConfigMap",
            "secret"
            | "secretRef"
            | "secretKeyRef"
            | "imagePullSecrets"
            | "secrets"
            | "nodePublishSecretRef"
            | "nodeStageSecretRef"
            | "controllerPublishSecretRef" => "Secret",
            "service" => "Service",
            "roleRef" | "scaleTargetRef" => {
                let kind = value["kind"].as_str().unwrap_or_default().to_owned();
                return self.rename(&kind, &mut value["name"]);
            }
            "subjects" if value["kind"] == "ServiceAccount" => {
                self.rename("ServiceAccount", &mut value["name"]);
                let account = self.accounts.iter().find(|(name, _)| value["name"] == **name);
                if let Some((_, namespace)) = account {
                    value["namespace"] = namespace.clone().into();
                }
                return;
            }
            _ => return,
        };
        if value["name"].is_string() {
            self.rename(kind, &mut value["name"]);
        }
    }

    fn rename(&self, kind: &str, name: &mut Value) {
        let Some(old) = name.as_str() else { return };
        let fits = |one: &&Named| {
            one.kind == kind
                && one.former.iter().any(|former| former == old)
                && (!one.is_namespaced || self.namespace.is_empty() || one.namespace == self.namespace)
        };
        if let Some(found) = self.named.iter().find(fits) {
            *name = found.name.clone().into();
        }
    }
}
