//! Certificates of pods' own: requested by the node, issued by a signer that is not part of the cluster.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use rcgen::{CertificateParams, CertificateSigningRequestParams, Issuer, KeyPair, date_time_ymd};
use serde_json::{Value, json};

use super::space::{Space, idle};

const SIGNER: &str = "minik8s.io/pods";

/// A pod waits for its signer, gets the key and the chain, and a refusal says why.
pub async fn certificates_of_pods(space: Space) {
    let pod = |signer: &str| {
        let source = json!({"signerName": signer, "keyType": "ECDSAP256", "credentialBundlePath": "all.pem",
            "certificateChainPath": "chain.pem", "userAnnotations": {"minik8s.io/path": "/x"}});
        let mut spec = idle();
        spec["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
        spec["volumes"] = json!([{"name": "v", "projected": {"sources": [{"podCertificate": source}]}}]);
        spec
    };
    space.pod("certified", pod(SIGNER)).await;
    let (name, request) = pending(&space, SIGNER).await;
    assert_eq!(request["spec"]["unverifiedUserAnnotations"], json!({"minik8s.io/path": "/x"}));
    let chain = sign(&space, &name, &request).await;
    space.ready("certified").await;
    assert_eq!(space.kubectl(&["exec", "certified", "--", "cat", "/v/chain.pem"]).await, chain);
    let all = space.kubectl(&["exec", "certified", "--", "cat", "/v/all.pem"]).await;
    assert!(all.starts_with("-----BEGIN PRIVATE KEY-----") && all.ends_with(&chain), "{all}");

    space.pod("denied", pod("minik8s.io/deny")).await;
    let (name, _) = pending(&space, "minik8s.io/deny").await;
    let status = json!({"status": {"conditions": [condition("Denied", "not today")]}});
    space.send(Method::PATCH, &format!("{}/{name}/status", path(&space)), status).await.unwrap();
    space.event("denied", "FailedMount", "was denied, reason=\"Test\", message=\"not today\"").await;
}

fn path(space: &Space) -> String {
    format!("/apis/certificates.k8s.io/v1/namespaces/{}/podcertificaterequests", space.name)
}

fn condition(kind: &str, message: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": "Test", "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

/// The request that a signer would see.
async fn pending(space: &Space, signer: &str) -> (String, Value) {
    let all = format!("{}?fieldSelector=spec.signerName%3D{}", path(space), signer.replace('/', "%2F"));
    let found = std::sync::Mutex::new(Value::Null);
    space
        .eventually("a request", async || {
            let list = space.get(&all).await.unwrap_or_default();
            *found.lock().unwrap() = list["items"][0].clone();
            list["items"][0].is_object()
        })
        .await;
    let request = found.into_inner().unwrap();
    (request["metadata"]["name"].as_str().unwrap().to_owned(), request)
}

/// Issues a certificate; returns the chain.
async fn sign(space: &Space, name: &str, request: &Value) -> String {
    let der = STANDARD.decode(request["spec"]["stubPKCS10Request"].as_str().unwrap()).unwrap();
    let issuer = Issuer::new(CertificateParams::default(), KeyPair::generate().unwrap());
    let mut asked = CertificateSigningRequestParams::from_der(&der.into()).unwrap();
    // A day far off: nobody renews it meanwhile.
    (asked.params.not_before, asked.params.not_after) =
        (date_time_ymd(2999, 1, 1), date_time_ymd(2999, 1, 2));
    let chain = asked.signed_by(&issuer).unwrap().pem().replace("\r\n", "\n");
    let status = json!({"status": {"conditions": [condition("Issued", "")], "certificateChain": chain,
        "notBefore": "2999-01-01T00:00:00Z", "notAfter": "2999-01-02T00:00:00Z", "beginRefreshAt": "2999-01-01T12:00:00Z"}});
    space.send(Method::PATCH, &format!("{}/{name}/status", path(space)), status).await.unwrap();
    chain
}
