//! Reads the body of a request, whole and counted as it comes; see `flow` for what bounds it.

use std::error::Error;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use crate::error::{ApiError, Result};
use crate::flow::Arrival;

/// What is read and thrown away of a body that was refused.
const DRAINED: usize = 256 * 1024 * 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The whole body, if it has no more bytes than `limit` and there is room for it.
pub async fn read<B>(body: &mut B, limit: usize, mut arrival: Option<&mut Arrival>) -> Result<Bytes>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    // What says that it is too large need not be read.
    if body.size_hint().lower() > limit as u64 {
        return Err(ApiError::too_large(limit));
    }
    let mut whole = Whole::Empty;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(unreadable)?.into_data() else { continue };
        if whole.len() + data.len() > limit {
            return Err(ApiError::too_large(limit));
        }
        arrival.as_mut().map_or(Ok(()), |arrival| arrival.grow(data.len()))?;
        whole = whole.and(data);
    }
    if let Some(arrival) = arrival {
        arrival.finish();
    }
    Ok(whole.into_bytes())
}

/// Takes in what still comes of a body that was refused, while the client is told. One that is cut off in the middle
/// of a sentence may not listen: curl reports a broken HTTP/2 stream instead of the answer.
pub async fn drain<B: http_body::Body<Data = Bytes> + Unpin>(mut body: B) {
    let draining = async {
        let mut drained = 0;
        while drained < DRAINED
            && let Some(Ok(frame)) = body.frame().await
        {
            drained += frame.data_ref().map_or(0, Bytes::len);
        }
    };
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, draining).await;
}

fn unreadable(error: impl Into<Box<dyn Error + Send + Sync>>) -> ApiError {
    ApiError::bad_request(format!("the body of the request could not be read: {}", error.into()))
}

/// Most bodies come in one piece, which is not copied.
enum Whole {
    Empty,
    One(Bytes),
    Many(BytesMut),
}

impl Whole {
    fn len(&self) -> usize {
        match self {
            Whole::Empty => 0,
            Whole::One(data) => data.len(),
            Whole::Many(data) => data.len(),
        }
    }

    fn and(self, more: Bytes) -> Whole {
        let mut data = match self {
            Whole::Empty => return Whole::One(more),
            Whole::One(first) => BytesMut::from(first),
            Whole::Many(data) => data,
        };
        data.extend_from_slice(&more);
        Whole::Many(data)
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Whole::Empty => Bytes::new(),
            Whole::One(data) => data,
            Whole::Many(data) => data.freeze(),
        }
    }
}
