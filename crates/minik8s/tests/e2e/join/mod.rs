//! Machines that join, and those that must not: the real server, the real join, no containers.

mod requests;
mod server;

use std::os::unix::fs::PermissionsExt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use minik8s_auth::bootstrap_token::{BootstrapToken, JoinToken};
use minik8s_join::{JoinError, Joining, join};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use server::{Server, TIMEOUT, files};

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

#[track_caller]
fn forbidden<T: std::fmt::Debug>(answer: Result<T, kube::Error>) {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 403 => {}
        other => panic!("it must be forbidden: {other:?}"),
    }
}

/// A pod on a node that reads a secret of the same name.
async fn pod_with_secret(admin: &kube::Client, name: &str, node: &str) {
    let secrets: Api<Secret> = Api::namespaced(admin.clone(), "default");
    secrets.create(&PostParams::default(), &object(json!({"metadata": {"name": name}}))).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(admin.clone(), "default");
    let pod = json!({"metadata": {"name": name}, "spec": {
        "nodeName": node, "containers": [{"name": "c", "image": "x"}],
        "volumes": [{"name": "v", "secret": {"secretName": name}}]}});
    let begun = std::time::Instant::now();
    // The namespace's service account comes a moment after the start.
    while let Err(error) = pods.create(&PostParams::default(), &object(pod.clone())).await {
        assert!(begun.elapsed() < TIMEOUT, "{error}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_node_touches_only_what_is_its_own() {
    let server = Server::start().await;
    let (one, _dir_one) = server.join("one").await;
    let (two, _dir_two) = server.join("two").await;
    for member in [&one, &two] {
        let nodes: Api<Node> = Api::all(member.client());
        let own = json!({"metadata": {"name": member.node_name}, "spec": {}});
        nodes.create(&PostParams::default(), &object(own)).await.unwrap();
    }
    let admin = server.admin().await;
    pod_with_secret(&admin, "of-one", "one").await;
    pod_with_secret(&admin, "of-two", "two").await;

    let client = one.client();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    secrets.get("of-one").await.unwrap();
    forbidden(secrets.get("of-two").await);
    forbidden(secrets.list(&ListParams::default()).await);
    forbidden(Api::<Secret>::all(client.clone()).list(&ListParams::default()).await);
    // The join token itself is a secret.
    let tokens: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    forbidden(tokens.get(&server.token().token.secret_name()).await);

    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let status = Patch::Merge(json!({"status": {"phase": "Running"}}));
    pods.patch_status("of-one", &PatchParams::default(), &status).await.unwrap();
    forbidden(pods.patch_status("of-two", &PatchParams::default(), &status).await);
    // What its own pods are is not its to say: labels lead traffic to them, claims give them devices.
    for taken in [
        json!({"metadata": {"labels": {"app": "payments"}}}),
        json!({"metadata": {"annotations": {"a": "b"}}}),
        json!({"status": {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "of-two"}]}}),
    ] {
        forbidden(pods.patch_status("of-one", &PatchParams::default(), &Patch::Merge(taken)).await);
    }
    forbidden(pods.delete("of-two", &DeleteParams::default()).await);
    let trick = json!({"metadata": {"name": "trick"}, "spec": {"nodeName": "one", "containers": [{"name": "c", "image": "x"}]}});
    forbidden(pods.create(&PostParams::default(), &object(trick)).await);

    let nodes: Api<Node> = Api::all(client.clone());
    let label = |name: &str| Patch::Merge(json!({"metadata": {"labels": {name: "x"}}}));
    nodes.patch("one", &PatchParams::default(), &label("disk")).await.unwrap();
    forbidden(nodes.patch("two", &PatchParams::default(), &label("disk")).await);
    forbidden(nodes.patch("one", &PatchParams::default(), &label("node-restriction.kubernetes.io/x")).await);
    let range = Patch::Merge(json!({"spec": {"podCIDR": "10.244.9.0/24"}}));
    // Refused, or, once the cluster has given one, left as it is.
    if let Ok(node) = nodes.patch("one", &PatchParams::default(), &range).await {
        assert_ne!(node.spec.unwrap().pod_cidr.as_deref(), Some("10.244.9.0/24"));
    }
    forbidden(nodes.delete("two", &DeleteParams::default()).await);
    let other = object(json!({"metadata": {"name": "three"}}));
    forbidden(nodes.create(&PostParams::default(), &other).await);
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let lease = |name: &str| object(json!({"metadata": {"name": name}, "spec": {}}));
    leases.create(&PostParams::default(), &lease("one")).await.unwrap();
    forbidden(leases.create(&PostParams::default(), &lease("two")).await);
    forbidden(become_admin(&client).await);
    // What all nodes must know, they may know.
    let settings: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    let settings = settings.get("minik8s-cluster").await.unwrap().data.unwrap();
    assert_eq!(settings["dns.address"], "10.96.0.10");
    nodes.delete("one", &DeleteParams::default()).await.unwrap();
}

