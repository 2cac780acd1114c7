//! Tells this node's containerd where the registry in the servers is, and as whom to ask: `hosts.toml` in containerd's own
//! form, read at every pull.
//!
//! All servers are named, since each has the images that were pushed to it: containerd asks one after the other. It shows
//! the node's certificate, which allows it what the node's own pods name, and where it is refused the credentials of the
//! pod's `imagePullSecrets`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use minik8s_apiserver::Live;
use minik8s_auth::pki::{Pki, file};
use minik8s_meta::image_repository::REGISTRY_HOST;
use tokio::sync::watch;

const SECRET: u32 = 0o600;
const PUBLIC: u32 = 0o644;
const LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 30);
/// Long before it ends: a new certificate costs little.
const RENEWAL: Duration = Duration::from_secs(24 * 3600);

/// The files that containerd finds the registry by.
#[derive(Debug, Clone)]
pub struct RegistryHosts {
    folder: PathBuf,
    /// The cluster's authority, and the node's certificate with its key.
    ca: PathBuf,
    client: PathBuf,
}

impl RegistryHosts {
    /// Of a machine that joined: its credentials are files that are renewed in place.
    pub fn of_member(data_dir: &Path, credentials: &Path) -> Self {
        let folder = folder(data_dir);
        RegistryHosts { folder, ca: credentials.join("ca.crt"), client: credentials.join("client.pem") }
    }

    fn beside_server(data_dir: &Path) -> Self {
        let folder = folder(data_dir);
        RegistryHosts { ca: folder.join("ca.crt"), client: folder.join("client.pem"), folder }
    }

    /// These servers from now on.
    pub fn write(&self, servers: &[String]) -> anyhow::Result<()> {
        file::create_directory(&self.folder)?;
        let path = self.folder.join("hosts.toml");
        let text = self.text(servers);
        if std::fs::read_to_string(&path).is_ok_and(|kept| kept == text) {
            return Ok(());
        }
        file::write_atomically(&path, &text, PUBLIC).context("the registry's servers")
    }

    /// `server` is whom containerd asks last; it must not be a name that somebody could own.
    fn text(&self, servers: &[String]) -> String {
        let last = servers.last().map(String::as_str).unwrap_or("https://127.0.0.1:1");
        let mut text = format!("server = {last:?}\n");
        for server in servers {
            text += &format!(
                "\n[host.{server:?}]\n  capabilities = [\"pull\", \"resolve\"]\n  ca = {:?}\n  client = {:?}\n",
                self.ca, self.client
            );
        }
        text
    }
}

fn folder(data_dir: &Path) -> PathBuf {
    data_dir.join("containerd/registries").join(REGISTRY_HOST)
}

/// For the node beside a server, which has no certificate as a client otherwise; for ever.
pub async fn keep_beside_server(
    data_dir: PathBuf,
    node: String,
    pki: Arc<Pki>,
    mut live: watch::Receiver<Live>,
) -> anyhow::Result<()> {
    let hosts = RegistryHosts::beside_server(&data_dir);
    loop {
        file::create_directory(&hosts.folder)?;
        let user = format!("system:node:{node}");
        let (certificate, key) = pki.issue_client(&user, &["system:nodes"], LIFETIME, Timestamp::now())?;
        file::write_atomically(&hosts.client, &format!("{certificate}{key}"), SECRET)?;
        file::write_atomically(&hosts.ca, &pki.ca_pem(), PUBLIC)?;
        let renewal = tokio::time::sleep(RENEWAL);
        tokio::pin!(renewal);
        loop {
            let servers: Vec<String> =
                live.borrow_and_update().iter().map(|at| format!("https://{at}")).collect();
            hosts.write(&servers)?;
            tokio::select! {
                changed = live.changed() => if changed.is_err() { std::future::pending::<()>().await },
                () = &mut renewal => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_all_servers_with_the_node_s_certificate() {
        assert_eq!(REGISTRY_HOST, minik8s_auth::node::REGISTRY_HOST, "what nodes are allowed to pull");
        let data = tempfile::tempdir().unwrap();
        let hosts = RegistryHosts::of_member(data.path(), Path::new("/data/credentials"));
        hosts.write(&["https://10.0.0.1:6443".to_owned(), "https://[fd00::2]:6443".to_owned()]).unwrap();
        let path = data.path().join("containerd/registries/registry.minik8s.local/hosts.toml");
        let expected = "server = \"https://[fd00::2]:6443\"\n
[host.\"https://10.0.0.1:6443\"]
  capabilities = [\"pull\", \"resolve\"]
  ca = \"/data/credentials/ca.crt\"
  client = \"/data/credentials/client.pem\"

[host.\"https://[fd00::2]:6443\"]
  capabilities = [\"pull\", \"resolve\"]
  ca = \"/data/credentials/ca.crt\"
  client = \"/data/credentials/client.pem\"
";
        assert_eq!(std::fs::read_to_string(path).unwrap(), expected);
    }
}
