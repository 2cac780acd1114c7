//! Certificates of the service accounts whose pods run here, for as long as they do.
//!
//! One for each account, shared by its pods on the node: it says who the account is, not which pod. The key is made here
//! and is never written down; a proxy is handed both over its own socket. The server signs for accounts of pods that are
//! bound to this node, and for no others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use minik8s_meta::Backoff;
use minik8s_meta::mesh::{Identity, SIGNER};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData, SanType};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, warn};

use crate::protocol::Credentials;

/// Namespace and name of a service account.
pub type Account = (String, String);

pub const LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// The server decides about these by itself, at once.
const ISSUE: Duration = Duration::from_secs(30);
const RETRY: Backoff = Backoff::millis(500, 60_000);

pub struct Identities {
    client: Client,
    domain: String,
    issued: mpsc::UnboundedSender<(Account, Credentials)>,
    of: BTreeMap<Account, (Option<Arc<Credentials>>, AbortOnDropHandle<()>)>,
}

impl Identities {
    /// Whatever is issued comes out of the second, and is to be [taken](Self::take).
    pub fn new(client: Client, domain: String) -> (Self, mpsc::UnboundedReceiver<(Account, Credentials)>) {
        // One of each service account of the node's pods, and no second one before two thirds of its life are over.
        let (issued, receiver) = mpsc::unbounded_channel();
        (Identities { client, domain, issued, of: BTreeMap::new() }, receiver)
    }

    /// These are wanted, and no others.
    pub fn want(&mut self, accounts: &BTreeSet<Account>) {
        self.of.retain(|account, _| accounts.contains(account));
        for account in accounts {
            if !self.of.contains_key(account) {
                let identity = Identity::new(&self.domain, &account.0, &account.1);
                let task = keep(self.client.clone(), identity, account.clone(), self.issued.clone());
                self.of.insert(account.clone(), (None, AbortOnDropHandle::new(tokio::spawn(task))));
            }
        }
    }

    pub fn take(&mut self, (account, credentials): (Account, Credentials)) {
        if let Some((known, _)) = self.of.get_mut(&account) {
            *known = Some(Arc::new(credentials));
        }
    }

    pub fn get(&self, account: &Account) -> Option<Credentials> {
        self.of.get(account).and_then(|(known, _)| known.as_deref().cloned())
    }
}

/// Renewed when two thirds of its life are over.
async fn keep(
    client: Client,
    identity: Identity,
    account: Account,
    issued: mpsc::UnboundedSender<(Account, Credentials)>,
) {
    let mut retries = RETRY.retries();
    loop {
        match obtain(&client, &identity).await {
            Ok(credentials) => {
                debug!(%identity, "a certificate was issued");
                let _ = issued.send((account.clone(), credentials));
                retries.succeeded();
                sleep(LIFETIME * 2 / 3).await;
            }
            Err(error) => {
                warn!(%identity, error, "no certificate for pods of this service account");
                sleep(retries.failed()).await;
            }
        }
    }
}

async fn obtain(client: &Client, identity: &Identity) -> Result<Credentials, String> {
    let key = KeyPair::generate().map_err(|error| error.to_string())?;
    let request = request(identity, &key).map_err(|error| error.to_string())?;
    let name = request.metadata.name.clone().unwrap_or_default();
    let api: Api<CertificateSigningRequest> = Api::all(client.clone());
    api.create(&PostParams::default(), &request).await.map_err(|error| error.to_string())?;
    let is_over = |seen: Option<&CertificateSigningRequest>| seen.is_some_and(|seen| outcome(seen).is_some());
    match timeout(ISSUE, await_condition(api, &name, is_over)).await {
        Ok(Ok(Some(seen))) => {
            let certificates = outcome(&seen).unwrap_or_else(|| Err("nobody has decided".to_owned()))?;
            Ok(Credentials { certificates, key: key.serialize_pem() })
        }
        Ok(Ok(None)) => Err("the request is gone".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("nobody has decided about {name} within {} s", ISSUE.as_secs())),
    }
}

fn request(identity: &Identity, key: &KeyPair) -> Result<CertificateSigningRequest, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "minik8s-mesh");
    params.subject_alt_names = vec![SanType::URI(identity.to_string().try_into()?)];
    let pem = params.serialize_request(key)?.pem()?;
    let hash = Sha256::digest(key.der_bytes());
    let hash: String = hash.iter().take(10).map(|byte| format!("{byte:02x}")).collect();
    Ok(CertificateSigningRequest {
        metadata: ObjectMeta { name: Some(format!("mesh-{hash}")), ..ObjectMeta::default() },
        spec: CertificateSigningRequestSpec {
            request: ByteString(pem.into_bytes()),
            signer_name: SIGNER.to_owned(),
            usages: Some(["digital signature", "client auth", "server auth"].map(str::to_owned).into()),
            expiration_seconds: i32::try_from(LIFETIME.as_secs()).ok(),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    })
}

/// The certificates, or why there are none; nothing while nobody has decided.
fn outcome(request: &CertificateSigningRequest) -> Option<Result<String, String>> {
    let status = request.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    if let Some(no) = conditions.find(|condition| matches!(condition.type_.as_str(), "Denied" | "Failed")) {
        return Some(Err(no.message.clone().unwrap_or_else(|| no.type_.clone())));
    }
    let text = String::from_utf8_lossy(&status.certificate.as_ref()?.0).into_owned();
    (!text.is_empty()).then_some(Ok(text))
}
