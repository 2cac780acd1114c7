//! Devices by the Container Device Interface: files in `/etc/cdi` and `/var/run/cdi` say what a container needs to use one.
//!
//! The containerd of many machines does not know it yet, so the agent reads the files and asks the runtime for what they
//! say. Hooks and groups, which CRI has no words for, go into the container's OCI spec. What cannot be done is an error:
//! a container never starts with half of a device.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::json;
use tracing::warn;

use super::api::{ContainerAllocateResponse, DeviceSpec, Mount};
use crate::containerd::SpecEdits;

/// The second wins: it is written by what runs.
pub const DIRECTORIES: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];
/// A file of a hostile or broken program must not fill the agent's memory.
const LARGEST_FILE: u64 = 4 << 20;
/// The moments that OCI runtimes know.
const MOMENTS: [&str; 6] =
    ["prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"];

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    /// `vendor.com/class`.
    kind: String,
    devices: Vec<NamedDevice>,
    container_edits: Edits,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NamedDevice {
    name: String,
    container_edits: Edits,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Edits {
    env: Vec<String>,
    device_nodes: Vec<DeviceNode>,
    mounts: Vec<CdiMount>,
    hooks: Vec<CdiHook>,
    additional_gids: Vec<u32>,
}

/// A program of the machine that the runtime runs at a moment of the container's life.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CdiHook {
    hook_name: String,
    path: String,
    args: Vec<String>,
    env: Vec<String>,
    timeout: Option<i64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DeviceNode {
    path: String,
    host_path: String,
    permissions: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CdiMount {
    host_path: String,
    container_path: String,
    options: Vec<String>,
}

/// Adds to an answer what its CDI devices (`vendor.com/class=name`) need, and says what else they want of the container.
pub fn resolve(answer: &mut ContainerAllocateResponse, directories: &[PathBuf]) -> Result<SpecEdits, String> {
    let names: Vec<String> = answer.cdi_devices.iter().map(|device| device.name.clone()).collect();
    let mut more = SpecEdits::default();
    if names.is_empty() {
        return Ok(more);
    }
    let specs = read(directories);
    let mut kinds: Vec<&str> = Vec::new();
    for name in &names {
        let (kind, device) =
            name.split_once('=').ok_or_else(|| format!("CDI device {name:?} is not VENDOR/CLASS=NAME"))?;
        let found =
            specs.iter().rev().filter(|spec| spec.kind == kind).find_map(|spec| {
                spec.devices.iter().find(|one| one.name == device).map(|device| (spec, device))
            });
        let (spec, device) = found
            .ok_or_else(|| format!("no file in {} describes the CDI device {name}", shown(directories)))?;
        // What all devices of a file need is needed once.
        if !kinds.contains(&kind) {
            kinds.push(kind);
            add(answer, &mut more, &spec.container_edits, name)?;
        }
        add(answer, &mut more, &device.container_edits, name)?;
    }
    Ok(more)
}

fn add(
    answer: &mut ContainerAllocateResponse,
    more: &mut SpecEdits,
    edits: &Edits,
    name: &str,
) -> Result<(), String> {
    for hook in &edits.hooks {
        let CdiHook { hook_name, path, args, env, timeout } = hook;
        if !MOMENTS.contains(&hook_name.as_str()) || !path.starts_with('/') {
            return Err(format!(
                "CDI device {name}: its hook {hook_name:?} with the program {path:?} is none"
            ));
        }
        let mut oci = json!({"path": path, "args": args, "env": env});
        if let Some(seconds) = timeout {
            oci["timeout"] = json!(seconds);
        }
        more.hooks.push((hook_name.clone(), oci));
    }
    more.groups.extend(&edits.additional_gids);
    let pairs = edits.env.iter().filter_map(|pair| pair.split_once('='));
    answer.envs.extend(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())));
    answer.devices.extend(edits.device_nodes.iter().map(|node| {
        let or = |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
        DeviceSpec {
            container_path: node.path.clone(),
            host_path: or(&node.host_path, &node.path),
            permissions: or(&node.permissions, "rw"),
        }
    }));
    answer.mounts.extend(edits.mounts.iter().map(|mount| Mount {
        container_path: mount.container_path.clone(),
        host_path: mount.host_path.clone(),
        read_only: mount.options.iter().any(|option| option == "ro"),
    }));
    Ok(())
}

