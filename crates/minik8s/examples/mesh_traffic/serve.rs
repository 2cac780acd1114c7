//! What runs in pods: answers every request over kept connections, and ends when it is told to and nobody asks any more.

use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};

pub const PORT: u16 = 9080;
const BODY: &str = "answered\n";
/// For answers under way.
const LAST: Duration = Duration::from_millis(200);

pub async fn run() -> Result<()> {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                tokio::spawn(answer(stream));
            }
            _ = terminate.recv() => break,
        }
    }
    tokio::time::sleep(LAST).await;
    Ok(())
}

/// Requests have a body of one byte.
async fn answer(mut stream: TcpStream) {
    let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{BODY}", BODY.len());
    let (mut buffer, mut length) = ([0; 4096], 0);
    let _ = stream.set_nodelay(true);
    while let Ok(read) = stream.read(&mut buffer[length..]).await {
        length += read;
        if read == 0 || length == buffer.len() {
            return;
        }
        let head = buffer[..length].windows(4).position(|four| four == b"\r\n\r\n");
        if head.is_some_and(|head| length > head + 4) {
            length = 0;
            if stream.write_all(text.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}
