//! The code of functions in the registry: one layer for each revision, which nodes fetch by its digest.
//!
//! A revision's ConfigMap has the code only until the server that leads has put it there; then it names the image, and is
//! what keeps it from being collected. The code of the newest revision stands in the Function too: a server that begins to lead
//! puts that into its own registry where it is missing, since each server has one of its own.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use minik8s_api::Requester;
use minik8s_feature::Parts;
use minik8s_meta::error_chain;
use minik8s_meta::function::{
    CODE_ANNOTATION, CODE_REPOSITORY, FUNCTION_LABEL, Function, FunctionCode, FunctionSpec,
};
use minik8s_registry::client::{PushError, Repository};
use minik8s_runtime::{Backoff, Caches, Key, Queue, key_of};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::validate::LARGEST_ZIP;
use crate::zip::{self, ZipError};
use crate::{build, image, revision};

/// At once; the registry has bounds of its own.
const PUSHES: usize = 4;
const RETRY: Backoff = Backoff { first: Duration::from_millis(200), most: Duration::from_secs(20) };

/// Why code does not come back from the registry.
#[derive(Debug, Error)]
pub enum CodeError {
    #[error("the registry does not have it any more")]
    Registry(#[from] PushError),
    #[error("what the registry has is not the code of a function")]
    Broken,
}

/// The code of a revision that is kept, from its ConfigMap or from the registry; none where it has an image of its own.
pub async fn of_revision(client: &Client, map: &ConfigMap) -> Result<Option<FunctionCode>, CodeError> {
    if let Some(code) = revision::spec_of(map).and_then(|spec| spec.code) {
        return Ok(Some(code));
    }
    let Some(digest) = revision::image(map).and_then(image::digest_in) else { return Ok(None) };
    let namespace = map.metadata.namespace.as_deref().unwrap_or_default();
    let repository = Repository::new(client, namespace, &repository(function_of(map)));
    let manifest: Value =
        serde_json::from_slice(&repository.manifest(digest).await?).map_err(|_| CodeError::Broken)?;
    let layer = manifest["layers"][0]["digest"].as_str().ok_or(CodeError::Broken)?;
    let (name, content) = unpacked(&repository.blob(layer).await?).ok_or(CodeError::Broken)?;
    Ok(Some(revision::code(&name, content).ok_or(CodeError::Broken)?))
}

/// Why an archive that is too large for a Function cannot be its code.
#[derive(Debug, Error)]
pub enum PlaceError {
    #[error(
        "the archive has {0} bytes, and above {LARGEST_ZIP} its dependencies are not fetched: put them in \
         (`pip install --target vendor -r requirements.txt`, `npm install`), or give less code"
    )]
    NeedsBuild(usize),
    #[error("the archive cannot be used")]
    Archive(#[from] ZipError),
    #[error(
        "the code of function {function} has more than {LARGEST_ZIP} bytes and cannot be pushed to the registry"
    )]
    Push { function: String, source: PushError },
}