async fn become_admin(client: &kube::Client) -> Result<ClusterRoleBinding, kube::Error> {
    let binding = json!({
        "metadata": {"name": "mine"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}],
    });
    Api::<ClusterRoleBinding>::all(client.clone()).create(&PostParams::default(), &object(binding)).await
}

#[tokio::test]
async fn a_join_token_opens_no_other_door() {
    let server = Server::start().await;
    let bearer = server.bearer(&server.token().token.reveal()).await;
    forbidden(Api::<Node>::all(bearer.clone()).list(&ListParams::default()).await);
    forbidden(Api::<Secret>::namespaced(bearer.clone(), "kube-system").list(&ListParams::default()).await);
    forbidden(Api::<Pod>::namespaced(bearer.clone(), "default").list(&ListParams::default()).await);
    forbidden(become_admin(&bearer).await);

    // Certificates that make more than a node of somebody are never given by themselves.
    let api: Api<CertificateSigningRequest> = Api::all(bearer.clone());
    let check =
        |name: &'static str, signer: &'static str, common: &'static str, organization: &'static str| {
            let api = api.clone();
            async move {
                let request = requests::request(name, signer, common, organization);
                match api.create(&PostParams::default(), &request).await {
                    Ok(_) => {}
                    // Refused at the door is as good.
                    Err(kube::Error::Api(status)) if matches!(status.code, 403 | 422) => return,
                    Err(error) => panic!("{error}"),
                }
                tokio::time::sleep(std::time::Duration::from_millis(500)).await;
                let status = api.get(name).await.unwrap().status.unwrap_or_default();
                let approved =
                    status.conditions.iter().flatten().any(|condition| condition.type_ == "Approved");
                assert!(!approved && status.certificate.is_none(), "{name}: {status:?}");
            }
        };
    check("masters", "kubernetes.io/kube-apiserver-client", "me", "system:masters").await;
    check("user", "kubernetes.io/kube-apiserver-client", "me", "friends").await;
    check("node-masters", "kubernetes.io/kube-apiserver-client-kubelet", "system:node:x", "system:masters")
        .await;
    check("not-a-node", "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes-admin", "system:nodes")
        .await;
    check("serving", "kubernetes.io/kubelet-serving", "system:node:x", "system:nodes").await;
    // A bearer may not approve either.
    let approval = Patch::Merge(
        json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Me", "message": ""}]}}),
    );
    let approved: Result<CertificateSigningRequest, _> =
        api.patch_subresource("approval", "user", &PatchParams::default(), &approval).await;
    forbidden(approved);
}

