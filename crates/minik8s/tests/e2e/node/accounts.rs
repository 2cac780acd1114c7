//! Service accounts, as pods see them: credentials in files, and what they are good for.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::future::join_all;
use http::Method;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::{Value, json};

use super::space::{IDLE, Space, once, shell};

/// Where every pod finds its credentials.
const DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Every container of a pod finds a token, the cluster's certificate and its namespace.
pub async fn mounted_credentials(space: Space) {
    let files = ["token", "ca.crt", "namespace"];
    let containers = files.map(|file| {
        let name = file.replace('.', "-");
        shell(&name, &format!("cat {DIR}/{file}; echo; {IDLE}"))
    });
    space.create("serviceaccounts", json!({"metadata": {"name": "own"}})).await;
    space.pod("pod", json!({"containers": containers, "serviceAccountName": "own"})).await;
    space.ready("pod").await;
    let log = async |container: &str| {
        let read = async || space.kubectl(&["logs", "pod", "-c", container]).await;
        space.eventually("something read", async || !read().await.is_empty()).await;
        read().await.trim().to_owned()
    };
    let review = space.review(&log("token").await, &[]).await;
    assert_eq!(review["authenticated"], true, "{review}");
    assert_eq!(review["user"]["username"], format!("system:serviceaccount:{}:own", space.name));
    let root = space.get(&space.path("configmaps", "kube-root-ca.crt")).await.unwrap();
    assert_eq!(log("ca-crt").await, root["data"]["ca.crt"].as_str().unwrap().trim());
    assert_eq!(log("namespace").await, space.name);
}

/// The pod has the last word on whether it gets credentials, its account the word before.
pub async fn opting_out_of_credentials(space: Space) {
    let choices = [("unset", None), ("yes", Some(true)), ("no", Some(false))];
    for (name, choice) in choices {
        let mut account = json!({"metadata": {"name": name}});
        if let Some(choice) = choice {
            account["automountServiceAccountToken"] = choice.into();
        }
        space.create("serviceaccounts", account).await;
    }
    let all = choices.into_iter().flat_map(|of_pod| choices.map(|of_account| (of_pod, of_account)));
    let space = &space;
    let runs = all.map(|((pod_name, of_pod), (account, of_account))| async move {
        let mut spec = once(&format!("test -s {DIR}/token && echo mounted || echo nothing"));
        spec["serviceAccountName"] = account.into();
        if let Some(choice) = of_pod {
            spec["automountServiceAccountToken"] = choice.into();
        }
        let name = format!("pod-{pod_name}-account-{account}");
        let want = if of_pod.or(of_account).unwrap_or(true) { "mounted\n" } else { "nothing\n" };
        assert_eq!(space.output(&name, spec).await, want, "{name}");
    });
    join_all(runs).await;
}

/// The cluster's certificate is in every namespace, whatever people do to it.
pub async fn root_certificates(space: Space) {
    let path = space.path("configmaps", "kube-root-ca.crt");
    let data = async || space.get(&path).await.map(|map| map["data"].clone());
    space.eventually("made", async || data().await.is_some()).await;
    let made = data().await.unwrap();
    assert!(made["ca.crt"].as_str().unwrap().starts_with("-----BEGIN CERTIFICATE-----"), "{made}");
    space.send(Method::DELETE, &path, Value::Null).await.unwrap();
    space.eventually("made again", async || data().await.as_ref() == Some(&made)).await;
    let patch = json!({"data": {"ca.crt": null, "other": "value"}});
    space.send(Method::PATCH, &path, patch).await.unwrap();
    space.eventually("put right", async || data().await.as_ref() == Some(&made)).await;
}

/// A pod finds, with nothing but its own credentials, the keys that verify its token.
pub async fn discovery_of_the_issuer(space: Space) {
    let kubectl = std::fs::canonicalize(find("kubectl")).unwrap();
    let script = format!(
        r#"call() {{ /tools/{program} --certificate-authority={DIR}/ca.crt --token="$(cat {DIR}/token)" --server="$1" get --raw "$2"; }}
        issuer=$(call "https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT" /.well-known/openid-configuration)
        keys=$(echo "$issuer" | sed 's/.*"jwks_uri": *"\([^"]*\)".*/\1/')
        echo "$issuer"; call "${{keys%/openid/v1/jwks}}" /openid/v1/jwks; echo; cat /own/token"#,
        program = kubectl.file_name().unwrap().to_str().unwrap(),
    );
    let mut spec = once(&script);
    spec["containers"][0]["volumeMounts"] = json!([
        {"name": "tools", "mountPath": "/tools", "readOnly": true}, {"name": "own", "mountPath": "/own"},
    ]);
    let source =
        json!({"serviceAccountToken": {"path": "token", "audience": "somebody", "expirationSeconds": 7200}});
    spec["volumes"] = json!([
        {"name": "tools", "hostPath": {"path": kubectl.parent().unwrap()}},
        {"name": "own", "projected": {"sources": [source]}},
    ]);
    let log = space.output("pod", spec).await;
    let lines: Vec<&str> = log.lines().filter(|line| !line.is_empty()).collect();
    let [issuer, keys, token] = lines[..] else { panic!("{log}") };
    let (issuer, keys): (Value, Value) =
        (serde_json::from_str(issuer).unwrap(), serde_json::from_str(keys).unwrap());
    assert_eq!(issuer["response_types_supported"], json!(["id_token"]));
    assert_eq!(issuer["subject_types_supported"], json!(["public"]));
    assert_eq!(issuer["id_token_signing_alg_values_supported"], json!(["ES256"]));

    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).unwrap();
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let parts: Vec<Value> =
        signed.split('.').map(|part| serde_json::from_slice(&decode(part)).unwrap()).collect();
    let (header, claims) = (&parts[0], &parts[1]);
    assert_eq!(header["alg"], "ES256");
    let key = keys["keys"].as_array().unwrap().iter().find(|key| key["kid"] == header["kid"]).unwrap();
    let half = |name: &str| decode(key[name].as_str().unwrap());
    let point = [vec![4], half("x"), half("y")].concat();
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
    key.verify(signed.as_bytes(), &decode(signature)).unwrap();
    assert_eq!((&claims["aud"], &claims["iss"]), (&json!(["somebody"]), &issuer["issuer"]));
    assert_eq!(claims["sub"], format!("system:serviceaccount:{}:default", space.name));
    let review = space.review(token, &["somebody"]).await;
    assert_eq!((&review["authenticated"], &review["audiences"]), (&json!(true), &json!(["somebody"])));
}

/// A program of the host's.
fn find(program: &str) -> std::path::PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.exists()).unwrap()
}

impl Space {
    /// What the API server thinks of a token.
    async fn review(&self, token: &str, audiences: &[&str]) -> Value {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": token, "audiences": audiences}});
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        self.send(Method::POST, path, review).await.unwrap()["status"].clone()
    }
}
