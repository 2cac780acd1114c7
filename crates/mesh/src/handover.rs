//! The listening sockets of a proxy, from hand to hand: the agent keeps them, so that a proxy that ends, by accident or to
//! be replaced, leaves no moment in which a connection is refused. Those that come meanwhile wait in the socket.
//!
//! A proxy asks for them when it starts, and makes its own if the agent has none; it hands them to every agent that it
//! meets. Both sides are blocking, for a few bytes on a socket of the same machine.

use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

const WANT: u8 = b'W';
const HAVE: u8 = b'H';
const NONE: u8 = b'N';
const LIMIT: Duration = Duration::from_secs(5);

/// For what a pod sends, and for what comes to it.
#[derive(Debug)]
pub struct Listeners {
    pub outbound: TcpListener,
    pub inbound: TcpListener,
}

impl Listeners {
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Listeners { outbound: self.outbound.try_clone()?, inbound: self.inbound.try_clone()? })
    }
}

/// The agent's side of one pod.
#[derive(Debug, Default)]
pub struct Keeper(Mutex<Option<Listeners>>);

impl Keeper {
    /// Answers one proxy.
    pub fn serve(&self, stream: &UnixStream) -> io::Result<()> {
        limit(stream)?;
        match receive(stream)? {
            (WANT, _) => match &*self.0.lock() {
                Some(kept) => send(stream, HAVE, Some(kept)),
                None => send(stream, NONE, None),
            },
            (HAVE, Some(listeners)) => {
                *self.0.lock() = Some(listeners);
                Ok(())
            }
            _ => Err(io::Error::other("a proxy said something else")),
        }
    }
}

/// What the agent has kept.
pub fn want(stream: &UnixStream) -> io::Result<Option<Listeners>> {
    limit(stream)?;
    send(stream, WANT, None)?;
    Ok(receive(stream)?.1)
}

/// Returns when the agent has them.
pub fn give(stream: &UnixStream, listeners: &Listeners) -> io::Result<()> {
    limit(stream)?;
    send(stream, HAVE, Some(listeners))?;
    // It closes the connection then.
    let mut stream = stream;
    stream.read(&mut [0]).map(drop)
}

fn limit(stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))
}

fn send(stream: &UnixStream, word: u8, listeners: Option<&Listeners>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let sockets = listeners.map(|both| [both.outbound.as_fd(), both.inbound.as_fd()]);
    if let Some(sockets) = &sockets {
        control.push(SendAncillaryMessage::ScmRights(sockets));
    }
    sendmsg(stream, &[IoSlice::new(&[word])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// What does not fit is closed by the kernel.
fn receive(stream: &UnixStream) -> io::Result<(u8, Option<Listeners>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut word = [0];
    let read = recvmsg(stream, &mut [IoSliceMut::new(&mut word)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if read.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut sockets: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            sockets.extend(received);
        }
    }
    let mut sockets = sockets.into_iter().map(TcpListener::from);
    let both = sockets.next().zip(sockets.next());
    Ok((word[0], both.map(|(outbound, inbound)| Listeners { outbound, inbound })))
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::sync::Arc;

    use super::*;

    fn meet<T>(keeper: &Arc<Keeper>, talk: impl FnOnce(UnixStream) -> T) -> T {
        let (proxy, agent) = UnixStream::pair().unwrap();
        let keeper = keeper.clone();
        let serving = std::thread::spawn(move || keeper.serve(&agent));
        let said = talk(proxy);
        serving.join().unwrap().unwrap();
        said
    }

    /// A connection that comes while no proxy lives is answered by the next one.
    #[test]
    fn connections_outlive_a_proxy() {
        let keeper = Arc::<Keeper>::default();
        assert!(meet(&keeper, |stream| want(&stream)).unwrap().is_none(), "the first makes its own");
        let bind = || TcpListener::bind("127.0.0.1:0").unwrap();
        let first = Listeners { outbound: bind(), inbound: bind() };
        let address = first.inbound.local_addr().unwrap();
        meet(&keeper, |stream| give(&stream, &first)).unwrap();
        drop(first);
        let waiting = TcpStream::connect(address).unwrap();
        let second = meet(&keeper, |stream| want(&stream)).unwrap().unwrap();
        let (_, peer) = second.inbound.accept().unwrap();
        assert_eq!(peer, waiting.local_addr().unwrap());
        assert_ne!(second.outbound.local_addr().unwrap(), address, "not mixed up");
    }

    #[test]
    fn nonsense_keeps_nothing() {
        let keeper = Keeper::default();
        let (proxy, agent) = UnixStream::pair().unwrap();
        send(&proxy, HAVE, None).unwrap();
        assert!(keeper.serve(&agent).is_err());
        assert!(keeper.0.lock().is_none());
        drop(proxy);
        assert!(keeper.serve(&agent).is_err(), "nobody is there");
    }
}
