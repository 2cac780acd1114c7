//! A CSI driver of our own, as a process of its own: volumes are directories (files, for raw devices) below its state.
//!
//! It is strict where the specification is: it refuses to publish what is not staged, to stage what is not attached, to
//! attach to two nodes, and to delete what is attached. What it is asked is written to `calls`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use minik8s_csi::registration::{CSI_PLUGIN, PluginInfo};
use minik8s_csi::server::{Answers, serve};
use minik8s_csi::{AccessType, Code, Pairs, Topology, VolumeCapability, controller, node};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use prost::Message;
use serde_json::{Value, json};

const STATE: &str = "TEST_CSI_STATE";
const DATA_DIR: &str = "TEST_CSI_DATA_DIR";
const NAME: &str = "TEST_CSI_NAME";
const NODE_ID: &str = "id-of-the-node";
/// What the name of the test that is the driver's process is called.
const PROCESS: &str = "node::csi_driver::is_a_process_of_its_own";

/// The process, ended with the test.
pub struct Driver {
    pub name: String,
    pub state: PathBuf,
    child: Child,
}

impl Driver {
    pub fn start(name: &str, state: &Path, data_dir: &Path) -> Driver {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", PROCESS]);
        command.env(NAME, name).env(STATE, state).env(DATA_DIR, data_dir);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        Driver { name: name.to_owned(), state: state.to_owned(), child }
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Names of what is in a directory of its state.
    pub fn list(&self, part: &str) -> Vec<String> {
        let entries = fs::read_dir(self.state.join(part)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// What a method was told last in secret about a volume.
    pub fn secrets(&self, method: &str, handle: &str) -> Value {
        let text = fs::read_to_string(self.state.join("secrets").join(format!("{method}-{handle}")));
        text.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap_or_default())
    }

    /// How often it has done a call.
    pub fn count(&self, method: &str) -> usize {
        self.calls().lines().filter(|line| *line == format!("{method} ok")).count()
    }

    pub fn calls(&self) -> String {
        fs::read_to_string(self.state.join("calls")).unwrap_or_default()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for mounted in mounts_in(&self.state) {
            let _ = umount2(&mounted, MntFlags::MNT_DETACH);
        }
    }
}

fn mounts_in(dir: &Path) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
    points.filter(|point| point.starts_with(dir)).collect()
}

#[test]
#[ignore = "it is the process that other tests start"]
fn is_a_process_of_its_own() {
    let variable =
        |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is set by Driver::start"));
    let (name, state, data) =
        (variable(NAME), PathBuf::from(variable(STATE)), PathBuf::from(variable(DATA_DIR)));
    let socket = data.join("plugins").join(&name).join("csi.sock");
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    fs::create_dir_all(data.join("plugins_registry")).unwrap();
    for part in ["volumes", "attached", "inline", "secrets", "sizes", "speeds", "snapshots"] {
        fs::create_dir_all(state.join(part)).unwrap();
    }
    let registration = data.join("plugins_registry").join(format!("{name}-reg.sock"));
    let answers = Arc::new(Service { name, state, socket: socket.clone() });
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let both = (serve(&socket, answers.clone()), serve(&registration, answers.clone()));
        let (one, other) = tokio::join!(both.0, both.1);
        one.and(other).unwrap();
    });
}

struct Service {
    name: String,
    state: PathBuf,
    socket: PathBuf,
}

type Answer = Result<Vec<u8>, (Code, String)>;

impl Answers for Service {
    fn answer(&self, method: &str, message: Bytes) -> Answer {
        let answer = self.act(method, message);
        let mut calls = fs::File::options().create(true).append(true).open(self.state.join("calls")).unwrap();
        let outcome = answer.as_ref().err().map_or("ok", |(_, words)| words.as_str()).to_owned();
        writeln!(calls, "{method} {outcome}").unwrap();
        answer
    }
}

fn read<M: Message + Default>(message: Bytes) -> Result<M, (Code, String)> {
    M::decode(message).map_err(|error| (Code::INVALID_ARGUMENT, error.to_string()))
}

fn failed(error: impl ToString) -> (Code, String) {
    (Code::INTERNAL, error.to_string())
}

fn unless(condition: bool, code: Code, words: &str) -> Result<(), (Code, String)> {
    if condition { Ok(()) } else { Err((code, words.to_owned())) }
}