/// The store holds every Secret, the rest are keys.
#[tokio::test]
async fn what_a_server_keeps_is_closed_to_others() {
    let server = Server::start().await;
    let mut closed = 0;
    for path in files(&server.dir()) {
        if path.ends_with("log") {
            // Whoever collects logs reads it: it may say where secrets are, never what they are.
            let (log, token) = (std::fs::read_to_string(&path).unwrap(), server.token());
            let secret = token.token.reveal();
            let secret = secret.split('.').next_back().unwrap();
            assert!(log.contains("minik8s token create"), "{log}");
            assert!(!log.contains(secret) && !log.contains("PRIVATE KEY") && !log.contains("eyJ"), "{log}");
            continue;
        }
        let is_public = path.ends_with("ca.crt");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert!(is_public || mode == 0o600, "{}: {mode:o}", path.display());
        closed += usize::from(mode == 0o600);
    }
    assert!(closed >= 7, "{:?}", files(&server.dir()));
}

#[tokio::test]
async fn what_goes_wrong_is_said() {
    let server = Server::start().await;
    let given = server.token();
    let wrong_secret = JoinToken {
        token: BootstrapToken::parse(&format!("{}.0123456789abcdef", given.token.id)).unwrap(),
        pin: given.pin.clone(),
    };
    let (error, text) = server.refusal(|joining| joining.token = Some(wrong_secret)).await;
    assert!(matches!(error, JoinError::TokenRefused) && text.contains("minik8s token create"), "{text}");

    let expired = BootstrapToken::generate();
    let secret = expired.to_secret("", Some(Timestamp::now() - SignedDuration::from_secs(1)));
    let secrets: Api<Secret> = Api::namespaced(server.admin().await, "kube-system");
    secrets.create(&PostParams::default(), &object(secret)).await.unwrap();
    let expired = JoinToken { token: expired, pin: given.pin.clone() };
    let (error, _) = server.refusal(|joining| joining.token = Some(expired)).await;
    assert!(matches!(error, JoinError::TokenRefused), "{error}");

    let elsewhere = JoinToken { pin: "00".repeat(32), ..given };
    let (error, text) = server.refusal(|joining| joining.token = Some(elsewhere)).await;
    assert!(matches!(error, JoinError::WrongAuthority { .. }), "{text}");
    assert!(text.contains("another key"), "{text}");

    let nowhere = vec!["https://127.0.0.1:1".parse().unwrap()];
    let (error, text) = server.refusal(|joining| joining.servers = nowhere).await;
    assert!(matches!(error, JoinError::Unreachable(_)) && text.contains("https://127.0.0.1:1"), "{text}");

    let (error, text) = server.refusal(|joining| joining.token = None).await;
    assert!(matches!(error, JoinError::NothingKnown) && text.contains("--token"), "{text}");

    let admin = server.admin().await;
    let nodes: Api<Node> = Api::all(admin);
    let taken = json!({"metadata": {"name": "newcomer"}, "status": {"nodeInfo": {
        "kubeletVersion": "v1", "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
        "containerRuntimeVersion": "", "kubeProxyVersion": "", "operatingSystem": "", "architecture": ""}}});
    nodes.create(&PostParams::default(), &object(taken.clone())).await.unwrap();
    nodes
        .patch_status("newcomer", &PatchParams::default(), &Patch::Merge(json!({"status": taken["status"]})))
        .await
        .unwrap();
    let (error, text) = server.refusal(|_| {}).await;
    assert!(matches!(error, JoinError::Denied(_)) && text.contains("kubectl delete node newcomer"), "{text}");
}

