//! Certificates of pods' own: requested by the node, issued by a signer that is not part of the cluster.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::space::{Space, idle};

const SIGNER: &str = "minik8s.io/pods";

/// A pod waits for its signer, gets the key and the chain, and a refusal says why.
pub async fn certificates_of_pods(space: Space) {
    let pod = |signer: &str, key_type: &str| {
        let source = json!({"signerName": signer, "keyType": key_type, "credentialBundlePath": "all.pem",
            "certificateChainPath": "chain.pem", "userAnnotations": {"minik8s.io/path": "/x"}});
        let mut spec = idle();
        spec["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
        spec["volumes"] = json!([{"name": "v", "projected": {"sources": [{"podCertificate": source}]}}]);
        spec
    };
    space.pod("certified", pod(SIGNER, "ECDSAP256")).await;
    let (name, request) = pending(&space, SIGNER).await;
    assert_eq!(request["spec"]["unverifiedUserAnnotations"], json!({"minik8s.io/path": "/x"}));
    let issuer = Issuer::new(CertificateParams::default(), KeyPair::generate().unwrap());
    // A day far off: nobody renews it meanwhile.
    let chain = sign(&space, &name, &request, &issuer, "2999-01-01T00:00:00Z".parse().unwrap()).await;
    space.ready("certified").await;
    assert_eq!(space.kubectl(&["exec", "certified", "--", "cat", "/v/chain.pem"]).await, chain);
    let all = space.kubectl(&["exec", "certified", "--", "cat", "/v/all.pem"]).await;
    assert!(all.starts_with("-----BEGIN PRIVATE KEY-----") && all.ends_with(&chain), "{all}");

    space.pod("denied", pod("minik8s.io/deny", "ECDSAP521")).await;
    let (name, _) = pending(&space, "minik8s.io/deny").await;
    let status = json!({"status": {"conditions": [condition("Denied", "not today")]}});
    space.send(Method::PATCH, &format!("{}/{name}/status", path(&space)), status).await.unwrap();
    space.event("denied", "FailedMount", "was denied, reason=\"Test\", message=\"not today\"").await;
}

/// With what is in their volumes, certificates and the bundle of the signer, two pods prove to each other who they are; one
/// whose certificate is another signer's is not let in.
pub async fn mutual_tls_of_pods(space: Space) {
    let bundles = "/apis/certificates.k8s.io/v1/clustertrustbundles";
    let signer = &format!("minik8s.io/{}", space.name);
    let bundle = format!("minik8s.io:{}:root", space.name);
    let mut root = CertificateParams::default();
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = root.self_signed(&key).unwrap().pem();
    let spec = json!({"signerName": signer, "trustBundle": certificate});
    let object = json!({"metadata": {"name": bundle}, "spec": spec});
    space.send(Method::POST, bundles, object).await.unwrap();
    let trusted = Issuer::new(root.clone(), key);
    let stranger = Issuer::new(root, KeyPair::generate().unwrap());
    let now = Timestamp::from_second(Timestamp::now().as_second() - 3600).unwrap();
    let mut files = Vec::new();
    let pods = [
        ("server", "ECDSAP256", &trusted),
        ("client", "RSA3072", &trusted),
        ("stranger", "ECDSAP256", &stranger),
    ];
    for (name, key_type, issuer) in pods {
        let own = json!({"signerName": signer, "keyType": key_type, "credentialBundlePath": "all.pem"});
        let mut spec = idle();
        spec["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
        spec["volumes"] = json!([{"name": "v", "projected": {"sources": [
            {"podCertificate": own}, {"clusterTrustBundle": {"name": bundle, "path": "ca.pem"}}]}}]);
        space.pod(name, spec).await;
        let (request, asked) = pending_of(&space, signer, name).await;
        sign(&space, &request, &asked, issuer, now).await;
        space.ready(name).await;
        let own = space.kubectl(&["exec", name, "--", "cat", "/v/all.pem"]).await;
        files.push(Files { own, trusted: space.kubectl(&["exec", name, "--", "cat", "/v/ca.pem"]).await });
    }
    let [server, client, stranger] = &files[..] else { panic!("three pods") };
    assert_eq!(talk(server, client).await.unwrap(), "hello");
    assert!(talk(server, stranger).await.is_err() && talk(stranger, client).await.is_err());
    space.send(Method::DELETE, &format!("{bundles}/{bundle}"), Value::Null).await.unwrap();
}

/// What a pod finds in its volume.
struct Files {
    /// Key and chain.
    own: String,
    trusted: String,
}

impl Files {
    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.trusted.as_bytes()).unwrap()).unwrap();
        Arc::new(roots)
    }

    fn chain(&self) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(self.own.as_bytes()).map(Result::unwrap).collect()
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.own.as_bytes()).unwrap()
    }
}

