//! Keeps one cache current: list, then watch from there, and again when history was compacted.
//!
//! Errors back off and are logged once per outage; an object that is not of its kind is told and left out. It never
//! gives up before `stop`. Only the cache knows the type of its objects: here they are texts, so that this code is
//! compiled once and not for every kind.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures::AsyncBufReadExt;
use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::{AnyCache, Backoff, MetaOnly};

const PAGE: usize = 1000;
/// Watches end by themselves after about this long and go on from where they were.
const WATCH_SECONDS: u32 = 1800;
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(50), most: Duration::from_secs(15) };
const META_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const META_ONLY_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Runs until `stop`.
pub(crate) async fn reflect(client: Client, cache: Arc<dyn AnyCache>, stop: CancellationToken) {
    let mut next = Step::List;
    let mut failures = 0;
    loop {
        let step = async {
            match &next {
                Step::List => list(&client, &*cache).await,
                Step::Watch(version) => watch(&client, &*cache, version, &mut failures).await,
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
struct Page {
    metadata: PageMeta,
    #[serde(default)]
    items: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMeta {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    r#continue: Option<String>,
}

async fn list(client: &Client, cache: &dyn AnyCache) -> Result<Step, kube::Error> {
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
                cache.replace_json(&objects, version.parse().unwrap_or(0));
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
    cache: &dyn AnyCache,
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
    let request = request(cache, &query, META_ONLY)?;
    let mut version = from.to_owned();
    let mut lines = std::pin::pin!(client.request_stream(request).await?);
    // Any progress ends an outage.
    *failures = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        match lines.read_until(b'\n', &mut line).await {
            Ok(0) => return Ok(Step::Watch(version)),
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(kind = %cache.kind(), %error, "watch broke, resuming");
                return Ok(Step::Watch(version));
            }
        }
        // A line cut short by a broken connection comes again.
        let Ok(event) = Event::read(&line) else { return Ok(Step::Watch(version)) };
        if !show(cache, &event, &mut version) {
            return Ok(Step::List);
        }
    }
}

/// False if the history we ask for is gone, or the server gave us up: everything must be looked at again.
fn show(cache: &dyn AnyCache, event: &Event<'_>, version: &mut String) -> bool {
    let object = event.object;
    let seen = match &*event.ty {
        "ADDED" | "MODIFIED" => cache.apply_json(object),
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
        Err(error) => tracing::warn!(kind = %cache.kind(), %error, "the watch shows something that is none"),
    }
    true
}

/// Empty parameters are left out.
fn request(
    cache: &dyn AnyCache,
    query: &[(&str, &str)],
    accept: &str,
) -> Result<http::Request<Vec<u8>>, kube::Error> {
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(query.iter().filter(|(_, value)| !value.is_empty()))
        .finish();
    let mut builder = http::Request::get(format!("{}?{query}", cache.kind().collection_path("")));
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
