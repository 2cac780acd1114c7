//! What a pod cannot do without: a sandbox, a container, its start.

use anyhow::Result;
use k8s_cri::v1 as cri;
use minik8s_kubelet::Config;
use minik8s_kubelet::cri::{Cri, Runtime};
use minik8s_kubelet::image::BUSYBOX;
use parking_lot::Mutex;

pub struct Bare {
    config: Config,
    cri: Cri,
    sandboxes: Mutex<Vec<String>>,
}

impl Bare {
    pub fn new(config: Config) -> Bare {
        Bare { cri: Cri::new(&config.cri_socket()), config, sandboxes: Mutex::default() }
    }

    pub async fn start(&self, name: &str) -> Result<()> {
        let sandbox = self.sandbox(name);
        let id = self.cri.run_sandbox(sandbox.clone(), "").await?;
        self.sandboxes.lock().push(id.clone());
        let container = cri::ContainerConfig {
            metadata: Some(cri::ContainerMetadata { name: "main".to_owned(), attempt: 0 }),
            image: Some(cri::ImageSpec { image: BUSYBOX.to_owned(), ..Default::default() }),
            command: ["sleep", "100000"].map(str::to_owned).to_vec(),
            log_path: format!("{name}.log"),
            ..Default::default()
        };
        let container = self.cri.create_container(&id, container, sandbox).await?;
        Ok(self.cri.start_container(&container).await?)
    }

    pub async fn remove_all(&self) -> Result<()> {
        let sandboxes = std::mem::take(&mut *self.sandboxes.lock());
        for id in sandboxes {
            self.cri.stop_sandbox(&id).await?;
            self.cri.remove_sandbox(&id).await?;
        }
        Ok(())
    }

    /// Without the agent's labels, so that it takes no notice.
    fn sandbox(&self, name: &str) -> cri::PodSandboxConfig {
        cri::PodSandboxConfig {
            metadata: Some(cri::PodSandboxMetadata {
                name: name.to_owned(),
                uid: name.to_owned(),
                namespace: "bare".to_owned(),
                attempt: 0,
            }),
            hostname: name.to_owned(),
            log_directory: self.config.logs_dir().join(name).to_string_lossy().into_owned(),
            linux: Some(cri::LinuxPodSandboxConfig {
                cgroup_parent: format!("{}/bare/{name}", self.config.cgroup_root()),
                ..Default::default()
            }),
            ..Default::default()
        }
    }
}
