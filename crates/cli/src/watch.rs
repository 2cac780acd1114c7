//! Watches as lines of JSON.

use futures::io::{AsyncBufReadExt, Lines};
use futures::{AsyncBufRead, StreamExt};
use serde_json::Value;

use crate::client::{Call, Client};
use crate::error::{Error, Result, ServerError};

/// A watch that is open.
pub struct Watch<R> {
    lines: Lines<R>,
}

/// `ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`, with its object.
#[derive(Debug)]
pub struct Event {
    pub kind: String,
    pub object: Value,
}

pub async fn open(client: &Client, call: Call) -> Result<Watch<impl AsyncBufRead + Unpin + Send + use<>>> {
    let stream = client.stream(call.query("watch", "true")).await?;
    Ok(Watch { lines: stream.lines() })
}

impl<R: AsyncBufRead + Unpin> Watch<R> {
    /// None: the server ended the watch.
    pub async fn next(&mut self) -> Result<Option<Event>> {
        let Some(line) = self.lines.next().await else { return Ok(None) };
        let Ok(line) = line else { return Ok(None) };
        let mut event: Value = serde_json::from_str(&line)?;
        let object = event["object"].take();
        if event["type"] == "ERROR" {
            let code = object["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
            return Err(Error::Server(Box::new(ServerError::new(code, object.to_string().as_bytes()))));
        }
        Ok(Some(Event { kind: event["type"].as_str().unwrap_or_default().to_owned(), object }))
    }
}
