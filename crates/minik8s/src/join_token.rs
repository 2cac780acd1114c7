//! The servers' own join token, and the line to type on the next machine. A cluster has one of them, whichever
//! server made it. It is never printed: logs are read by many.

use std::path::{Path, PathBuf};

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use minik8s_auth::bootstrap_token::{BootstrapToken, JoinToken, NAMESPACE, SECRET_TYPE, TokenInfo};
use minik8s_auth::pki::file;
use minik8s_informer::Lenient;

const FILE: &str = "join-token";

const DESCRIPTION: &str = "the servers' own, in their data dirs";

/// How long a token of the servers is good.
const LIFETIME: SignedDuration = SignedDuration::from_hours(24);
/// One that is good for less than this is replaced, so that whoever finds it in the file has time to use it.
const LEAST: SignedDuration = SignedDuration::from_hours(12);

/// The token in `DIR/join-token`; one that was revoked, is about to expire or is not there is replaced by the cluster's
/// or by a new one. Servers do this when they start, and `minik8s token renew` whenever somebody needs it: a token that
/// nobody asked for is a door that nobody watches.
pub async fn ensure(client: kube::Client, pin: &str, data_dir: &Path) -> anyhow::Result<()> {
    let path = data_dir.join(FILE);
    let kept = file::read_secret(&path)?.and_then(|text| text.parse::<JoinToken>().ok());
    let known = remove_old(client.clone()).await?;
    if kept.is_some_and(|kept| kept.pin == pin && known.contains(&kept.token)) {
        return Ok(());
    }
    let token = match known.into_iter().next() {
        Some(token) => token,
        None => make(client, pin).await?,
    };
    write(&path, &JoinToken { token, pin: pin.to_owned() })
}

/// A new token in `DIR/join-token`, whatever was there.
pub async fn renew(client: kube::Client, pin: &str, data_dir: &Path) -> anyhow::Result<PathBuf> {
    let path = data_dir.join(FILE);
    let token = create(client, pin, DESCRIPTION, Some(Timestamp::now() + LIFETIME)).await?;
    write(&path, &token)?;
    Ok(path)
}

fn write(path: &Path, token: &JoinToken) -> anyhow::Result<()> {
    Ok(file::write_atomically(path, &format!("{}\n", token.reveal()), 0o600)?)
}

/// Several servers may make one at the same time: all settle on the first.
async fn make(client: kube::Client, pin: &str) -> anyhow::Result<BootstrapToken> {
    let made = create(client.clone(), pin, DESCRIPTION, Some(Timestamp::now() + LIFETIME)).await?.token;
    let first =
        own(client.clone()).await?.into_iter().find(Own::is_fresh).map_or(made.clone(), |own| own.token);
    if first != made {
        delete(client, &made).await?;
    }
    Ok(first)
}

/// Deletes those of the servers' own that expired, or never would, and returns those that are good for long enough, the
/// oldest first.
async fn remove_old(client: kube::Client) -> anyhow::Result<Vec<BootstrapToken>> {
    let (mut fresh, now) = (Vec::new(), Timestamp::now());
    for own in own(client.clone()).await? {
        if own.is_fresh() {
            fresh.push(own.token);
        } else if own.expiration.is_none_or(|end| end <= now) {
            delete(client.clone(), &own.token).await?;
        }
    }
    Ok(fresh)
}

/// A token that servers made for themselves.
struct Own {
    token: BootstrapToken,
    expiration: Option<Timestamp>,
    /// Somebody may have changed it so that it is good for nothing.
    is_good: bool,
}

impl Own {
    fn is_fresh(&self) -> bool {
        self.is_good && self.expiration.is_some_and(|end| end > Timestamp::now() + LEAST)
    }
}

/// The servers' own, the oldest first.
async fn own(client: kube::Client) -> anyhow::Result<Vec<Own>> {
    let of_tokens = ListParams::default().fields(&format!("type={SECRET_TYPE}"));
    let secrets = Api::<Lenient<Secret>>::namespaced(client, NAMESPACE).list(&of_tokens).await?;
    let mut found = Vec::new();
    for secret in secrets.items.into_iter().map(Lenient::into_inner) {
        let version = secret.metadata.resource_version.as_deref().and_then(|text| text.parse::<u64>().ok());
        let secret = serde_json::to_value(secret)?;
        let Some(info) = TokenInfo::read(&secret).filter(|info| info.description == DESCRIPTION) else {
            continue;
        };
        let Some(token) = BootstrapToken::from_secret(&secret) else { continue };
        let is_good = token.user(&secret, Timestamp::now()).is_ok();
        found.push((version, Own { token, expiration: info.expiration, is_good }));
    }
    found.sort_by_key(|(version, _)| *version);
    Ok(found.into_iter().map(|(_, own)| own).collect())
}

async fn delete(client: kube::Client, token: &BootstrapToken) -> anyhow::Result<()> {
    let secrets: Api<Secret> = Api::namespaced(client, NAMESPACE);
    match secrets.delete(&token.secret_name(), &DeleteParams::default()).await {
        // Another server was quicker.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop).map_err(Into::into),
    }
}

/// Makes a new token known to the cluster.
pub async fn create(
    client: kube::Client,
    pin: &str,
    description: &str,
    expiration: Option<Timestamp>,
) -> anyhow::Result<JoinToken> {
    let token = BootstrapToken::generate();
    let secret: Secret = serde_json::from_value(token.to_secret(description, expiration))?;
    let secrets: Api<Secret> = Api::namespaced(client, NAMESPACE);
    secrets.create(&PostParams::default(), &secret).await.context("cannot keep the token")?;
    Ok(JoinToken { token, pin: pin.to_owned() })
}

/// What to type on the next machine, where the token is in a file: in the process list everybody could read it.
pub fn command(server: &str) -> String {
    format!("minik8s agent --server {server} --token @join-token")
}
