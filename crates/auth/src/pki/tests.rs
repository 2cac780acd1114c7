use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rustls::crypto::ring;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::*;
use crate::User;

pub(super) const YEAR: SignedDuration = SignedDuration::from_hours(24 * 365);
const FILES: [&str; 5] = ["ca.pem", "serving.pem", "admin.pem", "kubelet-client.pem", "service-account.pem"];

pub(super) fn now() -> Timestamp {
    // rustls checks certificates against the real clock in the handshake tests.
    Timestamp::now()
}

fn names() -> ServingNames {
    ServingNames {
        host_name: "host-1".to_owned(),
        addresses: vec!["10.1.2.3".parse().unwrap(), "fd00::1".parse().unwrap()],
        extra_names: vec!["api.example.com".to_owned()],
        cluster_domain: "cluster.local".to_owned(),
        service_address: Some("10.96.0.1".parse().unwrap()),
    }
}

pub(super) fn load(directory: &Path) -> Pki {
    Pki::load_or_create(directory, &names(), now()).unwrap()
}

fn serial(der: &[u8]) -> String {
    X509Certificate::from_der(der).unwrap().1.raw_serial_as_string()
}

fn serving_serial(pki: &Pki) -> String {
    serial(&pki.serving_cert().current().cert[0])
}

#[test]
fn a_second_start_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made/on/the/way");
    let first = load(&path);
    let before: Vec<_> = FILES.map(|f| fs::read(path.join(f)).unwrap()).into();
    for file in FILES {
        assert_eq!(fs::metadata(path.join(file)).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
    let second = load(&path);
    let after: Vec<_> = FILES.map(|f| fs::read(path.join(f)).unwrap()).into();
    assert_eq!(before, after);
    assert_eq!(first.ca_pem(), second.ca_pem());
    assert_eq!(fs::read_to_string(path.join("ca.crt")).unwrap(), first.ca_pem());
    assert!(!second.renew_if_due(now()).unwrap());
}

#[test]
fn the_serving_certificate_has_all_names() {
    let directory = tempfile::tempdir().unwrap();
    let pki = load(directory.path());
    let current = pki.serving_cert().current();
    let (_, certificate) = X509Certificate::from_der(&current.cert[0]).unwrap();
    let names = super::identity::alt_names(&certificate);
    let dns: Vec<_> = names.dns.iter().map(String::as_str).collect();
    assert_eq!(
        dns,
        [
            "api.example.com",
            "host-1",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "localhost",
        ]
    );
    let ips: Vec<_> = names.ips.iter().map(ToString::to_string).collect();
    assert_eq!(ips, ["10.1.2.3", "10.96.0.1", "127.0.0.1", "::1", "fd00::1"]);
}

#[test]
fn any_missing_file_but_the_authority_is_made_again() {
    let directory = tempfile::tempdir().unwrap();
    load(directory.path());
    for file in &FILES[1..] {
        let path = directory.path().join(file);
        fs::remove_file(&path).unwrap();
        // A crash between writing and renaming leaves this; it may hold a key.
        let leftover = directory.path().join(format!(".{file}.tmp"));
        fs::write(&leftover, "half a key").unwrap();
        load(directory.path());
        assert!(path.exists(), "{file}");
        assert!(!leftover.exists(), "{file}");
    }
    fs::remove_file(directory.path().join("ca.pem")).unwrap();
    let error = Pki::load_or_create(directory.path(), &names(), now()).err().unwrap().to_string();
    assert!(error.contains("ca.pem is missing"), "{error}");
}

#[test]
fn damaged_files_are_named_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    load(directory.path());
    let check = |file: &str, content: &[u8], expected: &str| {
        let path = directory.path().join(file);
        let good = fs::read(&path).unwrap();
        fs::write(&path, content).unwrap();
        let error = Pki::load_or_create(directory.path(), &names(), now()).err().unwrap().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        assert!(error.contains(expected), "{error}");
        assert_eq!(fs::read(&path).unwrap(), content, "never overwritten");
        fs::write(&path, good).unwrap();
    };
    let admin = fs::read(directory.path().join("admin.pem")).unwrap();
    let text = String::from_utf8(admin).unwrap();
    let certificate_only = &text[..text.find("-----BEGIN PRIVATE").unwrap()];
    let other_key = &text[certificate_only.len()..];
    let serving = fs::read_to_string(directory.path().join("serving.pem")).unwrap();
    let mixed = serving[..serving.find("-----BEGIN PRIVATE").unwrap()].to_owned() + other_key;

    check("serving.pem", b"", "holds no readable certificate. Delete it and start again");
    check("serving.pem", b"\xff\xfe\0", "holds no readable certificate");
    check("admin.pem", certificate_only.as_bytes(), "holds no readable private key");
    check("serving.pem", mixed.as_bytes(), "do not belong together");
    check("ca.pem", b"nonsense", "Restore it from a backup");
    check("ca.pem", text.as_bytes(), "not an authority's");
    check("service-account.pem", b"nonsense", "tokens signed so far stop working");
    load(directory.path());
}

