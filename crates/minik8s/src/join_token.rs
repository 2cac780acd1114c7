//! The servers' own join token, and the line to type on the next machine. A cluster has one of them, whichever
//! server made it.

use std::path::Path;

use anyhow::Context;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use minik8s_auth::bootstrap_token::{BootstrapToken, JoinToken, NAMESPACE, SECRET_TYPE, TokenInfo};
use minik8s_auth::pki::file;

const FILE: &str = "join-token";

const DESCRIPTION: &str = "the servers' own, in their data dirs";

/// The token in `DIR/join-token`; one that was revoked, or is not there, is replaced by the cluster's or by a
/// new one. It does not expire: a person may want to add a machine in a year, and can revoke it at any time.
pub async fn ensure(client: kube::Client, pin: &str, data_dir: &Path) -> anyhow::Result<JoinToken> {
    let path = data_dir.join(FILE);
    let kept = file::read_secret(&path)?.and_then(|text| text.parse::<JoinToken>().ok());
    if let Some(kept) = kept.filter(|kept| kept.pin == pin)
        && is_good(client.clone(), &kept.token).await?
    {
        return Ok(kept);
    }
    let token = JoinToken { token: of_cluster(client, pin).await?, pin: pin.to_owned() };
    file::write_atomically(&path, &format!("{}\n", token.reveal()), 0o600)?;
    Ok(token)
}

/// The oldest of the servers' own. Several servers may make one at the same time: all settle on the first.
async fn of_cluster(client: kube::Client, pin: &str) -> anyhow::Result<BootstrapToken> {
    if let Some(token) = known(client.clone()).await? {
        return Ok(token);
    }
    let made = create(client.clone(), pin, DESCRIPTION, None).await?.token;
    let first = known(client.clone()).await?.unwrap_or_else(|| made.clone());
    if first != made {
        let secrets: Api<Secret> = Api::namespaced(client, NAMESPACE);
        secrets.delete(&made.secret_name(), &DeleteParams::default()).await?;
    }
    Ok(first)
}

async fn known(client: kube::Client) -> anyhow::Result<Option<BootstrapToken>> {
    let of_tokens = ListParams::default().fields(&format!("type={SECRET_TYPE}"));
    let secrets = Api::<Secret>::namespaced(client, NAMESPACE).list(&of_tokens).await?;
    let mut found: Option<(u64, BootstrapToken)> = None;
    for secret in secrets {
        let version = secret.metadata.resource_version.as_deref().and_then(|text| text.parse().ok());
        let secret = serde_json::to_value(secret)?;
        let is_ours = TokenInfo::read(&secret).is_some_and(|token| token.description == DESCRIPTION);
        let token = BootstrapToken::from_secret(&secret).filter(|_| is_ours);
        if let Some((version, token)) = version.zip(token)
            && token.user(&secret, Timestamp::now()).is_ok()
            && found.as_ref().is_none_or(|(oldest, _)| version < *oldest)
        {
            found = Some((version, token));
        }
    }
    Ok(found.map(|(_, token)| token))
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

async fn is_good(client: kube::Client, token: &BootstrapToken) -> anyhow::Result<bool> {
    let secrets: Api<Secret> = Api::namespaced(client, NAMESPACE);
    let Some(secret) = secrets.get_opt(&token.secret_name()).await? else { return Ok(false) };
    Ok(token.user(&serde_json::to_value(secret)?, Timestamp::now()).is_ok())
}

/// What to type on the next machine.
pub fn command(server: &str, token: &JoinToken) -> String {
    format!("minik8s agent --server {server} --token {}", token.reveal())
}
