//! The listening sockets of a proxy, from hand to hand: the agent keeps them, so that a proxy that ends, by accident or to
//! be replaced, leaves no moment in which a connection is refused. Those that come meanwhile wait in the socket.
//!
//! A proxy asks for them when it starts, and makes its own if the agent has none; it hands them to every agent that it
//! meets. Over the same socket it gets the agent's own program, to be replaced by it. Both sides are blocking, for a few
//! bytes on a socket of the same machine.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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
const PROGRAM: u8 = b'P';
/// What the agent itself was started from, also if that file is no more.
const OURSELVES: &str = "/proc/self/exe";
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
        let (word, files) = receive(stream)?;
        match (word, listeners(files)) {
            (WANT, _) => match &*self.0.lock() {
                Some(kept) => send(stream, HAVE, &[kept.outbound.as_fd(), kept.inbound.as_fd()]),
                None => send(stream, NONE, &[]),
            },
            // Readable by all users of this machine that may run it; a proxy is one of them.
            (PROGRAM, _) => send(stream, HAVE, &[File::open(OURSELVES)?.as_fd()]),
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
    send(stream, WANT, &[])?;
    Ok(listeners(receive(stream)?.1))
}

/// The agent's own program. Agents of older versions close the connection.
pub fn program(stream: &UnixStream) -> io::Result<File> {
    limit(stream)?;
    send(stream, PROGRAM, &[])?;
    let file = receive(stream)?.1.into_iter().next();
    file.map(File::from).ok_or_else(|| io::Error::other("the agent hands out no program"))
}

/// Returns when the agent has them.
pub fn give(stream: &UnixStream, listeners: &Listeners) -> io::Result<()> {
    limit(stream)?;
    send(stream, HAVE, &[listeners.outbound.as_fd(), listeners.inbound.as_fd()])?;
    // It closes the connection then.
    let mut stream = stream;
    stream.read(&mut [0]).map(drop)
}

fn limit(stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))
}

fn listeners(files: Vec<OwnedFd>) -> Option<Listeners> {
    let mut sockets = files.into_iter().map(TcpListener::from);
    let (outbound, inbound) = sockets.next().zip(sockets.next())?;
    Some(Listeners { outbound, inbound })
}

fn send(stream: &UnixStream, word: u8, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    sendmsg(stream, &[IoSlice::new(&[word])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// What does not fit is closed by the kernel.
fn receive(stream: &UnixStream) -> io::Result<(u8, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut word = [0];
    let read = recvmsg(stream, &mut [IoSliceMut::new(&mut word)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if read.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut files: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            files.extend(received);
        }
    }
    Ok((word[0], files))
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
    fn program_of_the_agent_is_handed_out() {
        use std::os::unix::fs::MetadataExt;
        let file = meet(&Arc::default(), |stream| program(&stream)).unwrap();
        assert_eq!(file.metadata().unwrap().ino(), std::fs::metadata(OURSELVES).unwrap().ino());
    }

    #[test]
    fn nonsense_keeps_nothing() {
        let keeper = Keeper::default();
        let (proxy, agent) = UnixStream::pair().unwrap();
        send(&proxy, HAVE, &[]).unwrap();
        assert!(keeper.serve(&agent).is_err());
        assert!(keeper.0.lock().is_none());
        drop(proxy);
        assert!(keeper.serve(&agent).is_err(), "nobody is there");
    }
}
