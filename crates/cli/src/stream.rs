//! The streams of a container over one WebSocket: a channel each for input, output, errors, the result and
//! the size of the terminal.

mod terminal;

use futures::{SinkExt, StreamExt};
use kube::client::Connection;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Message;

use crate::error::{Error, Result};

pub use terminal::RawMode;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const RESULT: u8 = 3;
const RESIZE: u8 = 4;
/// From v5 on: a channel is finished.
const CLOSE: u8 = 255;

/// What is on this side.
pub struct Ends<I, O, E> {
    pub input: Option<I>,
    pub output: O,
    pub errors: E,
    /// Tell the other side how large the terminal is.
    pub terminal: bool,
}

/// Carries bytes until the other side is done. Gives the command's exit code.
pub async fn carry<I, O, E>(connection: Connection, mut ends: Ends<I, O, E>) -> Result<u8>
where
    I: AsyncRead + Unpin,
    O: AsyncWrite + Unpin,
    E: AsyncWrite + Unpin,
{
    let closes = connection.supports_stream_close();
    let (mut sink, mut source) = connection.into_stream().split();
    let broken =
        |error: tokio_tungstenite::tungstenite::Error| Error::plain(format!("the connection broke: {error}"));
    let mut sizes = terminal::Sizes::new(ends.terminal);
    let mut buffer = vec![0u8; 32 * 1024];
    loop {
        let reading = async {
            match &mut ends.input {
                Some(input) => input.read(&mut buffer).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            message = source.next() => match message {
                None | Some(Ok(Message::Close(_))) => return Ok(0),
                Some(Ok(Message::Binary(data))) => {
                    let Some((channel, data)) = data.split_first() else { continue };
                    match *channel {
                        STDOUT => write(&mut ends.output, data).await?,
                        STDERR => write(&mut ends.errors, data).await?,
                        RESULT if !data.is_empty() => return result(data),
                        _ => {}
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(broken(error)),
            },
            read = reading => {
                let length = read?;
                if length > 0 {
                    sink.send(frame(STDIN, &buffer[..length])).await.map_err(broken)?;
                } else {
                    ends.input = None;
                    if closes {
                        sink.send(frame(CLOSE, &[STDIN])).await.map_err(broken)?;
                    }
                }
            },
            size = sizes.next() => {
                let (width, height) = size;
                let size = json!({"Width": width, "Height": height}).to_string();
                sink.send(frame(RESIZE, size.as_bytes())).await.map_err(broken)?;
            },
        }
    }
}

fn frame(channel: u8, data: &[u8]) -> Message {
    let mut bytes = Vec::with_capacity(data.len() + 1);
    bytes.push(channel);
    bytes.extend_from_slice(data);
    Message::Binary(bytes.into())
}

async fn write(to: &mut (impl AsyncWrite + Unpin), data: &[u8]) -> Result<()> {
    to.write_all(data).await?;
    Ok(to.flush().await?)
}

/// The last word of the server: a `Status` with the exit code among its causes.
fn result(data: &[u8]) -> Result<u8> {
    let status: Value = serde_json::from_slice(data).unwrap_or_default();
    if status["status"] == "Success" {
        return Ok(0);
    }
    let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    let code =
        causes.iter().find(|cause| cause["reason"] == "ExitCode").and_then(|cause| cause["message"].as_str());
    match code.and_then(|code| code.parse::<i64>().ok()) {
        Some(code) => Ok(u8::try_from(code).unwrap_or(1)),
        None => {
            let told = status["message"].as_str().map(str::to_owned);
            Err(Error::plain(told.unwrap_or_else(|| String::from_utf8_lossy(data).into_owned())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results() {
        let check = |status: Value, expected: Option<u8>| {
            assert_eq!(result(status.to_string().as_bytes()).ok(), expected, "{status}");
        };
        check(json!({"status": "Success"}), Some(0));
        let cause = json!({"reason": "ExitCode", "message": "7"});
        check(
            json!({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [cause]}}),
            Some(7),
        );
        check(json!({"status": "Failure", "message": "no such container"}), None);
    }
}
