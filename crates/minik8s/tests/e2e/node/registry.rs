//! Images from a registry: a mirror without TLS, credentials from the pod's secrets, and what happens without.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use minik8s_kubelet::image::{Recipe, busybox};
use serde_json::{Value, json};

use super::space::{IDLE, Space, idle, shell, state};

const USER: &str = "reader";
const PASSWORD: &str = "correct horse";
const REGISTRY: &str = "registry.example.com";

/// A registry that holds one image under any name, and gives it only to who knows the password.
struct Registry {
    manifest: (String, Bytes),
    blobs: BTreeMap<String, Bytes>,
    refused: AtomicUsize,
    served: AtomicUsize,
}

impl Registry {
    /// Takes an OCI archive apart.
    fn new() -> Registry {
        let dir = tempfile::tempdir().unwrap();
        let archive = dir.path().join("image.tar");
        busybox().unwrap().write(std::fs::File::create(&archive).unwrap()).unwrap();
        let tar =
            std::process::Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(dir.path()).status();
        assert!(tar.unwrap().success());
        let index: Value =
            serde_json::from_slice(&std::fs::read(dir.path().join("index.json")).unwrap()).unwrap();
        let digest = index["manifests"][0]["digest"].as_str().unwrap().to_owned();
        let files = std::fs::read_dir(dir.path().join("blobs/sha256")).unwrap().flatten();
        let blobs: BTreeMap<_, _> = files
            .map(|file| {
                let digest = format!("sha256:{}", file.file_name().to_str().unwrap());
                (digest, Bytes::from(std::fs::read(file.path()).unwrap()))
            })
            .collect();
        Registry {
            manifest: (digest.clone(), blobs[&digest].clone()),
            blobs,
            refused: AtomicUsize::new(0),
            served: AtomicUsize::new(0),
        }
    }

    async fn serve(self: Arc<Self>) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let registry = self.clone();
                let answer = service_fn(move |request| {
                    let registry = registry.clone();
                    async move { Ok::<_, Infallible>(registry.answer(&request)) }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer),
                );
            }
        });
        address
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let expected = format!("Basic {}", STANDARD.encode(format!("{USER}:{PASSWORD}")));
        let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        if given != Some(&expected) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            let challenge = Response::builder().status(StatusCode::UNAUTHORIZED);
            return challenge
                .header("www-authenticate", "Basic realm=\"test\"")
                .body(Full::default())
                .unwrap();
        }
        self.served.fetch_add(1, Ordering::Relaxed);
        let path = request.uri().path();
        let (digest, content, kind) = if path.contains("/manifests/") {
            (&self.manifest.0, &self.manifest.1, "application/vnd.oci.image.manifest.v1+json")
        } else {
            let wanted = path.rsplit('/').next().unwrap_or_default();
            match self.blobs.get_key_value(wanted) {
                Some((digest, content)) => (digest, content, "application/octet-stream"),
                None => return Response::builder().status(404).body(Full::default()).unwrap(),
            }
        };
        let body = if request.method() == Method::HEAD { Bytes::new() } else { content.clone() };
        let response = Response::builder().header("docker-content-digest", digest);
        response
            .header(header::CONTENT_TYPE, kind)
            .header(header::CONTENT_LENGTH, content.len())
            .body(Full::new(body))
            .unwrap()
    }
}

/// A registry that the node knows as `host`, and pull secrets for it: the right one and a wrong one.
async fn registry(space: &Space, host: &str) -> Arc<Registry> {
    let registry = Arc::new(Registry::new());
    let address = registry.clone().serve().await;
    let hosts = space.cluster.config().containerd_dir().join("registries").join(host);
    std::fs::create_dir_all(&hosts).unwrap();
    let mirror = format!(
        "server = \"https://{host}\"\n[host.\"http://{address}\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
    );
    std::fs::write(hosts.join("hosts.toml"), mirror).unwrap();
    let login = |password: &str| {
        let auth = STANDARD.encode(format!("{USER}:{password}"));
        json!({".dockerconfigjson": json!({"auths": {host: {"auth": auth}}}).to_string()})
    };
    for (name, password) in [("right", PASSWORD), ("wrong", "guess")] {
        let metadata = json!({"name": name});
        let secret = json!({"metadata": metadata, "type": "kubernetes.io/dockerconfigjson", "stringData": login(password)});
        space.create("secrets", secret).await;
    }
    registry
}

