//! Ports forwarded to WebSocket clients that speak channels: two for each port, data and errors, translated to
//! the runtime's SPDY streams. Each channel begins with its port in two bytes.

use bytes::BytesMut;
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::spdy::{self, Encoder, Frame};
use super::subprotocol::Subprotocol;
use super::websocket::close;

/// Runs until the pod has closed all connections, or the client is gone.
pub async fn forward<C, B>(
    client: C,
    mut backend: B,
    ports: &[u16],
    subprotocol: Subprotocol,
) -> Result<(), Error>
where
    C: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let mut client = WebSocketStream::from_raw_socket(client, Role::Server, None).await;
    let mut encoder = Encoder::default();
    for (i, port) in (0u8..).zip(ports) {
        let (text, id) = (port.to_string(), i.to_string());
        for (kind, channel) in [("error", 2 * i + 1), ("data", 2 * i)] {
            let headers = [("streamType", kind), ("port", text.as_str()), ("requestID", id.as_str())];
            backend.write_all(&encoder.open(stream_of(channel), &headers)?).await?;
            client.send(subprotocol.message(channel, &port.to_le_bytes())).await?;
        }
        // Nothing is ever written to the errors.
        backend.write_all(&spdy::data(stream_of(2 * i + 1), &[], true)).await?;
    }
    let mut open = ports.len();
    let mut buffer = BytesMut::new();
    while open > 0 {
        tokio::select! {
            frame = spdy::read(&mut backend, &mut buffer) => match frame? {
                Some(Frame::Data { stream, data, fin }) => {
                    let channel = channel_of(stream);
                    if !data.is_empty() {
                        client.send(subprotocol.message(channel, &data)).await?;
                    }
                    open -= usize::from(fin && channel.is_multiple_of(2));
                }
                Some(Frame::Reset { stream }) => open -= usize::from(channel_of(stream).is_multiple_of(2)),
                Some(Frame::Ping(payload)) => backend.write_all(&spdy::pong(&payload)).await?,
                Some(Frame::Other) => {}
                Some(Frame::GoAway) | None => break,
            },
            message = client.next() => match message.transpose()? {
                Some(message @ (Message::Binary(_) | Message::Text(_))) => {
                    let message = message.into_data();
                    let Some((channel, data)) = subprotocol.read(&message) else { continue };
                    if channel.is_multiple_of(2) && usize::from(channel / 2) < ports.len() && !data.is_empty() {
                        backend.write_all(&spdy::data(stream_of(channel), &data, false)).await?;
                    }
                }
                Some(Message::Close(_)) | None => return Ok(()),
                Some(_) => {}
            },
        }
    }
    close(&mut client).await
}

/// The ports that a request asks for: `ports=80&ports=443` or `ports=80,443`.
pub fn asked(query: Option<&str>) -> Vec<u16> {
    let pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.strip_prefix("ports="));
    pairs.flat_map(|list| list.split(',')).filter_map(|port| port.parse().ok()).take(64).collect()
}

/// Clients open odd streams, each with a larger number than the one before: errors first, then data.
fn stream_of(channel: u8) -> u32 {
    let channel = u32::from(channel);
    if channel.is_multiple_of(2) { 2 * channel + 3 } else { 2 * channel - 1 }
}

fn channel_of(stream: u32) -> u8 {
    let channel = if stream % 4 == 3 { (stream - 3) / 2 } else { stream.div_ceil(2) };
    u8::try_from(channel).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ports_are_forwarded_in_binary_and_in_base64() {
        use tokio::io::{AsyncReadExt, duplex};

        for subprotocol in [Subprotocol::V4, Subprotocol::V4Base64, Subprotocol::Unnamed] {
            let (client, served) = duplex(1 << 16);
            let (mut runtime, backend) = duplex(1 << 16);
            let forwarding = tokio::spawn(async move { forward(served, backend, &[80], subprotocol).await });
            let mut client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
            for channel in [1, 0] {
                let greeting = client.next().await.unwrap().unwrap();
                assert_eq!(greeting, subprotocol.message(channel, &[80, 0]));
            }
            client.send(subprotocol.message(0, b"GET")).await.unwrap();
            let mut heard = Vec::new();
            while !heard.ends_with(&spdy::data(stream_of(0), b"GET", false)) {
                heard.push(runtime.read_u8().await.unwrap());
            }
            runtime.write_all(&spdy::data(stream_of(0), b"OK", true)).await.unwrap();
            assert_eq!(client.next().await.unwrap().unwrap(), subprotocol.message(0, b"OK"));
            assert!(client.next().await.unwrap().unwrap().is_close());
            while let Some(Ok(_)) = client.next().await {}
            forwarding.await.unwrap().unwrap_or_default();
        }
    }

    #[test]
    fn channels_and_ports() {
        for channel in 0..8 {
            assert_eq!(channel_of(stream_of(channel)), channel);
        }
        assert_eq!([1, 0, 3, 2].map(stream_of), [1, 3, 5, 7]);
        assert_eq!(asked(Some("ports=80&x=1&ports=443,8080")), [80, 443, 8080]);
        assert!(asked(None).is_empty());
    }
}
