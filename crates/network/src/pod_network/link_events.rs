//! The kernel's own link_events of changed interfaces, addresses and routes: links that something else took away are put
//! back at once, and nobody has to look every few seconds.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};
use tokio::sync::mpsc;

use super::ROUTE_PROTOCOL;

/// Groups of link_events, as bits: interfaces, IPv4 addresses and routes, IPv6 addresses and routes.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;
const NEW_LINK: u16 = 16;
const DELETED_LINK: u16 = 17;
const NEW_ADDRESS: u16 = 20;
const DELETED_ADDRESS: u16 = 21;
const V6: u8 = 10;

pub struct LinkEvents(mpsc::Receiver<LinkEvent>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkEvent {
    /// The interface with that index came or changed.
    Interface(u32),
    /// It went.
    Removed(u32),
    /// Something else, or nobody knows what.
    Other,
}

impl LinkEvents {
    /// A thread waits for them: it ends with the first event that nobody wants any more.
    pub fn open() -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
        let (sender, receiver) = mpsc::channel(64);
        thread::Builder::new().name("links".to_owned()).spawn(move || pass_on(&fd, &sender))?;
        Ok(LinkEvents(receiver))
    }

    /// Returns after a change of an address, of a route or of one of these interfaces. Pods' interfaces come and go all
    /// the time and mean nothing here.
    pub async fn next(&mut self, interfaces: &[u32]) {
        loop {
            match self.0.recv().await {
                Some(LinkEvent::Interface(index) | LinkEvent::Removed(index))
                    if !interfaces.contains(&index) => {}
                Some(_) => return,
                None => std::future::pending().await,
            }
        }
    }

    /// Returns after an interface went, or when that cannot be ruled out.
    pub async fn removed(&mut self) {
        loop {
            match self.0.recv().await {
                Some(LinkEvent::Interface(_)) => {}
                Some(_) => return,
                None => std::future::pending().await,
            }
        }
    }
}

fn pass_on(fd: &OwnedFd, sender: &mpsc::Sender<LinkEvent>) {
    let mut buffer = vec![0; 32 * 1024];
    loop {
        let link_events = match recv(fd.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            Ok(length) => parse(&buffer[..length]),
            // Some were lost: whatever they said, it is time to look.
            Err(Errno::ENOBUFS) => vec![LinkEvent::Other],
            Err(Errno::EINTR) => continue,
            Err(_) => return,
        };
        for event in link_events {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    }
}

/// Messages begin with their length and type; in those about interfaces and addresses the interface's index is at a fixed
/// place. Every interface has IPv6 addresses and routes that the kernel makes: they say nothing unless they are ours.
fn parse(mut messages: &[u8]) -> Vec<LinkEvent> {
    let number = |bytes: Option<&[u8]>| bytes.and_then(|b| b.try_into().ok()).map(u32::from_ne_bytes);
    let mut found = Vec::new();
    while let Some(length) = number(messages.get(..4)).filter(|length| *length >= 16) {
        let kind = messages.get(4..6).and_then(|b| b.try_into().ok()).map(u16::from_ne_bytes);
        let is_v6 = messages.get(16) == Some(&V6);
        found.push(match (kind, number(messages.get(20..24))) {
            (Some(NEW_LINK), Some(index)) => LinkEvent::Interface(index),
            (Some(DELETED_LINK), Some(index)) => LinkEvent::Removed(index),
            (Some(NEW_ADDRESS | DELETED_ADDRESS), Some(index)) if is_v6 => LinkEvent::Interface(index),
            // Its protocol is at a fixed place, too.
            _ if is_v6 && messages.get(21) != Some(&ROUTE_PROTOCOL) => LinkEvent::Interface(0),
            _ => LinkEvent::Other,
        });
        // The next one begins at a multiple of four.
        messages = messages.get((length as usize).next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELETED_ROUTE: u16 = 25;

    fn message(kind: u16, index: u32) -> Vec<u8> {
        let mut bytes = vec![0; 32];
        bytes[..4].copy_from_slice(&32u32.to_ne_bytes());
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[20..24].copy_from_slice(&index.to_ne_bytes());
        bytes
    }

    #[test]
    fn link_events_are_read() {
        let check = |messages: &[(u16, u32)], expected: &[LinkEvent]| {
            let bytes: Vec<u8> = messages.iter().flat_map(|&(kind, index)| message(kind, index)).collect();
            assert_eq!(parse(&bytes), expected, "{messages:?}");
        };
        check(&[], &[]);
        check(&[(NEW_LINK, 7)], &[LinkEvent::Interface(7)]);
        check(&[(DELETED_LINK, 4), (20, 7)], &[LinkEvent::Removed(4), LinkEvent::Other]);
        let v6 = |kind: u16, protocol: u8| {
            let mut bytes = message(kind, 5);
            (bytes[16], bytes[21]) = (V6, protocol);
            parse(&bytes)
        };
        assert_eq!(v6(DELETED_ROUTE, ROUTE_PROTOCOL), [LinkEvent::Other], "a route of ours");
        assert_eq!(v6(DELETED_ROUTE, 2), [LinkEvent::Interface(0)], "a route of the kernel's");
        assert_eq!(parse(&[0; 64]), [], "a message without a length does not lead in circles");
    }
}