fn read(directories: &[PathBuf]) -> Vec<Spec> {
    let mut specs = Vec::new();
    for directory in directories {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        files.sort();
        for file in files {
            match read_file(&file) {
                Ok(Some(spec)) => specs.push(spec),
                Ok(None) => {}
                Err(problem) => warn!(file = %file.display(), problem, "cannot read a CDI file"),
            }
        }
    }
    specs
}

fn read_file(file: &Path) -> Result<Option<Spec>, String> {
    let ending = file.extension().and_then(|ending| ending.to_str());
    let is_json = match ending {
        Some("json") => true,
        Some("yaml" | "yml") => false,
        _ => return Ok(None),
    };
    let size = std::fs::metadata(file).map_err(|error| error.to_string())?.len();
    if size > LARGEST_FILE {
        return Err(format!("it has more than {LARGEST_FILE} bytes"));
    }
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let spec = match is_json {
        true => serde_json::from_str(&text).map_err(|error| error.to_string()),
        false => serde_saphyr::from_str(&text).map_err(|error| error.to_string()),
    };
    spec.map(Some)
}

fn shown(directories: &[PathBuf]) -> String {
    directories.iter().map(|one| one.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::api::CdiDevice;
    use super::*;

    #[test]
    fn cdi_device_becomes_what_its_file_says() {
        let dir = tempfile::tempdir().unwrap();
        let json = r#"{"cdiVersion": "0.6.0", "kind": "example.com/gpu", "containerEdits": {"env": ["ALL=1"]},
            "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/gpu0", "hostPath": "/dev/null"}],
            "mounts": [{"hostPath": "/opt/lib", "containerPath": "/lib/gpu", "options": ["ro", "bind"]}],
            "hooks": [{"hookName": "createContainer", "path": "/bin/x", "args": ["x", "y"], "timeout": 5}],
            "additionalGids": [44]}},
            {"name": "bad", "containerEdits": {"hooks": [{"hookName": "sometime", "path": "/bin/x"}]}}]}"#;
        std::fs::write(dir.path().join("gpu.json"), json).unwrap();
        std::fs::write(dir.path().join("broken.yaml"), "[").unwrap();
        std::fs::write(dir.path().join("other.txt"), "x").unwrap();
        let wanted = |name: &str| ContainerAllocateResponse {
            cdi_devices: vec![CdiDevice { name: name.to_owned() }],
            ..ContainerAllocateResponse::default()
        };
        let directories = [dir.path().to_owned()];
        let mut answer = wanted("example.com/gpu=0");
        let more = resolve(&mut answer, &directories).unwrap();
        let hook = json!({"path": "/bin/x", "args": ["x", "y"], "env": [], "timeout": 5});
        assert_eq!(more, SpecEdits { hooks: vec![("createContainer".to_owned(), hook)], groups: vec![44] });
        assert_eq!(answer.envs["ALL"], "1");
        assert_eq!(
            (answer.devices[0].host_path.as_str(), answer.devices[0].permissions.as_str()),
            ("/dev/null", "rw")
        );
        assert!(answer.mounts[0].read_only);
        assert!(resolve(&mut wanted("example.com/gpu=7"), &directories).unwrap_err().contains("gpu=7"));
        assert!(resolve(&mut wanted("example.com/gpu=bad"), &directories).unwrap_err().contains("sometime"));
        assert!(resolve(&mut wanted("nonsense"), &directories).unwrap_err().contains("VENDOR/CLASS=NAME"));
    }
}
