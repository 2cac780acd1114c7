//! What pods and volumes refer to by name.

use std::collections::BTreeSet;

use serde_json::Value;

use super::graph::{Kind, text};

/// The driver of volumes that a node keeps as images.
const LOCAL_DRIVER: &str = "local.minik8s.io";

/// What names of images in the cluster's own registry begin with.
pub const REGISTRY_HOST: &str = "registry.minik8s.local";

/// Every object in the pod's namespace that its node needs in order to run it.
///
/// A mirror pod refers to nothing: nodes create those, and could otherwise grant themselves any secret.
pub fn of_pod(pod: &Value) -> Vec<(Kind, String)> {
    match pod["metadata"]["annotations"].get("kubernetes.io/config.mirror") {
        Some(_) => Vec::new(),
        None => named_by_pod(pod).into_iter().chain(repositories(pod)).collect(),
    }
}

/// The repositories of the cluster's own registry, in the pod's namespace, that its images are in.
fn repositories(pod: &Value) -> impl Iterator<Item = (Kind, String)> {
    let (spec, namespace) = (&pod["spec"], text(&pod["metadata"]["namespace"]));
    let containers = CONTAINERS.iter().flat_map(|field| list(&spec[*field]));
    let images = containers.map(|container| &container["image"]);
    let volumes = list(&spec["volumes"]).map(|volume| &volume["image"]["reference"]);
    let all = images.chain(volumes).filter_map(Value::as_str);
    all.filter_map(move |image| repository(image, namespace)).map(|name| (Kind::Repository, name.to_owned()))
}

/// `NAME` of `HOST/NAMESPACE/NAME:TAG@DIGEST`.
fn repository<'a>(image: &'a str, namespace: &str) -> Option<&'a str> {
    let path = image.strip_prefix(REGISTRY_HOST)?.strip_prefix('/')?;
    let (of, name) = path.split_once('/')?;
    let name = name.split(['@', ':']).next().unwrap_or_default();
    (of == namespace && !name.is_empty() && !name.contains('/')).then_some(name)
}

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Every object in its namespace that the pod names, whoever made the pod.
pub fn named_by_pod(pod: &Value) -> Vec<(Kind, String)> {
    let mut found = Vec::new();
    let spec = &pod["spec"];
    let mut add = |kind, name: &Value| {
        if let Some(name) = name.as_str().filter(|n| !n.is_empty()) {
            found.push((kind, name.to_owned()));
        }
    };
    add(Kind::ServiceAccount, &spec["serviceAccountName"]);
    for secret in list(&spec["imagePullSecrets"]) {
        add(Kind::Secret, &secret["name"]);
    }
    for container in CONTAINERS.iter().flat_map(|field| list(&spec[*field])) {
        for variable in list(&container["env"]) {
            add(Kind::Secret, &variable["valueFrom"]["secretKeyRef"]["name"]);
            add(Kind::ConfigMap, &variable["valueFrom"]["configMapKeyRef"]["name"]);
        }
        for source in list(&container["envFrom"]) {
            add(Kind::Secret, &source["secretRef"]["name"]);
            add(Kind::ConfigMap, &source["configMapRef"]["name"]);
        }
    }
    for volume in list(&spec["volumes"]) {
        of_pod_volume(volume, text(&pod["metadata"]["name"]), &mut add);
    }
    for claim in list(&spec["resourceClaims"]).chain(list(&pod["status"]["resourceClaimStatuses"])) {
        add(Kind::ResourceClaim, &claim["resourceClaimName"]);
    }
    add(Kind::ResourceClaim, &pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"]);
    found
}

fn of_pod_volume(volume: &Value, pod_name: &str, add: &mut impl FnMut(Kind, &Value)) {
    add(Kind::Secret, &volume["secret"]["secretName"]);
    add(Kind::ConfigMap, &volume["configMap"]["name"]);
    add(Kind::Claim, &volume["persistentVolumeClaim"]["claimName"]);
    if volume["ephemeral"].is_object() {
        // The claim that is made for such a volume is named after the pod.
        add(Kind::Claim, &format!("{pod_name}-{}", text(&volume["name"])).into());
    }
    for source in list(&volume["projected"]["sources"]) {
        add(Kind::Secret, &source["secret"]["name"]);
        add(Kind::ConfigMap, &source["configMap"]["name"]);
    }
    add(Kind::Secret, &volume["azureFile"]["secretName"]);
    add(Kind::Secret, &volume["csi"]["nodePublishSecretRef"]["name"]);
    for driver in WITH_SECRET {
        add(Kind::Secret, &volume[driver]["secretRef"]["name"]);
    }
}

/// Volume types with a `secretRef`.
const WITH_SECRET: [&str; 6] = ["cephfs", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"];

/// `(namespace, name)` of the secrets that a node needs in order to mount the volume. What only controllers
/// need is left out.
pub fn secrets_of_volume(volume: &Value, claim_namespace: &str) -> Vec<(String, String)> {
    let spec = &volume["spec"];
    let mut found = Vec::new();
    let mut add = |namespace: &Value, name: &Value| {
        let namespace = namespace.as_str().filter(|n| !n.is_empty()).unwrap_or(claim_namespace);
        if let Some(name) = name.as_str().filter(|n| !n.is_empty()) {
            found.push((namespace.to_owned(), name.to_owned()));
        }
    };
    add(&spec["azureFile"]["secretNamespace"], &spec["azureFile"]["secretName"]);
    for driver in WITH_SECRET {
        let secret = &spec[driver]["secretRef"];
        add(&secret["namespace"], &secret["name"]);
    }
    for stage in ["nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"] {
        let secret = &spec["csi"][stage];
        add(&secret["namespace"], &secret["name"]);
    }
    found
}

/// The secrets with the certificates of an Ingress, in its own namespace.
pub fn secrets_of_ingress(ingress: &Value) -> BTreeSet<String> {
    let names = list(&ingress["spec"]["tls"]).filter_map(|tls| tls["secretName"].as_str());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Namespaces and names of the secrets with the certificates of a Gateway: the controller of Gateways wrote down those
/// that it may show.
pub fn secrets_of_gateway(config: &Value) -> BTreeSet<(String, String)> {
    let listeners = list(&config["spec"]["ports"]).flat_map(|port| list(&port["listeners"]));
    let shown = listeners.flat_map(|listener| {
        list(&listener["certificates"]).chain(list(&listener["clients"]["certificates"]))
    });
    let backends = list(&config["spec"]["rules"]).flat_map(|rule| list(&rule["backends"]));
    let to_backends = backends.map(|backend| &backend["target"]["tls"]["certificate"]);
    let named = |one: &Value| Some((one["namespace"].as_str()?.to_owned(), one["name"].as_str()?.to_owned()));
    shown.chain(to_backends).filter_map(named).collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
/// The node that keeps a volume of the class `local`.
pub fn keeper_of_volume(volume: &Value) -> Option<&str> {
    let csi = &volume["spec"]["csi"];
    csi["volumeAttributes"]["node"].as_str().filter(|_| csi["driver"] == LOCAL_DRIVER)
}
