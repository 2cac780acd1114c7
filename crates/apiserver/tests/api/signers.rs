//! Rights on signers: who approves, signs and attests needs them beside those on the objects.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::cluster::*;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const POD_REQUESTS: &str = "/apis/certificates.k8s.io/v1/namespaces/default/podcertificaterequests";
const BUNDLES: &str = "/apis/certificates.k8s.io/v1/clustertrustbundles";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// Of CN=eve in the organizations devs and system:masters.
const MASTERS: &str = "-----BEGIN CERTIFICATE REQUEST-----\n\
    MIG1MGkCAQAwNjENMAsGA1UECgwEZGV2czEXMBUGA1UECgwOc3lzdGVtOm1hc3RlcnMxDDAKBgNVBAMMA2V2ZTAqMAUGAytlcAMhAHEnn6B33nreQhkmk2hyqrq47XZCWJLMjTet8hpWf+fioAAwBQYDK2VwA0EAgJPlknStAW3DyL1VdrGPcoUlfgJlafOzPS8cBT/rFsky3kV12ZqnoQ3V0jj3w2jCESVoAQ0e0JslJDFZ0iYkAA==\n\
    -----END CERTIFICATE REQUEST-----\n";

/// A user who may write everything of the group but `signers`, where they have these rights: verb and signer.
async fn user(cluster: &Cluster, name: &str, rights: &[(&str, &str)]) -> Client {
    let own = ["certificatesigningrequests", "podcertificaterequests", "clustertrustbundles"];
    let all: Vec<String> = own
        .iter()
        .flat_map(|one| ["", "/approval", "/status"].map(|subresource| format!("{one}{subresource}")))
        .collect();
    let mut rules = vec![json!({"apiGroups": ["certificates.k8s.io"], "resources": all, "verbs": ["*"]})];
    rules.extend(rights.iter().map(|(verb, signer)| {
        json!({"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": [verb], "resourceNames": [signer]})
    }));
    let admin = cluster.admin();
    admin.post(ROLES, json!({"metadata": {"name": name}, "rules": rules})).await.ok();
    let group = "rbac.authorization.k8s.io";
    let binding = json!({"metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": name}]});
    admin.post(BINDINGS, binding).await.ok();
    let client = cluster.user(name, &[]);
    // Rules are read from a watch, so they hold a moment after they are written.
    for _ in 0..3000 {
        if client.get(REQUESTS).await.code != 403 {
            return client;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the rights of {name} do not hold");
}

fn request(name: &str, signer: &str, pem: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "request": STANDARD.encode(pem), "signerName": signer, "usages": ["client auth"]}})
}

fn condition(kind: &str) -> Value {
    json!({"status": {"conditions": [{"type": kind, "status": "True", "reason": "Why", "message": "m"}]}})
}

#[tokio::test]
async fn approval_needs_approve_on_the_signer() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    for (name, signer) in [("a", "example.com/foo"), ("b", "example.com/bar"), ("c", "other.com/foo")] {
        admin.post(REQUESTS, request(name, signer, crate::samples::SIGNING_REQUEST)).await.ok();
    }
    let approve = async |client: &Client, name: &str| {
        let path = format!("{REQUESTS}/{name}/approval?dryRun=All");
        client.patch(MERGE, &path, condition("Approved")).await
    };
    let nobody = user(&cluster, "nobody", &[]).await;
    let refused = approve(&nobody, "a").await.refused(403, "Forbidden");
    let text = "certificatesigningrequests.certificates.k8s.io \"a\" is forbidden: \
        user not permitted to approve requests with signerName \"example.com/foo\"";
    assert_eq!(refused["message"], text);
    let domain = user(&cluster, "domain", &[("approve", "example.com/*")]).await;
    approve(&domain, "a").await.ok();
    approve(&domain, "b").await.ok();
    approve(&domain, "c").await.refused(403, "Forbidden");
    let one = user(&cluster, "one", &[("approve", "example.com/foo")]).await;
    approve(&one, "a").await.ok();
    approve(&one, "b").await.refused(403, "Forbidden");
    let signer = user(&cluster, "signer", &[("sign", "example.com/*")]).await;
    approve(&signer, "a").await.refused(403, "Forbidden");
    // The signer of the stored object counts, not that of the body.
    let mut other = condition("Approved");
    other["spec"] = json!({"signerName": "example.com/foo"});
    one.patch(MERGE, &format!("{REQUESTS}/b/approval"), other).await.refused(403, "Forbidden");
    let whole = admin.get(&format!("{REQUESTS}/b")).await.ok();
    nobody.put(&format!("{REQUESTS}/b/approval"), whole).await.refused(403, "Forbidden");
    approve(&admin, "c").await.ok();
}

