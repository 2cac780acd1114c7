//! Packets of UDPRoutes: a client's go to one endpoint, and what comes back goes to the client, until both are silent.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use minik8s_proxy::Route as _;
use parking_lot::Mutex;
use tokio::net::UdpSocket;
use tokio::time::timeout;
use tracing::debug;

use crate::proxy::{Client, Shared};

/// After the last packet.
const SILENCE: Duration = Duration::from_secs(60);
/// Clients at a time; packets of more are dropped.
const MOST_CLIENTS: usize = 4096;
const LARGEST: usize = 65_535;

type Sessions = Arc<Mutex<HashMap<SocketAddr, Arc<UdpSocket>>>>;

/// Passes packets on until it is dropped. `on_bound` hears that the port is had.
pub async fn serve(address: SocketAddr, shared: Arc<Shared>, on_bound: impl FnOnce()) -> io::Result<()> {
    let socket = Arc::new(UdpSocket::bind(address).await?);
    on_bound();
    let sessions = Sessions::default();
    let mut buffer = vec![0; LARGEST];
    let turn = std::sync::atomic::AtomicUsize::new(0);
    loop {
        let (length, client) = socket.recv_from(&mut buffer).await?;
        let known = sessions.lock().get(&client).cloned();
        let session = match known {
            Some(session) => session,
            None => match begin(&shared, address.port(), client, &socket, &sessions, &turn).await {
                Ok(session) => session,
                Err(error) => {
                    debug!(%client, %error, "a packet leads nowhere");
                    continue;
                }
            },
        };
        if let Err(error) = session.send(&buffer[..length]).await {
            debug!(%client, %error, "a packet was not taken");
        }
    }
}

/// A socket for a client, and a task that brings back what comes on it.
async fn begin(
    shared: &Arc<Shared>,
    port: u16,
    client: SocketAddr,
    socket: &Arc<UdpSocket>,
    sessions: &Sessions,
    turn: &std::sync::atomic::AtomicUsize,
) -> io::Result<Arc<UdpSocket>> {
    if sessions.lock().len() >= MOST_CLIENTS {
        return Err(io::Error::other("there are too many clients"));
    }
    let table = shared.table.borrow().clone();
    let route = table.gateways.port(port).and_then(|port| port.stream(""));
    let route = route.ok_or_else(|| io::Error::other("no UDPRoute is attached"))?;
    let endpoints = route.endpoints().map_err(|refusal| io::Error::other(refusal.text))?;
    let start = route.first(&Client::new(client, "http"), turn, endpoints.len());
    let session = UdpSocket::bind(SocketAddr::new(socket.local_addr()?.ip(), 0)).await?;
    session.connect(endpoints[start]).await?;
    let session = Arc::new(session);
    sessions.lock().insert(client, session.clone());
    let (back, sessions, from) = (socket.clone(), sessions.clone(), session.clone());
    tokio::spawn(async move {
        let mut buffer = vec![0; LARGEST];
        while let Ok(Ok(length)) = timeout(SILENCE, from.recv(&mut buffer)).await {
            if back.send_to(&buffer[..length], client).await.is_err() {
                break;
            }
        }
        sessions.lock().remove(&client);
    });
    Ok(session)
}
