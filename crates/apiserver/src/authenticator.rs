//! Who is asking: client certificate, bearer token, or nobody.

use std::sync::Arc;

use http::Request;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use minik8s_auth::User;
use minik8s_auth::bootstrap_token::{self, BootstrapToken};
use minik8s_auth::service_account_token::{ObjectRef, TokenIssuer, VerifiedToken};
use minik8s_auth::token_file::TokenFile;
use minik8s_auth::user::{CertificateUser, CertificateUserError};
use serde_json::Value;

use crate::error::{ApiError, Result};
use crate::object::Object;
use crate::registry::Registry;

/// Whom the verified client certificate of a connection names, put into each of its requests.
#[derive(Clone)]
pub struct Peer(pub Arc<Result<CertificateUser, CertificateUserError>>);

/// The user of a request that never left the process.
#[derive(Clone)]
pub struct LocalUser(pub User);

pub struct Authenticator {
    pub issuer: Arc<TokenIssuer>,
    pub token_file: Option<TokenFile>,
    /// Where others reach this server.
    pub server_url: String,
}

impl Authenticator {
    pub async fn authenticate<B>(&self, registry: &Registry, request: &mut Request<B>) -> Result<User> {
        if let Some(LocalUser(user)) = request.extensions_mut().remove::<LocalUser>() {
            return Ok(user);
        }
        if let Some(Peer(named)) = request.extensions().get::<Peer>() {
            let user = match &**named {
                Ok(named) => named.at(Timestamp::now()).cloned().map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            return user.map_err(|why| {
                tracing::debug!(why, "client certificate refused");
                ApiError::unauthorized()
            });
        }
        let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some((scheme, token)) = header.and_then(|header| header.trim().split_once(' ')) else {
            return match request.headers().contains_key(AUTHORIZATION) {
                true => Err(ApiError::unauthorized()),
                false => Ok(User::anonymous()),
            };
        };
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(ApiError::unauthorized());
        }
        let audiences = self.issuer.api_audiences().to_vec();
        match self.review_token(registry, token.trim(), &audiences).await {
            Ok((user, _)) => Ok(user),
            Err(why) => {
                tracing::debug!(why, "bearer token refused");
                Err(ApiError::unauthorized())
            }
        }
    }

    /// The user behind a token and the audiences it was found good for; else why it is not.
    pub async fn review_token(
        &self,
        registry: &Registry,
        token: &str,
        audiences: &[String],
    ) -> Result<(User, Vec<String>), String> {
        if let Some(user) = self.token_file.as_ref().and_then(|file| file.find(token)) {
            return Ok((user.clone(), audiences.to_vec()));
        }
        if let Some(token) = BootstrapToken::parse(token) {
            return Ok((bearer(registry, &token).await?, audiences.to_vec()));
        }
        let wanted = if audiences.is_empty() { self.issuer.api_audiences() } else { audiences };
        let verified = self.issuer.verify_for(token, wanted, Timestamp::now()).map_err(|e| e.to_string())?;
        check_bound_objects(registry, token, &verified).await?;
        let common =
            wanted.iter().filter(|audience| verified.audiences.contains(audience)).cloned().collect();
        Ok((verified.user(), common))
    }

    pub fn issuer_configuration(&self) -> Value {
        self.issuer.openid_configuration(&self.server_url)
    }

    pub fn issuer_keys(&self) -> Value {
        self.issuer.jwks()
    }
}

/// Who bears a bootstrap token, as the Secret that keeps it says.
async fn bearer(registry: &Registry, token: &BootstrapToken) -> Result<User, String> {
    let secrets = registry.built_in("", "v1", "secrets").map_err(|e| e.to_string())?;
    let kept = registry.get(&secrets, bootstrap_token::NAMESPACE, &token.secret_name()).await;
    token.user(&kept.map_err(|e| e.to_string())?, Timestamp::now()).map_err(|e| e.to_string())
}

/// A token dies with the account, pod, node or secret that it is bound to.
async fn check_bound_objects(
    registry: &Registry,
    token: &str,
    verified: &VerifiedToken,
) -> Result<(), String> {
    let namespace = verified.namespace.as_str();
    existing(registry, "serviceaccounts", namespace, &verified.service_account).await?;
    if let Some(pod) = &verified.pod {
        existing(registry, "pods", namespace, pod).await?;
    } else if let Some(node) = &verified.node {
        existing(registry, "nodes", "", node).await?;
    }
    let Some(secret) = &verified.secret else { return Ok(()) };
    let secret = existing(registry, "secrets", namespace, secret).await?;
    if verified.legacy {
        use base64::Engine;
        let kept = secret["data"]["token"].as_str().unwrap_or_default();
        let kept = base64::engine::general_purpose::STANDARD.decode(kept).unwrap_or_default();
        if kept != token.as_bytes() {
            return Err("the secret holds another token now".to_owned());
        }
    }
    Ok(())
}

async fn existing(
    registry: &Registry,
    plural: &str,
    namespace: &str,
    reference: &ObjectRef,
) -> Result<Value, String> {
    let served = registry.built_in("", "v1", plural).map_err(|e| e.to_string())?;
    let found = registry.get(&served, namespace, &reference.name).await.map_err(|e| e.to_string())?;
    if !reference.uid.is_empty() && found.uid() != reference.uid {
        return Err(format!(
            "{} \"{}\" is not the one the token was issued for",
            served.qualified(),
            reference.name
        ));
    }
    Ok(found)
}