#[tokio::test]
async fn a_node_stays_what_it_is() {
    let server = Server::start().await;
    let directory = tempfile::tempdir().unwrap();
    // A Node that was only written down is there to be joined.
    let nodes: Api<Node> = Api::all(server.admin().await);
    nodes.create(&PostParams::default(), &object(json!({"metadata": {"name": "one"}}))).await.unwrap();
    let mut joining = server.joining(directory.path(), "one");
    joining.servers.insert(0, "https://127.0.0.1:1".parse().unwrap());
    join(joining).await.unwrap();
    for path in files(directory.path()) {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let is_public = path.ends_with("ca.crt") || path.ends_with("servers");
        assert_eq!(mode, if is_public { 0o644 } else { 0o600 }, "{}", path.display());
    }
    assert_eq!(minik8s_join::known_name(directory.path()).as_deref(), Some("one"));

    let again = |name: &str| Joining {
        directory: directory.path().to_owned(),
        node_name: name.to_owned(),
        addresses: Vec::new(),
        servers: Vec::new(),
        token: None,
    };
    assert!(matches!(join(again("two")).await, Err(JoinError::OtherName { .. })));
    let member = join(again("one")).await.unwrap();
    let own: Api<Node> = Api::all(member.client());
    own.get("one").await.unwrap();

    let certificate = || std::fs::read(directory.path().join("client.pem")).unwrap();
    let before = (certificate(), member.serving.current());
    member.renew_due(Timestamp::now()).await.unwrap();
    assert_eq!(certificate(), before.0, "nothing was due");
    member.renew_due(Timestamp::now() + SignedDuration::from_hours(24 * 300)).await.unwrap();
    assert_ne!(certificate(), before.0);
    assert_ne!(member.serving.current().cert, before.1.cert);
    own.get("one").await.unwrap();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())
        .unwrap();
    let who: Value = member.client().request(request).await.unwrap();
    assert_eq!(who["status"]["userInfo"]["username"], "system:node:one");
}

/// The token that the server keeps in its data dir, which nobody asked for, is not good for ever.
#[tokio::test]
async fn standing_token_expires_and_is_renewed_on_demand() {
    let server = Server::start().await;
    let log = server.log();
    let first = server.token();
    assert!(!log.contains(&first.token.reveal()), "the join token is in the log: {log}");
    let info = async |token: &JoinToken| {
        let secrets: Api<Secret> = Api::namespaced(server.admin().await, "kube-system");
        let secret = secrets.get(&token.token.secret_name()).await.unwrap();
        minik8s_auth::bootstrap_token::TokenInfo::read(&serde_json::to_value(secret).unwrap()).unwrap()
    };
    let (day, now) = (SignedDuration::from_hours(24), Timestamp::now());
    let expiration = info(&first).await.expiration.unwrap();
    assert!(expiration > now + day / 2 && expiration <= now + day, "{expiration}");
    let renewed = server.token_command(&["renew"]);
    assert!(renewed.status.success(), "{renewed:?}");
    let second = server.token();
    assert!(second != first && second.pin == first.pin);
    assert!(info(&second).await.expiration >= Some(expiration));
    for (token, name) in [(first, "one"), (second, "two")] {
        let directory = tempfile::tempdir().unwrap();
        let joining = server.joining(directory.path(), name);
        join(Joining { token: Some(token), ..joining }).await.unwrap();
    }
}

#[tokio::test]
async fn tokens_are_made_listed_and_revoked() {
    let server = Server::start().await;
    let list = || String::from_utf8(server.token_command(&["list"]).stdout).unwrap();
    let own = server.token().token.id;
    assert!(list().lines().any(|line| line.starts_with(&own) && !line.contains("never")), "{}", list());
    let made = server.token_command(&["create", "--ttl", "1h", "--description", "for a test"]);
    let told = String::from_utf8(made.stderr).unwrap();
    assert!(told.contains(&format!("minik8s agent --server {} --token @", server.address())), "{told}");
    let token: JoinToken = String::from_utf8(made.stdout).unwrap().parse().unwrap();
    assert!(!told.contains(&token.reveal()), "the token is on standard output alone: {told}");
    assert!(
        list().lines().any(|l| l.starts_with(&token.token.id) && l.ends_with("for a test")),
        "{}",
        list()
    );
    let directory = tempfile::tempdir().unwrap();
    let joining = server.joining(directory.path(), "one");
    join(Joining { token: Some(token), ..joining }).await.unwrap();
    let revoked = server.token_command(&["revoke", &own]);
    assert!(revoked.status.success(), "{revoked:?}");
    assert!(!list().contains(&own), "{}", list());
    let (error, _) = server.refusal(|_| {}).await;
    assert!(matches!(error, JoinError::TokenRefused), "{error}");
    let again = server.token_command(&["revoke", &own]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("there is no token"), "{again:?}");
}
