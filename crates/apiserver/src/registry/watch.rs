//! Watches: the stored history as a stream of JSON lines, or of protobuf's frames.
//!
//! A watch is a body that is polled by the connection: an idle one holds no task and no buffer. Events
//! that are ready together go out in one chunk.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use minik8s_protobuf::encode_event;
use minik8s_store::{Change, Entry, Event, Revision, Watch, WatchItem};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Sleep;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::conversion::converted;
use super::{Call, Registry};
use crate::answer::JSON;
use crate::api::Api;
use crate::catalog::Served;
use crate::codec;
use crate::error::{ApiError, Result};
use crate::form::{Accepted, Encoding, Form};
use crate::request::{ListOptions, parse_version};
use crate::selection::Selection;

/// Watches without `timeoutSeconds` end after this long plus a random part, so that clients spread out.
const DEFAULT_TIMEOUT: u64 = 1800;
const CHUNK: usize = 64 * 1024;

impl Registry {
    pub async fn watch(
        &self,
        call: &Call,
        options: &ListOptions,
        form: Form,
        framing: Framing,
    ) -> Result<WatchBody> {
        let served = call.served.clone();
        let selection = Selection::new(&served, options)?;
        let from = parse_version(&options.resource_version)?;
        check_initial_events(options)?;
        let initial = options.send_initial_events.unwrap_or(from.is_none());
        let (entries, after) = if initial {
            if let Some(version) = from {
                self.check_reached(version).await?;
            }
            let list = ListOptions {
                labels: options.labels.clone(),
                fields: options.fields.clone(),
                ..Default::default()
            };
            let selected = self.select(&served, &call.namespace, &list).await?;
            (selected.entries, selected.revision)
        } else {
            match from {
                Some(version) => {
                    self.check_reached(version).await?;
                    (Vec::new(), version)
                }
                None => (Vec::new(), self.store.revision().await?),
            }
        };
        let watch = self.store.watch(&selection.prefix(&served, &call.namespace), after).await?;
        let seconds = options
            .timeout_seconds
            .unwrap_or_else(|| DEFAULT_TIMEOUT + rand::random_range(0..DEFAULT_TIMEOUT));
        Ok(WatchBody {
            encoder: Encoder { served, selection, form, framing, described: false, json: Vec::new() },
            initial: entries.into_iter(),
            // The end of the initial events is told only to those who asked for them.
            initial_end: (options.send_initial_events == Some(true) && options.bookmarks).then_some(after),
            bookmarks: options.bookmarks,
            source: Source::Store(watch),
            deadline: Box::pin(tokio::time::sleep(Duration::from_secs(seconds.max(1)))),
            stopping: Box::pin(self.stopping.clone().cancelled_owned()),
            ended: false,
        })
    }

    /// Nobody is told of a version before it is durable; one ahead of that comes from another history (a
    /// restored data dir), and its client must begin anew.
    async fn check_reached(&self, version: Revision) -> Result<()> {
        let newest = self.store.revision().await?;
        if version > newest {
            return Err(ApiError::expired(format!(
                "too large resource version: {version}, current: {newest}"
            )));
        }
        Ok(())
    }
}

fn check_initial_events(options: &ListOptions) -> Result<()> {
    match (options.send_initial_events, options.resource_version_match.as_str()) {
        (Some(_), "NotOlderThan") | (None, "") => Ok(()),
        (Some(_), _) => {
            Err(ApiError::bad_request("sendInitialEvents requires resourceVersionMatch=NotOlderThan"))
        }
        (None, _) => Err(ApiError::bad_request(
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        )),
    }
}

/// The stream of a watch that cannot begin. Clients look for an expired version there, not in the answer's
/// code: some would ask for the same version for ever.
pub fn refused_watch(error: &ApiError, framing: Framing) -> Bytes {
    let mut out = Vec::new();
    framing.push("ERROR", &error.to_status(), &mut out);
    out.into()
}

/// How the events of a watch follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    Json,
    Protobuf,
}

impl Framing {
    pub fn of(accepted: &Accepted, served: &Served) -> Framing {
        let has_protobuf = match &accepted.form {
            Form::Object => served.has_protobuf(),
            Form::Metadata { api_version } => minik8s_protobuf::knows(api_version, "PartialObjectMetadata"),
            Form::Table { .. } => false,
        };
        let is_protobuf = accepted.encoding == Encoding::Protobuf && has_protobuf;
        if is_protobuf { Framing::Protobuf } else { Framing::Json }
    }

    pub fn content_type(self) -> String {
        match self {
            Framing::Json => JSON.to_owned(),
            Framing::Protobuf => minik8s_protobuf::stream_type(),
        }
    }

    fn push(self, ty: &str, object: &Value, out: &mut Vec<u8>) {
        match self {
            Framing::Json => {
                out.extend_from_slice(json!({"type": ty, "object": object}).to_string().as_bytes());
                out.push(b'\n');
            }
            Framing::Protobuf => {
                let written = codec::to_json(object)
                    .map_err(|error| error.to_string())
                    .and_then(|json| encode_event(ty, &json, out).map_err(|error| error.to_string()));
                if let Err(error) = written {
                    tracing::error!(%error, "an event has no protobuf form");
                }
            }
        }
    }
}

/// The streamed answer of one watch.
pub struct WatchBody {
    encoder: Encoder,
    initial: std::vec::IntoIter<Entry>,
    initial_end: Option<Revision>,
    bookmarks: bool,
    source: Source,
    deadline: Pin<Box<Sleep>>,
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    ended: bool,
}

