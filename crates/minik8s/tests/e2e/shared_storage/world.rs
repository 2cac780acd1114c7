//! Three machines, the program and kubectl.

use std::process::Command;

use minik8s_kubelet::image::busybox;
use serde_json::Value;

use crate::harness::lab::Lab;

pub struct World {
    pub lab: Lab,
}

impl World {
    pub fn start() -> World {
        let lab = Lab::up(3);
        let archive = lab.dir.join("busybox.tar");
        busybox().unwrap().write(std::fs::File::create(&archive).unwrap()).unwrap();
        lab.until("all nodes are ready", || lab.ready() == ["node1", "node2", "node3"]);
        lab.run(&["load", archive.to_str().unwrap()]);
        let world = World { lab };
        world.lab.until("the default account", || {
            world.try_kubectl(&["get", "serviceaccount", "default"]).is_ok()
        });
        world
    }

    pub fn try_kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self.lab.kubectl_without_limit(arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stdout) + &text(&output.stderr)),
        }
    }

    #[track_caller]
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.try_kubectl(arguments).unwrap_or_else(|error| panic!("kubectl {arguments:?}: {error}"))
    }

    #[track_caller]
    pub fn apply(&self, manifest: &str) {
        let file = self.lab.dir.join("manifest.yaml");
        std::fs::write(&file, manifest).unwrap();
        self.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    }

    /// `minik8s storage …`.
    pub fn storage(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_minik8s"));
        command.arg("--kubeconfig").arg(self.lab.dir.join("admin.kubeconfig")).arg("storage").args(arguments);
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stdout) + &text(&output.stderr)),
        }
    }

    pub fn object(&self, what: &[&str]) -> Value {
        let output = self.try_kubectl(&[&["get", "-o", "json"], what].concat());
        output.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    /// Whether an object has heard of something.
    pub fn has_event(&self, name: &str, reason: &str) -> bool {
        let events = self.lab.get(&["events"]);
        events.iter().any(|event| event["involvedObject"]["name"] == name && event["reason"] == reason)
    }

    pub fn claim(&self, name: &str, mode: &str, size: &str, source: &str) {
        self.ask_for_claim(name, mode, size, source);
        self.bound(name);
    }

    pub fn bound(&self, name: &str) {
        self.lab
            .until(&format!("{name} is bound"), || self.object(&["pvc", name])["status"]["phase"] == "Bound");
    }

    pub fn ask_for_claim(&self, name: &str, mode: &str, size: &str, source: &str) {
        self.apply(&format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}}}\nspec:\n  storageClassName: shared\n  \
             accessModes: [{mode}]\n  resources: {{requests: {{storage: {size}}}}}\n{source}"
        ));
    }

    /// A pod that sleeps on a node, with claims at `/NAME`.
    pub fn pod(&self, name: &str, node: &str, claims: &[&str]) {
        let volumes: String = claims
            .iter()
            .map(|claim| format!("  - {{name: {claim}, persistentVolumeClaim: {{claimName: {claim}}}}}\n"))
            .collect();
        let mounts: String =
            claims.iter().map(|claim| format!("{{name: {claim}, mountPath: /{claim}}},")).collect();
        self.apply(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {name}}}}}\nspec:\n  nodeName: {node}\n  \
             terminationGracePeriodSeconds: 0\n  containers:\n  - name: c\n    image: minik8s.io/busybox:1\n    \
             imagePullPolicy: Never\n    command: [sleep, \"100000\"]\n    volumeMounts: [{mounts}]\n  volumes:\n{volumes}"
        ));
    }

    #[track_caller]
    pub fn ready(&self, pods: &[&str]) {
        for pod in pods {
            self.kubectl(&["wait", "pod", pod, "--for=condition=Ready", "--timeout=180s"]);
        }
    }

    /// What a script in a pod says.
    pub fn try_sh(&self, pod: &str, script: &str) -> Result<String, String> {
        self.try_kubectl(&["exec", pod, "--", "sh", "-c", script])
    }

    #[track_caller]
    pub fn sh(&self, pod: &str, script: &str) -> String {
        self.try_sh(pod, script).unwrap_or_else(|error| panic!("{pod}: {script}: {error}"))
    }

    pub fn end(&self, pods: &[&str], claims: &[&str]) {
        for pod in pods {
            self.kubectl(&["delete", "pod", pod, "--wait=true", "--timeout=180s"]);
        }
        for claim in claims {
            let volume = self.object(&["pvc", claim])["spec"]["volumeName"].as_str().unwrap().to_owned();
            self.kubectl(&["delete", "pvc", claim, "--timeout=180s"]);
            self.lab
                .until(&format!("the volume of {claim} is gone"), || self.object(&["pv", &volume]).is_null());
        }
    }
}
