use std::sync::Arc;

use serde_json::{Value, json};

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

#[test]
fn keys_are_of_the_type_that_is_asked_for_and_their_requests_empty() {
    use x509_parser::certification_request::X509CertificationRequest;
    use x509_parser::prelude::FromDer;
    for (key_type, bits) in [("ECDSAP256", 256), ("ECDSAP384", 384), ("ED25519", 256)] {
        let (key, request) = key_and_request(key_type).unwrap();
        assert!(key.starts_with("-----BEGIN PRIVATE KEY-----"), "{key_type}");
        let (_, request) = X509CertificationRequest::from_der(&request).unwrap();
        let info = &request.certification_request_info;
        assert_eq!(info.subject.iter().count(), 0, "{key_type}");
        let public = &info.subject_pki.subject_public_key.data;
        assert!(public.len() * 8 >= bits, "{key_type}: {} bytes", public.len());
    }
    let error = key_and_request("RSA4096").unwrap_err().to_string();
    assert!(error.starts_with("keyType \"RSA4096\": this node makes keys of"), "{error}");
}
