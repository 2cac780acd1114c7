//! A machine in the cluster.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use minik8s_auth::bootstrap_token::JoinToken;
use minik8s_auth::pki::{Identity, LiveIdentity, encode_pem};
use parking_lot::Mutex;
use rcgen::KeyPair;

use crate::credentials::Credentials;
use crate::pin::find_authority;
use crate::request::{Purpose, obtain};
use crate::transport::{Proof, Transport};
use crate::{JoinError, ServerAddress};

const CLIENT: &str = "client.pem";
const SERVING: &str = "serving.pem";
/// Clocks can be set and machines sleep, so the dates are looked at from time to time.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);
const SHORTEST_SLEEP: Duration = Duration::from_secs(10);

/// What is known when a machine starts.
pub struct Joining {
    /// Where credentials are kept.
    pub directory: PathBuf,
    pub node_name: String,
    /// Stand in the certificate of the node's port, beside its name.
    pub addresses: Vec<IpAddr>,
    /// Empty if those of the last time will do.
    pub servers: Vec<ServerAddress>,
    /// Needed the first time only.
    pub token: Option<JoinToken>,
}

/// A node's credentials, in use.
pub struct Member {
    pub node_name: String,
    pub servers: Vec<ServerAddress>,
    /// For the node's own port.
    pub serving: Arc<LiveIdentity>,
    /// The cluster's authority.
    pub ca_pem: String,
    addresses: Vec<IpAddr>,
    credentials: Credentials,
    transport: Transport,
    client_identity: Arc<LiveIdentity>,
    held: Mutex<(Identity, Identity)>,
}

/// Becomes a node, or the one it was before.
pub async fn join(joining: Joining) -> Result<Member, JoinError> {
    let Joining { directory, node_name, addresses, servers, token } = joining;
    let credentials = Credentials::open(&directory)?;
    let servers = if servers.is_empty() { credentials.servers() } else { servers };
    let known = (credentials.identity(CLIENT)?, credentials.authority()?);
    let (client, authority) = match known {
        (Some(client), Some(authority)) => {
            check_name(&client, &node_name)?;
            (client, authority)
        }
        _ => match token {
            Some(token) if !servers.is_empty() => enter(&credentials, &servers, &token, &node_name).await?,
            _ => return Err(JoinError::NothingKnown),
        },
    };
    credentials.keep_servers(&servers)?;
    let client_identity = Arc::new(LiveIdentity::new(&client)?);
    let all = united(&servers, &credentials.learned_servers());
    let transport = Transport::new(&all, &authority, Proof::Certificate(client_identity.clone()))?;
    let serving = match credentials.identity(SERVING)? {
        Some(serving) => serving,
        None => {
            let key = KeyPair::generate().map_err(JoinError::Key)?;
            let purpose = Purpose::Serving(&addresses);
            let serving = obtain(&transport.client(), &node_name, &key, purpose).await?;
            credentials.keep_identity(SERVING, &serving)?;
            serving
        }
    };
    Ok(Member {
        node_name,
        servers,
        serving: Arc::new(LiveIdentity::new(&serving)?),
        ca_pem: encode_pem("CERTIFICATE", &authority),
        addresses,
        credentials,
        transport,
        client_identity,
        held: Mutex::new((client, serving)),
    })
}

/// Those the machine was told first, then what it learned: an address that was given may be that of a balancer
/// which never appears among the servers' own.
fn united(told: &[ServerAddress], learned: &[ServerAddress]) -> Vec<ServerAddress> {
    let others = learned.iter().filter(|server| !told.contains(server));
    told.iter().chain(others).cloned().collect()
}

/// The name of the node whose credentials are in that directory.
pub fn known_name(directory: &Path) -> Option<String> {
    let client = Credentials::at(directory).identity(CLIENT).ok()??;
    client.subject()?.common_name.strip_prefix("system:node:").map(str::to_owned)
}

/// The servers that it used the last time.
pub fn known_servers(directory: &Path) -> Vec<ServerAddress> {
    Credentials::at(directory).servers()
}

/// Forgets the credentials in that directory; the cluster is not told.
pub fn leave(directory: &Path) -> Result<(), JoinError> {
    Ok(Credentials::at(directory).remove()?)
}

