//! The protocol over a real socket, and what is on the disk afterwards. Who may is for the API server, and its tests.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use minik8s_api::{Objects, Protocol, ReadError, Requester, ResourceRef, Scope, Stored};
use serde_json::{Value, json};

use crate::digest::Digest;
use crate::protocol::Distribution;
use crate::store::{Limits, Repository, Store};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Namespaces that exist: `a` and `b`, with UIDs of their own.
struct Cluster;

#[async_trait]
impl Objects for Cluster {
    async fn read(&self, _resource: &ResourceRef<'_>, scope: Scope<'_>) -> Result<Vec<Value>, ReadError> {
        let all = ["a", "b"].map(|name| json!({"metadata": {"name": name, "uid": uid(name)}}));
        Ok(all
            .into_iter()
            .filter(|one| scope.name.is_none_or(|name| one["metadata"]["name"] == name))
            .collect())
    }

    async fn stored(&self, resource: &ResourceRef<'_>) -> Result<Stored, ReadError> {
        Err(ReadError(format!("nobody asks for all {}", resource.plural)))
    }
}

fn uid(namespace: &str) -> String {
    format!("uid-{namespace}")
}

struct Site {
    address: SocketAddr,
    store: Arc<Store>,
    dir: tempfile::TempDir,
}

#[derive(Debug)]
struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Site {
    async fn new(limits: Limits) -> Site {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(dir.path(), limits).unwrap());
        let shelf = Arc::new(OnceLock::from(store.clone()));
        let protocol = Arc::new(Distribution(shelf));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let protocol = protocol.clone();
                let answer = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                    let protocol = protocol.clone();
                    async move {
                        let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
                        Ok::<_, Infallible>(protocol.answer(request, &Requester::default(), &Cluster).await)
                    }
                });
                let serving = hyper::server::conn::http1::Builder::new();
                tokio::spawn(serving.serve_connection(TokioIo::new(stream), answer));
            }
        });
        Site { address, store, dir }
    }

    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: r\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        let (address, message) = (self.address, [head.as_bytes(), body].concat());
        tokio::task::spawn_blocking(move || exchange(address, &message)).await.unwrap()
    }

    async fn push_blob(&self, repository: &str, content: &[u8]) -> Digest {
        let digest = Digest::of(content);
        let path = format!("/v2/{repository}/blobs/uploads/?digest={digest}");
        let answer = self.ask("POST", &path, &[], content).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        digest
    }

    async fn push_image(&self, repository: &str, tag: &str, layer: &[u8]) -> Answer {
        let config = self.push_blob(repository, b"{}").await;
        let layer_digest = self.push_blob(repository, layer).await;
        let manifest = manifest(&config, &[(&layer_digest, layer.len())]);
        let path = format!("/v2/{repository}/manifests/{tag}");
        self.ask("PUT", &path, &[("content-type", MANIFEST)], manifest.to_string().as_bytes()).await
    }

    fn files(&self, folder: &str) -> usize {
        std::fs::read_dir(self.dir.path().join(folder)).unwrap().count()
    }

    fn collect(&self, namespaces: &[&str]) -> u64 {
        let all: BTreeSet<String> = namespaces.iter().map(|name| uid(name)).collect();
        self.store.collect(&all).unwrap()
    }
}

