//! A pod, or the template of pods that a workload has, as the checks read it.

use serde_json::Value;

/// Metadata and spec, wherever they stand. What is missing reads as null.
#[derive(Debug, Clone, Copy)]
pub struct Pod<'a> {
    pub metadata: &'a Value,
    pub spec: &'a Value,
}

/// Any container of a pod.
#[derive(Clone, Copy)]
pub(crate) struct Container<'a> {
    pub name: &'a str,
    pub value: &'a Value,
}

impl<'a> Pod<'a> {
    /// Of a pod, or a pod template.
    pub fn of(object: &'a Value) -> Pod<'a> {
        Pod { metadata: &object["metadata"], spec: &object["spec"] }
    }

    /// Of the template in a workload; None for a kind without pods, or an object without a template.
    pub fn of_workload(group: &str, plural: &str, object: &'a Value) -> Option<Pod<'a>> {
        let template = match (group, plural) {
            ("", "podtemplates") => &object["template"],
            ("", "replicationcontrollers")
            | ("apps", "replicasets" | "deployments" | "statefulsets" | "daemonsets")
            | ("batch", "jobs") => &object["spec"]["template"],
            ("batch", "cronjobs") => &object["spec"]["jobTemplate"]["spec"]["template"],
            _ => return None,
        };
        template.is_object().then(|| Pod::of(template))
    }

    /// Init containers first, then the others, then ephemeral ones.
    pub(crate) fn containers(&self) -> impl Iterator<Item = Container<'a>> + use<'a> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(move |list| items(&spec[list]))
            .map(|value| Container { name: value["name"].as_str().unwrap_or_default(), value })
    }

    pub(crate) fn security(&self) -> &'a Value {
        &self.spec["securityContext"]
    }

    pub(crate) fn volumes(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        items(&self.spec["volumes"])
    }

    pub(crate) fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let all = self.metadata["annotations"].as_object().into_iter().flatten();
        all.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    pub(crate) fn is_windows(&self) -> bool {
        self.spec["os"]["name"] == "windows"
    }

    /// Root in such a pod is nobody on the node.
    pub(crate) fn has_user_namespace(&self) -> bool {
        self.spec["hostUsers"] == false
    }
}

impl<'a> Container<'a> {
    pub(crate) fn security(&self) -> &'a Value {
        &self.value["securityContext"]
    }
}

/// The elements of a list that may be missing.
pub(crate) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pod_of_workload_finds_every_kinds_template() {
        let template = json!({"spec": {"hostPID": true}});
        let usual = json!({"spec": {"template": template}});
        let cases = [
            ("", "podtemplates", json!({"template": template}), true),
            ("", "replicationcontrollers", usual.clone(), true),
            ("", "replicationcontrollers", json!({"spec": {"template": null}}), false),
            ("apps", "deployments", usual.clone(), true),
            ("apps", "replicasets", usual.clone(), true),
            ("apps", "statefulsets", usual.clone(), true),
            ("apps", "daemonsets", usual.clone(), true),
            ("batch", "jobs", usual.clone(), true),
            ("batch", "cronjobs", json!({"spec": {"jobTemplate": usual}}), true),
            ("example.com", "jobs", usual.clone(), false),
            ("", "services", usual.clone(), false),
        ];
        for (group, plural, object, found) in cases {
            let pod = Pod::of_workload(group, plural, &object);
            assert_eq!(
                pod.is_some_and(|pod| pod.spec["hostPID"] == true),
                found,
                "{group}/{plural} {object}"
            );
        }
    }
}
