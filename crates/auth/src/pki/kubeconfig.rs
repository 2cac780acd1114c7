//! Kubeconfig files with everything inline.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{PkiError, file};

/// What a kubeconfig says. The cluster and the context are both named `minik8s`; those of further servers bear their
/// addresses, since a client cannot be told of two servers at once.
pub struct Kubeconfig<'a> {
    pub server_url: &'a str,
    pub other_urls: &'a [&'a str],
    pub user: &'a str,
    pub ca_pem: &'a str,
    pub certificate_pem: &'a str,
    pub key_pem: &'a str,
}

impl Kubeconfig<'_> {
    pub fn to_yaml(&self) -> String {
        // A JSON string is a YAML string with all quoting done.
        let quoted = |text: &str| Value::from(text).to_string();
        let (server, user) = (quoted(self.server_url), quoted(self.user));
        let ca = STANDARD.encode(self.ca_pem);
        let certificate = STANDARD.encode(self.certificate_pem);
        let key = STANDARD.encode(self.key_pem);
        let (mut clusters, mut contexts) = (String::new(), String::new());
        for url in self.other_urls {
            let (url, name) =
                (quoted(url), quoted(&format!("minik8s@{}", url.trim_start_matches("https://"))));
            clusters += &format!(
                "- name: {name}\n  cluster:\n    server: {url}\n    certificate-authority-data: {ca}\n"
            );
            contexts += &format!("- name: {name}\n  context:\n    cluster: {name}\n    user: {user}\n");
        }
        format!(
            "apiVersion: v1
kind: Config
clusters:
- name: minik8s
  cluster:
    server: {server}
    certificate-authority-data: {ca}
{clusters}users:
- name: {user}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: minik8s
  context:
    cluster: minik8s
    user: {user}
{contexts}current-context: minik8s
"
        )
    }
}

/// Writes a kubeconfig that only its owner can read, in one step, unless it is there already.
pub fn write_kubeconfig(path: &Path, text: &str) -> Result<(), PkiError> {
    if file::read_secret(path)?.as_deref() == Some(text) {
        return Ok(());
    }
    file::write_atomically(path, text, 0o600)
}
