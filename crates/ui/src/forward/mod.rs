//! One-click forwards of `minik8s dashboard`: a web interface of a pod at an address of its own on this machine.
//!
//! A page of a pod must never be a page of the dashboard's origin, nor get its cookie. Browsers give cookies to all ports of a
//! host, so each forward has a *host* of its own too: one of the sixteen million loopback addresses. It opens with a link that
//! works once, ends after an hour, when it is closed, or with the dashboard. Never listens on anything but loopback.

mod gate;
mod upstream;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::session::Sessions;
use gate::Gate;
use upstream::Target;

const LIFETIME: Duration = Duration::from_secs(3600);
/// More than anyone looks at.
const MOST: usize = 16;
/// Attempts to find an address that is free.
const ATTEMPTS: usize = 8;

/// What a page asks for: a new forward, or a link to one that there is.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Wanted {
    id: String,
    namespace: String,
    pod: String,
    port: u16,
}

pub type Refusal = (StatusCode, String);

/// The forwards of one dashboard.
pub struct Forwards {
    client: kube::Client,
    open: Mutex<Vec<Forward>>,
}

struct Forward {
    target: Target,
    address: SocketAddr,
    since: Instant,
    sessions: Arc<Sessions<()>>,
    task: AbortHandle,
}

impl Forward {
    /// An address is one forward's at a time.
    fn id(&self) -> String {
        self.address.to_string()
    }

    fn link(&self) -> Result<String, Refusal> {
        let code = self.sessions.code((), Instant::now());
        let code = code.ok_or((StatusCode::TOO_MANY_REQUESTS, "too many links wait".to_owned()))?;
        Ok(format!("http://{}{}{}", self.address, gate::OPEN, code.as_str()))
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Forwards {
    pub fn new(client: kube::Client) -> Self {
        Forwards { client, open: Mutex::default() }
    }

    /// Those that are open.
    pub fn list(&self) -> Value {
        let mut open = self.open.lock();
        open.retain(|forward| !forward.task.is_finished());
        let items = open.iter().map(|forward| {
            let Target { namespace, pod, port } = &forward.target;
            let left = LIFETIME.saturating_sub(forward.since.elapsed()).as_secs();
            json!({"id": forward.id(), "namespace": namespace, "pod": pod, "port": port, "secondsLeft": left})
        });
        json!({"kind": "ForwardList", "items": items.collect::<Vec<_>>()})
    }

    /// A link to what is wanted, which works once and within a minute.
    pub async fn open(&self, wanted: Wanted) -> Result<Value, Refusal> {
        if !wanted.id.is_empty() {
            let open = self.open.lock();
            let forward = open.iter().find(|one| one.id() == wanted.id && !one.task.is_finished());
            let forward = forward.ok_or((StatusCode::NOT_FOUND, "this forward has ended".to_owned()))?;
            return Ok(json!({"kind": "Forward", "id": forward.id(), "url": forward.link()?}));
        }
        let target = Target::new(wanted.namespace, wanted.pod, wanted.port)?;
        // Whoever may not, or whose pod is not there, hears it now and not from a page that does not load.
        drop(target.connect(&self.client).await?);
        let listener = listen().await?;
        let address = listener.local_addr().map_err(cannot_listen)?;
        let sessions = Arc::<Sessions<()>>::default();
        let gate = Gate::new(self.client.clone(), target.clone(), address, sessions.clone());
        let task =
            tokio::spawn(tokio::time::timeout(LIFETIME, Arc::new(gate).serve(listener))).abort_handle();
        let forward = Forward { target, address, since: Instant::now(), sessions, task };
        let answer = json!({"kind": "Forward", "id": forward.id(), "url": forward.link()?});
        let mut open = self.open.lock();
        open.retain(|forward| !forward.task.is_finished());
        if open.len() >= MOST {
            let problem = format!("{MOST} forwards are open: close one");
            return Err((StatusCode::TOO_MANY_REQUESTS, problem));
        }
        open.push(forward);
        Ok(answer)
    }

    /// Says whether there was one.
    pub fn close(&self, id: &str) -> bool {
        let mut open = self.open.lock();
        let before = open.len();
        open.retain(|forward| forward.id() != id);
        open.len() < before
    }

    pub fn close_all(&self) {
        self.open.lock().clear();
    }
}

/// At an address that no other page of this machine has.
async fn listen() -> Result<TcpListener, Refusal> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        match TcpListener::bind((own_address(rand::random()), 0)).await {
            Ok(listener) => return Ok(listener),
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or((StatusCode::INTERNAL_SERVER_ERROR, String::new()), cannot_listen))
}

/// Never 127.0.0.1, whose cookies are others'.
fn own_address([a, b, c]: [u8; 3]) -> Ipv4Addr {
    Ipv4Addr::new(127, a.clamp(1, 254), b, c.clamp(1, 254))
}

fn cannot_listen(error: std::io::Error) -> Refusal {
    let problem = format!("this machine gives a forward no loopback address of its own: {error}");
    (StatusCode::INTERNAL_SERVER_ERROR, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forward_has_a_loopback_host_of_its_own() {
        for bytes in [[0, 0, 0], [0, 0, 1], [255, 255, 255], [7, 8, 9]] {
            let address = own_address(bytes);
            assert!(address.is_loopback() && address.octets()[1] != 0, "{address}");
        }
    }
}
