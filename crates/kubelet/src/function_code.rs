//! The code of functions on this node: fetched from the cluster's registry once, by its digest, and then mounted as it is.
//!
//! It is what an image volume of containerd would show, but a cold start has no time for containerd: its view of an image
//! takes several calls, ours a look at a folder. `function-code/UID/DIGEST` is made elsewhere and renamed once every digest is
//! right, so what is there is whole. It is of one function, by its UID: whoever has a namespace after others gets none of
//! their code, since what is there is mounted without asking the registry. It goes when nothing has mounted it for a while.
//! What this module cannot fetch, and what is mounted by pods that no function owns, is left to containerd, which asks
//! every server.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use k8s_openapi::Resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minik8s_datadir::remove_tree;
use minik8s_meta::function::{CODE_REPOSITORY, Function};
use minik8s_meta::image_repository::REGISTRY_HOST;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tracing::{debug, warn};

use crate::Config;
use crate::image::ViewMount;

/// Of what is fetched; the server takes less.
const LARGEST: usize = 4 << 20;
/// Unused for as long, code goes.
const KEPT: Duration = Duration::from_secs(3600);
/// Tells attempts of this process apart.
static ATTEMPTS: AtomicU64 = AtomicU64::new(0);

/// What to mount for a volume that is the code of the function that owns this pod. `None`: it is something else, or
/// cannot be fetched here.
pub async fn mounts(
    config: &Config,
    client: &kube::Client,
    pod: &ObjectMeta,
    reference: &str,
) -> Option<Vec<ViewMount>> {
    let namespace = pod.namespace.as_deref()?;
    let (repository, digest) = parse(namespace, reference)?;
    let parent = config.function_code_dir().join(owner(pod)?);
    let folder = parent.join(digest);
    if touch(&folder).is_err()
        && let Err(error) = fetch(client, namespace, repository, digest, &parent).await
    {
        debug!(%error, reference, "the code of a function is left to containerd");
        return None;
    }
    let source = folder.to_string_lossy().into_owned();
    let options = vec!["bind".to_owned(), "ro".to_owned()];
    Some(vec![ViewMount { kind: "bind".to_owned(), source, options }])
}

/// The repository and the hexadecimal digits of `HOST/NAMESPACE/function-code.NAME@sha256:DIGITS`.
fn parse<'a>(namespace: &str, reference: &'a str) -> Option<(&'a str, &'a str)> {
    let path = reference.strip_prefix(REGISTRY_HOST)?.strip_prefix('/')?;
    let (name, digest) = path.strip_prefix(namespace)?.strip_prefix('/')?.split_once("@sha256:")?;
    let is_hex =
        digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let is_code = name.starts_with(CODE_REPOSITORY) && !name.contains(['/', ':', '%', '?']);
    (is_hex && is_code).then_some((name, digest))
}

/// The UID of the function that the pod is an instance of. Whoever makes a pod writes it, so that it is looked at before it
/// becomes part of a path; nobody knows those of others' functions.
fn owner(pod: &ObjectMeta) -> Option<&str> {
    let owner = pod.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    let is_function = owner.kind == Function::KIND && owner.api_version == Function::API_VERSION;
    let is_uid = owner.uid.len() == 36 && owner.uid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    (is_function && is_uid).then_some(owner.uid.as_str())
}

/// Says that it is used.
fn touch(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.set_modified(SystemTime::now())
}

async fn fetch(
    client: &kube::Client,
    namespace: &str,
    repository: &str,
    digest: &str,
    parent: &Path,
) -> Result<(), String> {
    let path = format!("/v2/{namespace}/{repository}");
    let manifest = get(client, &format!("{path}/manifests/sha256:{digest}"), digest).await?;
    let manifest: Value = serde_json::from_slice(&manifest).map_err(|error| error.to_string())?;
    let layer = match manifest["layers"].as_array().map(Vec::as_slice) {
        Some([layer]) => layer["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:")),
        _ => None,
    };
    let layer = layer.ok_or("the image is not one of a single layer")?.to_owned();
    let content = get(client, &format!("{path}/blobs/sha256:{layer}"), &layer).await?;
    let (parent, digest) = (parent.to_owned(), digest.to_owned());
    let kept = tokio::task::spawn_blocking(move || keep(&parent, &digest, &content)).await;
    kept.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

