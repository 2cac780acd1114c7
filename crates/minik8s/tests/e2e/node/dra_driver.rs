//! A DRA driver of our own, as a process of its own: it registers by a socket, prepares claims with CDI devices, and forgets
//! them.
//!
//! As real drivers do, it reads the claim's allocation from the API. It is strict: it prepares nothing that is not allocated
//! to it. What it is asked is written to `calls`; a file `broken` beside it makes it refuse.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use minik8s_csi::Code;
use minik8s_csi::registration::PluginInfo;
use minik8s_csi::server::{Answers, serve};
use prost::Message;
use serde_json::{Value, json};

#[path = "../../../../kubelet/src/devices/dra/api.rs"]
mod api;

use api::{
    Claim, DRA_PLUGIN, Device, NodePrepareResources, NodePreparedResources, NodeUnprepareResources,
    NodeUnpreparedResources, PreparedResource, UnpreparedResource, VERSION,
};

const STATE: &str = "TEST_DRA_STATE";
const DATA_DIR: &str = "TEST_DRA_DATA_DIR";
const NAME: &str = "TEST_DRA_NAME";
/// What the test that is the driver's process is called.
const PROCESS: &str = "node::dra_driver::is_a_process_of_its_own";

/// The process, ended with the test.
pub struct Driver {
    pub name: String,
    state: PathBuf,
    data_dir: PathBuf,
    child: Child,
}

impl Driver {
    pub fn start(name: &str, state: &Path, data_dir: &Path, kubeconfig: &Path) -> Driver {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", PROCESS]);
        command.env(NAME, name).env(STATE, state).env(DATA_DIR, data_dir).env("KUBECONFIG", kubeconfig);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        Driver { name: name.to_owned(), state: state.to_owned(), data_dir: data_dir.to_owned(), child }
    }

    /// Whether it refuses from now on.
    pub fn set_broken(&self, is_broken: bool) {
        let file = self.state.join("broken");
        match is_broken {
            true => fs::write(file, "").unwrap(),
            false => fs::remove_file(file).unwrap(),
        }
    }

    /// What the runtime told the hook of a device when it made the last container that has it.
    pub fn hook_heard(&self, device: &str) -> Value {
        let told = fs::read(self.state.join(format!("hook-{device}"))).unwrap_or_default();
        serde_json::from_slice(&told).unwrap_or_default()
    }

    /// How often it was asked this about a claim.
    pub fn heard(&self, method: &str, claim: &str) -> usize {
        let calls = fs::read_to_string(self.state.join("calls")).unwrap_or_default();
        calls.lines().filter(|line| *line == format!("{method} {claim} ok")).count()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(registration(&self.data_dir, &self.name));
        let _ = fs::remove_file(cdi_file(&self.data_dir, &self.name));
    }
}

fn registration(data_dir: &Path, name: &str) -> PathBuf {
    data_dir.join("plugins_registry").join(format!("{name}-reg.sock"))
}

fn cdi_file(data_dir: &Path, name: &str) -> PathBuf {
    data_dir.join("cdi").join(format!("{name}.json"))
}

#[test]
#[ignore = "it is the process that other tests start"]
fn is_a_process_of_its_own() {
    let variable =
        |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is set by Driver::start"));
    let (name, state, data) =
        (variable(NAME), PathBuf::from(variable(STATE)), PathBuf::from(variable(DATA_DIR)));
    let socket = data.join("plugins").join(&name).join("dra.sock");
    for dir in [socket.parent().unwrap(), &data.join("plugins_registry"), &data.join("cdi")] {
        fs::create_dir_all(dir).unwrap();
    }
    let devices: Vec<Value> = ["gpu-0", "gpu-1"]
        .map(|device| {
            let node = json!({"path": format!("/dev/claimed/{device}"), "hostPath": "/dev/null"});
            let note = format!("cat >'{}/hook-{device}'", state.display());
            let hook = json!({"hookName": "createContainer", "path": "/bin/sh", "args": ["sh", "-c", note]});
            let edits = json!({"env": [format!("CLAIMED_{}=yes", device.replace('-', "_"))], "deviceNodes": [node],
                "hooks": [hook], "additionalGids": [4711]});
            json!({"name": device, "containerEdits": edits})
        })
        .into();
    let cdi = json!({"cdiVersion": "0.6.0", "kind": format!("{name}/gpu"), "devices": devices});
    fs::write(cdi_file(&data, &name), cdi.to_string()).unwrap();
    let registration = registration(&data, &name);
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
        match method {
            "GetInfo" => Ok(PluginInfo {
                kind: DRA_PLUGIN.to_owned(),
                name: self.name.clone(),
                endpoint: self.socket.to_str().unwrap().to_owned(),
                supported_versions: vec![VERSION.to_owned()],
            }
            .encode_to_vec()),
            "NotifyRegistrationStatus" => Ok(Vec::new()),
            "NodePrepareResources" => {
                let asked: NodePrepareResources = read(message)?;
                let each = asked.claims.into_iter().map(|claim| {
                    let answer = match self.prepare(&claim) {
                        Ok(devices) => PreparedResource { devices, error: String::new() },
                        Err(error) => PreparedResource { devices: Vec::new(), error },
                    };
                    self.note(method, &claim.name, &answer.error);
                    (claim.uid, answer)
                });
                let claims: HashMap<_, _> = each.collect();
                Ok(NodePreparedResources { claims }.encode_to_vec())
            }
            "NodeUnprepareResources" => {
                let asked: NodeUnprepareResources = read(message)?;
                let each = asked.claims.into_iter().map(|claim| {
                    self.note(method, &claim.name, "");
                    (claim.uid, UnpreparedResource::default())
                });
                let claims: HashMap<_, _> = each.collect();
                Ok(NodeUnpreparedResources { claims }.encode_to_vec())
            }
            other => Err((Code::UNIMPLEMENTED, other.to_owned())),
        }
    }
}

fn read<M: Message + Default>(message: Bytes) -> Result<M, (Code, String)> {
    M::decode(message).map_err(|error| (Code::INVALID_ARGUMENT, error.to_string()))
}

impl Service {
    fn note(&self, method: &str, claim: &str, error: &str) {
        let mut calls = fs::File::options().create(true).append(true).open(self.state.join("calls")).unwrap();
        let outcome = if error.is_empty() { "ok" } else { error };
        writeln!(calls, "{method} {claim} {outcome}").unwrap();
    }

    fn prepare(&self, claim: &Claim) -> Result<Vec<Device>, String> {
        if self.state.join("broken").exists() {
            return Err("the device is on fire".to_owned());
        }
        let mut kubectl = Command::new("kubectl");
        kubectl.args(["get", "resourceclaim", &claim.name, "-n", &claim.namespace, "-o", "json"]);
        let output = kubectl.output().map_err(|error| error.to_string())?;
        let found: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        if found["metadata"]["uid"] != claim.uid.as_str() {
            return Err(format!("the claim is another one: {}", String::from_utf8_lossy(&output.stderr)));
        }
        let results = found["status"]["allocation"]["devices"]["results"].as_array().cloned();
        let own =
            results.unwrap_or_default().into_iter().filter(|result| result["driver"] == self.name.as_str());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let devices: Vec<Device> = own
            .map(|result| Device {
                request_names: vec![text(&result["request"])],
                pool_name: text(&result["pool"]),
                device_name: text(&result["device"]),
                cdi_device_ids: vec![format!("{}/gpu={}", self.name, text(&result["device"]))],
            })
            .collect();
        if devices.is_empty() { Err("nothing of it is mine".to_owned()) } else { Ok(devices) }
    }
}
