//! WebSocket clients: channels in messages, translated to SPDY streams of the runtime.
//!
//! A message begins with its channel: 0 stdin, 1 stdout, 2 stderr, 3 the outcome, 4 the terminal's size;
//! 255 closes the channel that follows (v5). How, depends on the [`Subprotocol`].

use std::time::Duration;

use bytes::BytesMut;
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, frame::coding::CloseCode};
use tokio_tungstenite::tungstenite::{Error, Message};
use tracing::debug;

use super::outcome::Outcome;
use super::spdy::{self, Encoder, Frame};
use super::subprotocol::Subprotocol;
use crate::cri::StreamFlags;

const CLOSE: u8 = 255;
const OUTCOME: u8 = 3;
const CHUNK: usize = 32 << 10;
/// An empty message tells clients that the connection stands. kubectl up to 1.32 begins to read a little
/// before it knows its channels, and throws away what comes in between: output waits for the greeting too.
const GREETING_DELAY: Duration = Duration::from_millis(20);

/// Channels and the names and numbers of their SPDY streams. Clients open odd ones.
const CHANNELS: [(u8, &str, u32); 5] =
    [(3, "error", 1), (0, "stdin", 3), (1, "stdout", 5), (2, "stderr", 7), (4, "resize", 9)];

fn is_open(channel: u8, flags: StreamFlags) -> bool {
    match channel {
        0 => flags.stdin,
        1 => flags.stdout,
        2 => flags.stderr,
        4 => flags.tty,
        _ => true,
    }
}

/// Runs until the runtime has said how the command ended, or the client is gone.
pub async fn translate<C, B>(
    client: C,
    mut backend: B,
    flags: StreamFlags,
    subprotocol: Subprotocol,
) -> Result<(), Error>
where
    C: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let mut encoder = Encoder::default();
    for (channel, name, stream) in CHANNELS {
        if is_open(channel, flags) {
            backend.write_all(&encoder.open(stream, &[("streamType", name)])?).await?;
        }
    }
    let mut client = WebSocketStream::from_raw_socket(client, Role::Server, None).await;
    let first_output = [1, 2, 3].into_iter().find(|channel| is_open(*channel, flags)).unwrap_or(3);
    let mut greeting = std::pin::pin!(tokio::time::sleep(GREETING_DELAY));
    let mut greeted = false;
    let mut open_outputs = [1, 2, 3].into_iter().filter(|c| is_open(*c, flags)).count();
    let mut buffer = BytesMut::new();
    let mut outcome = subprotocol.tells_errors_in_words().then(Outcome::default);
    while open_outputs > 0 {
        tokio::select! {
            frame = spdy::read(&mut backend, &mut buffer), if greeted => match frame? {
                Some(Frame::Data { stream, data, fin }) => {
                    let Some(channel) = channel_of(stream) else { continue };
                    match &mut outcome {
                        Some(outcome) if channel == OUTCOME => outcome.push(&data),
                        _ if data.is_empty() => {}
                        _ => client.send(subprotocol.message(channel, &data)).await?,
                    }
                    open_outputs -= usize::from(fin && matches!(channel, 1..=3));
                }
                Some(Frame::Reset { stream }) => {
                    open_outputs -= usize::from(channel_of(stream).is_some_and(|c| matches!(c, 1..=3)));
                }
                Some(Frame::Ping(payload)) => tell(&mut backend, &spdy::pong(&payload)).await,
                Some(Frame::Other) => {}
                Some(Frame::GoAway) | None => break,
            },
            message = client.next() => match message.transpose()? {
                Some(Message::Binary(bytes)) => from_client(&bytes, subprotocol, &mut backend).await,
                Some(Message::Text(text)) => from_client(text.as_bytes(), subprotocol, &mut backend).await,
                Some(Message::Close(_)) | None => return Ok(()),
                Some(_) => {}
            },
            () = &mut greeting, if !greeted => {
                greeted = true;
                client.send(subprotocol.message(first_output, &[])).await?;
            }
        }
    }
    if let Some(words) = outcome.and_then(Outcome::into_words) {
        client.send(subprotocol.message(OUTCOME, words.as_bytes())).await?;
    }
    close(&mut client).await
}

async fn from_client<B: AsyncWrite + Unpin>(message: &[u8], subprotocol: Subprotocol, backend: &mut B) {
    let frame = match subprotocol.read(message) {
        Some((CLOSE, data)) if subprotocol.closes_channels() => {
            let stream = data.first().and_then(|channel| stream_of(*channel));
            stream.map(|stream| spdy::data(stream, &[], true))
        }
        Some((channel @ (0 | 4), data)) if !data.is_empty() => {
            stream_of(channel).map(|stream| spdy::data(stream, &data, false))
        }
        _ => None,
    };
    if let Some(frame) = frame {
        tell(backend, &frame).await;
    }
}

/// A runtime that no longer listens may have said more than was read so far: that is no reason to hang up.
async fn tell<B: AsyncWrite + Unpin>(backend: &mut B, frame: &[u8]) {
    if let Err(error) = backend.write_all(frame).await {
        debug!(%error, "the runtime did not take input");
    }
}