#[tokio::test]
async fn status_needs_sign_on_the_signer_and_approves_nothing() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let path = format!("{REQUESTS}/a/status");
    admin.post(REQUESTS, request("a", "example.com/foo", crate::samples::SIGNING_REQUEST)).await.ok();
    let approver = user(&cluster, "approver", &[("approve", "example.com/*"), ("sign", "other.com/*")]).await;
    let issued = json!({"status": {"certificate": STANDARD.encode("x")}});
    let text = "certificatesigningrequests.certificates.k8s.io \"a\" is forbidden: \
        user not permitted to sign requests with signerName \"example.com/foo\"";
    for status in [&issued, &condition("Failed")] {
        let refused = approver.patch(MERGE, &path, status.clone()).await.refused(403, "Forbidden");
        assert_eq!(refused["message"], text);
    }
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    approver.patch(MERGE, &path, label).await.ok();
    let signer = user(&cluster, "signer", &[("sign", "example.com/foo")]).await;
    let approved = signer.patch(MERGE, &path, condition("Approved")).await.ok();
    assert!(approved["status"].get("conditions").is_none(), "who signs does not approve: {approved}");
    let failed = signer.patch(MERGE, &path, condition("Failed")).await.ok();
    assert_eq!(failed["status"]["conditions"][0]["type"], "Failed");
}

#[tokio::test]
async fn pod_certificates_need_sign_on_the_signer() {
    let cluster = Cluster::start().await;
    let der: String =
        crate::samples::SIGNING_REQUEST.lines().filter(|line| !line.starts_with("-----")).collect();
    let spec = json!({"signerName": "example.com/s", "podName": "p", "podUID": "u", "serviceAccountName": "s",
        "serviceAccountUID": "u", "nodeName": "n", "nodeUID": "u", "maxExpirationSeconds": 3600, "stubPKCS10Request": der});
    cluster.admin().post(POD_REQUESTS, json!({"metadata": {"name": "a"}, "spec": spec})).await.ok();
    let denied = json!({"status": {"conditions": [{"type": "Denied", "status": "True", "reason": "Why", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    let path = format!("{POD_REQUESTS}/a/status");
    let other = user(&cluster, "other", &[("sign", "other.com/*"), ("approve", "example.com/*")]).await;
    let refused = other.patch(MERGE, &path, denied.clone()).await.refused(403, "Forbidden");
    let text = "user not permitted to sign requests with signerName \"example.com/s\"";
    assert!(refused["message"].as_str().unwrap().ends_with(text), "{refused}");
    let signer = user(&cluster, "signer", &[("sign", "example.com/*")]).await;
    signer.patch(MERGE, &path, denied).await.ok();
}

#[tokio::test]
async fn trust_bundles_of_a_signer_need_attest() {
    let cluster = Cluster::start().await;
    let pem = "-----BEGIN CERTIFICATE-----\nAAECAw==\n-----END CERTIFICATE-----\n";
    let bundle = |signer: &str| {
        let name = format!("{}:x", signer.replace('/', ":"));
        json!({"metadata": {"name": name}, "spec": {"signerName": signer, "trustBundle": pem}})
    };
    let ann = user(&cluster, "ann", &[("attest", "example.com/*")]).await;
    ann.post(BUNDLES, bundle("example.com/foo")).await.ok();
    ann.post(BUNDLES, json!({"metadata": {"name": "roots"}, "spec": {"trustBundle": pem}})).await.ok();
    let refused = ann.post(BUNDLES, bundle("other.com/foo")).await.refused(403, "Forbidden");
    let text = "clustertrustbundles.certificates.k8s.io \"other.com:foo:x\" is forbidden: \
        user not permitted to attest for signerName \"other.com/foo\"";
    assert_eq!(refused["message"], text);
    let bob = user(&cluster, "bob", &[]).await;
    let path = format!("{BUNDLES}/example.com:foo:x");
    bob.patch(MERGE, &path, json!({"metadata": {"labels": {"a": "b"}}})).await.refused(403, "Forbidden");
    bob.patch(MERGE, &path, json!({"metadata": {"finalizers": ["example.com/f"]}})).await.ok();
}

#[tokio::test]
async fn client_certificates_for_masters_cannot_be_asked_for() {
    let cluster = Cluster::start().await;
    let (admin, clients) = (cluster.admin(), "kubernetes.io/kube-apiserver-client");
    let refused = admin.post(REQUESTS, request("eve", clients, MASTERS)).await.refused(403, "Forbidden");
    let text = "certificatesigningrequests.certificates.k8s.io \"eve\" is forbidden: \
        use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
    assert_eq!(refused["message"], text);
    admin.post(REQUESTS, request("carl", clients, crate::samples::SIGNING_REQUEST)).await.ok();
    admin.post(REQUESTS, request("eve", "example.com/foo", MASTERS)).await.ok();
}
