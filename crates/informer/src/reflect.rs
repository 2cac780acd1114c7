//! Keeps one cache current: list, then watch from there, and again when history was compacted.
//!
//! Errors back off and are logged once per outage; what cannot be read of an object is left out and reported. It never
//! gives up before `stop`. Only the cache knows the type of its objects: here they are texts, so that this code is
//! compiled once and not for every kind.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::{AsyncBufReadExt, FutureExt};
use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::unreadable::Unreadable;
use crate::{AnyCache, Backoff, MetaOnly, Retries};

const PAGE: usize = 1000;
/// Watches end by themselves after about this long and go on from where they were.
const WATCH_SECONDS: u32 = 1800;
const BACKOFF: Backoff = Backoff::millis(50, 15_000);
const META_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const META_ONLY_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Runs until `stop`, and again after an object that made it panic: a cache that stands still is worse than a late one.
pub(crate) async fn keep_reflecting(
    client: Client,
    cache: Arc<dyn AnyCache>,
    unreadable: Arc<Unreadable>,
    stop: CancellationToken,
) {
    loop {
        let run = reflect(client.clone(), cache.clone(), unreadable.clone(), stop.clone());
        match AssertUnwindSafe(run).catch_unwind().await {
            Ok(()) => return,
            Err(_) => {
                let pause = BACKOFF.most;
                tracing::error!(kind = %cache.kind(), "watching has panicked; it starts again in {pause:?}");
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// Runs until `stop`.
async fn reflect(
    client: Client,
    cache: Arc<dyn AnyCache>,
    unreadable: Arc<Unreadable>,
    stop: CancellationToken,
) {
    let cache = Reflected { cache: &*cache, unreadable: &unreadable };
    let mut next = Step::List;
    let mut retries = BACKOFF.retries();
    loop {
        let step = async {
            match &next {
                Step::List => list(&client, cache).await,
                Step::Watch(version) => watch(&client, cache, version, &mut retries).await,
            }
        };
        let outcome = tokio::select! {
            outcome = step => outcome,
            () = stop.cancelled() => return,
        };
        match outcome {
            Ok(step) => next = step,
            Err(error) => {
                let pause = retries.failed();
                match &error {
                    // A feature of the server that is switched off.
                    kube::Error::Api(status) if status.code == 404 => cache.cache.set_absent(),
                    kube::Error::Api(status) if status.code == 410 => next = Step::List,
                    _ if retries.is_first() => {
                        tracing::warn!(kind = %cache.cache.kind(), %error, "watch interrupted, will retry");
                    }
                    _ => {}
                }
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = stop.cancelled() => return,
                }
            }
        }
    }
}

/// A cache, and who is told of what cannot be read.
#[derive(Clone, Copy)]
struct Reflected<'a> {
    cache: &'a dyn AnyCache,
    unreadable: &'a Unreadable,
}

enum Step {
    List,
    /// From this resource version on.
    Watch(String),
}

#[derive(Deserialize)]
pub(crate) struct Page {
    metadata: PageMeta,
    #[serde(default)]
    pub items: Vec<Box<RawValue>>,
}

impl Page {
    pub fn revision(&self) -> u64 {
        self.metadata.resource_version.parse().unwrap_or(0)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    r#continue: Option<String>,
}

async fn list(client: &Client, Reflected { cache, unreadable }: Reflected<'_>) -> Result<Step, kube::Error> {
    let mut objects = Vec::new();
    let mut token = String::new();
    loop {
        let limit = PAGE.to_string();
        let request = request(cache, &[("limit", &limit), ("continue", &token)], META_ONLY_LIST)?;
        let page: Page = client.request(request).await?;
        objects.extend(page.items);
        match page.metadata.r#continue.filter(|token| !token.is_empty()) {
            Some(next) => token = next,
            None => {
                let version = page.metadata.resource_version;
                cache.replace_json(&objects, version.parse().unwrap_or(0), Some(unreadable));
                return Ok(Step::Watch(version));
            }
        }
    }
}

/// One line of a watch.
#[derive(Debug, PartialEq)]
struct Event<'a> {
    ty: Cow<'a, str>,
    object: &'a [u8],
}

impl<'a> Event<'a> {
    fn read(line: &'a [u8]) -> serde_json::Result<Self> {
        if let Some(event) = Event::split(line) {
            return Ok(event);
        }
        #[derive(Deserialize)]
        struct Line<'a> {
            #[serde(borrow)]
            r#type: Cow<'a, str>,
            #[serde(borrow)]
            object: &'a RawValue,
        }
        let Line { r#type, object } = serde_json::from_slice(line)?;
        Ok(Event { ty: r#type, object: object.get().as_bytes() })
    }

    /// As API servers write their lines, it needs no search for the object's end. Whoever reads the object
    /// sees whether it is one.
    fn split(line: &'a [u8]) -> Option<Self> {
        let rest = line.strip_prefix(br#"{"type":""#)?.strip_suffix(b"}\n")?;
        let end = rest.iter().position(|byte| *byte == b'"')?;
        let object = rest[end..].strip_prefix(br#"","object":"#)?;
        let ty = std::str::from_utf8(&rest[..end]).ok().filter(|ty| !ty.contains('\\'))?;
        Some(Event { ty: ty.into(), object })
    }
}

async fn watch(
    client: &Client,
    reflected: Reflected<'_>,
    from: &str,
    retries: &mut Retries,
) -> Result<Step, kube::Error> {
    let cache = reflected.cache;
    let timeout = WATCH_SECONDS.to_string();
    let query = [
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("timeoutSeconds", &timeout),
        ("resourceVersion", from),
    ];
    let request = request(cache, &query, META_ONLY)?;
    let mut version = from.to_owned();
    let mut lines = std::pin::pin!(client.request_stream(request).await?);
    let mut line = Vec::new();
    let begun = tokio::time::Instant::now();
    loop {
        line.clear();
        match lines.read_until(b'\n', &mut line).await {
            // Any progress ends an outage; a server that accepts watches and ends them at once is one.
            Ok(1..) => retries.succeeded(),
            Ok(0) if begun.elapsed() > BACKOFF.most => return Ok(Step::Watch(version)),
            Ok(0) => {
                tokio::time::sleep(retries.failed()).await;
                return Ok(Step::Watch(version));
            }
            Err(error) => {
                tracing::debug!(kind = %cache.kind(), %error, "watch broke, resuming");
                tokio::time::sleep(retries.failed()).await;
                return Ok(Step::Watch(version));
            }
        }
        // A line cut short by a broken connection comes again.
        let Ok(event) = Event::read(&line) else { return Ok(Step::Watch(version)) };
        if !show(reflected, &event, &mut version) {
            return Ok(Step::List);
        }
    }
}

/// False if the history we ask for is gone, or the server gave us up: everything must be looked at again.
fn show(Reflected { cache, unreadable }: Reflected<'_>, event: &Event<'_>, version: &mut String) -> bool {
    let object = event.object;
    let seen = match &*event.ty {
        "ADDED" | "MODIFIED" => cache.apply_json(object, Some(unreadable)),
        "DELETED" => cache.remove_json(object),
        "BOOKMARK" => serde_json::from_slice::<MetaOnly>(object).map(|mark| {
            let seen = mark.metadata.resource_version.unwrap_or_default();
            cache.advance(seen.parse().unwrap_or(0));
            seen
        }),
        _ => {
            let status = String::from_utf8_lossy(object);
            tracing::debug!(kind = %cache.kind(), %status, "watch ended, listing again");
            return false;
        }
    };
    match seen {
        Ok(seen) if !seen.is_empty() => *version = seen,
        Ok(_) => {}
        Err(error) => tracing::warn!(kind = %cache.kind(), %error, "ignoring an object that cannot be read"),
    }
    true
}

/// Empty parameters are left out.
fn request(
    cache: &dyn AnyCache,
    query: &[(&str, &str)],
    accept: &str,
) -> Result<http::Request<Vec<u8>>, kube::Error> {
    let options = cache.options();
    let selected = [("fieldSelector", options.field_selector.as_str())];
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(query.iter().chain(&selected).filter(|(_, value)| !value.is_empty()))
        .finish();
    let path = cache.kind().collection_path(&options.namespace);
    let mut builder = http::Request::get(format!("{path}?{query}"));
    if cache.is_meta_only() {
        builder = builder.header(http::header::ACCEPT, accept);
    }
    builder.body(Vec::new()).map_err(kube::Error::HttpError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_watch() {
        let event =
            |ty: &'static str, object: &'static str| Event { ty: ty.into(), object: object.as_bytes() };
        let check = |line: &str, expected| assert_eq!(Event::read(line.as_bytes()).ok(), expected, "{line}");
        check("{\"type\":\"ADDED\",\"object\":{\"a\":{}}}\n", Some(event("ADDED", r#"{"a":{}}"#)));
        // In any order, with any spaces, without an end.
        check("{\"object\": {\"a\":{}}, \"type\": \"ADDED\"}\n", Some(event("ADDED", r#"{"a":{}}"#)));
        check("{\"type\":\"ADDED\",\"object\":{}}", Some(event("ADDED", "{}")));
        check("{\"type\":\"\\u0041\",\"object\":{}}\n", Some(event("A", "{}")));
        check("{\"type\":\"ADDED\",\"object\":{", None);
        check("{\"type\":\"ADDED\"}\n", None);
        check("\n", None);
    }
}
