//! The CRI configuration of one container.

use std::collections::HashMap;
use std::time::Duration;

use k8s_cri::v1 as cri;
use k8s_openapi::api::core::v1 as core;

use super::expand::{Room, TooLarge};
use super::resources::linux_resources;
use crate::cri::*;
use crate::pod::{ContainerSpec, DesiredPod, qos_class};

/// Everything that a container's configuration is made of.
pub struct Request<'a> {
    pub desired_pod: &'a DesiredPod,
    pub container: &'a ContainerSpec,
    pub attempt: u32,
    pub restart_delay: Duration,
    /// The image's id on this node.
    pub image_id: &'a str,
    pub env: &'a [(String, String)],
    pub devices: Vec<cri::Device>,
    pub mounts: Vec<cri::Mount>,
    pub security: cri::LinuxContainerSecurityContext,
    pub node_memory: i64,
    /// File on the node that becomes the container's termination message.
    pub termination_message: String,
}

pub fn container_config(request: Request<'_>) -> Result<cri::ContainerConfig, TooLarge> {
    let Request { desired_pod, container, .. } = request;
    let spec = &container.spec;
    let known: HashMap<&str, &str> = request.env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let mut room = Room::default();
    let mut words = |list: &Option<Vec<String>>| {
        let words = list.iter().flatten().map(|word| room.expand(word, |name| known.get(name).copied()));
        words.collect::<Result<Vec<String>, TooLarge>>()
    };
    let (command, args) = (words(&spec.command)?, words(&spec.args)?);
    let resources = spec.resources.clone().unwrap_or_default();
    Ok(cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: spec.name.clone(), attempt: request.attempt }),
        image: Some(cri::ImageSpec {
            image: request.image_id.to_owned(),
            user_specified_image: spec.image.clone().unwrap_or_default(),
            ..Default::default()
        }),
        command,
        args,
        working_dir: spec.working_dir.clone().unwrap_or_default(),
        envs: request.env.iter().map(|(k, v)| cri::KeyValue { key: k.clone(), value: v.clone() }).collect(),
        mounts: request.mounts,
        devices: request.devices,
        labels: labels(desired_pod, spec),
        annotations: HashMap::from([
            (CONTAINER_HASH.to_owned(), container.hash.clone()),
            (RESTART_DELAY.to_owned(), request.restart_delay.as_secs().to_string()),
            (RESOURCES.to_owned(), container.resources.clone()),
            (TERMINATION_MESSAGE.to_owned(), request.termination_message),
        ]),
        log_path: format!("{}/{}.log", spec.name, request.attempt),
        stdin: spec.stdin.unwrap_or(false),
        stdin_once: spec.stdin_once.unwrap_or(false),
        tty: spec.tty.unwrap_or(false),
        linux: Some(cri::LinuxContainerConfig {
            resources: Some(linux_resources(&resources, qos_class(desired_pod), request.node_memory)),
            security_context: Some(request.security),
        }),
        ..Default::default()
    })
}

fn labels(desired_pod: &DesiredPod, spec: &core::Container) -> HashMap<String, String> {
    let pairs = [
        (POD_NAME, &desired_pod.name),
        (POD_NAMESPACE, &desired_pod.namespace),
        (POD_UID, &desired_pod.uid),
        (CONTAINER_NAME, &spec.name),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.clone())).collect()
}