/// Volumes made of images: pulled, or loaded from an archive and never run before.
pub async fn image_volumes(space: Space) {
    let host = "volumes.example.com";
    let registry = registry(&space, host).await;
    let unpacked = space.cluster.node_dir().join("unpacked.tar");
    let recipe =
        Recipe::new("minik8s.io/words:1").file("dir/words", 0o755, b"#!/bin/sh\necho words\n".to_vec());
    recipe.write(std::fs::File::create(&unpacked).unwrap()).unwrap();
    crate::harness::cluster::load_archive(space.cluster.node_dir(), &unpacked);
    let image = |reference: String, policy: &str| json!({"reference": reference, "pullPolicy": policy});
    let volumes = json!([
        {"name": "pulled", "image": image(format!("{host}/team/files:1"), "Always")},
        {"name": "loaded", "image": image("minik8s.io/words:1".to_owned(), "Never")},
    ]);
    let script = format!(
        "cat /loaded/dir/words /part/words; head -1 /pulled/etc/passwd; touch /loaded/new 2>&1; echo; {IDLE}"
    );
    let mut main = shell("main", &script);
    main["volumeMounts"] = json!([
        {"name": "pulled", "mountPath": "/pulled"}, {"name": "loaded", "mountPath": "/loaded"},
        {"name": "loaded", "mountPath": "/part", "subPath": "dir"},
    ]);
    let spec = json!({"containers": [main], "volumes": volumes, "imagePullSecrets": [{"name": "right"}]});
    space.pod("pod", spec).await;
    space.ready("pod").await;
    let log = async || space.kubectl(&["logs", "pod"]).await;
    space.eventually("all lines", async || log().await.ends_with("\n\n")).await;
    let log = log().await;
    let (files, refused) = log.split_once("root:x:0:0:root:/root:/bin/sh\n").unwrap();
    assert_eq!(files, "#!/bin/sh\necho words\n".repeat(2));
    assert!(refused.contains("Read-only file system"), "{log}");
    assert!(registry.served.load(Ordering::Relaxed) > 0, "with Always it is asked for");

    // What is not there is told, and waited for.
    let mut missing = idle();
    missing["volumes"] = json!([{"name": "v", "image": image("minik8s.io/nothing:1".to_owned(), "Never")}]);
    space.pod("missing", missing).await;
    space.event("missing", "FailedMount", "is not present with pull policy of Never").await;
    for pod in ["pod", "missing"] {
        space.delete(pod, 1).await;
        space.deleted(pod).await;
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let images = space.cluster.config().pods_dir();
    let left =
        mounts.lines().filter(|line| line.contains(images.to_str().unwrap()) && line.contains("/images/"));
    assert_eq!(left.collect::<Vec<_>>(), Vec::<&str>::new());
}

/// A private image comes through a mirror that speaks plain HTTP, to pods that have its password and no others.
pub async fn pulls(space: Space) {
    let registry = registry(&space, REGISTRY).await;
    let pod = |image: &str, policy: &str, secrets: &[&str]| {
        let mut main = shell("main", IDLE);
        main["image"] = format!("{REGISTRY}/{image}").into();
        main["imagePullPolicy"] = policy.into();
        let secrets: Vec<_> = secrets.iter().map(|name| json!({"name": name})).collect();
        json!({"containers": [main], "imagePullSecrets": secrets, "terminationGracePeriodSeconds": 0})
    };
    space.pod("stranger", pod("team/private:1", "IfNotPresent", &[])).await;
    space.pod("impostor", pod("team/private:1", "IfNotPresent", &["wrong", "missing"])).await;
    for name in ["stranger", "impostor"] {
        let pod = space.waiting(name, "ImagePullBackOff").await;
        let message = state(&pod)["waiting"]["message"].as_str().unwrap();
        assert!(message.contains("401 Unauthorized"), "{message}");
    }
    assert!(registry.refused.load(Ordering::Relaxed) > 0);
    // One of several secrets is enough.
    space.pod("friend", pod("team/private:2", "Always", &["missing", "wrong", "right"])).await;
    let pod = space.ready("friend").await;
    assert!(pod["status"]["containerStatuses"][0]["imageID"].as_str().unwrap().contains("sha256:"));
    space
        .event("friend", "Pulled", &format!("Successfully pulled image \"{REGISTRY}/team/private:2\""))
        .await;
}