/// Something of the registry that has this digest.
async fn get(client: &kube::Client, path: &str, digest: &str) -> Result<Vec<u8>, String> {
    let request = http::Request::get(path).body(kube::client::Body::empty()).map_err(|e| e.to_string())?;
    let answer = client.send(request).await.map_err(|error| error.to_string())?;
    if !answer.status().is_success() {
        return Err(format!("{path}: the server answers {}", answer.status()));
    }
    let body = http_body_util::Limited::new(answer.into_body(), LARGEST);
    let body = http_body_util::BodyExt::collect(body).await.map_err(|error| format!("{path}: {error}"))?;
    let bytes = body.to_bytes().to_vec();
    let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if found == digest { Ok(bytes) } else { Err(format!("{path}: the content has the digest {found}")) }
}

/// Unpacks a layer of plain files, and gives it its name once it is whole.
fn keep(parent: &Path, digest: &str, layer: &[u8]) -> io::Result<()> {
    fs::create_dir_all(parent)?;
    let attempt = ATTEMPTS.fetch_add(1, Ordering::Relaxed);
    let name = format!("{digest}.{}-{attempt}.new", std::process::id());
    let made = parent.join(&name);
    fs::create_dir(&made)?;
    let done = unpack(&made, layer).and_then(|()| fs::rename(&made, parent.join(digest)));
    if done.is_err() {
        remove_tree(parent, &name).map_err(io::Error::other)?;
    }
    match done {
        // Another pod was quicker.
        Err(_) if parent.join(digest).is_dir() => Ok(()),
        done => done,
    }
}

fn unpack(folder: &Path, layer: &[u8]) -> io::Result<()> {
    let odd = || io::Error::new(io::ErrorKind::InvalidData, "the layer has more than plain files");
    for entry in tar::Archive::new(layer).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let name = path.to_str().filter(|name| !name.contains('/') && !matches!(*name, "" | "." | ".."));
        let name = name.filter(|_| entry.header().entry_type().is_file()).ok_or_else(odd)?;
        let mut file = fs::File::create_new(folder.join(name))?;
        io::copy(&mut entry.by_ref().take(LARGEST as u64), &mut file)?;
        file.flush()?;
        file.sync_all()?;
    }
    Ok(())
}

/// Removes what nobody has used for a while and nobody has mounted. Blocks.
pub fn collect(config: &Config) {
    let root = config.function_code_dir();
    let mounted = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for function in folders(&root) {
        let parent = root.join(&function);
        for name in folders(&parent).into_iter().filter(|name| is_old(&parent.join(name))) {
            if is_mounted(&mounted, &function, &name) {
                continue;
            }
            if let Err(error) = remove_tree(&parent, &name) {
                warn!(%error, "code of a function stays");
            }
        }
        // Only where it is empty.
        let _ = fs::remove_dir(&parent);
    }
}

fn is_old(folder: &Path) -> bool {
    let modified = fs::metadata(folder).and_then(|found| found.modified());
    // A clock that was set back makes nothing old.
    modified.is_ok_and(|modified| SystemTime::now().duration_since(modified).is_ok_and(|age| age >= KEPT))
}

/// Whether some mount shows this folder: the fourth word of a line is what of its file system it shows.
fn is_mounted(mounts: &str, function: &str, name: &str) -> bool {
    let end = format!("/{NAME}/{function}/{name}");
    mounts.lines().any(|line| line.split(' ').nth(3).is_some_and(|root| root.ends_with(&end)))
}

/// The folder in the data dir.
pub const NAME: &str = "function-code";

