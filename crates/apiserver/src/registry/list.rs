//! Lists: selection, pages on one snapshot, and the streamed answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http_body::Frame;
use jiff::Timestamp;
use minik8s_protobuf::ListEncoder;
use minik8s_store::{Entry, Range, Revision};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Registry;
use super::table::{Rows, columns_of};
use crate::catalog::Served;
use crate::codec;
use crate::error::{ApiError, Result};
use crate::form::{Include, column_definitions};
use crate::request::{ListOptions, parse_version};
use crate::selection::Selection;

/// One page of a list.
pub struct Selected {
    pub entries: Vec<Entry>,
    pub revision: Revision,
    /// For the client's next request; empty on the last page.
    pub continue_token: String,
    pub remaining: Option<u64>,
}

impl Selected {
    /// The `metadata` of the list object.
    pub fn list_metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if !self.continue_token.is_empty() {
            metadata["continue"] = self.continue_token.as_str().into();
            if let Some(remaining) = self.remaining {
                metadata["remainingItemCount"] = remaining.into();
            }
        }
        metadata
    }
}

/// Where a client stopped reading: opaque to it.
#[derive(Serialize, Deserialize)]
struct ContinueToken {
    #[serde(rename = "v")]
    format: String,
    #[serde(rename = "rv")]
    revision: Revision,
    after: String,
}

const TOKEN_FORMAT: &str = "minik8s/1";

/// In a token: go on with what is there when it is used.
const NEWEST: Revision = 0;

/// Keys read from the store at a time while a selector leaves some out.
const READ_AHEAD: usize = 500;

impl Registry {
    /// The entries that the options select, in key order.
    pub async fn select(&self, served: &Served, namespace: &str, options: &ListOptions) -> Result<Selected> {
        let selection = Selection::new(served, options)?;
        let (mut after, mut revision) = self.start_of(options).await?;
        let prefix = selection.prefix(served, namespace);
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let limit = match options.limit {
                0 => 0,
                limit if selection.is_everything() => limit,
                limit => limit.max(READ_AHEAD),
            };
            let range = Range { prefix: prefix.clone(), after: after.take(), limit, revision };
            let page = match self.store.range(range).await {
                Err(minik8s_store::Error::Compacted { .. }) if !options.continue_token.is_empty() => {
                    return Err(ApiError::expired_page(without_version(&options.continue_token)?));
                }
                page => page?,
            };
            revision = Some(page.revision);
            let last_key = page.entries.last().map(|entry| entry.key.to_string());
            let mut full = false;
            for entry in self.to_served(served, page.entries).await? {
                if selection.matches_entry(served, &entry.value)? {
                    entries.push(entry);
                    full = options.limit > 0 && entries.len() == options.limit;
                    if full {
                        break;
                    }
                }
            }
            let stopped_early = full && entries.last().map(|e| e.key.to_string()) != last_key;
            if full && (page.more || stopped_early) {
                let token = encode_token(page.revision, entries.last());
                let remaining = if selection.is_everything() { page.remaining } else { None };
                return Ok(Selected { entries, revision: page.revision, continue_token: token, remaining });
            }
            if !page.more || full {
                return Ok(Selected {
                    entries,
                    revision: page.revision,
                    continue_token: String::new(),
                    remaining: None,
                });
            }
            after = last_key;
        }
    }

    /// After which key and at which revision to read.
    async fn start_of(&self, options: &ListOptions) -> Result<(Option<String>, Option<Revision>)> {
        if !options.continue_token.is_empty() {
            let token = decode_token(&options.continue_token)?;
            return Ok((Some(token.after), (token.revision != NEWEST).then_some(token.revision)));
        }
        let Some(version) = parse_version(&options.resource_version)? else { return Ok((None, None)) };
        if options.resource_version_match == "Exact" {
            return Ok((None, Some(version)));
        }
        let newest = self.store.revision().await?;
        if version > newest {
            return Err(minik8s_store::Error::FutureRevision { requested: version, newest }.into());
        }
        // With a limit and no match rule, upstream reads exactly that version.
        let exact = options.limit > 0 && options.resource_version_match.is_empty();
        Ok((None, exact.then_some(version)))
    }
}