/// Passes the bytes of a SPDY connection through messages.
pub async fn tunnel<C, B>(client: C, backend: B) -> Result<(), Error>
where
    C: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let mut client = WebSocketStream::from_raw_socket(client, Role::Server, None).await;
    let (mut reader, mut writer) = tokio::io::split(backend);
    let mut buffer = BytesMut::with_capacity(CHUNK);
    loop {
        tokio::select! {
            read = reader.read_buf(&mut buffer) => {
                if read? == 0 {
                    return close(&mut client).await;
                }
                client.send(Message::Binary(buffer.split().freeze())).await?;
                buffer.reserve(CHUNK);
            }
            message = client.next() => match message.transpose()? {
                Some(Message::Binary(bytes)) => writer.write_all(&bytes).await?,
                Some(Message::Close(_)) | None => return Ok(()),
                Some(_) => {}
            },
        }
    }
}

pub async fn close<C: AsyncRead + AsyncWrite + Unpin>(client: &mut WebSocketStream<C>) -> Result<(), Error> {
    client.close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() })).await?;
    // The client answers with its own close.
    while let Some(Ok(_)) = client.next().await {}
    Ok(())
}

fn channel_of(stream: u32) -> Option<u8> {
    CHANNELS.iter().find(|(_, _, s)| *s == stream).map(|(channel, _, _)| *channel)
}

fn stream_of(channel: u8) -> Option<u32> {
    CHANNELS.iter().find(|(c, _, _)| *c == channel).map(|(_, _, stream)| *stream)
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    /// A runtime that says a lot, says how it ended and hangs up while the client still sends.
    #[tokio::test]
    async fn output_arrives_whole_from_a_runtime_that_is_gone() {
        let flags = StreamFlags { stdin: true, stdout: true, stderr: false, tty: false };
        let (client, served) = duplex(1024);
        let (runtime, backend) = duplex(1 << 20);
        let page = [7; 4096];
        let (mut listens, mut says) = tokio::io::split(runtime);
        for _ in 0..100 {
            says.write_all(&spdy::data(5, &page, false)).await.unwrap();
        }
        says.write_all(&spdy::data(1, b"{}", true)).await.unwrap();
        says.shutdown().await.unwrap();
        let translation = tokio::spawn(translate(served, backend, flags, Subprotocol::V4));
        let _ = listens.read(&mut [0; 4]).await.unwrap();
        drop((listens, says));
        let mut client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        let (mut output, mut outcome) = (0, 0);
        while let Some(Ok(Message::Binary(message))) = client.next().await {
            match message.split_first() {
                Some((1, data)) => {
                    output += data.len();
                    client.send(Message::binary(&b"\0more"[..])).await.unwrap();
                }
                Some((3, data)) => outcome += data.len(),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((output, outcome), (409_600, 2));
        client.close(None).await.unwrap_or_default();
        drop(client);
        translation.await.unwrap().unwrap_or_default();
    }

    /// What a client gets of a command that writes `hi` and ends like this.
    async fn said(subprotocol: Subprotocol, status: &str) -> Vec<Message> {
        let flags = StreamFlags { stdin: true, stdout: true, stderr: false, tty: false };
        let (client, served) = duplex(1 << 16);
        let (mut runtime, backend) = duplex(1 << 16);
        let translation = tokio::spawn(translate(served, backend, flags, subprotocol));
        let mut client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        client.send(subprotocol.message(0, b"in")).await.unwrap();
        let mut heard = Vec::new();
        while !heard.ends_with(&spdy::data(3, b"in", false)) {
            heard.push(runtime.read_u8().await.unwrap());
        }
        runtime.write_all(&spdy::data(5, b"hi", true)).await.unwrap();
        runtime.write_all(&spdy::data(1, status.as_bytes(), true)).await.unwrap();
        let mut messages = Vec::new();
        while let Some(Ok(message)) = client.next().await {
            if !message.is_close() {
                messages.push(message);
            }
        }
        translation.await.unwrap().unwrap_or_default();
        messages
    }

    #[tokio::test]
    async fn websocket_subprotocols_tell_output_and_outcome_each_in_its_way() {
        let (good, bad) = (r#"{"status":"Success"}"#, r#"{"status":"Failure","message":"exit code 3"}"#);
        let binary = |bytes: &[u8]| Message::binary(bytes.to_vec());
        for subprotocol in [Subprotocol::V1, Subprotocol::Unnamed] {
            assert_eq!(said(subprotocol, good).await, [binary(b"\x01"), binary(b"\x01hi")]);
            let told = said(subprotocol, bad).await;
            assert_eq!(told, [binary(b"\x01"), binary(b"\x01hi"), binary(b"\x03exit code 3")]);
        }
        let told = said(Subprotocol::V4, good).await;
        assert_eq!(told[2], binary(&[b"\x03", good.as_bytes()].concat()));
        let told = said(Subprotocol::V1Base64, bad).await;
        assert_eq!(told, ["1", "1aGk=", "3ZXhpdCBjb2RlIDM="].map(Message::text));
        assert_eq!(said(Subprotocol::V1Base64, good).await, ["1", "1aGk="].map(Message::text));
        assert_eq!(said(Subprotocol::V4Base64, "{}").await, ["1", "1aGk=", "3e30="].map(Message::text));
    }
}