impl Service {
    fn act(&self, method: &str, message: Bytes) -> Answer {
        match method {
            "GetInfo" => Ok(PluginInfo {
                kind: CSI_PLUGIN.to_owned(),
                name: self.name.clone(),
                endpoint: self.socket.to_str().unwrap().to_owned(),
                supported_versions: vec!["1.0.0".to_owned()],
            }
            .encode_to_vec()),
            "NotifyRegistrationStatus" => Ok(Vec::new()),
            "NodeGetInfo" => Ok(node::Info {
                node_id: NODE_ID.to_owned(),
                max_volumes_per_node: 100,
                accessible_topology: Some(self.topology()),
            }
            .encode_to_vec()),
            "NodeGetCapabilities" => {
                use node::Can::{ExpandVolume, GetVolumeStats, StageUnstageVolume};
                Ok(node::Capabilities::of(&[StageUnstageVolume, GetVolumeStats, ExpandVolume])
                    .encode_to_vec())
            }
            "ControllerGetCapabilities" => {
                use controller::Can::{
                    CreateDeleteSnapshot, CreateDeleteVolume, ExpandVolume, ModifyVolume,
                    PublishUnpublishVolume,
                };
                let can = [
                    CreateDeleteVolume,
                    PublishUnpublishVolume,
                    ExpandVolume,
                    CreateDeleteSnapshot,
                    ModifyVolume,
                ];
                Ok(controller::Capabilities::of(&can).encode_to_vec())
            }
            "CreateVolume" => self.create(read(message)?),
            "DeleteVolume" => self.delete(&read::<controller::DeleteVolume>(message)?.volume_id),
            "ControllerPublishVolume" => self.attach(&read(message)?),
            "ControllerUnpublishVolume" => {
                let handle = read::<controller::UnpublishVolume>(message)?.volume_id;
                let _ = fs::remove_file(self.state.join("attached").join(handle));
                Ok(Vec::new())
            }
            "ControllerExpandVolume" => self.grow(&read(message)?),
            "ControllerModifyVolume" => {
                let call: controller::ModifyVolume = read(message)?;
                unless(self.volume(&call.volume_id).exists(), Code::NOT_FOUND, "no such volume")?;
                self.set_attributes(&call.volume_id, &call.mutable_parameters)
            }
            "CreateSnapshot" => self.snapshot(&read(message)?),
            "DeleteSnapshot" => {
                let call: controller::DeleteSnapshot = read(message)?;
                minik8s_datadir::remove_tree(&self.state.join("snapshots"), &call.snapshot_id)
                    .map_err(failed)?;
                Ok(Vec::new())
            }
            "NodeStageVolume" => {
                let call: node::StageVolume = read(message)?;
                self.keep_secrets(method, &call.volume_id, &call.secrets)?;
                self.stage(&call)
            }
            "NodeUnstageVolume" => {
                take_away(&read::<node::UnstageVolume>(message)?.staging_target_path, false)
            }
            "NodePublishVolume" => {
                let call: node::PublishVolume = read(message)?;
                self.keep_secrets(method, &call.volume_id, &call.secrets)?;
                self.publish(call)
            }
            "NodeUnpublishVolume" => {
                let call: node::UnpublishVolume = read(message)?;
                take_away(&call.target_path, true)?;
                minik8s_datadir::remove_tree(&self.state.join("inline"), &call.volume_id).map_err(failed)?;
                Ok(Vec::new())
            }
            "NodeExpandVolume" => {
                let call: node::ExpandVolume = read(message)?;
                self.keep_secrets(method, &call.volume_id, &call.secrets)?;
                let wanted = call.capacity_range.unwrap_or_default().required_bytes;
                unless(self.size(&call.volume_id) >= wanted, Code::FAILED_PRECONDITION, "not grown yet")?;
                Ok(node::ExpandedVolume { capacity_bytes: wanted }.encode_to_vec())
            }
            "NodeGetVolumeStats" => {
                let unit = node::Unit::Bytes as i32;
                let usage = node::VolumeUsage { available: 600, total: 1000, used: 400, unit };
                Ok(node::VolumeStats { usage: vec![usage], volume_condition: None }.encode_to_vec())
            }
            other => Err((Code::UNIMPLEMENTED, other.to_owned())),
        }
    }

