//! Keeps one cache current: list, then watch from there, and again when history was compacted.
//!
//! Errors back off and are logged once per outage. It never gives up before `stop`.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use kube::Client;
use kube::core::WatchEvent;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::{Backoff, Cache, Cached, Kind};

const PAGE: usize = 1000;
/// Watches end by themselves after about this long and go on from where they were.
const WATCH_SECONDS: u32 = 1800;
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(50), most: Duration::from_secs(15) };
const META_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const META_ONLY_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Runs until `stop`.
pub(crate) async fn reflect<K: Cached>(client: Client, cache: Arc<Cache<K>>, stop: CancellationToken) {
    let mut next = Step::List;
    let mut failures = 0;
    loop {
        let step = async {
            match &next {
                Step::List => list(&client, &cache).await,
                Step::Watch(version) => watch(&client, &cache, version, &mut failures).await,
            }
        };
        let outcome = tokio::select! {
            outcome = step => outcome,
            () = stop.cancelled() => return,
        };
        match outcome {
            Ok(step) => next = step,
            Err(error) => {
                failures += 1;
                if failures == 1 {
                    tracing::warn!(kind = %cache.kind(), %error, "watch interrupted, will retry");
                }
                tokio::select! {
                    () = tokio::time::sleep(BACKOFF.after(failures)) => {}
                    () = stop.cancelled() => return,
                }
            }
        }
    }
}

enum Step {
    List,
    /// From this resource version on.
    Watch(String),
}

#[derive(Deserialize)]
struct Page<K> {
    metadata: PageMeta,
    #[serde(default = "Vec::new")]
    items: Vec<K>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    r#continue: Option<String>,
}

async fn list<K: Cached>(client: &Client, cache: &Cache<K>) -> Result<Step, kube::Error> {
    let mut objects = Vec::new();
    let mut token = String::new();
    loop {
        let limit = PAGE.to_string();
        let request = request::<K>(cache.kind(), &[("limit", &limit), ("continue", &token)], META_ONLY_LIST)?;
        let page: Page<K> = client.request(request).await?;
        objects.extend(page.items);
        match page.metadata.r#continue.filter(|token| !token.is_empty()) {
            Some(next) => token = next,
            None => {
                let version = page.metadata.resource_version;
                cache.replace(objects, version.parse().unwrap_or(0));
                return Ok(Step::Watch(version));
            }
        }
    }
}

async fn watch<K: Cached>(
    client: &Client,
    cache: &Cache<K>,
    from: &str,
    failures: &mut u32,
) -> Result<Step, kube::Error> {
    let timeout = WATCH_SECONDS.to_string();
    let query = [
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("timeoutSeconds", &timeout),
        ("resourceVersion", from),
    ];
    let request = request::<K>(cache.kind(), &query, META_ONLY)?;
    let mut version = from.to_owned();
    let mut events = client.request_events::<K>(request).await?.boxed();
    // Any progress ends an outage.
    *failures = 0;
    loop {
        match events.try_next().await {
            Ok(Some(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                advance(&mut version, object.metadata().resource_version.as_deref());
                cache.apply(object);
            }
            Ok(Some(WatchEvent::Deleted(object))) => {
                advance(&mut version, object.metadata().resource_version.as_deref());
                cache.remove(&object);
            }
            Ok(Some(WatchEvent::Bookmark(mark))) => {
                advance(&mut version, Some(&mark.metadata.resource_version));
                cache.advance(version.parse().unwrap_or(0));
            }
            // The history we ask for is gone, or the server gave us up: look at everything again.
            Ok(Some(WatchEvent::Error(status))) => {
                tracing::debug!(kind = %cache.kind(), message = %status.message, "watch ended, listing again");
                return Ok(Step::List);
            }
            Ok(None) => return Ok(Step::Watch(version)),
            Err(error) => {
                tracing::debug!(kind = %cache.kind(), %error, "watch broke, resuming");
                return Ok(Step::Watch(version));
            }
        }
    }
}

fn advance(version: &mut String, seen: Option<&str>) {
    if let Some(seen) = seen {
        seen.clone_into(version);
    }
}

/// Empty parameters are left out.
fn request<K: Cached>(
    kind: &Kind,
    query: &[(&str, &str)],
    accept: &str,
) -> Result<http::Request<Vec<u8>>, kube::Error> {
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(query.iter().filter(|(_, value)| !value.is_empty()))
        .finish();
    let mut builder = http::Request::get(format!("{}?{query}", kind.collection_path("")));
    if K::META_ONLY {
        builder = builder.header(http::header::ACCEPT, accept);
    }
    builder.body(Vec::new()).map_err(kube::Error::HttpError)
}
