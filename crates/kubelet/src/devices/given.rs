//! Choosing devices for a pod, and what its containers get with them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_cri::v1 as cri;
use k8s_openapi::api::core::v1 as core;
use prost::Message;

use super::api::ContainerAllocateResponse;
use super::inventory::{Allocation, Asker};
use super::plugin::Plugin;
use super::topology::{self, Nodes};
use super::{Devices, cdi};
use crate::containerd::SpecEdits;
use crate::quantity;

/// What a container gets with its devices.
#[derive(Debug, Default, PartialEq)]
pub struct Given {
    pub env: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub mounts: Vec<cri::Mount>,
    pub devices: Vec<cri::Device>,
    /// What CRI cannot say.
    pub edits: SpecEdits,
}

impl Given {
    /// The container's own words win over a plugin's.
    pub fn add_env(&self, env: &mut Vec<(String, String)>) {
        for (name, value) in &self.env {
            if !env.iter().any(|(known, _)| known == name) {
                env.push((name.clone(), value.clone()));
            }
        }
    }

    pub fn add_annotations(&self, config: &mut cri::ContainerConfig) {
        for (name, value) in &self.annotations {
            config.annotations.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }

    fn add(&mut self, answer: ContainerAllocateResponse, edits: SpecEdits) {
        self.edits.hooks.extend(edits.hooks);
        self.edits.groups.extend(edits.groups);
        self.env.extend(answer.envs);
        self.annotations.extend(answer.annotations);
        self.mounts.extend(answer.mounts.into_iter().map(|mount| cri::Mount {
            container_path: mount.container_path,
            host_path: mount.host_path,
            readonly: mount.read_only,
            ..cri::Mount::default()
        }));
        self.devices.extend(answer.devices.into_iter().map(|device| cri::Device {
            container_path: device.container_path,
            host_path: device.host_path,
            permissions: device.permissions,
        }));
    }
}

/// Why a pod cannot have its devices.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AllocateError {
    #[error("{0}")]
    Unavailable(String),
    /// They are there, but not near to each other.
    #[error("Resources cannot be allocated with Topology locality")]
    Topology,
}

/// What one container asks for.
struct Wanted<'a> {
    container: &'a str,
    resource: &'a str,
    count: usize,
    /// It ends before the next one starts, which may have its devices then.
    passes_on: bool,
}