/// A connection on which both show certificates: what the server hears.
async fn talk(server: &Files, client: &Files) -> std::io::Result<String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(server.roots(), provider.clone());
    let accepting = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(server.chain(), server.key())
        .unwrap();
    let asking = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(client.roots())
        .with_client_auth_cert(client.chain(), client.key())
        .unwrap();
    let (near, far) = tokio::io::duplex(1 << 16);
    let name = ServerName::try_from("server").unwrap();
    let speak = async {
        let mut stream = tokio_rustls::TlsConnector::from(Arc::new(asking)).connect(name, near).await?;
        stream.write_all(b"hello").await?;
        stream.shutdown().await?;
        // Open until the other has said all, too.
        Ok(stream)
    };
    let hear = async {
        let mut stream = tokio_rustls::TlsAcceptor::from(Arc::new(accepting)).accept(far).await?;
        let mut heard = String::new();
        stream.read_to_string(&mut heard).await?;
        Ok((heard, stream))
    };
    tokio::try_join!(speak, hear).map(|(_, (heard, _))| heard)
}

fn path(space: &Space) -> String {
    format!("/apis/certificates.k8s.io/v1/namespaces/{}/podcertificaterequests", space.name)
}

fn condition(kind: &str, message: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": "Test", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

/// The only request that a signer would see.
async fn pending(space: &Space, signer: &str) -> (String, Value) {
    find(space, signer, |_| true).await
}

async fn pending_of(space: &Space, signer: &str, pod: &str) -> (String, Value) {
    find(space, signer, |request| request["spec"]["podName"] == pod).await
}

async fn find(space: &Space, signer: &str, wanted: impl Fn(&Value) -> bool) -> (String, Value) {
    let all = format!("{}?fieldSelector=spec.signerName%3D{}", path(space), signer.replace('/', "%2F"));
    let found = std::sync::Mutex::new(Value::Null);
    space
        .eventually("a request", async || {
            let list = space.get(&all).await.unwrap_or_default();
            let request = list["items"].as_array().into_iter().flatten().find(|request| wanted(request));
            *found.lock().unwrap() = request.cloned().unwrap_or_default();
            request.is_some()
        })
        .await;
    let request = found.into_inner().unwrap();
    (request["metadata"]["name"].as_str().unwrap().to_owned(), request)
}

/// Issues a certificate with the pod's name, good for a day; returns the chain.
async fn sign(
    space: &Space,
    name: &str,
    request: &Value,
    issuer: &Issuer<'_, KeyPair>,
    from: Timestamp,
) -> String {
    let der = STANDARD.decode(request["spec"]["stubPKCS10Request"].as_str().unwrap()).unwrap();
    let mut asked = CertificateSigningRequestParams::from_der(&der.into()).unwrap();
    let pod = request["spec"]["podName"].as_str().unwrap();
    asked.params.subject_alt_names = CertificateParams::new([pod.to_owned()]).unwrap().subject_alt_names;
    let after = |hours: u64| Duration::from_secs(hours * 3600);
    let begin = date_time_ymd(1970, 1, 1) + Duration::from_secs(from.as_second().unsigned_abs());
    (asked.params.not_before, asked.params.not_after) = (begin, begin + after(24));
    let chain = asked.signed_by(issuer).unwrap().pem().replace("\r\n", "\n");
    let time = |hours: u64| (from + after(hours)).to_string();
    let status = json!({"status": {"conditions": [condition("Issued", "")], "certificateChain": chain,
        "notBefore": time(0), "notAfter": time(24), "beginRefreshAt": time(12)}});
    space.send(Method::PATCH, &format!("{}/{name}/status", path(space)), status).await.unwrap();
    chain
}