fn exchange(address: SocketAddr, message: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    // One that refuses early may not take all of it.
    let _ = stream.write_all(message);
    let mut whole = Vec::new();
    let _ = stream.read_to_end(&mut whole);
    let end = whole.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(whole.len());
    let head = String::from_utf8_lossy(&whole[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let headers = lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Answer { status, headers, body: whole.get(end + 4..).unwrap_or_default().to_vec() }
}

fn manifest(config: &Digest, layers: &[(&Digest, usize)]) -> Value {
    let layers: Vec<Value> =
        layers.iter().map(|(digest, size)| json!({"digest": digest.to_string(), "size": size})).collect();
    json!({"schemaVersion": 2, "mediaType": MANIFEST, "layers": layers, "config": {"digest": config.to_string(), "size": 2}})
}

#[tokio::test]
async fn image_that_is_pushed_in_chunks_is_pulled() {
    let site = Site::new(Limits::default()).await;
    let base = site.ask("GET", "/v2/", &[], b"").await;
    assert_eq!((base.status, &*base.headers["docker-distribution-api-version"]), (200, "registry/2.0"));
    let begun = site.ask("POST", "/v2/a/app/blobs/uploads/?mount=sha256:00&from=b/x", &[], b"").await;
    assert_eq!(begun.status, 202, "a mount becomes an upload");
    let place = begun.headers["location"].clone();
    let first = site.ask("PATCH", &place, &[("content-range", "0-4")], b"hello").await;
    assert_eq!((first.status, &*first.headers["range"]), (202, "0-4"));
    assert_eq!(site.ask("PATCH", &place, &[("content-range", "9-11")], b"odd").await.status, 416);
    assert_eq!(site.ask("PATCH", &place, &[("content-range", "5-6")], b", ").await.status, 202);
    assert_eq!(site.ask("GET", &place, &[], b"").await.headers["range"], "0-6");
    assert_eq!(site.ask("GET", &place.replace("/a/", "/b/"), &[], b"").await.status, 404);
    let layer = Digest::of(b"hello, world");
    let ended = site.ask("PUT", &format!("{place}?digest={layer}"), &[], b"world").await;
    assert_eq!((ended.status, &*ended.headers["docker-content-digest"]), (201, &*layer.to_string()));
    let blob = format!("/v2/a/app/blobs/{layer}");
    assert_eq!(site.ask("HEAD", &blob, &[], b"").await.headers["content-length"], "12");
    assert_eq!(site.ask("GET", &blob, &[], b"").await.body, b"hello, world");
    let part = site.ask("GET", &blob, &[("range", "bytes=7-")], b"").await;
    assert_eq!(
        (part.status, part.body.as_slice(), &*part.headers["content-range"]),
        (206, &b"world"[..], "bytes 7-11/12")
    );

    assert_eq!(site.push_image("a/app", "1", b"hello, world").await.status, 201);
    assert_eq!(site.push_image("a/app", "2", b"second").await.status, 201);
    let found = site.ask("GET", "/v2/a/app/manifests/1", &[("accept", "*/*")], b"").await;
    assert_eq!((found.status, &*found.headers["content-type"]), (200, MANIFEST));
    let digest = found.headers["docker-content-digest"].clone();
    assert_eq!(digest, Digest::of(&found.body).to_string());
    let head = site.ask("HEAD", &format!("/v2/a/app/manifests/{digest}"), &[], b"").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    let tags = site.ask("GET", "/v2/a/app/tags/list?n=1", &[], b"").await;
    assert_eq!(serde_json::from_slice::<Value>(&tags.body).unwrap(), json!({"name": "a/app", "tags": ["1"]}));
    assert_eq!(tags.headers["link"], "</v2/a/app/tags/list?n=1&last=1>; rel=\"next\"");
    let rest = site.ask("GET", "/v2/a/app/tags/list?n=1&last=1", &[], b"").await;
    assert!(String::from_utf8_lossy(&rest.body).contains("[\"2\"]") && !rest.headers.contains_key("link"));
    let catalog = site.ask("GET", "/v2/_catalog", &[], b"").await;
    assert_eq!(serde_json::from_slice::<Value>(&catalog.body).unwrap(), json!({"repositories": ["a/app"]}));
}

#[tokio::test]
async fn deleted_manifest_takes_its_tags_and_then_its_blobs() {
    let site = Site::new(Limits { grace: Duration::ZERO, ..Limits::default() }).await;
    let pushed = site.push_image("a/app", "1", b"one").await;
    site.push_image("a/app", "same", b"one").await;
    site.push_image("a/app", "2", b"two").await;
    assert_eq!(site.collect(&["a"]), 0, "all are named");
    assert_eq!(site.ask("DELETE", "/v2/a/app/manifests/2", &[], b"").await.status, 202);
    assert_eq!(site.ask("GET", "/v2/a/app/manifests/2", &[], b"").await.status, 404);
    assert_eq!(site.collect(&["a"]), 0, "its digest may be somebody's");
    let path = format!("/v2/a/app/manifests/{}", pushed.headers["docker-content-digest"]);
    assert_eq!(site.ask("DELETE", &path, &[], b"").await.status, 202);
    for gone in ["1", "same"] {
        assert_eq!(site.ask("GET", &format!("/v2/a/app/manifests/{gone}"), &[], b"").await.status, 404);
    }
    assert_eq!(site.collect(&["a"]), 3, "the layer that nothing names any more");
    assert_eq!(site.ask("DELETE", &path, &[], b"").await.status, 404);
}

#[tokio::test]
async fn blob_that_is_not_what_it_says_leaves_nothing() {
    let site = Site::new(Limits::default()).await;
    let path = format!("/v2/a/app/blobs/uploads/?digest={}", Digest::of(b"other"));
    let answer = site.ask("POST", &path, &[], b"content").await;
    assert_eq!(answer.status, 400);
    assert!(String::from_utf8_lossy(&answer.body).contains("DIGEST_INVALID"), "{answer:?}");
    assert_eq!((site.files("uploads"), site.files("blobs")), (0, 0));
    assert_eq!(site.ask("POST", "/v2/a/app/blobs/uploads/?digest=md5:1", &[], b"x").await.status, 400);
    assert_eq!(site.files("uploads"), 0);
}

/// Whoever knows the digest of a blob of others has nothing of it.
#[tokio::test]
async fn repository_gives_out_only_what_was_pushed_to_it() {
    let site = Site::new(Limits::default()).await;
    let secret = site.push_blob("a/app", b"secret").await;
    for repository in ["b/app", "a/other"] {
        for method in ["HEAD", "GET"] {
            let answer = site.ask(method, &format!("/v2/{repository}/blobs/{secret}"), &[], b"").await;
            assert_eq!(answer.status, 404, "{method} {repository}");
        }
        let config = site.push_blob(repository, b"{}").await;
        let stolen = manifest(&config, &[(&secret, 6)]).to_string();
        let path = format!("/v2/{repository}/manifests/1");
        let answer = site.ask("PUT", &path, &[("content-type", MANIFEST)], stolen.as_bytes()).await;
        assert!(String::from_utf8_lossy(&answer.body).contains("MANIFEST_BLOB_UNKNOWN"), "{answer:?}");
    }
    assert_eq!(site.files("blobs"), 2, "the same content is kept once");
}

#[tokio::test]
async fn limits_hold() {
    let few = Limits { largest_blob: 10, uploads: 3, uploads_per_namespace: 2, ..Limits::default() };
    let site = Site::new(few).await;
    let large =
        site.ask("POST", &format!("/v2/a/x/blobs/uploads/?digest={}", Digest::of(b"")), &[], &[0; 11]).await;
    assert_eq!((large.status, site.files("uploads")), (413, 0));
    let begin = async |repository: &str| {
        site.ask("POST", &format!("/v2/{repository}/blobs/uploads/"), &[], b"").await
    };
    let place = begin("a/x").await.headers["location"].clone();
    assert_eq!((begin("a/y").await.status, begin("a/z").await.status), (202, 429));
    assert_eq!((begin("b/x").await.status, begin("b/y").await.status), (202, 429));
    assert_eq!(site.ask("DELETE", &place, &[], b"").await.status, 204);
    assert_eq!((begin("a/z").await.status, site.files("uploads")), (202, 3));
    let manifest = vec![b' '; crate::manifest::LARGEST + 1];
    assert_eq!(site.ask("PUT", "/v2/a/x/manifests/1", &[], &manifest).await.status, 413);
    assert_eq!(site.ask("PUT", "/v2/a/x/manifests/1", &[], b"rubbish").await.status, 400);
    assert_eq!(begin("nowhere/x").await.status, 404, "no such namespace");
    assert_eq!(site.ask("POST", "/v2/a/x/y/blobs/uploads/", &[], b"").await.status, 400);
    assert_eq!(site.ask("DELETE", &format!("/v2/a/x/blobs/{}", Digest::of(b"")), &[], b"").await.status, 405);
}

/// The client goes on where the server says that it is.
#[tokio::test]
async fn upload_that_was_cut_off_goes_on() {
    let site = Site::new(Limits::default()).await;
    let place = site.ask("POST", "/v2/a/app/blobs/uploads/", &[], b"").await.headers["location"].clone();
    {
        let mut stream = TcpStream::connect(site.address).unwrap();
        write!(stream, "PATCH {place} HTTP/1.1\r\nhost: r\r\ncontent-length: 100\r\n\r\nhello").unwrap();
        let id: uuid::Uuid = place.rsplit('/').next().unwrap().parse().unwrap();
        let repository = Repository { namespace: uid("a"), name: "app".to_owned() };
        while site.store.received(&repository, id).unwrap() < 5 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let busy = site.ask("PATCH", &place, &[], b"another").await;
        assert_eq!(busy.status, 400, "{busy:?}");
    }
    let digest = Digest::of(b"hello, world");
    // The server sees the end of the connection in its own time.
    while site.ask("PATCH", &place, &[("content-range", "5-6")], b", ").await.status != 202 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(site.ask("PUT", &format!("{place}?digest={digest}"), &[], b"world").await.status, 201);
}

#[tokio::test]
async fn collection_spares_what_a_push_needs() {
    let site = Site::new(Limits { grace: Duration::from_secs(3600), ..Limits::default() }).await;
    site.push_blob("a/app", b"fresh").await;
    assert_eq!(site.collect(&["a", "b"]), 0, "its manifest may come");
    let site = Site::new(Limits { grace: Duration::ZERO, ..Limits::default() }).await;
    let blob = site.push_blob("a/app", b"waits").await;
    let place = site.ask("POST", "/v2/a/app/blobs/uploads/", &[], b"").await.headers["location"].clone();
    assert_eq!(site.collect(&["a", "b"]), 0, "an upload goes on beside it");
    assert_eq!(site.ask("DELETE", &place, &[], b"").await.status, 204);
    assert_eq!(site.collect(&["a", "b"]), 5);
    assert_eq!(site.ask("HEAD", &format!("/v2/a/app/blobs/{blob}"), &[], b"").await.status, 404);
    assert!(site.store.repositories(&uid("a")).unwrap().is_empty(), "nothing is left of it");
}

#[tokio::test]
async fn images_go_with_their_namespace() {
    let site = Site::new(Limits::default()).await;
    site.push_image("a/app", "1", b"shared").await;
    site.push_image("b/app", "1", b"shared").await;
    site.push_image("b/app", "2", b"own").await;
    assert_eq!(site.collect(&["a"]), 3);
    assert_eq!(site.ask("GET", "/v2/b/app/manifests/1", &[], b"").await.status, 404);
    assert_eq!(site.ask("GET", "/v2/a/app/manifests/1", &[], b"").await.status, 200);
}

#[tokio::test]
async fn idle_uploads_end_and_a_restart_forgets_them() {
    let site = Site::new(Limits { idle: Duration::ZERO, uploads: 1, ..Limits::default() }).await;
    let begin = async || site.ask("POST", "/v2/a/app/blobs/uploads/", &[], b"").await;
    let first = begin().await.headers["location"].clone();
    assert_eq!(begin().await.status, 202, "the first one is given up");
    assert_eq!(site.ask("GET", &first, &[], b"").await.status, 404);
    assert_eq!(site.files("uploads"), 1);
    Store::open(site.dir.path(), Limits::default()).unwrap();
    assert_eq!(site.files("uploads"), 0);
}

#[test]
fn who_is_not_known_is_told_how_to_be() {
    let protocol = Distribution(Arc::default());
    let refused = protocol.refuse(StatusCode::UNAUTHORIZED, "Unauthorized");
    let challenge = refused.headers()["www-authenticate"].to_str().unwrap();
    assert!(challenge.starts_with("Basic realm="), "{challenge}");
    let denied = protocol.refuse(StatusCode::FORBIDDEN, "no");
    assert!(!denied.headers().contains_key("www-authenticate"));
}

/// A program of others', with uploads, manifests and deletion as it makes them.
#[tokio::test]
async fn skopeo_copies_there_and_back() {
    let site = Site::new(Limits { grace: Duration::ZERO, ..Limits::default() }).await;
    let layout = site.dir.path().join("layout");
    let blobs = layout.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    let keep = |content: &[u8]| {
        let digest = Digest::of(content);
        std::fs::write(blobs.join(digest.hex()), content).unwrap();
        (digest, content.len())
    };
    // An empty tar file.
    let layer = keep(&[0; 1024]);
    let config = json!({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": [layer.0.to_string()]}});
    let config = keep(config.to_string().as_bytes());
    let descriptor = |(digest, size): &(Digest, usize), kind: &str| json!({"mediaType": kind, "digest": digest.to_string(), "size": size});
    let image = json!({"schemaVersion": 2, "mediaType": MANIFEST,
        "config": descriptor(&config, "application/vnd.oci.image.config.v1+json"),
        "layers": [descriptor(&layer, "application/vnd.oci.image.layer.v1.tar")]});
    let image = keep(image.to_string().as_bytes());
    let index = json!({"schemaVersion": 2, "manifests": [descriptor(&image, MANIFEST)]});
    std::fs::write(layout.join("index.json"), index.to_string()).unwrap();
    std::fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    let there = format!("docker://{}/a/app:1", site.address);
    let skopeo = async |words: &[&str]| {
        let mut command = tokio::process::Command::new("skopeo");
        let output = command.arg("--insecure-policy").args(words).output().await.unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    };
    let from = format!("oci:{}", layout.display());
    skopeo(&["copy", "--dest-tls-verify=false", &from, &there]).await;
    let back = site.dir.path().join("back");
    skopeo(&["copy", "--src-tls-verify=false", &there, &format!("dir:{}", back.display())]).await;
    let pulled: Value = serde_json::from_slice(&std::fs::read(back.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(pulled["config"]["digest"], config.0.to_string());
    skopeo(&["delete", "--tls-verify=false", &there]).await;
    assert!(site.collect(&["a"]) > 0);
    assert_eq!(site.files("blobs"), 0);
}
