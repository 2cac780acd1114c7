//! What WebSocket clients may speak with us: the names, and how a channel's bytes look in a message. Pure.
//!
//! | Name | Messages | The outcome (channel 3) |
//! |---|---|---|
//! | `v5.channel.k8s.io`, `v4.channel.k8s.io` | channel byte, then bytes | a Status in JSON |
//! | `v4.base64.channel.k8s.io` | channel digit, then base64, as text | a Status in JSON |
//! | `channel.k8s.io`, or none at all | channel byte, then bytes | what went wrong, in words; nothing if nothing did |
//! | `base64.channel.k8s.io` | channel digit, then base64, as text | likewise |
//! | `SPDY/3.1+portforward.k8s.io` | SPDY, for ports alone | |

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, BytesMut};
use tokio_tungstenite::tungstenite::Message;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subprotocol {
    V5,
    V4,
    V4Base64,
    V1,
    V1Base64,
    /// For clients that name none: as `V1`.
    Unnamed,
    /// SPDY inside of WebSocket messages.
    Tunnel,
}

const COMMAND: [Subprotocol; 5] =
    [Subprotocol::V5, Subprotocol::V4, Subprotocol::V4Base64, Subprotocol::V1, Subprotocol::V1Base64];
const PORT_FORWARD: [Subprotocol; 5] =
    [Subprotocol::Tunnel, Subprotocol::V4, Subprotocol::V4Base64, Subprotocol::V1, Subprotocol::V1Base64];

impl Subprotocol {
    /// For exec and attach. Our favourite first, then as the client prefers; None: it offers nothing that we know.
    pub fn for_command(offered: &[&str]) -> Option<Self> {
        choose(offered, &COMMAND)
    }

    pub fn for_ports(offered: &[&str]) -> Option<Self> {
        choose(offered, &PORT_FORWARD)
    }

    /// What to answer the client; None if it has named none.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Subprotocol::V5 => Some("v5.channel.k8s.io"),
            Subprotocol::V4 => Some("v4.channel.k8s.io"),
            Subprotocol::V4Base64 => Some("v4.base64.channel.k8s.io"),
            Subprotocol::V1 => Some("channel.k8s.io"),
            Subprotocol::V1Base64 => Some("base64.channel.k8s.io"),
            Subprotocol::Unnamed => None,
            Subprotocol::Tunnel => Some("SPDY/3.1+portforward.k8s.io"),
        }
    }

    fn is_text(self) -> bool {
        matches!(self, Subprotocol::V4Base64 | Subprotocol::V1Base64)
    }

    /// Whether the outcome of a command is told in words, and only if it is an error.
    pub fn tells_errors_in_words(self) -> bool {
        matches!(self, Subprotocol::V1 | Subprotocol::V1Base64 | Subprotocol::Unnamed)
    }

    /// Whether a client can close a channel.
    pub fn closes_channels(self) -> bool {
        self == Subprotocol::V5
    }

    pub fn message(self, channel: u8, data: &[u8]) -> Message {
        if self.is_text() {
            let digit = char::from(b'0'.saturating_add(channel));
            return Message::text(format!("{digit}{}", STANDARD.encode(data)));
        }
        let mut message = BytesMut::with_capacity(1 + data.len());
        message.put_u8(channel);
        message.put_slice(data);
        Message::Binary(message.freeze())
    }

    /// The channel and bytes that a message stands for; None if it makes no sense.
    pub fn read(self, message: &[u8]) -> Option<(u8, Cow<'_, [u8]>)> {
        let (channel, data) = message.split_first()?;
        if !self.is_text() {
            return Some((*channel, Cow::Borrowed(data)));
        }
        let channel = channel.checked_sub(b'0')?;
        STANDARD.decode(data).ok().map(|data| (channel, Cow::Owned(data)))
    }
}

fn choose(offered: &[&str], known: &[Subprotocol]) -> Option<Subprotocol> {
    if offered.is_empty() {
        return Some(Subprotocol::Unnamed);
    }
    let by_name = |name: &str| known.iter().copied().find(|known| known.name() == Some(name));
    let favourite =
        known.first().copied().filter(|first| offered.iter().any(|name| first.name() == Some(name)));
    favourite.or_else(|| offered.iter().find_map(|name| by_name(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn websocket_subprotocol_is_our_favourite_then_the_clients() {
        let command =
            |offered: &[&str], want| assert_eq!(Subprotocol::for_command(offered), want, "{offered:?}");
        command(&["v5.channel.k8s.io"], Some(Subprotocol::V5));
        command(&["v4.channel.k8s.io", "v5.channel.k8s.io"], Some(Subprotocol::V5));
        command(&["channel.k8s.io", "v4.channel.k8s.io"], Some(Subprotocol::V1));
        command(&["base64.channel.k8s.io"], Some(Subprotocol::V1Base64));
        command(&["v4.base64.channel.k8s.io"], Some(Subprotocol::V4Base64));
        command(&["v9", "v4.channel.k8s.io"], Some(Subprotocol::V4));
        command(&[], Some(Subprotocol::Unnamed));
        command(&["SPDY/3.1+portforward.k8s.io"], None);
        command(&["v9"], None);
        let ports = |offered: &[&str], want| assert_eq!(Subprotocol::for_ports(offered), want, "{offered:?}");
        ports(&["v4.channel.k8s.io", "SPDY/3.1+portforward.k8s.io"], Some(Subprotocol::Tunnel));
        ports(&["v4.base64.channel.k8s.io"], Some(Subprotocol::V4Base64));
        ports(&[], Some(Subprotocol::Unnamed));
        ports(&["v5.channel.k8s.io"], None);
    }

    #[test]
    fn websocket_messages_carry_channel_and_bytes() {
        for subprotocol in COMMAND.into_iter().chain([Subprotocol::Unnamed]) {
            let message = subprotocol.message(3, b"\xff\x00a");
            assert_eq!(message.is_text(), subprotocol.is_text());
            assert_eq!(subprotocol.read(&message.into_data()), Some((3, Cow::from(&b"\xff\x00a"[..]))));
            assert_eq!(subprotocol.read(b""), None);
        }
        assert_eq!(Subprotocol::V4.message(1, b"hi"), Message::binary(&b"\x01hi"[..]));
        assert_eq!(Subprotocol::V4Base64.message(1, b"hi"), Message::text("1aGk="));
        assert_eq!(Subprotocol::V1Base64.message(1, b""), Message::text("1"));
        for nonsense in [&b"1not base64"[..], b"\x01aGk="] {
            assert_eq!(Subprotocol::V1Base64.read(nonsense), None, "{nonsense:?}");
        }
    }
}
