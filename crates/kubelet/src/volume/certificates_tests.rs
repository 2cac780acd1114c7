use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use rcgen::PublicKeyData;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn waiting(issued: Option<Issued>) -> Credential {
    let wait = Wait { request: "req-1".to_owned(), key: "new key".to_owned(), since: at(0) };
    Credential { issued, wait: Some(wait), refused: None }
}

fn request(condition: &str, chain: &str) -> PodCertificateRequest {
    let condition = json!({"type": condition, "status": "True", "reason": "Why", "message": "because",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let spec = json!({"signerName": "a.b/s", "podName": "p", "podUID": "u", "serviceAccountName": "d", "serviceAccountUID": "s",
        "nodeName": "n", "nodeUID": "m"});
    let status =
        json!({"conditions": [condition], "certificateChain": chain, "beginRefreshAt": at(5000).to_string()});
    let request = json!({"metadata": {"name": "req-1", "namespace": "ns"}, "spec": spec, "status": status});
    serde_json::from_value(request).unwrap()
}

#[test]
fn issued_certificate_comes_with_the_key_of_its_request_and_nothing_else() {
    let mut credential = waiting(None);
    let chain = format!("a comment\n{}{}", pem(b"leaf"), pem(b"intermediate"));
    settle(&mut credential, Some(&request("Issued", &chain)), at(100));
    let certificate = Certificate { key: "new key".to_owned(), chain: pem(b"leaf") + &pem(b"intermediate") };
    assert_eq!(credential.issued, Some(Issued { certificate, renew_at: at(5000) }));
    assert_eq!((credential.wait, credential.refused), (None, None));
}

#[test]
fn refusal_is_final_and_says_why() {
    for (condition, what) in [("Denied", "was denied"), ("Failed", "failed")] {
        let mut credential = waiting(None);
        settle(&mut credential, Some(&request(condition, "")), at(100));
        let want = format!("PodCertificateRequest ns/req-1 {what}, reason=\"Why\", message=\"because\"");
        assert_eq!(credential, Credential { refused: Some(want), ..Credential::default() });
    }
}

#[test]
fn request_that_vanished_is_forgotten_and_the_old_certificate_kept() {
    let old = Issued {
        certificate: Certificate { key: "old".to_owned(), chain: "old".to_owned() },
        renew_at: at(50),
    };
    let mut credential = waiting(Some(old.clone()));
    settle(&mut credential, None, at(100));
    assert_eq!(credential, Credential { issued: Some(old), ..Credential::default() });
}

#[test]
fn signer_that_wants_renewal_at_once_is_not_asked_in_a_circle() {
    let mut credential = waiting(None);
    settle(&mut credential, Some(&request("Issued", &pem(b"leaf"))), at(9000));
    assert_eq!(credential.issued.unwrap().renew_at, at(9030));
}

#[test]
fn sources_are_named_by_volume_and_place() {
    let source = |signer: &str| json!({"podCertificate": {"signerName": signer, "keyType": "ED25519"}});
    let pod: Value = json!({"metadata": {"name": "p"}, "spec": {"containers": [], "volumes": [
        {"name": "v", "projected": {"sources": [{"configMap": {"name": "c"}}, source("a"), source("b")]}},
        {"name": "w", "projected": {"sources": [source("c")]}},
        {"name": "x", "emptyDir": {}}]}});
    let desired_pod = DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()));
    let found: Vec<String> = wanted(&desired_pod)
        .into_iter()
        .map(|((volume, index), source)| format!("{volume}/{index}={}", source.signer_name))
        .collect();
    assert_eq!(found, ["v/1=a", "v/2=b", "w/0=c"]);
}

#[tokio::test]
async fn keys_are_of_the_type_that_is_asked_for_and_their_requests_empty() {
    let types = [
        ("ECDSAP256", 256),
        ("ECDSAP384", 384),
        ("ECDSAP521", 521),
        ("ED25519", 256),
        ("RSA3072", 3072),
        ("RSA4096", 4096),
    ];
    for (key_type, bits) in types {
        let (key, der) = key_and_request(key_type).await.unwrap();
        PrivatePkcs8KeyDer::from_pem_slice(key.as_bytes()).unwrap();
        assert!(key.starts_with("-----BEGIN PRIVATE KEY-----"), "{key_type}");
        assert!(key.trim_end().ends_with("-----END PRIVATE KEY-----"), "{key_type}");
        let (rest, request) = X509CertificationRequest::from_der(&der).unwrap();
        assert!(rest.is_empty(), "{key_type}");
        let info = &request.certification_request_info;
        assert_eq!(info.subject.iter().count(), 0, "{key_type}");
        assert!(request.requested_extensions().is_none(), "{key_type}");
        let public = &info.subject_pki.subject_public_key.data;
        assert!(public.len() * 8 >= bits, "{key_type}: {} bytes", public.len());
        let (public, is_signed) = match key_type {
            // ring does not know it.
            "ECDSAP521" => (public_key(&key), is_signed(&der)),
            _ => {
                let key = KeyPair::from_pem(&key).unwrap();
                (key.subject_public_key_info(), request.verify_signature().is_ok())
            }
        };
        assert_eq!(public, info.subject_pki.raw, "{key_type}");
        assert!(is_signed, "{key_type}");
    }
    let error = key_and_request("RSA2048").await.unwrap_err().to_string();
    assert!(error.starts_with("keyType \"RSA2048\": nodes make keys of"), "{error}");
}

#[test]
fn missing_openssl_is_told_with_the_key_type() {
    let error = CertificateError::Openssl("RSA3072".to_owned(), OpensslError::Missing);
    let want = "keyType RSA3072: the node needs openssl for it: apt-get install openssl";
    assert_eq!(error.to_string(), want);
}

fn public_key(key: &str) -> Vec<u8> {
    call_openssl(&["pkey", "-pubout", "-outform", "DER"], key.as_bytes()).stdout
}

fn is_signed(request: &[u8]) -> bool {
    let output = call_openssl(&["req", "-inform", "DER", "-verify", "-noout"], request);
    String::from_utf8_lossy(&output.stderr).contains("verify OK")
}

fn call_openssl(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(openssl::OPENSSL);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}