    /// What a method was told last in secret about a volume.
    fn keep_secrets(&self, method: &str, handle: &str, secrets: &Pairs) -> Answer {
        let file = self.state.join("secrets").join(format!("{method}-{handle}"));
        // Nobody must read half of it: volumes are published again and again.
        let new = file.with_extension(format!("{:?}", std::thread::current().id()));
        fs::write(&new, json!(secrets).to_string()).map_err(failed)?;
        fs::rename(new, file).map_err(failed)?;
        Ok(Vec::new())
    }

    fn topology(&self) -> Topology {
        Topology { segments: [(format!("{}/place", self.name), "here".to_owned())].into() }
    }

    fn volume(&self, handle: &str) -> PathBuf {
        self.state.join("volumes").join(handle)
    }

    fn size(&self, handle: &str) -> i64 {
        fs::read_to_string(self.state.join("sizes").join(handle))
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    }

    /// The one thing that can be set is a speed.
    fn set_attributes(&self, handle: &str, attributes: &Pairs) -> Answer {
        unless(attributes.keys().all(|key| key == "speed"), Code::INVALID_ARGUMENT, "there is only speed")?;
        let speed = attributes.get("speed").cloned().unwrap_or_default();
        fs::write(self.state.join("speeds").join(handle), speed).map_err(failed)?;
        Ok(Vec::new())
    }

    fn create(&self, call: controller::CreateVolume) -> Answer {
        unless(!call.parameters.contains_key("broken"), Code::INVALID_ARGUMENT, "this class is broken")?;
        let wanted = call.accessibility_requirements.clone().unwrap_or_default().requisite;
        unless(wanted.contains(&self.topology()), Code::RESOURCE_EXHAUSTED, "not here")?;
        self.set_attributes(&call.name, &call.mutable_parameters)?;
        let size = call.capacity_range.unwrap_or_default().required_bytes;
        let is_block = call.volume_capabilities.iter().any(is_block);
        let volume = self.volume(&call.name);
        if is_block {
            let file =
                fs::File::options().create(true).truncate(false).write(true).open(&volume).map_err(failed)?;
            file.set_len(u64::try_from(size).unwrap()).map_err(failed)?;
        } else {
            fs::create_dir_all(&volume).map_err(failed)?;
            if let Some(controller::Content::Snapshot(source)) =
                call.volume_content_source.and_then(|source| source.content)
            {
                copy(&self.state.join("snapshots").join(source.snapshot_id), &volume)?;
            }
        }
        fs::write(self.state.join("sizes").join(&call.name), size.to_string()).map_err(failed)?;
        let made = controller::Volume {
            capacity_bytes: size,
            volume_id: call.name,
            volume_context: call.parameters,
            accessible_topology: vec![self.topology()],
            ..Default::default()
        };
        Ok(controller::CreatedVolume { volume: Some(made) }.encode_to_vec())
    }

    /// Ready when it is asked for the second time.
    fn snapshot(&self, call: &controller::CreateSnapshot) -> Answer {
        unless(
            call.parameters.get("colour").is_some_and(|word| word == "red"),
            Code::INVALID_ARGUMENT,
            "no red",
        )?;
        let source = self.volume(&call.source_volume_id);
        unless(source.exists(), Code::NOT_FOUND, "no such volume")?;
        let snapshot = self.state.join("snapshots").join(&call.name);
        let ready_to_use = snapshot.exists();
        if !ready_to_use {
            fs::create_dir_all(&snapshot).map_err(failed)?;
            copy(&source, &snapshot)?;
        }
        let made = controller::Snapshot {
            size_bytes: self.size(&call.source_volume_id),
            snapshot_id: call.name.clone(),
            source_volume_id: call.source_volume_id.clone(),
            creation_time: Some(controller::Time { seconds: 1_767_225_600, nanos: 0 }),
            ready_to_use,
        };
        Ok(controller::CreatedSnapshot { snapshot: Some(made) }.encode_to_vec())
    }

    fn delete(&self, handle: &str) -> Answer {
        let attached = self.state.join("attached").join(handle);
        unless(!attached.exists(), Code::FAILED_PRECONDITION, "it is attached")?;
        minik8s_datadir::remove_tree(&self.state.join("volumes"), handle).map_err(failed)?;
        for part in ["sizes", "speeds"] {
            let _ = fs::remove_file(self.state.join(part).join(handle));
        }
        Ok(Vec::new())
    }