fn folders(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let found = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    found.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::*;

    #[test]
    fn reference_is_of_the_namespace_and_of_code() {
        let hex = "0a".repeat(32);
        let check = |reference: &str, expected: Option<&str>| {
            let reference = reference.replace("HEX", &hex);
            let found = parse("shop", &reference).map(|(name, _)| name);
            assert_eq!(found, expected, "{reference}");
        };
        check("registry.minik8s.local/shop/function-code.f@sha256:HEX", Some("function-code.f"));
        check("registry.minik8s.local/other/function-code.f@sha256:HEX", None);
        check("registry.minik8s.local/shopping/function-code.f@sha256:HEX", None);
        check("registry.minik8s.local/shop/app@sha256:HEX", None);
        check("registry.minik8s.local/shop/function-code.f:1", None);
        check("registry.minik8s.local/shop/function-code.f@sha256:../../x", None);
        check("registry.minik8s.local/shop/function-code./../x@sha256:HEX", None);
        check("docker.io/shop/function-code.f@sha256:HEX", None);
    }

    /// A namespace that is made again has functions of its own, whatever they are called.
    #[test]
    fn code_is_of_the_function_that_owns_the_pod() {
        const UID: &str = "0b6f3f4e-8f6a-4c3e-9d53-0d3c1f0b7a11";
        let pod = |kind: &str, controller: bool, uid: &str| ObjectMeta {
            namespace: Some("shop".to_owned()),
            owner_references: Some(vec![OwnerReference {
                api_version: "minik8s.io/v1".to_owned(),
                kind: kind.to_owned(),
                name: "thumb".to_owned(),
                uid: uid.to_owned(),
                controller: Some(controller),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        };
        assert_eq!(owner(&pod("Function", true, UID)), Some(UID));
        let again = UID.replace("0b6f", "1c70");
        assert_eq!(owner(&pod("Function", true, &again)), Some(again.as_str()), "a folder of its own");
        assert_eq!(owner(&pod("Function", false, UID)), None);
        assert_eq!(owner(&pod("ReplicaSet", true, UID)), None);
        assert_eq!(owner(&ObjectMeta::default()), None);
        for hostile in
            ["", "..", "shop", "../../../../../../../../../../tmp/xy", "0b6f3f4e/8f6a/4c3e/9d53/0d3c1f0b7a11"]
        {
            assert_eq!(owner(&pod("Function", true, hostile)), None, "{hostile}");
        }
    }

    fn layer(entries: &[(&str, tar::EntryType)]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, kind) in entries {
            let mut header = tar::Header::new_gnu();
            // Past the library's own checks, as a hostile server would.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            header.set_mode(0o644);
            header.set_size(1);
            header.set_cksum();
            tar.append(&header, &b"x"[..]).unwrap();
        }
        tar.into_inner().unwrap()
    }

    #[test]
    fn code_is_kept_whole_or_not_at_all() {
        use tar::EntryType::{Regular, Symlink};
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path().join("shop");
        for bad in [
            layer(&[("main.py", Regular), ("../x", Regular)]),
            layer(&[("/x", Regular)]),
            layer(&[("a", Symlink)]),
            layer(&[("main.py", Regular)])[..600].to_vec(),
        ] {
            assert!(keep(&parent, "digest", &bad).is_err());
            assert!(folders(&parent).is_empty(), "nothing is left");
        }
        for _ in 0..2 {
            keep(&parent, "digest", &layer(&[("main.py", Regular)])).unwrap();
            assert_eq!(folders(&parent), ["digest"]);
        }
        assert_eq!(fs::read(parent.join("digest/main.py")).unwrap(), b"x");
    }

    #[test]
    fn code_goes_when_it_is_old_and_not_mounted() {
        let line = "36 35 98:0 /var/lib/minik8s/function-code/shop/0a /pods/x rw,noatime - ext3 /dev/root rw";
        assert!(
            is_mounted(line, "shop", "0a")
                && !is_mounted(line, "shop", "0b")
                && !is_mounted(line, "op", "0a")
        );
        let dir = tempfile::tempdir().unwrap();
        let config = Config::new("n", dir.path(), "127.0.0.1".parse().unwrap());
        let parent = config.function_code_dir().join("shop");
        for (name, age) in [("new", 0), ("old", 7200)] {
            fs::create_dir_all(parent.join(name)).unwrap();
            let then = SystemTime::now() - Duration::from_secs(age);
            fs::File::open(parent.join(name)).unwrap().set_modified(then).unwrap();
        }
        collect(&config);
        assert_eq!(folders(&parent), ["new"]);
    }
}