fn encode_token(revision: Revision, last: Option<&Entry>) -> String {
    let after = last.map(|entry| entry.key.to_string()).unwrap_or_default();
    encode(&ContinueToken { format: TOKEN_FORMAT.to_owned(), revision, after })
}

/// The token for the same place in what is there now.
fn without_version(token: &str) -> Result<String> {
    Ok(encode(&ContinueToken { revision: NEWEST, ..decode_token(token)? }))
}

fn encode(token: &ContinueToken) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(token).unwrap_or_default())
}

fn decode_token(text: &str) -> Result<ContinueToken> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok();
    let token = bytes.and_then(|bytes| serde_json::from_slice::<ContinueToken>(&bytes).ok());
    match token {
        Some(token) if token.format == TOKEN_FORMAT => Ok(token),
        _ => Err(ApiError::bad_request(
            "continue key is not valid: use the token of the previous list as it is",
        )),
    }
}

/// The two parts of a list in protobuf, which has to say first how long it is.
pub fn protobuf_list(served: &Served, selected: &Selected) -> Result<(Vec<u8>, Vec<u8>)> {
    let metadata = selected.list_metadata().to_string();
    let mut list = ListEncoder::new(&served.api_version, &served.kind, metadata.as_bytes())
        .map_err(ApiError::internal)?;
    let mut json = Vec::new();
    for entry in &selected.entries {
        json.clear();
        codec::write_object(served, &entry.value, entry.revision, &mut json)?;
        if let Err(error) = list.item(&json) {
            // As in JSON, where it would be shown: one object must not hide the others.
            tracing::error!(key = %entry.key, %error, "an object in the store has no protobuf form");
        }
    }
    Ok(list.finish())
}

/// Streams `{"kind":"PodList",...,"items":[...]}`, or the same as a table, in chunks, so that a large list is
/// never whole in memory twice.
pub struct ListBody {
    served: Arc<Served>,
    entries: std::vec::IntoIter<Entry>,
    /// None: whole objects.
    rows: Option<Rows>,
    head: Option<Vec<u8>>,
    first: bool,
    ended: bool,
}

const CHUNK: usize = 128 * 1024;

impl ListBody {
    pub fn new(served: Arc<Served>, selected: Selected) -> Self {
        let head = format!(
            "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{},\"items\":[",
            served.kind,
            served.api_version,
            selected.list_metadata()
        );
        ListBody::begin(served, selected, head, None)
    }

    /// As a table of this API version.
    pub fn table(served: Arc<Served>, selected: Selected, api_version: &str, include: Include) -> Self {
        let head = format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"{api_version}\",\"metadata\":{},\"columnDefinitions\":{},\"rows\":[",
            selected.list_metadata(),
            column_definitions(&columns_of(&served)),
        );
        let rows = Rows::new(&served, include, Timestamp::now());
        ListBody::begin(served, selected, head, Some(rows))
    }

    fn begin(served: Arc<Served>, selected: Selected, head: String, rows: Option<Rows>) -> Self {
        let entries = selected.entries.into_iter();
        ListBody { served, entries, rows, head: Some(head.into_bytes()), first: true, ended: false }
    }

    fn write(&self, entry: &Entry, out: &mut Vec<u8>) -> Result<()> {
        match &self.rows {
            Some(rows) => rows.write(&self.served, entry, out),
            None => codec::write_object(&self.served, &entry.value, entry.revision, out),
        }
    }
}

impl http_body::Body for ListBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let mut chunk = self.head.take().unwrap_or_default();
        while chunk.len() < CHUNK {
            let Some(entry) = self.entries.next() else {
                chunk.extend_from_slice(b"]}\n");
                self.ended = true;
                break;
            };
            let start = chunk.len();
            if !self.first {
                chunk.push(b',');
            }
            match self.write(&entry, &mut chunk) {
                Ok(()) => self.first = false,
                Err(e) => {
                    // The answer has begun; an object that cannot be read must not hide the others.
                    tracing::error!(key = %entry.key, error = %e, "an object in the store cannot be read");
                    chunk.truncate(start);
                }
            }
        }
        Poll::Ready(Some(Ok(Frame::data(chunk.into()))))
    }
}
