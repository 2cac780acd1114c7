//! How to speak with etcd: whom to trust there, and who we are. The flags are called as kube-apiserver's.
//!
//! Files are read and checked before anything is sent, so that a wrong one is told by its name. They are read once,
//! when the process starts.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use clap::Args;
use minik8s_store::EtcdAddress;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

#[derive(Debug, Clone, Default, Args)]
pub struct EtcdFlags {
    /// The authority that signed etcd's certificates (PEM); without it, those that this machine trusts
    #[arg(long, value_name = "FILE")]
    pub etcd_cafile: Option<PathBuf>,
    /// The certificate to show to etcd (PEM)
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub etcd_certfile: Option<PathBuf>,
    /// The key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub etcd_keyfile: Option<PathBuf>,
}

impl EtcdFlags {
    /// The etcd at these URLs, with what the files say.
    pub fn address(&self, urls: &[String]) -> anyhow::Result<EtcdAddress> {
        let mut address = EtcdAddress::new(urls);
        let told = [&self.etcd_cafile, &self.etcd_certfile].into_iter().any(Option::is_some);
        let encrypted = urls.iter().filter(|url| url.starts_with("https://")).count();
        ensure!(
            encrypted == 0 || address.is_encrypted(),
            "etcd at {address}: give all addresses with https:// or none"
        );
        if told && !address.is_encrypted() {
            bail!("etcd at {address}: certificates are of no use with http://; use https://");
        }
        if let Some(path) = &self.etcd_cafile {
            address.authority = Some(authority(path).with_context(|| at("--etcd-cafile", path))?);
        }
        if let Some((certificate, key)) = self.etcd_certfile.as_deref().zip(self.etcd_keyfile.as_deref()) {
            address.identity = Some(identity(certificate, key)?);
        }
        Ok(address)
    }
}

/// Tells of an etcd that is reached in the clear over a network.
pub fn warn_if_open(address: &EtcdAddress) {
    let open: Vec<&str> =
        address.endpoints.iter().map(String::as_str).filter(|url| is_in_the_clear(url)).collect();
    if !open.is_empty() {
        tracing::warn!(
            etcd = open.join(", "),
            "no TLS: whoever is on that network can read every Secret and the cluster's own keys; \
             use https:// with --etcd-cafile, --etcd-certfile and --etcd-keyfile"
        );
    }
}

/// Whether others than this machine could read it.
fn is_in_the_clear(url: &str) -> bool {
    let Ok(uri) = url.parse::<http::Uri>() else { return false };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    uri.scheme_str() == Some("http") && !is_here
}

fn authority(path: &Path) -> anyhow::Result<Vec<u8>> {
    let text = std::fs::read(path)?;
    certificates(&text)?;
    Ok(text)
}

fn identity(certificate: &Path, key: &Path) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let read = |path: &Path, flag| std::fs::read(path).with_context(|| at(flag, path));
    let (certificate_text, key_text) = (read(certificate, "--etcd-certfile")?, read(key, "--etcd-keyfile")?);
    let chain = certificates(&certificate_text).with_context(|| at("--etcd-certfile", certificate))?;
    let der = PrivateKeyDer::from_pem_slice(&key_text).ok().context("it holds no private key");
    let der = der.with_context(|| at("--etcd-keyfile", key))?;
    CertifiedKey::from_der(chain, der, &Arc::new(rustls::crypto::ring::default_provider()))
        .with_context(|| format!("{} is not the key of {}", key.display(), certificate.display()))?;
    Ok((certificate_text, key_text))
}

fn certificates(text: &[u8]) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let found = found.unwrap_or_default();
    ensure!(!found.is_empty(), "it holds no certificate");
    Ok(found)
}

fn at(flag: &str, path: &Path) -> String {
    format!("{flag} {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_open() {
        let check = |url: &str, expected| assert_eq!(is_in_the_clear(url), expected, "{url}");
        check("http://10.0.0.1:2379", true);
        check("http://etcd.example:2379", true);
        check("http://[fd00::1]:2379", true);
        check("http://127.0.0.1:2379", false);
        check("http://127.1.2.3:2379", false);
        check("http://[::1]:2379", false);
        check("http://localhost:2379", false);
        check("https://10.0.0.1:2379", false);
    }

    #[test]
    fn what_is_wrong_with_the_files_is_told() {
        let scratch = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = scratch.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let made = |name: &str| rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let (one, other) = (made("one"), made("other"));
        let certificate = write("certificate.pem", &one.cert.pem());
        let key = write("key.pem", &one.signing_key.serialize_pem());
        let strange = write("strange.pem", &other.signing_key.serialize_pem());
        let missing = scratch.path().join("missing.pem");
        let (secure, plain) = ("https://a:1", "http://a:1");
        let check = |urls: &[&str], files: [Option<&PathBuf>; 3], expected: &str| {
            let [etcd_cafile, etcd_certfile, etcd_keyfile] = files.map(Option::<&PathBuf>::cloned);
            let flags = EtcdFlags { etcd_cafile, etcd_certfile, etcd_keyfile };
            let urls: Vec<String> = urls.iter().map(|&url| url.to_owned()).collect();
            let told = flags.address(&urls).map_or_else(|error| format!("{error:#}"), |_| String::new());
            assert_eq!(told.is_empty(), expected.is_empty(), "{told}");
            assert!(told.contains(expected), "{told}");
        };
        check(&[plain], [None; 3], "");
        check(&[secure, secure], [None; 3], "");
        check(&[secure], [Some(&certificate), Some(&certificate), Some(&key)], "");
        check(&[secure, plain], [None; 3], "give all addresses with https:// or none");
        check(&[plain], [Some(&certificate), None, None], "use https://");
        check(&[secure], [Some(&missing), None, None], "missing.pem: No such file");
        check(&[secure], [Some(&key), None, None], "key.pem: it holds no certificate");
        check(&[secure], [None, Some(&missing), Some(&key)], "--etcd-certfile");
        check(&[secure], [None, Some(&certificate), Some(&missing)], "--etcd-keyfile");
        check(&[secure], [None, Some(&certificate), Some(&certificate)], "it holds no private key");
        check(&[secure], [None, Some(&certificate), Some(&strange)], "is not the key of");
    }
}