impl Devices {
    /// Gives a pod the devices that its containers ask for, all or none. Asked again, it has them already.
    pub async fn allocate(&self, uid: &str, pod: &core::Pod) -> Result<(), AllocateError> {
        let asked = wanted(pod);
        let asked: Vec<&Wanted<'_>> = {
            let state = self.state.lock();
            asked.iter().filter(|one| state.inventory.has(one.resource)).collect()
        };
        if asked.is_empty() {
            return Ok(());
        }
        let _one_at_a_time = self.allocating.lock().await;
        // By resource, from containers that are over when the next starts.
        let mut passed_on: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let mut near: Option<(&str, Option<Nodes>)> = None;
        for want in &asked {
            let known = near.filter(|(container, _)| *container == want.container);
            let nodes =
                match known.map_or_else(|| self.affinity(uid, want, &asked, &passed_on), |(_, n)| Ok(n)) {
                    Ok(nodes) => nodes,
                    Err(refused) => {
                        self.release(uid);
                        return Err(refused);
                    }
                };
            near = Some((want.container, nodes));
            let reuse = passed_on.entry(want.resource).or_default();
            let devices = match self.allocate_one(uid, pod, want, reuse, nodes).await {
                Ok(devices) => devices,
                Err(problem) => {
                    self.release(uid);
                    return Err(AllocateError::Unavailable(problem));
                }
            };
            match want.passes_on {
                true => reuse.extend(devices),
                false => reuse.retain(|id| !devices.contains(id)),
            }
        }
        Ok(())
    }

    /// Where the devices of a container shall be, of those resources that it has not got yet.
    fn affinity(
        &self,
        uid: &str,
        first: &Wanted<'_>,
        asked: &[&Wanted<'_>],
        passed_on: &BTreeMap<&str, BTreeSet<String>>,
    ) -> Result<Option<Nodes>, AllocateError> {
        let state = self.state.lock();
        let open = asked.iter().filter(|want| {
            let asker = Asker { uid, container: want.container, resource: want.resource };
            want.container == first.container && state.inventory.of(asker).is_none()
        });
        let none = BTreeSet::new();
        let requests: Vec<topology::Request> = open
            .map(|want| topology::Request {
                count: want.count,
                devices: state.inventory.places(want.resource, passed_on.get(want.resource).unwrap_or(&none)),
            })
            .collect();
        // Too few of a resource is another trouble, which is told with its numbers.
        let enough = |request: &topology::Request| {
            request.devices.iter().filter(|place| place.is_free).count() >= request.count
        };
        if !requests.iter().all(enough) {
            return Ok(None);
        }
        topology::affinity(self.topology, &requests).map_err(|()| AllocateError::Topology)
    }

    async fn allocate_one(
        &self,
        uid: &str,
        pod: &core::Pod,
        want: &Wanted<'_>,
        reuse: &BTreeSet<String>,
        near: Option<Nodes>,
    ) -> Result<BTreeSet<String>, String> {
        let Wanted { container, resource, count, .. } = *want;
        let asker = Asker { uid, container, resource };
        let (plugin, free) = {
            let state = self.state.lock();
            if let Some(before) = state.inventory.of(asker) {
                return Ok(before.devices.clone());
            }
            let plugin = state.plugins.get(resource).map(|running| running.plugin.clone());
            (plugin, state.inventory.free(resource))
        };
        let plugin = plugin.ok_or_else(|| format!("the device plugin of {resource} does not answer"))?;
        let free = match near {
            Some(nodes) => {
                let missing = count.saturating_sub(reuse.len());
                self.state.lock().inventory.aligned(resource, free, nodes, missing)
            }
            None => free,
        };
        let devices = self.choose(&plugin, resource, &free, reuse, count).await?;
        let meta = &pod.metadata;
        let allocation = Allocation {
            uid: uid.to_owned(),
            namespace: meta.namespace.clone().unwrap_or_default(),
            pod: meta.name.clone().unwrap_or_default(),
            container: container.to_owned(),
            resource: resource.to_owned(),
            devices: devices.clone(),
            answer: Vec::new(),
        };
        if !self.state.lock().inventory.take(allocation, reuse) {
            return Err(gone(resource));
        }
        let answer = plugin.allocate(devices.iter().cloned().collect()).await;
        let answer = answer.map_err(|error| {
            format!("Allocate failed due to rpc error of {resource}: {}", error.message())
        })?;
        let mut state = self.state.lock();
        state.inventory.answered(asker, answer.encode_to_vec());
        self.keep(&state);
        Ok(devices)
    }

    /// First those of containers that are over by then, then those that the plugin prefers, or that are near to each other.
    async fn choose(
        &self,
        plugin: &Plugin,
        resource: &str,
        free: &[String],
        reuse: &BTreeSet<String>,
        count: usize,
    ) -> Result<BTreeSet<String>, String> {
        let mut chosen: BTreeSet<String> = reuse.iter().take(count).cloned().collect();
        let rest = count - chosen.len();
        if rest > free.len() {
            return Err(format!(
                "requested number of devices unavailable for {resource}. Requested: {count}, Available: {}",
                free.len() + chosen.len()
            ));
        }
        if rest == 0 {
            return Ok(chosen);
        }
        let mut preferred = Vec::new();
        if plugin.options.get_preferred_allocation_available {
            preferred = plugin.preferred(free, rest).await.map_err(|error| {
                format!("GetPreferredAllocation of {resource} failed: {}", error.message())
            })?;
            preferred.retain(|id| free.contains(id));
            preferred.sort();
            preferred.dedup();
        }
        if preferred.len() != rest {
            preferred = self.state.lock().inventory.near(resource, free, rest);
        }
        chosen.extend(preferred);
        Ok(chosen)
    }

    /// What a container that is about to start gets; its plugins hear of it, if they want to.
    pub async fn given(&self, uid: &str, container: &str) -> Result<Given, String> {
        let allocations: Vec<(Allocation, Option<Plugin>)> = {
            let state = self.state.lock();
            let plugin =
                |one: &Allocation| state.plugins.get(&one.resource).map(|running| running.plugin.clone());
            state.inventory.of_container(uid, container).map(|one| (one.clone(), plugin(one))).collect()
        };
        let mut given = Given::default();
        for (allocation, plugin) in allocations {
            if let Some(plugin) = plugin.filter(|plugin| plugin.options.pre_start_required) {
                let devices = allocation.devices.iter().cloned().collect();
                plugin.pre_start(devices).await.map_err(|error| {
                    format!("PreStartContainer of {} failed: {}", allocation.resource, error.message())
                })?;
            }
            let mut answer = ContainerAllocateResponse::decode(allocation.answer.as_slice())
                .map_err(|error| format!("what {} gave cannot be read: {error}", allocation.resource))?;
            let edits = cdi::resolve(&mut answer, &self.cdi)?;
            given.add(answer, edits);
        }
        let cdi_devices = self.dra.cdi_devices(uid, container);
        let mut claimed = ContainerAllocateResponse { cdi_devices, ..ContainerAllocateResponse::default() };
        let edits = cdi::resolve(&mut claimed, &self.cdi)?;
        given.add(claimed, edits);
        Ok(given)
    }
}

