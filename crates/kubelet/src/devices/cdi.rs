//! Devices by the Container Device Interface: files in `/etc/cdi` and `/var/run/cdi` say what a container needs to use one.
//!
//! The containerd of many machines does not know it yet, so the agent reads the files and asks the runtime for what they
//! say. Hooks are left out: nothing of them can be said in CRI.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use tracing::warn;

use super::api::{ContainerAllocateResponse, DeviceSpec, Mount};

/// The second wins: it is written by what runs.
pub const DIRECTORIES: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];
/// A file of a hostile or broken program must not fill the agent's memory.
const LARGEST_FILE: u64 = 4 << 20;

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
    hooks: Vec<serde_json::Value>,
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

/// Adds to an answer what its CDI devices (`vendor.com/class=name`) need.
pub fn resolve(answer: &mut ContainerAllocateResponse, directories: &[PathBuf]) -> Result<(), String> {
    let names: Vec<String> = answer.cdi_devices.iter().map(|device| device.name.clone()).collect();
    if names.is_empty() {
        return Ok(());
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
            add(answer, &spec.container_edits, name);
        }
        add(answer, &device.container_edits, name);
    }
    Ok(())
}

fn add(answer: &mut ContainerAllocateResponse, edits: &Edits, name: &str) {
    if !edits.hooks.is_empty() {
        warn!(device = name, "hooks of CDI devices are not run");
    }
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
            "mounts": [{"hostPath": "/opt/lib", "containerPath": "/lib/gpu", "options": ["ro", "bind"]}]}}]}"#;
        std::fs::write(dir.path().join("gpu.json"), json).unwrap();
        std::fs::write(dir.path().join("broken.yaml"), "[").unwrap();
        std::fs::write(dir.path().join("other.txt"), "x").unwrap();
        let wanted = |name: &str| ContainerAllocateResponse {
            cdi_devices: vec![CdiDevice { name: name.to_owned() }],
            ..ContainerAllocateResponse::default()
        };
        let directories = [dir.path().to_owned()];
        let mut answer = wanted("example.com/gpu=0");
        resolve(&mut answer, &directories).unwrap();
        assert_eq!(answer.envs["ALL"], "1");
        assert_eq!(
            (answer.devices[0].host_path.as_str(), answer.devices[0].permissions.as_str()),
            ("/dev/null", "rw")
        );
        assert!(answer.mounts[0].read_only);
        assert!(resolve(&mut wanted("example.com/gpu=7"), &directories).unwrap_err().contains("gpu=7"));
        assert!(resolve(&mut wanted("nonsense"), &directories).unwrap_err().contains("VENDOR/CLASS=NAME"));
    }
}
