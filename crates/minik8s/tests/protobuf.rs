//! kubectl 1.32 and 1.33 send protobuf, kubectl 1.30 sends JSON: the same commands must store the same
//! objects. Where these versions are not installed beside `kubectl`, there is nothing to compare; what they
//! send is then still covered by the golden bodies of the protobuf crate.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

const PATIENCE: Duration = Duration::from_secs(60);

/// Run in a namespace of each version's own.
const COMMANDS: &[&str] = &[
    "create configmap c --from-literal=x=y --from-literal=empty=",
    "create secret generic s --from-literal=p=q",
    "create serviceaccount a",
    "create role r --verb=get,list --resource=pods,deployments.apps --resource-name=one",
    "create rolebinding b --role=r --user=jane --group=g",
    "create quota q --hard=pods=100,services=50",
    "create poddisruptionbudget d --selector=app=x --min-available=50%",
    "create deployment d --image=busybox --replicas=0 --port=80",
    "create cronjob c --image=busybox --schedule=@hourly --restart=OnFailure -- date",
    "create job j --from=cronjob/c",
    "create service clusterip s --tcp=80:8080 --tcp=443",
    "create service externalname e --external-name=example.com",
    "create ingress i --rule=h.example/p*=s:80,tls=t --class=c --default-backend=d:http",
    "expose deployment d --name=exposed --port=80 --target-port=http",
    "run p --image=busybox --restart=Never --env=A=B --command -- sleep 1",
    "create token a --duration=1h",
    "auth can-i create pods",
    "delete pod p --grace-period=0 --force",
];

const KINDS: &str = "configmaps,secrets,serviceaccounts,roles,rolebindings,resourcequotas,\
    poddisruptionbudgets,deployments,cronjobs,jobs,services,ingresses";

#[test]
fn every_kubectl_stores_the_same() {
    let Some(old) = kubectl("1.30") else { return eprintln!("kubectl.1.30 is not installed") };
    let newer: Vec<PathBuf> = ["1.32", "1.33"].into_iter().filter_map(kubectl).collect();
    let dir = tempfile::tempdir().expect("a directory");
    let _server = Server::start(dir.path());
    let expected = stored_by(&old, dir.path(), "json");
    assert!(expected.len() > 12, "{:?}", expected.keys());
    for (index, newer) in newer.iter().enumerate() {
        let got = stored_by(newer, dir.path(), &format!("protobuf{index}"));
        for (name, object) in &expected {
            assert_eq!(got.get(name), Some(object), "{name} by {}", newer.display());
        }
        assert_eq!(got.len(), expected.len());
    }
}

/// The kubectl of a version, as `kubectl.1.NN` beside the one that the shell finds.
fn kubectl(version: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|dir| dir.join("kubectl"));
    let beside = found.filter_map(|path| path.canonicalize().ok());
    beside.map(|path| path.with_file_name(format!("kubectl.{version}"))).find(|path| path.is_file())
}

/// Runs the commands and returns what they left, by kind and name.
fn stored_by(kubectl: &Path, dir: &Path, namespace: &str) -> Map<String, Value> {
    let run = |arguments: &str| {
        let output = Command::new(kubectl)
            .arg(format!("--kubeconfig={}", dir.join("admin.kubeconfig").display()))
            .arg(format!("--namespace={namespace}"))
            .env("KUBECACHEDIR", dir.join("cache"))
            .args(arguments.split(' '))
            .output()
            .expect("kubectl runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {arguments}: {error}", kubectl.display());
        output.stdout
    };
    run(&format!("create namespace {namespace}"));
    wait_for(|| run("get serviceaccounts -o name").starts_with(b"serviceaccount/default"));
    COMMANDS.iter().for_each(|command| drop(run(command)));
    let list: Value = serde_json::from_slice(&run(&format!("get {KINDS} -o json"))).expect("JSON");
    let items = list["items"].as_array().expect("a list");
    let named = items.iter().map(|object| {
        let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
        (name, comparable(object, namespace))
    });
    named.collect()
}

/// The object without what differs between any two objects, and without what controllers write.
fn comparable(object: &Value, namespace: &str) -> Value {
    let text = object.to_string().replace(&format!("\"{namespace}\""), "\"namespace\"");
    let mut object: Value = serde_json::from_str(&text).expect("JSON");
    object.as_object_mut().expect("an object").remove("status");
    blank(&mut object);
    object
}

fn blank(value: &mut Value) {
    const OWN: &[&str] = &[
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "controller-uid",
        "batch.kubernetes.io/controller-uid",
        "clusterIP",
        "clusterIPs",
        "generation",
        "deployment.kubernetes.io/revision",
        "ca.crt",
    ];
    match value {
        Value::Object(map) => {
            map.retain(|name, _| !OWN.contains(&name.as_str()));
            map.values_mut().for_each(blank);
        }
        Value::Array(list) => list.iter_mut().for_each(blank),
        _ => {}
    }
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The real binary, ended with the test.
struct Server(Child);

impl Server {
    fn start(dir: &Path) -> Server {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("a free port");
        let child = Command::new(env!("CARGO_BIN_EXE_minik8s"))
            .args(["server", "--no-agent", "--bind", "127.0.0.1", "--port", &address.port().to_string()])
            .arg("--data-dir")
            .arg(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut server = Server(child.expect("the binary starts"));
        let kubeconfig = dir.join("admin.kubeconfig");
        wait_for(|| {
            let ended = server.0.try_wait().expect("a child");
            assert!(ended.is_none(), "the server ended: {ended:?}");
            kubeconfig.exists() && std::net::TcpStream::connect(address).is_ok()
        });
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}