/// Where changes come from.
enum Source {
    Store(Watch),
    /// Converted to the version that is served.
    Converted(mpsc::Receiver<Result<WatchItem>>),
}

impl Source {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchItem>>> {
        match self {
            Source::Store(watch) => {
                watch.poll_next(cx).map(|item| item.map(|item| item.map_err(ApiError::from)))
            }
            Source::Converted(items) => items.poll_recv(cx),
        }
    }
}

impl WatchBody {
    /// Lets the webhook of the kind, if it has one, convert what the watch tells.
    pub fn convert(mut self, api: Arc<Api>) -> Self {
        if self.encoder.served.conversion.is_some()
            && let Source::Store(watch) = self.source
        {
            self.source = Source::Converted(converted(api, self.encoder.served.clone(), watch));
        }
        self
    }

    /// Appends what is ready; `Pending` only when nothing is.
    fn poll_chunk(&mut self, cx: &mut Context<'_>, chunk: &mut Vec<u8>) -> Poll<()> {
        for entry in self.initial.by_ref() {
            self.encoder.event("ADDED", &entry.value, entry.revision, chunk);
            if chunk.len() >= CHUNK {
                return Poll::Ready(());
            }
        }
        if let Some(revision) = self.initial_end.take() {
            self.encoder.bookmark(revision, true, chunk);
        }
        while chunk.len() < CHUNK {
            match self.source.poll_next(cx) {
                Poll::Pending if chunk.is_empty() => return Poll::Pending,
                Poll::Pending => return Poll::Ready(()),
                Poll::Ready(Some(Ok(WatchItem::Event(event)))) => self.encoder.change(&event, chunk),
                Poll::Ready(Some(Ok(WatchItem::Progress(revision)))) => {
                    if self.bookmarks {
                        self.encoder.bookmark(revision, false, chunk);
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    self.encoder.error(&error, chunk);
                    self.ended = true;
                    return Poll::Ready(());
                }
                Poll::Ready(None) => {
                    self.ended = true;
                    return Poll::Ready(());
                }
            }
        }
        Poll::Ready(())
    }
}

impl http_body::Body for WatchBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let over = self.ended
            || self.deadline.as_mut().poll(cx).is_ready()
            || self.stopping.as_mut().poll(cx).is_ready();
        if over {
            return Poll::Ready(None);
        }
        let mut chunk = Vec::new();
        ready!(self.poll_chunk(cx, &mut chunk));
        if chunk.is_empty() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(chunk.into()))))
    }
}

/// Turns stored changes into lines of the watch, in the form the client asked for.
struct Encoder {
    served: Arc<Served>,
    selection: Selection,
    form: Form,
    framing: Framing,
    /// The table's columns have been told.
    described: bool,
    /// Room for an object on its way into protobuf.
    json: Vec<u8>,
}

impl Encoder {
    fn change(&mut self, event: &Event, out: &mut Vec<u8>) {
        let now = match &event.change {
            Change::Put(value) if self.selects(value) => Some(value),
            _ => None,
        };
        let before = event.previous.as_ref().filter(|entry| self.selects(&entry.value));
        match (now, before) {
            (Some(value), None) => self.event("ADDED", value, event.revision, out),
            (Some(value), Some(_)) => self.event("MODIFIED", value, event.revision, out),
            (None, Some(entry)) => self.event("DELETED", &entry.value, event.revision, out),
            (None, None) => {}
        }
    }

    fn selects(&self, value: &Bytes) -> bool {
        self.selection.matches_change(&self.served, value).unwrap_or(false)
    }

    fn event(&mut self, ty: &str, value: &[u8], revision: Revision, out: &mut Vec<u8>) {
        if self.framing == Framing::Protobuf {
            return self.frame(ty, value, revision, out);
        }
        let start = out.len();
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(ty.as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        if let Err(error) = self.object(value, revision, out) {
            out.truncate(start);
            tracing::error!(resource = %self.served.plural, %error, "an object in the store cannot be read");
            return;
        }
        out.extend_from_slice(b"}\n");
    }

    fn frame(&mut self, ty: &str, value: &[u8], revision: Revision, out: &mut Vec<u8>) {
        let mut json = std::mem::take(&mut self.json);
        json.clear();
        let written = self
            .object(value, revision, &mut json)
            .and_then(|()| encode_event(ty, &json, out).map_err(ApiError::internal));
        if let Err(error) = written {
            tracing::error!(resource = %self.served.plural, %error, "an object in the store cannot be read");
        }
        self.json = json;
    }

    fn object(&mut self, value: &[u8], revision: Revision, out: &mut Vec<u8>) -> Result<()> {
        if self.form == Form::Object {
            return codec::write_object(&self.served, value, revision, out);
        }
        let object = codec::decode_value(&self.served, value, revision)?;
        let shaped = self.form.shape_one(&self.served, object, self.described);
        self.described = true;
        serde_json::to_writer(out, &shaped).map_err(ApiError::internal)
    }

    fn bookmark(&mut self, revision: Revision, initial_end: bool, out: &mut Vec<u8>) {
        let mut metadata = json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object =
            json!({"kind": self.served.kind, "apiVersion": self.served.api_version, "metadata": metadata});
        let shaped = match self.form {
            Form::Object => object,
            ref form => form.shape_bookmark(object),
        };
        self.framing.push("BOOKMARK", &shaped, out);
    }

    fn error(&self, error: &ApiError, out: &mut Vec<u8>) {
        self.framing.push("ERROR", &error.to_status(), out);
    }
}
