//! As much of SPDY/3.1 as a client of the runtime's streaming server needs: open streams, send and receive
//! data. There is no flow control, since that server has none.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use flate2::{Compress, Compression, FlushCompress};
use tokio::io::{AsyncRead, AsyncReadExt};

const VERSION: u16 = 0x8003;
const SYN_STREAM: u16 = 1;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const FIN: u8 = 1;
const HEADER: usize = 8;
/// The length field has 24 bits; a server that fills them has lost its way.
const LARGEST_FRAME: usize = 1 << 20;

/// What the server sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    Data {
        stream: u32,
        data: Bytes,
        fin: bool,
    },
    Reset {
        stream: u32,
    },
    /// Wants the same bytes back.
    Ping(Bytes),
    GoAway,
    /// Answers to our own frames and settings, which need no reply.
    Other,
}

/// Encodes frames. Header blocks of one connection share one compression context.
pub struct Encoder {
    compress: Compress,
}

impl Default for Encoder {
    fn default() -> Self {
        Encoder { compress: Compress::new(Compression::fast(), true) }
    }
}

impl Encoder {
    /// Opens a stream with these headers.
    pub fn open(&mut self, stream: u32, headers: &[(&str, &str)]) -> io::Result<Bytes> {
        let mut block = BytesMut::new();
        block.put_u32(headers.len() as u32);
        for (name, value) in headers {
            block.put_u32(name.len() as u32);
            block.put_slice(name.to_ascii_lowercase().as_bytes());
            block.put_u32(value.len() as u32);
            block.put_slice(value.as_bytes());
        }
        let block = self.deflate(&block)?;
        let mut frame = BytesMut::new();
        frame.put_u16(VERSION);
        frame.put_u16(SYN_STREAM);
        frame.put_u32(10 + block.len() as u32);
        frame.put_u32(stream);
        // No associated stream, highest priority, no credential slot.
        frame.put_u32(0);
        frame.put_u16(0);
        frame.put_slice(&block);
        Ok(frame.freeze())
    }

    /// Compresses so that the other side can read all of it now.
    fn deflate(&mut self, input: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::with_capacity(input.len() + 64);
        let before = self.compress.total_in();
        loop {
            let consumed = (self.compress.total_in() - before) as usize;
            self.compress.compress_vec(&input[consumed..], &mut out, FlushCompress::Sync)?;
            if out.len() < out.capacity() {
                return Ok(out);
            }
            out.reserve(64);
        }
    }
}

pub fn data(stream: u32, data: &[u8], fin: bool) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEADER + data.len());
    frame.put_u32(stream & 0x7fff_ffff);
    frame.put_u32(u32::from(if fin { FIN } else { 0 }) << 24 | data.len() as u32);
    frame.put_slice(data);
    frame.freeze()
}

pub fn pong(payload: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u16(VERSION);
    frame.put_u16(PING);
    frame.put_u32(payload.len() as u32);
    frame.put_slice(payload);
    frame.freeze()
}

/// The next frame; `None` when the server has closed the connection.
pub async fn read<R: AsyncRead + Unpin>(reader: &mut R, buffer: &mut BytesMut) -> io::Result<Option<Frame>> {
    loop {
        if let Some(frame) = decode(buffer)? {
            return Ok(Some(frame));
        }
        if reader.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

fn decode(buffer: &mut BytesMut) -> io::Result<Option<Frame>> {
    if buffer.len() < HEADER {
        return Ok(None);
    }
    let word = u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]);
    let (flags, length) = (buffer[4], u32::from_be_bytes([0, buffer[5], buffer[6], buffer[7]]) as usize);
    if length > LARGEST_FRAME {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is too long"));
    }
    if buffer.len() < HEADER + length {
        buffer.reserve(HEADER + length - buffer.len());
        return Ok(None);
    }
    buffer.advance(HEADER);
    let mut payload = buffer.split_to(length).freeze();
    if word & 0x8000_0000 == 0 {
        return Ok(Some(Frame::Data { stream: word, data: payload, fin: flags & FIN != 0 }));
    }
    Ok(Some(match word as u16 {
        RST_STREAM if payload.len() >= 4 => Frame::Reset { stream: payload.get_u32() & 0x7fff_ffff },
        PING => Frame::Ping(payload),
        GOAWAY => Frame::GoAway,
        _ => Frame::Other,
    }))
}

#[cfg(test)]
mod tests {
    use flate2::{Decompress, FlushDecompress};

    use super::*;

    fn headers_of(frame: &[u8], inflate: &mut Decompress) -> Vec<u8> {
        let mut out = Vec::with_capacity(1024);
        inflate.decompress_vec(&frame[18..], &mut out, FlushDecompress::Sync).unwrap();
        out
    }

    #[test]
    fn header_blocks_share_a_context() {
        let mut encoder = Encoder::default();
        let mut inflate = Decompress::new(true);
        for (id, kind) in [(1, "error"), (3, "stdout")] {
            let frame = encoder.open(id, &[("streamType", kind)]).unwrap();
            assert_eq!(&frame[..4], [0x80, 3, 0, 1]);
            assert_eq!(frame[8..12], u32::to_be_bytes(id));
            assert_eq!(u32::from_be_bytes([0, frame[5], frame[6], frame[7]]) as usize, frame.len() - 8);
            let block = headers_of(&frame, &mut inflate);
            let text = String::from_utf8_lossy(&block).into_owned();
            assert!(text.contains("streamtype") && text.contains(kind), "{text:?}");
        }
    }

    #[test]
    fn long_headers_survive() {
        let long: String = (0..5000).map(|n| char::from(b'a' + (n * n % 26) as u8)).collect();
        let frame = Encoder::default().open(1, &[("x", &long)]).unwrap();
        let mut out = Vec::with_capacity(8192);
        Decompress::new(true).decompress_vec(&frame[18..], &mut out, FlushDecompress::Sync).unwrap();
        assert!(String::from_utf8_lossy(&out).contains(&long));
    }

    #[tokio::test]
    async fn frames_are_read_whole() {
        let mut bytes = data(5, b"hello", false).to_vec();
        bytes.extend_from_slice(&pong(&[0, 0, 0, 2]));
        bytes.extend_from_slice(&[0x80, 3, 0, 3, 0, 0, 0, 8, 0, 0, 0, 5, 0, 0, 0, 1]);
        bytes.extend_from_slice(&data(5, b"", true));
        let mut reader = tokio_test_reader(bytes);
        let mut buffer = BytesMut::new();
        let mut next = async || read(&mut reader, &mut buffer).await.unwrap();
        assert_eq!(
            next().await,
            Some(Frame::Data { stream: 5, data: Bytes::from_static(b"hello"), fin: false })
        );
        assert_eq!(next().await, Some(Frame::Ping(Bytes::from_static(&[0, 0, 0, 2]))));
        assert_eq!(next().await, Some(Frame::Reset { stream: 5 }));
        assert_eq!(next().await, Some(Frame::Data { stream: 5, data: Bytes::new(), fin: true }));
        assert_eq!(next().await, None);
    }

    /// Gives three bytes at a time.
    fn tokio_test_reader(bytes: Vec<u8>) -> impl AsyncRead + Unpin {
        let chunks: Vec<_> = bytes.chunks(3).map(|c| Ok::<_, io::Error>(Bytes::copy_from_slice(c))).collect();
        tokio_util::io::StreamReader::new(futures::stream::iter(chunks))
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..64)) {
            let mut buffer = BytesMut::from(&bytes[..]);
            while let Ok(Some(_)) = decode(&mut buffer) {}
        }
    }
}
