//! Signing requests, good and hostile.

use proptest::prelude::*;
use rcgen::{CertificateParams, DnType, KeyPair, SanType};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::tests::{YEAR, load, now};
use super::*;
use crate::User;

struct Request {
    name: &'static str,
    group: Option<&'static str>,
    alt_names: Vec<SanType>,
}

impl Request {
    fn pem(&self) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, self.name);
        if let Some(group) = self.group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.subject_alt_names = self.alt_names.clone();
        params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
    }
}

const NODE: Request = Request { name: "system:node:a", group: Some("system:nodes"), alt_names: Vec::new() };

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

#[test]
fn signers_have_rules() {
    let directory = tempfile::tempdir().unwrap();
    let pki = load(directory.path());
    let check = |signer: &str, request: Request, usages: &[&str], expected: Result<(), &str>| {
        let usages: Vec<_> = usages.iter().map(|&u| u.to_owned()).collect();
        let signer = Signer::by_name(&format!("kubernetes.io/{signer}")).unwrap();
        let result = pki.sign_csr(&request.pem(), signer, &usages, None, now());
        match expected {
            Ok(()) => {
                let pem = result.unwrap();
                let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
                assert_eq!(User::from_certificate(&der, now()).unwrap().name, request.name);
            }
            Err(expected) => {
                let error = result.unwrap_err().to_string();
                assert!(error.contains(expected), "{error:?} lacks {expected:?}");
            }
        }
    };
    let (client, server) = (["digital signature", "client auth"], ["key encipherment", "server auth"]);
    let jane = || Request { name: "jane", group: Some("dev"), alt_names: vec![] };
    let with = |alt_names| Request { alt_names, ..NODE };
    let mail = || SanType::Rfc822Name("a@b".try_into().unwrap());

    check("kube-apiserver-client", jane(), &client, Ok(()));
    check("kube-apiserver-client", jane(), &server, Err("usages"));
    check("kube-apiserver-client", jane(), &["client auth", "code signing"], Err("usages"));
    check("kube-apiserver-client", jane(), &["digital signature"], Err("usages"));
    check(
        "kube-apiserver-client",
        Request { group: Some("system:masters"), ..jane() },
        &client,
        Err("system:masters"),
    );
    let api_server = || Request { name: super::KUBELET_CLIENT, group: None, alt_names: vec![] };
    check("kube-apiserver-client", api_server(), &client, Err("the API server itself"));
    check("kube-apiserver-client-kubelet", NODE, &client, Ok(()));
    check("kube-apiserver-client-kubelet", jane(), &client, Err("organization is not system:nodes"));
    check(
        "kube-apiserver-client-kubelet",
        Request { name: "a", ..NODE },
        &client,
        Err("does not begin with system:node:"),
    );
    check(
        "kube-apiserver-client-kubelet",
        Request { name: "system:node:", ..NODE },
        &client,
        Err("does not begin with system:node:"),
    );
    check("kube-apiserver-client-kubelet", with(vec![dns("a")]), &client, Err("are not allowed"));
    check("kube-apiserver-client-kubelet", with(vec![mail()]), &client, Err("are not allowed"));
    check("kubelet-serving", with(vec![dns("a")]), &server, Ok(()));
    check("kubelet-serving", with(vec![dns("a")]), &client, Err("usages"));
    check("kubelet-serving", NODE, &server, Err("is required"));
    check("kubelet-serving", with(vec![dns("a"), mail()]), &server, Err("is required"));
    assert_eq!(Signer::by_name("kubernetes.io/legacy-unknown"), None);
}

#[test]
fn signed_certificates_live_as_long_as_asked_within_bounds() {
    let directory = tempfile::tempdir().unwrap();
    let pki = load(directory.path());
    let usages = ["client auth".to_owned()];
    let check = |seconds, expected: i64| {
        let now = now();
        let pem = pki.sign_csr(&NODE.pem(), Signer::KubeletClient, &usages, seconds, now).unwrap();
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let (_, certificate) = X509Certificate::from_der(&der).unwrap();
        assert_eq!(certificate.validity().not_after.timestamp() - now.as_second(), expected);
    };
    check(None, YEAR.as_secs());
    check(Some(3600), 3600);
    check(Some(1), 600);
    check(Some(-5), 600);
    check(Some(i32::MAX), YEAR.as_secs());
}

#[test]
fn a_forged_signature_is_refused() {
    use base64::Engine;
    let pem = NODE.pem();
    let der = rustls_pki_types::CertificateSigningRequestDer::from_pem_slice(pem.as_bytes()).unwrap();
    let mut bytes = der.to_vec();
    let place = bytes.windows(6).position(|w| w == b"node:a").unwrap() + 5;
    bytes[place] = b'b';
    assert!(matches!(Csr::parse(&pem::encode("CERTIFICATE REQUEST", &bytes)), Err(CsrError::Signature)));
    let base64 = base64::engine::general_purpose::STANDARD.encode(&pem);
    assert_eq!(Csr::parse(&base64).unwrap().node_name(), Some("a"));
}

proptest! {
    #[test]
    fn hostile_requests_never_panic(text in ".{0,200}", changes in prop::collection::vec((0usize..400, 0u8..), 1..8)) {
        let _ = Csr::parse(&text);
        let pem = NODE.pem();
        let der = rustls_pki_types::CertificateSigningRequestDer::from_pem_slice(pem.as_bytes()).unwrap();
        let mut bytes = der.to_vec();
        for (place, value) in changes {
            let length = bytes.len();
            bytes[place % length] = value;
        }
        let _ = Csr::parse(&pem::encode("CERTIFICATE REQUEST", &bytes));
        let _ = Identity::parse(&pem::encode("CERTIFICATE", &bytes));
    }
}
