//! A wire between a server and etcd that can be cut: then nothing passes, and nobody is told.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub struct Wire {
    address: SocketAddr,
    is_cut: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Wire {
    /// From a port of its own to `target`.
    pub async fn to(target: SocketAddr) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (is_cut, cuts) = watch::channel(false);
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, target, cuts.clone()));
            }
        });
        Wire { address, is_cut, task }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    pub fn heal(&self) {
        self.is_cut.send_replace(false);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Both ways. What is sent while it is cut arrives when it is healed, as TCP does it.
async fn carry(mut near: TcpStream, target: SocketAddr, mut cuts: watch::Receiver<bool>) {
    let whole = async |cuts: &mut watch::Receiver<bool>| cuts.wait_for(|is_cut| !*is_cut).await.is_ok();
    if !whole(&mut cuts).await {
        return;
    }
    let Ok(mut far) = TcpStream::connect(target).await else { return };
    let (mut near_read, mut near_write) = near.split();
    let (mut far_read, mut far_write) = far.split();
    let mut other = cuts.clone();
    tokio::select! {
        () = pass(&mut near_read, &mut far_write, &mut cuts) => {}
        () = pass(&mut far_read, &mut near_write, &mut other) => {}
    }
}

async fn pass(
    from: &mut (impl tokio::io::AsyncRead + Unpin),
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
    cuts: &mut watch::Receiver<bool>,
) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut buffer = vec![0; 16 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let whole = cuts.wait_for(|is_cut| !*is_cut).await.is_ok();
        if !whole || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