#[test]
fn certificates_are_renewed_in_time() {
    let directory = tempfile::tempdir().unwrap();
    let pki = load(directory.path());
    let before = serving_serial(&pki);
    let check = |age: SignedDuration, expected: bool| {
        assert_eq!(pki.renew_if_due(now() + age).unwrap(), expected, "{age}");
    };
    check(YEAR / 2, false);
    assert_eq!(serving_serial(&pki), before);
    check(YEAR * 7 / 10, true);
    assert_ne!(serving_serial(&pki), before, "the running listener sees it");
    check(YEAR * 7 / 10, false);

    let ca = pki.ca_der();
    check(YEAR * 7, true);
    assert_ne!(pki.ca_der(), ca);
    let (_, old) = X509Certificate::from_der(&ca).unwrap();
    let renewed = pki.ca_der();
    let (_, renewed) = X509Certificate::from_der(&renewed).unwrap();
    assert_eq!(old.public_key(), renewed.public_key(), "what it issued stays valid");
    assert_eq!(old.subject(), renewed.subject());
}

#[test]
fn a_clock_set_back_renews_too() {
    let directory = tempfile::tempdir().unwrap();
    let pki = load(directory.path());
    assert!(pki.renew_if_due(now() - YEAR).unwrap());
    assert!(!pki.renew_if_due(now() - YEAR).unwrap());
}

#[test]
fn new_names_mean_a_new_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let pki = load(directory.path());
    let before = serving_serial(&pki);
    assert!(!pki.set_names(&names(), now()).unwrap());
    let mut other = names();
    other.addresses.push("192.0.2.7".parse().unwrap());
    assert!(pki.set_names(&other, now()).unwrap());
    assert_ne!(serving_serial(&pki), before);
    assert!(!pki.renew_if_due(now()).unwrap(), "the new names are remembered");

    other.host_name = "bad name\n".to_owned();
    assert!(matches!(pki.set_names(&other, now()), Err(PkiError::HostName(_))));
    assert!(!pki.renew_if_due(now()).unwrap(), "bad names are not");
}