    fn attach(&self, call: &controller::PublishVolume) -> Answer {
        unless(self.volume(&call.volume_id).exists(), Code::NOT_FOUND, "no such volume")?;
        unless(call.node_id == NODE_ID, Code::NOT_FOUND, "no such node")?;
        fs::write(self.state.join("attached").join(&call.volume_id), &call.node_id).map_err(failed)?;
        let publish_context: Pairs = [("attached-as".to_owned(), call.volume_id.clone())].into();
        Ok(controller::PublishedVolume { publish_context }.encode_to_vec())
    }

    fn grow(&self, call: &controller::ExpandVolume) -> Answer {
        let size = call.capacity_range.unwrap_or_default().required_bytes;
        fs::write(self.state.join("sizes").join(&call.volume_id), size.to_string()).map_err(failed)?;
        Ok(controller::ExpandedVolume { capacity_bytes: size, node_expansion_required: true }.encode_to_vec())
    }

    fn stage(&self, call: &node::StageVolume) -> Answer {
        let attached = self.state.join("attached").join(&call.volume_id);
        unless(attached.exists(), Code::FAILED_PRECONDITION, "it is not attached")?;
        let told = call.publish_context.get("attached-as") == Some(&call.volume_id);
        unless(told, Code::INVALID_ARGUMENT, "the attachment's words are missing")?;
        if !call.volume_capability.as_ref().is_some_and(is_block) {
            bind(&self.volume(&call.volume_id), Path::new(&call.staging_target_path), true)?;
        }
        Ok(Vec::new())
    }

    fn publish(&self, call: node::PublishVolume) -> Answer {
        let target = Path::new(&call.target_path);
        if call.volume_context.get("csi.storage.k8s.io/ephemeral").is_some_and(|word| word == "true") {
            let inline = self.state.join("inline").join(&call.volume_id);
            fs::create_dir_all(&inline).map_err(failed)?;
            let text = json!({"context": call.volume_context, "secrets": call.secrets}).to_string();
            fs::write(inline.join("told"), text).map_err(failed)?;
            return bind(&inline, target, true);
        }
        if call.volume_capability.as_ref().is_some_and(is_block) {
            let device = loop_device(&self.volume(&call.volume_id))?;
            return bind(Path::new(&device), target, false);
        }
        let staging = Path::new(&call.staging_target_path);
        unless(is_mounted(staging), Code::FAILED_PRECONDITION, "it is not staged")?;
        bind(staging, target, true)
    }
}

/// The files of a directory.
fn copy(from: &Path, to: &Path) -> Answer {
    for entry in fs::read_dir(from).map_err(failed)?.flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).map_err(failed)?;
    }
    Ok(Vec::new())
}

fn is_block(capability: &VolumeCapability) -> bool {
    matches!(capability.access_type, Some(AccessType::Block(_)))
}

fn is_mounted(path: &Path) -> bool {
    minik8s_datadir::is_mount_point(path)
}

fn bind(from: &Path, to: &Path, is_dir: bool) -> Answer {
    if is_mounted(to) {
        return Ok(Vec::new());
    }
    match is_dir {
        true => fs::create_dir_all(to).map_err(failed)?,
        false => drop(fs::File::create(to).map_err(failed)?),
    }
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>).map_err(failed)?;
    Ok(Vec::new())
}

/// Unmounts, and for a publication removes what it made.
fn take_away(path: &str, is_removed: bool) -> Answer {
    let path = Path::new(path);
    if is_mounted(path) {
        let device =
            fs::metadata(path).is_ok_and(|metadata| !metadata.is_dir()).then(|| backing(path)).flatten();
        umount2(path, MntFlags::empty()).map_err(failed)?;
        if let Some(device) = device {
            let _ = Command::new("losetup").args(["-d", &device]).status();
        }
    }
    if is_removed {
        let _ = fs::remove_dir(path).or_else(|_| fs::remove_file(path));
    }
    Ok(Vec::new())
}

/// The loop device that is bound to a path.
fn backing(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let minor = nix::sys::stat::minor(fs::metadata(path).ok()?.rdev());
    Some(format!("/dev/loop{minor}"))
}

fn loop_device(file: &Path) -> Result<String, (Code, String)> {
    let output = |arguments: &[&str]| {
        let output = Command::new("losetup").args(arguments).arg(file).output().map_err(failed)?;
        Ok::<_, (Code, String)>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let known = output(&["-n", "-O", "NAME", "-j"])?;
    match known.lines().next() {
        Some(device) => Ok(device.to_owned()),
        None => output(&["-f", "--show"]),
    }
}
