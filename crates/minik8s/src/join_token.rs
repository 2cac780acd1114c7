//! The server's own join token, and the line to type on the next machine.

use std::path::Path;

use anyhow::Context;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use minik8s_auth::bootstrap_token::{BootstrapToken, JoinToken, NAMESPACE};
use minik8s_auth::pki::file;

const FILE: &str = "join-token";

/// The token in `DIR/join-token`; one that was revoked, or is not there, is replaced by a new one. It does
/// not expire: a person may want to add a machine in a year, and can revoke it at any time.
pub async fn ensure(client: kube::Client, pin: &str, data_dir: &Path) -> anyhow::Result<JoinToken> {
    let path = data_dir.join(FILE);
    let kept = file::read_secret(&path)?.and_then(|text| text.parse::<JoinToken>().ok());
    if let Some(kept) = kept.filter(|kept| kept.pin == pin)
        && is_good(client.clone(), &kept.token).await?
    {
        return Ok(kept);
    }
    let token = create(client, pin, "the server's own, in its data dir", None).await?;
    file::write_atomically(&path, &format!("{}\n", token.reveal()), 0o600)?;
    Ok(token)
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
