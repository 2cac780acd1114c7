//! containerd's configuration file, from what we want and what the host can do. Pure.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::Host;
use crate::Config;

/// Where containerd keeps its things and how it is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub dir: PathBuf,
    pub socket: PathBuf,
    pub cni_conf_dir: PathBuf,
    pub sandbox_image: String,
    pub host: Host,
}

impl Settings {
    pub fn new(config: &Config, host: Host) -> Self {
        Settings {
            dir: config.containerd_dir(),
            socket: config.containerd_socket(),
            cni_conf_dir: config.cni_dir().join("net.d"),
            sandbox_image: crate::image::PAUSE_IMAGE.to_owned(),
            host,
        }
    }

    /// The configuration file. The paths hold no character that TOML would want escaped
    /// ([`Config::validate`] sees to that).
    pub fn toml(&self) -> String {
        let dir = self.dir.display();
        let host = &self.host;
        let cri = r#"plugins."io.containerd.grpc.v1.cri""#;
        let default = host.runtimes.first().map_or("runc", |r| r.binary());
        let mut toml = format!(
            r#"# Written by minik8s at every start.
version = 2
root = "{dir}/root"
state = "{dir}/state"
oom_score = 0

[grpc]
  address = "{socket}"

["plugins"."io.containerd.internal.v1.opt"]
  path = "{dir}/opt"

[{cri}]
  sandbox_image = "{sandbox_image}"
  restrict_oom_score_adj = {restrict}
  netns_mounts_under_state_dir = true
  enable_unprivileged_ports = true
  enable_unprivileged_icmp = true
  tolerate_missing_hugetlb_controller = true
  max_concurrent_downloads = 3
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"

[{cri}.cni]
  bin_dir = "{cni_bin}"
  conf_dir = "{cni_conf}"

[{cri}.registry]
  config_path = "{dir}/registries"

[{cri}.containerd]
  snapshotter = "{snapshotter}"
  default_runtime_name = "{default}"
"#,
            socket = self.socket.display(),
            sandbox_image = self.sandbox_image,
            restrict = !host.may_lower_oom_score,
            cni_bin = host.cni_bin_dir.display(),
            cni_conf = self.cni_conf_dir.display(),
            snapshotter = host.snapshotter,
        );
        for runtime in &host.runtimes {
            let name = runtime.binary();
            let _ = write!(
                toml,
                r#"
[{cri}.containerd.runtimes.{name}]
  runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.{name}.options]
  BinaryName = "{name}"
  Root = "{dir}/state/oci"
"#
            );
        }
        toml
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containerd::host::{CgroupMode, OciRuntime};

    #[test]
    fn the_file_says_what_the_host_needs() {
        let settings = Settings {
            dir: "/data/containerd".into(),
            socket: "/data/containerd/containerd.sock".into(),
            cni_conf_dir: "/data/cni/net.d".into(),
            sandbox_image: "example/pause:1".into(),
            host: Host {
                cgroups: CgroupMode::Hybrid,
                may_lower_oom_score: false,
                runtimes: vec![OciRuntime::Runc],
                cni_bin_dir: "/usr/lib/cni".into(),
                snapshotter: "overlayfs",
            },
        };
        insta::assert_snapshot!(settings.toml());
    }
}
