//! Keys that ring does not make, RSA and P-521: the machine's openssl makes one, and the request that proves it, in one run.
//!
//! Both come back through a pipe: a key is never in a file or an argument. What openssl prints never gets into an error,
//! only what it complains of.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateSigningRequestDer, PrivatePkcs8KeyDer};
use thiserror::Error;
use tokio::process::Command;

pub const OPENSSL: &str = "openssl";
pub const RSA_3072: &[&str] = &["-newkey", "rsa:3072", "-sha256"];
pub const RSA_4096: &[&str] = &["-newkey", "rsa:4096", "-sha256"];
pub const ECDSA_P521: &[&str] = &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-521", "-sha512"];

/// An empty subject. The machine's openssl.cnf says nothing about requests here, nor need it be there.
const REQUEST: &[&str] =
    &["req", "-new", "-nodes", "-batch", "-subj", "/", "-config", "/dev/null", "-keyout", "-"];
const TIMEOUT: Duration = Duration::from_secs(60);
/// Of what openssl complains of, in characters.
const MAX_COMPLAINT: usize = 500;
const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";

#[derive(Debug, Error)]
pub enum OpensslError {
    #[error("the node needs openssl for it: apt-get install openssl")]
    Missing,
    #[error("cannot run openssl: {0}")]
    Broken(io::Error),
    #[error("openssl took longer than {} seconds", TIMEOUT.as_secs())]
    Timeout,
    #[error("openssl made no key: {0}")]
    Failed(String),
}

/// A new key in PEM (PKCS#8), and its request in DER.
pub async fn key_and_request(program: &str, algorithm: &[&str]) -> Result<(String, Vec<u8>), OpensslError> {
    let mut command = Command::new(program);
    command.args(REQUEST).args(algorithm).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(TIMEOUT, command.output()).await.map_err(|_| OpensslError::Timeout)?;
    let output = output.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => OpensslError::Missing,
        _ => OpensslError::Broken(error),
    })?;
    if !output.status.success() {
        return Err(OpensslError::Failed(format!("{}: {}", output.status, complaint(&output.stderr))));
    }
    parse(&output.stdout).ok_or_else(|| OpensslError::Failed("it printed something else".to_owned()))
}

fn parse(output: &[u8]) -> Option<(String, Vec<u8>)> {
    let text = std::str::from_utf8(output).ok()?;
    let (_, rest) = text.split_once(BEGIN)?;
    let (base64, _) = rest.split_once(END)?;
    let key = format!("{BEGIN}{base64}{END}\n");
    PrivatePkcs8KeyDer::from_pem_slice(key.as_bytes()).ok()?;
    let request = CertificateSigningRequestDer::from_pem_slice(output).ok()?;
    Some((key, request.to_vec()))
}

/// Without the dots by which openssl shows that it looks for primes.
fn complaint(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> =
        text.lines().filter(|line| !line.chars().all(|char| ".+*-".contains(char))).collect();
    lines.join("; ").chars().take(MAX_COMPLAINT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn missing_program_is_named_with_its_package() {
        let error = key_and_request("/nonexistent/openssl", RSA_3072).await.unwrap_err();
        assert_eq!(error.to_string(), "the node needs openssl for it: apt-get install openssl");
    }

    #[tokio::test]
    async fn failure_says_why_and_shows_no_key() {
        let curve = &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-1"];
        let error = key_and_request(OPENSSL, curve).await.unwrap_err().to_string();
        assert!(error.starts_with("openssl made no key: exit status: 1: "), "{error}");
        let error = key_and_request("/bin/echo", RSA_3072).await.unwrap_err().to_string();
        assert_eq!(error, "openssl made no key: it printed something else");
    }

    #[test]
    fn complaint_is_short_and_without_progress() {
        assert_eq!(complaint(b"..+++*..\n-----\nno entropy\n\nsorry\n"), "no entropy; sorry");
        assert_eq!(complaint(&[b'x'; 10_000]).len(), MAX_COMPLAINT);
    }
}
