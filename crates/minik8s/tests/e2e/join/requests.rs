//! CertificateSigningRequests as `kubectl certificate approve` users know them.

use futures::StreamExt;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use minik8s_auth::User;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};

use super::object;
use super::server::{Server, TIMEOUT};

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";

/// A request for a client certificate of that user in that group.
pub fn request(name: &str, signer: &str, user: &str, group: &str) -> CertificateSigningRequest {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    params.distinguished_name.push(DnType::OrganizationName, group);
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    object(json!({"metadata": {"name": name, "labels": {"test": "requests"}}, "spec": {
        "signerName": signer, "usages": ["client auth"], "request": ByteString(pem.into_bytes())}}))
}

fn approved() -> Value {
    json!({"status": {"conditions": [
        {"type": "Approved", "status": "True", "reason": "Test", "message": "by an administrator"}]}})
}

async fn until(
    requests: &Api<CertificateSigningRequest>,
    name: &str,
    is_so: impl Fn(&Value) -> bool,
) -> CertificateSigningRequest {
    let begun = std::time::Instant::now();
    loop {
        let seen = requests.get(name).await.unwrap();
        if is_so(&json!(seen.status)) {
            return seen;
        }
        assert!(begun.elapsed() < TIMEOUT, "{seen:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn an_approved_request_is_signed_and_no_other() {
    let server = Server::start().await;
    let requests: Api<CertificateSigningRequest> = Api::all(server.admin().await);
    let params = PostParams::default();
    for (name, group) in [("jane", "friends"), ("root", "system:masters"), ("waiting", "friends")] {
        // What can never be granted may be refused at the door as well.
        let made = requests.create(&params, &request(name, CLIENT, name, group)).await;
        assert!(made.is_ok() || group == "system:masters", "{made:?}");
        if made.is_err() {
            continue;
        }
        if name != "waiting" {
            requests.patch_approval(name, &PatchParams::default(), &Patch::Merge(approved())).await.unwrap();
        }
        if group == "system:masters" {
            let failed = |status: &Value| status["conditions"][1]["type"] == "Failed";
            let seen = until(&requests, name, failed).await;
            assert!(seen.status.unwrap().certificate.is_none());
        }
    }
    let jane = until(&requests, "jane", |status| status["certificate"].is_string()).await;
    let pem = jane.status.unwrap().certificate.unwrap().0;
    let certificate = CertificateDer::from_pem_slice(&pem).unwrap();
    let user = User::from_certificate(&certificate, jiff::Timestamp::now()).unwrap();
    assert_eq!((user.name.as_str(), user.in_group("friends")), ("jane", true));
    assert!(requests.get("waiting").await.unwrap().status.is_none_or(|status| status.certificate.is_none()));
}

#[tokio::test]
async fn requests_can_be_handled_as_upstream_demands() {
    let server = Server::start().await;
    let client = server.admin().await;
    let groups = client.list_api_groups().await.unwrap().groups;
    let group = groups.iter().find(|group| group.name == "certificates.k8s.io").unwrap();
    assert!(group.versions.iter().any(|version| version.version == "v1"));
    let listed = client.list_api_group_resources("certificates.k8s.io/v1").await.unwrap().resources;
    for suffix in ["", "/approval", "/status"] {
        let name = format!("certificatesigningrequests{suffix}");
        assert!(listed.iter().any(|resource| resource.name == name), "{name}");
    }

    let requests: Api<CertificateSigningRequest> = Api::all(client);
    let (post, merge) = (PostParams::default(), PatchParams::default());
    // A signer that nobody here plays: all that happens is what this test does.
    let make = |name: &str| request(name, "example.com/mine", "u", "g");
    let made = requests.create(&post, &make("a")).await.unwrap();
    requests.create(&post, &make("b")).await.unwrap();
    let labelled = ListParams::default().labels("test=requests");
    let list = requests.list(&labelled).await.unwrap();
    assert_eq!(list.items.len(), 2);
    let version = list.metadata.resource_version.unwrap();
    let watch = requests.watch(&WatchParams::default().labels("test=requests"), &version).await.unwrap();
    let mut watch = std::pin::pin!(watch);

    let patch = Patch::Merge(json!({"metadata": {"annotations": {"patched": "true"}}}));
    let patched = requests.patch("a", &merge, &patch).await.unwrap();
    assert_eq!(patched.metadata.uid, made.metadata.uid);
    let Some(Ok(WatchEvent::Modified(seen))) = watch.next().await else { panic!("no event") };
    assert_eq!(seen.metadata.annotations.unwrap()["patched"], "true");
    let mut updated = requests.get("a").await.unwrap();
    updated.metadata.annotations.get_or_insert_default().insert("updated".into(), "true".into());
    requests.replace("a", &post, &updated).await.unwrap();

    let mut approval = requests.get_approval("a").await.unwrap();
    approval.status = serde_json::from_value(approved()["status"].clone()).unwrap();
    let replaced = requests.replace_subresource("approval", "a", &post, &approval).await.unwrap();
    assert_eq!(replaced.status.unwrap().conditions.unwrap()[0].type_, "Approved");
    requests.patch_approval("b", &merge, &Patch::Merge(approved())).await.unwrap();

    let mut status = requests.get_status("a").await.unwrap();
    status.status.as_mut().unwrap().certificate = Some(ByteString(certificate_text()));
    requests.replace_status("a", &post, &status).await.unwrap();
    let issued = Patch::Merge(json!({"status": {"certificate": ByteString(certificate_text())}}));
    requests.patch_status("b", &merge, &issued).await.unwrap();
    let b = requests.get("b").await.unwrap();
    assert_eq!(b.status.unwrap().certificate, Some(ByteString(certificate_text())));

    requests.delete("a", &DeleteParams::default()).await.unwrap();
    requests.delete_collection(&DeleteParams::default(), &labelled).await.unwrap();
    assert_eq!(requests.list(&labelled).await.unwrap().items.len(), 0);
}

/// Any certificate will do.
fn certificate_text() -> Vec<u8> {
    static TEXT: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    let make = || {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["x".to_owned()]).unwrap();
        params.self_signed(&key).unwrap().pem().into_bytes()
    };
    TEXT.get_or_init(make).clone()
}
