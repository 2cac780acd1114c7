//! Where etcd is, whom we trust there, and who we are to it.

use std::fmt;
use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};

use super::requests::causes;
use crate::{Error, Result};

/// The members of one etcd cluster.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct EtcdAddress {
    /// URLs, all of them with `https` or none.
    pub endpoints: Vec<String>,
    /// PEM: who signed etcd's certificates; without it, whom this machine trusts.
    pub authority: Option<Vec<u8>>,
    /// PEM: our certificate and its key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl EtcdAddress {
    /// As whoever asks, and with TLS only if the URLs say so.
    pub fn new(endpoints: impl IntoIterator<Item = impl Into<String>>) -> EtcdAddress {
        EtcdAddress { endpoints: endpoints.into_iter().map(Into::into).collect(), ..EtcdAddress::default() }
    }

    pub fn is_encrypted(&self) -> bool {
        self.endpoints.iter().all(|endpoint| endpoint.starts_with("https://"))
    }

    pub(super) async fn connect(&self) -> Result<Client> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(Duration::from_secs(5))
            .with_keep_alive(Duration::from_secs(10), Duration::from_secs(5))
            .with_keep_alive_while_idle(true)
            .with_require_leader(true);
        if self.is_encrypted() {
            options = options.with_tls(self.tls());
        }
        Client::connect(&self.endpoints, Some(options)).await.map_err(|error| self.refused(&causes(&error)))
    }

    fn tls(&self) -> TlsOptions {
        let tls = match &self.authority {
            Some(authority) => TlsOptions::new().ca_certificate(Certificate::from_pem(authority)),
            None => TlsOptions::new().with_native_roots(),
        };
        match &self.identity {
            Some((certificate, key)) => tls.identity(Identity::from_pem(certificate, key)),
            None => tls,
        }
    }

    /// The store cannot be opened for that reason.
    pub(super) fn refused(&self, reason: &impl fmt::Display) -> Error {
        let reason = reason.to_string();
        let advice = self.advice(&reason);
        Error::Open(format!("etcd at {self}: {reason}; {advice}"))
    }

    /// What somebody can do about it.
    fn advice(&self, reason: &str) -> &'static str {
        let is_about = |words: &[&str]| words.iter().any(|word| reason.contains(word));
        if is_about(&["UnknownIssuer", "BadSignature", "CaUsedAsEndEntity"]) {
            return "its certificate is of another authority than the one that is trusted";
        }
        if is_about(&["NotValidForName", "not valid for name"]) {
            return "its certificate names other addresses: use one of those";
        }
        if is_about(&["Expired", "NotValidYet"]) {
            return "its certificate is not valid now: renew it, or set the clock right";
        }
        if is_about(&["InvalidContentType", "corrupt message"]) {
            return "it does not speak TLS: use http://";
        }
        // In TLS 1.3 a server judges us when we believe to be connected already, and hangs up.
        let hung_up = is_about(&["fatal alert", "connection closed", "broken pipe", "reset by peer"]);
        match (self.is_encrypted() && hung_up, self.identity.is_some()) {
            (true, true) => "it hung up: it wants another certificate of us, signed by its --trusted-ca-file",
            (true, false) => "it hung up: it wants a certificate of us, signed by its --trusted-ca-file",
            (false, _) => "check that it runs and that the addresses are right",
        }
    }
}

impl fmt::Display for EtcdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.endpoints.join(", "))
    }
}

/// Without the key.
impl fmt::Debug for EtcdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EtcdAddress({self})")
    }
}