#[test]
fn open_key_files_are_closed() {
    let directory = tempfile::tempdir().unwrap();
    load(directory.path());
    let path = directory.path().join("admin.pem");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    load(directory.path());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn kubeconfigs_are_complete_and_closed() {
    let directory = tempfile::tempdir().unwrap();
    let pki = load(directory.path());
    let text = pki.admin_kubeconfig("https://127.0.0.1:6443", &["https://10.0.0.2:6443"]);
    for part in
        ["server: \"https://127.0.0.1:6443\"", "certificate-authority-data: LS0t", "client-key-data: LS0t"]
    {
        assert!(text.contains(part), "{part}");
    }
    let path = directory.path().join("admin.kubeconfig");
    write_kubeconfig(&path, &text).unwrap();
    write_kubeconfig(&path, &text).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let odd = pki.kubeconfig_for("a\"b: c", &[], "https://h", YEAR, now()).unwrap();
    assert!(odd.contains(r#"user: "a\"b: c""#));
    assert!(pki.kubeconfig_for("x", &[], "https://h", SignedDuration::MAX, now()).is_ok());
}

#[test]
fn certificates_name_users_and_all_their_groups() {
    let directory = tempfile::tempdir().unwrap();
    let pki = load(directory.path());
    let (certificate, _) = pki.issue_client("jane", &["a", "b", "c"], YEAR, now()).unwrap();
    let der = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let user = User::from_certificate(&der, now()).unwrap();
    assert_eq!(user.name, "jane");
    assert_eq!(user.groups, ["a", "b", "c", "system:authenticated"]);
    assert!(user.extra[crate::user::CREDENTIAL_ID][0].starts_with("X509SHA256="));
    assert!(User::from_certificate(&der, now() + YEAR * 2).unwrap_err().to_string().contains("expired"));
    assert!(User::from_certificate(&der, now() - YEAR).unwrap_err().to_string().contains("not valid before"));
    let ca = pki.ca_der();
    let (_, ca) = X509Certificate::from_der(&ca).unwrap();
    let (_, certificate) = X509Certificate::from_der(&der).unwrap();
    assert!(certificate.verify_signature(Some(ca.public_key())).is_ok());
}

/// Shakes hands in memory; the server's view of the client's certificates.
fn shake_hands(pki: &Pki, client: Option<(String, String)>) -> Result<Option<Vec<u8>>, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(pki.ca_der())).unwrap();
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match client {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut client = ClientConnection::new(Arc::new(config), "10.96.0.1".try_into().unwrap()).unwrap();
    let mut server = ServerConnection::new(Arc::new(server_config(pki).unwrap())).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut bytes.as_slice()).unwrap();
        server.process_new_packets()?;
        bytes.clear();
        server.write_tls(&mut bytes).unwrap();
        client.read_tls(&mut bytes.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    assert_eq!(server.alpn_protocol(), Some(&b"h2"[..]));
    Ok(server.peer_certificates().map(|chain| chain[0].to_vec()))
}

#[test]
fn client_certificates_are_optional_but_must_be_ours() {
    let directory = tempfile::tempdir().unwrap();
    let pki = load(directory.path());
    assert_eq!(shake_hands(&pki, None).unwrap(), None);

    let jane = pki.issue_client("jane", &["x", "y"], YEAR, now()).unwrap();
    let shown = shake_hands(&pki, Some(jane)).unwrap().unwrap();
    assert_eq!(User::from_certificate(&shown, now()).unwrap().name, "jane");

    let elsewhere = tempfile::tempdir().unwrap();
    let foreign = load(elsewhere.path()).issue_client("jane", &["system:masters"], YEAR, now()).unwrap();
    assert!(shake_hands(&pki, Some(foreign)).is_err());

    let expired = pki.issue_client("jane", &[], YEAR, now() - YEAR * 2).unwrap();
    assert!(shake_hands(&pki, Some(expired)).is_err());

    let server = pki
        .issue_server(Subject::new("system:node:a", &["system:nodes"]), AltNames::default(), YEAR, now())
        .unwrap();
    let server = (server.certificate_pem(), server.key_pem());
    assert!(shake_hands(&pki, Some(server)).is_err(), "a serving certificate is no client's");
}

#[test]
fn a_rotated_token_key_leaves_old_tokens_valid_across_restarts() {
    let directory = tempfile::tempdir().unwrap();
    let pki = load(directory.path());
    let first = pki.token_keys().current().id.clone();
    pki.rotate_token_key(now()).unwrap();
    let second = pki.token_keys().current().id.clone();
    pki.rotate_token_key(now()).unwrap();
    assert_ne!(first, second);
    let published = |pki: &Pki| {
        let issuer = crate::service_account_token::TokenIssuer::new("https://i", &[], pki.token_keys());
        issuer.jwks().to_string()
    };
    let after_restart = published(&load(directory.path()));
    assert_eq!(published(&pki), after_restart);
    assert!(after_restart.contains(&first) && after_restart.contains(&second));
}

#[test]
fn kubelets_know_the_api_server() {
    let directory = tempfile::tempdir().unwrap();
    let pki = load(directory.path());
    assert!(kubelet_client_config(&pki).is_ok());
    let shown = shake_hands(&pki, Some(pki.kubelet_client_pem())).unwrap().unwrap();
    assert_eq!(User::from_certificate(&shown, now()).unwrap().name, "kube-apiserver-kubelet-client");
}