impl PlaceError {
    pub fn status(&self) -> StatusCode {
        match self {
            PlaceError::NeedsBuild(_) | PlaceError::Archive(_) => StatusCode::BAD_REQUEST,
            PlaceError::Push { source: PushError::Refused { status, .. }, .. } => *status,
            PlaceError::Push { source: PushError::NoRegistry(_), .. } => StatusCode::PAYLOAD_TOO_LARGE,
            PlaceError::Push { .. } => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// Pushes code that does not fit into a Function to the registry, and names it there instead. That is done with the
/// rights of the client, or of the requester as whom it acts.
///
/// What no Function names soon after is collected as if it were an old revision's.
pub async fn place(
    client: &Client,
    requester: Option<&Requester>,
    namespace: &str,
    function: &str,
    spec: &mut FunctionSpec,
) -> Result<(), PlaceError> {
    let Some(archive) = too_large(spec)? else { return Ok(()) };
    let digest = image::digest(&archive);
    // A tag of its own: the same archive has the same one.
    let revision = (namespace, function, digest.trim_start_matches("sha256:"));
    let pushed = push((client, requester), revision, (revision::ARCHIVE, archive.as_slice())).await;
    let image = pushed.map_err(|source| PlaceError::Push { function: function.to_owned(), source })?;
    spec.code = Some(FunctionCode { image: Some(image), ..FunctionCode::default() });
    Ok(())
}

/// The archive of a function, if it does not fit into it.
fn too_large(spec: &FunctionSpec) -> Result<Option<Vec<u8>>, PlaceError> {
    let zip = spec.code.as_ref().and_then(|code| code.zip.as_ref());
    let archive = zip.and_then(|text| STANDARD.decode(text).ok()).filter(|bytes| bytes.len() > LARGEST_ZIP);
    let Some(archive) = archive else { return Ok(None) };
    zip::check(&archive)?;
    match build::inputs(spec) {
        Some(_) => Err(PlaceError::NeedsBuild(archive.len())),
        None => Ok(Some(archive)),
    }
}

/// A layer with one file.
fn layer(name: &str, content: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_data(&mut header, name, content)?;
    tar.into_inner()
}

fn unpacked(layer: &[u8]) -> Option<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(layer);
    let mut entry = archive.entries().ok()?.next()?.ok()?;
    let name = entry.path().ok()?.to_str()?.to_owned();
    let mut content = Vec::new();
    entry.read_to_end(&mut content).ok()?;
    Some((name, content))
}

fn repository(function: &str) -> String {
    format!("{CODE_REPOSITORY}{function}")
}

fn function_of(map: &ConfigMap) -> &str {
    map.metadata.labels.as_ref().and_then(|labels| labels.get(FUNCTION_LABEL)).map_or("", String::as_str)
}

/// The image that the code of a revision has become.
async fn push(
    (client, requester): (&Client, Option<&Requester>),
    (namespace, function, hash): (&str, &str, &str),
    (name, content): (&str, &[u8]),
) -> Result<String, PushError> {
    let repository_name = repository(function);
    let repository = Repository::new(client, namespace, &repository_name).acting_as(requester);
    // A tar in memory cannot fail, and an empty one is refused by whoever mounts it.
    let layer = image::push_bytes(&repository, layer(name, content).unwrap_or_default()).await?;
    let digest = image::push(&repository, hash, &layer).await?;
    Ok(image::reference(namespace, &repository_name, &digest))
}

/// The ConfigMap as it is once the code is in the registry.
fn moved(file: &str, image: &str) -> Value {
    let mut data = json!({});
    data[file] = Value::Null;
    json!({
        "metadata": {"annotations": {CODE_ANNOTATION: image}},
        "data": data,
        "binaryData": null,
        "immutable": true,
    })
}

#[derive(Clone)]
struct Surroundings {
    client: Client,
    caches: Arc<Caches>,
    pushes: Arc<Semaphore>,
}

pub fn start(parts: &mut Parts) {
    let around = Surroundings {
        client: parts.client.clone(),
        caches: parts.caches.clone(),
        pushes: Arc::new(Semaphore::new(PUSHES)),
    };
    parts.task(run(around, parts.leads.clone(), parts.stop.clone()));
}

/// Until it is told to stop.
async fn run(around: Surroundings, mut leads: watch::Receiver<bool>, stop: CancellationToken) {
    let maps = around.caches.of::<ConfigMap>();
    // Each key once, however often somebody writes: it grows with the objects alone.
    let woken = Arc::new(Queue::new(Backoff::default()));
    let wakes = woken.clone();
    maps.listen(Box::new(move |_, new| {
        if let Some(map) = new.filter(|map| revision::waits(map)) {
            wakes.add(key_of(&**map));
        }
    }));
    let mut running: HashMap<Key, AbortOnDropHandle<()>> = HashMap::new();
    let mut restoring = None;
    let mut waiting: Vec<Key> = Vec::new();
    let mut begins = true;
    loop {
        running.retain(|_, task| !task.is_finished());
        if !*leads.borrow() {
            running.clear();
            restoring = None;
        } else {
            if begins {
                waiting =
                    maps.list().iter().filter(|map| revision::waits(map)).map(|map| key_of(&**map)).collect();
                let around = around.clone();
                restoring = Some(AbortOnDropHandle::new(tokio::spawn(async move { restore(&around).await })));
            }
            for key in waiting.drain(..) {
                running.entry(key.clone()).or_insert_with(|| {
                    let around = around.clone();
                    AbortOnDropHandle::new(tokio::spawn(async move { keep(&around, &key).await }))
                });
            }
        }
        (waiting, begins) = tokio::select! {
            () = stop.cancelled() => break,
            () = change(&mut leads) => (Vec::new(), true),
            key = woken.next() => {
                woken.done(&key);
                (vec![key], false)
            }
        };
    }
    drop(restoring);
}

/// Never where this is settled: a server whose store is its own always leads.
async fn change(leads: &mut watch::Receiver<bool>) {
    if leads.changed().await.is_err() {
        std::future::pending().await
    }
}

/// Moves code from a ConfigMap to the registry, until it is there or the ConfigMap is gone.
async fn keep(around: &Surroundings, key: &Key) {
    let api: Api<ConfigMap> = Api::namespaced(around.client.clone(), &key.namespace);
    let mut failures = 0;
    while let Some(map) = around.caches.of::<ConfigMap>().get(key).filter(|map| revision::waits(map)) {
        let Some(file) = revision::code_file(&map) else { return };
        let pushed = match around.pushes.acquire().await {
            Ok(_permit) => {
                let revision = (key.namespace.as_str(), function_of(&map), revision::hash_of(&map.metadata));
                push((&around.client, None), revision, file).await
            }
            Err(_) => return,
        };
        let told = match pushed {
            Ok(image) => {
                let patch = Patch::Merge(moved(file.0, &image));
                match api.patch(&key.name, &PatchParams::default(), &patch).await {
                    Ok(_) => return,
                    Err(error) => error_chain(&error),
                }
            }
            Err(error) => error_chain(&error),
        };
        failures += 1;
        tracing::warn!(error = told, revision = %key, "the code of a function is not in the registry yet");
        tokio::time::sleep(RETRY.after(failures)).await;
    }
}

/// Puts code of newest revisions into this server's registry where another server had it, or where it was lost.
async fn restore(around: &Surroundings) {
    let functions = around.caches.of::<Function>();
    functions.wait_synced().await;
    around.caches.of::<ConfigMap>().wait_synced().await;
    for function in functions.list() {
        let (Key { namespace, name }, hash) = (key_of(&*function), revision::hash(&function));
        let key = Key::new(&*namespace, revision::config_map_name(&name, &hash));
        let map = around.caches.of::<ConfigMap>().get(&key);
        let known = map.as_ref().and_then(|map| image::digest_in(revision::image(map)?));
        let (Some(known), Some(file)) = (known, revision::spec_file(&function.spec)) else { continue };
        let there = Repository::new(&around.client, &namespace, &repository(&name)).has_manifest(known).await;
        if !matches!(there, Ok(false)) {
            continue;
        }
        match push((&around.client, None), (&namespace, &name, &hash), (file.0, &file.1)).await {
            Ok(_) => tracing::info!(function = %key, "its code is in this server's registry too"),
            Err(error) => {
                tracing::warn!(%error, function = %key, "its code is not in this server's registry")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comes_back_as_it_was() {
        for (name, content) in [("main.py", "def main(p): return p".as_bytes()), ("code.zip", b"PK\x05\x06")]
        {
            let packed = layer(name, content).unwrap();
            assert_eq!(packed, layer(name, content).unwrap(), "the same bytes each time");
            assert_eq!(unpacked(&packed).unwrap(), (name.to_owned(), content.to_vec()));
        }
        assert_eq!(unpacked(b"rubbish"), None);
    }

    fn spec(files: &[(&str, &[u8])]) -> FunctionSpec {
        let files: Vec<_> =
            files.iter().map(|(name, content)| ((*name).to_owned(), content.to_vec())).collect();
        let zip = Some(STANDARD.encode(zip::pack(&files).unwrap()));
        let code = Some(FunctionCode { zip, ..FunctionCode::default() });
        FunctionSpec { runtime: Some("nodejs".to_owned()), code, ..FunctionSpec::default() }
    }

    /// What no packer makes smaller.
    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 7_u32;
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        std::iter::repeat_with(next).take(bytes).collect()
    }

    #[test]
    fn archive_is_pushed_when_a_function_has_no_room_for_it() {
        let (index, noise) = (&b"exports.main = p => p"[..], noise(1 << 20));
        let model = noise.as_slice();
        assert!(too_large(&spec(&[("index.js", index)])).unwrap().is_none());
        let source = FunctionCode { source: Some("x".repeat(1 << 20)), ..FunctionCode::default() };
        assert!(
            too_large(&FunctionSpec { code: Some(source), ..FunctionSpec::default() }).unwrap().is_none()
        );
        let large = spec(&[("index.js", index), ("model", model)]);
        assert!(too_large(&large).unwrap().is_some_and(|archive| archive.len() > 1 << 20));

        let package = &br#"{"dependencies": {"nano": "11"}}"#[..];
        let needy = [("index.js", index), ("model", model), ("package.json", package)];
        let refused = too_large(&spec(&needy)).unwrap_err();
        assert!(refused.to_string().contains("npm install"), "{refused}");
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
        let with_modules = [&needy[..], &[("node_modules/nano/index.js", index)]].concat();
        assert!(too_large(&spec(&with_modules)).unwrap().is_some());

        let broken = FunctionCode { zip: Some(STANDARD.encode(model)), ..FunctionCode::default() };
        let broken = too_large(&FunctionSpec { code: Some(broken), ..FunctionSpec::default() }).unwrap_err();
        assert!(error_chain(&broken).contains("cut off"), "{broken}");
    }

    #[test]
    fn push_that_is_refused_says_so_to_the_client() {
        let status = |source| PlaceError::Push { function: "f".to_owned(), source }.status();
        let refused = PushError::Refused { status: StatusCode::FORBIDDEN, message: "no".to_owned() };
        assert_eq!(status(refused), StatusCode::FORBIDDEN);
        assert_eq!(status(PushError::NoRegistry(StatusCode::NOT_FOUND)), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(status(PushError::NoLocation), StatusCode::SERVICE_UNAVAILABLE);
    }
}