/// The first certificate, for a token.
async fn enter(
    credentials: &Credentials,
    servers: &[ServerAddress],
    token: &JoinToken,
    node_name: &str,
) -> Result<(Identity, Vec<u8>), JoinError> {
    let authority = find_authority(servers, &token.pin).await?;
    let transport = Transport::new(servers, &authority, Proof::Token(token.token.reveal()))?;
    let key = credentials.joining_key()?;
    let obtained = obtain(&transport.client(), node_name, &key, Purpose::Client).await;
    if let Err(JoinError::Denied(_)) = &obtained {
        // The answer to this key stays what it is; the next try may be another.
        credentials.forget_joining_key();
    }
    let client = obtained?;
    // The authority first: the client's certificate is what says that all is there.
    credentials.keep_authority(&encode_pem("CERTIFICATE", &authority))?;
    credentials.keep_identity(CLIENT, &client)?;
    credentials.forget_joining_key();
    tracing::info!(node = node_name, "joined the cluster");
    Ok((client, authority))
}

fn check_name(client: &Identity, asked: &str) -> Result<(), JoinError> {
    let subject = client.subject().map(|subject| subject.common_name).unwrap_or_default();
    match subject.strip_prefix("system:node:").unwrap_or_default() {
        known if known == asked => Ok(()),
        known => Err(JoinError::OtherName { known: known.to_owned(), asked: asked.to_owned() }),
    }
}

impl Member {
    /// The API as this node; it follows renewals.
    pub fn client(&self) -> kube::Client {
        self.transport.client()
    }

    /// The cluster's servers, as the API tells them now. They are used from now on, beside those that the machine
    /// was told when it joined, and remembered.
    pub fn learn_servers(&self, learned: &[ServerAddress]) -> Result<(), JoinError> {
        if learned.is_empty() || learned == self.credentials.learned_servers() {
            return Ok(());
        }
        self.credentials.keep_learned_servers(learned)?;
        self.transport.set_servers(&united(&self.servers, learned));
        tracing::info!(servers = learned.len(), "learned where the cluster's servers are");
        Ok(())
    }

    /// Those it was told when it joined, and those it learned of since.
    pub fn all_servers(&self) -> Vec<ServerAddress> {
        united(&self.servers, &self.credentials.learned_servers())
    }

    /// Renews certificates in time, for ever.
    pub async fn keep_fresh(&self) {
        loop {
            let sleep = {
                let held = self.held.lock();
                let now = Timestamp::now();
                until_due(&held.0, now).min(until_due(&held.1, now))
            };
            tokio::time::sleep(sleep).await;
            if let Err(error) = self.renew_due(Timestamp::now()).await {
                tracing::warn!(%error, "certificates could not be renewed; trying again");
            }
        }
    }

    /// Renews what has less than a third of its life left.
    pub async fn renew_due(&self, now: Timestamp) -> Result<(), JoinError> {
        let (client_due, serving_due) = {
            let held = self.held.lock();
            (held.0.is_due(now), held.1.is_due(now))
        };
        if client_due {
            let key = KeyPair::generate().map_err(JoinError::Key)?;
            let client = obtain(&self.client(), &self.node_name, &key, Purpose::Client).await?;
            self.credentials.keep_identity(CLIENT, &client)?;
            self.client_identity.swap(&client)?;
            self.transport.reconnect();
            self.held.lock().0 = client;
            tracing::info!("renewed the node's client certificate");
        }
        if serving_due {
            let key = KeyPair::generate().map_err(JoinError::Key)?;
            let purpose = Purpose::Serving(&self.addresses);
            let serving = obtain(&self.client(), &self.node_name, &key, purpose).await?;
            self.credentials.keep_identity(SERVING, &serving)?;
            self.serving.swap(&serving)?;
            self.held.lock().1 = serving;
            tracing::info!("renewed the certificate of the node's port");
        }
        Ok(())
    }
}

/// How long to sleep before the dates are worth another look.
fn until_due(identity: &Identity, now: Timestamp) -> Duration {
    let Some((from, until)) = identity.validity() else { return SHORTEST_SLEEP };
    let due = until - (until - from) / 3;
    let seconds = u64::try_from(due - now.as_second()).unwrap_or(0);
    Duration::from_secs(seconds).clamp(SHORTEST_SLEEP, LONGEST_SLEEP)
}