fn gone(resource: &str) -> String {
    format!("requested number of devices unavailable for {resource}: some have gone meanwhile")
}

/// Init containers first, as they start.
fn wanted(pod: &core::Pod) -> Vec<Wanted<'_>> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let initial = spec.init_containers.iter().flatten().map(|container| {
        let stays = container.restart_policy.as_deref() == Some("Always");
        (container, !stays)
    });
    let all = initial.chain(spec.containers.iter().map(|container| (container, false)));
    let asked = all.flat_map(|(container, passes_on)| {
        let limits = container.resources.iter().flat_map(|resources| resources.limits.iter().flatten());
        limits.filter(|(name, _)| name.contains('/')).filter_map(move |(resource, amount)| {
            let count = usize::try_from(quantity::value(&amount.0)?).ok().filter(|count| *count > 0)?;
            Some(Wanted { container: &container.name, resource, count, passes_on })
        })
    });
    asked.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn containers_ask_by_their_limits_and_init_containers_pass_on() {
        let limits = |count: &str| json!({"limits": {"example.com/gpu": count, "cpu": "1"}});
        let pod = json!({"metadata": {}, "spec": {
            "initContainers": [{"name": "i", "resources": limits("2")},
                {"name": "s", "restartPolicy": "Always", "resources": limits("1")}],
            "containers": [{"name": "a", "resources": limits("1")}, {"name": "b"}, {"name": "c", "resources": limits("0")}]}});
        let pod: core::Pod = serde_json::from_value(pod).unwrap();
        let found: Vec<_> =
            wanted(&pod).iter().map(|one| (one.container.to_owned(), one.count, one.passes_on)).collect();
        assert_eq!(
            found,
            [("i".to_owned(), 2, true), ("s".to_owned(), 1, false), ("a".to_owned(), 1, false)]
        );
    }

    #[test]
    fn own_environment_wins() {
        let mut given = Given::default();
        given.env.insert("A".into(), "plugin".into());
        given.env.insert("B".into(), "plugin".into());
        let mut env = vec![("A".to_owned(), "pod".to_owned())];
        given.add_env(&mut env);
        assert_eq!(env, [("A".to_owned(), "pod".to_owned()), ("B".to_owned(), "plugin".to_owned())]);
    }
}
