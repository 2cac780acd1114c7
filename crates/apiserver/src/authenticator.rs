//! Who is asking: client certificate, headers of a front proxy, bearer token, or nobody.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use http::header::AUTHORIZATION;
use jiff::{SignedDuration, Timestamp};
use minik8s_api::{
    AnonymousRules, BrowserSession, BrowserSessions, Credential, ServiceAccountTokens, SessionLimits,
    TokenAuthenticator, TokenUser,
};
use minik8s_auth::User;
use minik8s_auth::bootstrap_token::{self, BootstrapToken};
use minik8s_auth::service_account_token::{ObjectRef, TokenError, TokenIssuer, VerifiedToken};
use minik8s_auth::token_file::TokenFile;
use minik8s_auth::user::{AUTHENTICATED, CertificateUser, CertificateUserError};
use rustls::pki_types::CertificateDer;
use serde_json::Value;

use crate::error::{ApiError, Result};
use crate::object::Object;
use crate::registry::Registry;
use crate::request_header::{self, FrontProxyPeer, RequestHeader};
use crate::websocket_token;

/// How long a token outlives the moment at which what it is bound to was to be gone: clocks differ.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// Whom the verified client certificate of a connection names, put into each of its requests.
#[derive(Clone)]
pub struct Peer(pub Arc<Result<CertificateUser, CertificateUserError>>);

/// The user of a request that never left the process.
#[derive(Clone)]
pub struct LocalUser(pub User);

pub struct Authenticator {
    pub issuer: Arc<TokenIssuer>,
    pub service_account_tokens: ServiceAccountTokens,
    pub token_file: Option<TokenFile>,
    /// Where others reach this server.
    pub server_url: String,
    pub sessions: Option<Arc<dyn BrowserSessions>>,
    /// Who knows tokens that are not the cluster's own.
    pub others: Vec<Arc<dyn TokenAuthenticator>>,
    pub anonymous: Option<AnonymousRules>,
    /// Front proxies that are believed, if there are any.
    pub request_header: Option<RequestHeader>,
}

/// What the session of a request may do at most, put into the request.
#[derive(Clone)]
pub struct Limits(pub SessionLimits);

impl Authenticator {
    /// As what the verified certificates of a connection count in its requests.
    pub fn peers(&self, chain: &[CertificateDer<'_>]) -> (Option<Peer>, Option<FrontProxyPeer>) {
        match &self.request_header {
            Some(request_header) => request_header.peers(chain),
            None => (chain.first().map(|own| Peer(Arc::new(CertificateUser::read(own)))), None),
        }
    }

    pub fn believes(&self, proxy: &FrontProxyPeer) -> bool {
        self.request_header.as_ref().is_some_and(|request_header| request_header.is_allowed(proxy))
    }

    /// Whom a front proxy names. Nobody finds in the request afterwards what clients say of themselves.
    fn named_by_proxy<B>(&self, request: &mut Request<B>) -> Option<User> {
        let is_believed =
            request.extensions().get::<FrontProxyPeer>().is_some_and(|proxy| self.believes(proxy));
        let believed = self.request_header.as_ref().filter(|_| is_believed);
        let user = believed.and_then(|request_header| request_header.user(request.headers()));
        request_header::strip(request.headers_mut(), self.request_header.as_ref());
        user
    }

    pub async fn authenticate<B>(&self, registry: &Registry, request: &mut Request<B>) -> Result<User> {
        if let Some(LocalUser(user)) = request.extensions_mut().remove::<LocalUser>() {
            return Ok(user);
        }
        let session = self.session(request);
        if let Some(user) = self.named_by_proxy(request) {
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
        if let Some(token) = websocket_token::take(request.headers_mut()) {
            return self.bearer(registry, &token).await;
        }
        let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some((scheme, token)) = header.and_then(|header| header.trim().split_once(' ')) else {
            return match request.headers().contains_key(AUTHORIZATION) {
                true => Err(ApiError::unauthorized()),
                false => self.user_of(registry, request, session).await,
            };
        };
        if scheme.eq_ignore_ascii_case("basic") {
            let token = token_of_basic(token.trim()).ok_or_else(ApiError::unauthorized)?;
            return self.bearer(registry, &token).await;
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(ApiError::unauthorized());
        }
        self.bearer(registry, token.trim()).await
    }

    /// The session that the request's cookie stands for. The cookie itself goes no further, whoever asks.
    fn session<B>(&self, request: &mut Request<B>) -> Option<BrowserSession> {
        let sessions = self.sessions.as_ref()?;
        let found = sessions.find(request.method(), request.uri().path(), request.headers());
        sessions.hide(request.headers_mut());
        found
    }

    /// Without a session that counts, it is nobody: a foreign page learns nothing from the answer.
    async fn user_of<B>(
        &self,
        registry: &Registry,
        request: &mut Request<B>,
        session: Option<BrowserSession>,
    ) -> Result<User> {
        let Some(session) = session else {
            if request.extensions().get::<FrontProxyPeer>().is_some() {
                return Err(ApiError::unauthorized());
            }
            let path = request.uri().path();
            return match self.anonymous.as_ref().is_none_or(|rules| rules.allow(path)) {
                true => Ok(User::anonymous()),
                false => Err(ApiError::unauthorized()),
            };
        };
        request.extensions_mut().insert(Limits(session.limits));
        match session.credential {
            Credential::Token(token) => self.bearer(registry, &token).await,
            Credential::Certificate { name, groups } => Ok(User { name, groups, ..User::default() }),
        }
    }

    async fn bearer(&self, registry: &Registry, token: &str) -> Result<User> {
        let audiences = self.issuer.api_audiences().to_vec();
        match self.review_token(registry, token, &audiences).await {
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
        let now = Timestamp::now();
        let verified = match self.issuer.verify_for(token, wanted, now) {
            Ok(verified) => verified,
            // Not one of ours. A token of ours is never shown to others, whatever is wrong with it.
            Err(error @ (TokenError::Malformed | TokenError::Signature | TokenError::ForeignIssuer(_))) => {
                return self.ask_others(token, wanted, error.to_string()).await;
            }
            Err(error) => return Err(error.to_string()),
        };
        check_bound_objects(registry, token, &verified, now).await?;
        let common =
            wanted.iter().filter(|audience| verified.audiences.contains(audience)).cloned().collect();
        Ok((verified.user(), common))
    }

    /// The first one who knows the token says whose it is; `unknown` is why it is not the cluster's own.
    async fn ask_others(
        &self,
        token: &str,
        wanted: &[String],
        unknown: String,
    ) -> Result<(User, Vec<String>), String> {
        let own = self.issuer.api_audiences();
        let mut refused = unknown;
        for other in &self.others {
            let found = match other.authenticate(token, wanted).await {
                None => continue,
                Some(Err(why)) => {
                    tracing::info!(why, "a token was refused");
                    refused = why;
                    continue;
                }
                Some(Ok(found)) => found,
            };
            let good_for = if found.audiences.is_empty() { own } else { &found.audiences };
            let common: Vec<String> =
                wanted.iter().filter(|audience| good_for.contains(audience)).cloned().collect();
            if common.is_empty() {
                refused = format!("the token is meant for {good_for:?}, not for {wanted:?}");
                continue;
            }
            return Ok((foreign_user(found), common));
        }
        Err(refused)
    }

    pub fn issuer_configuration(&self) -> Value {
        self.issuer.openid_configuration(&self.server_url)
    }

    pub fn issuer_keys(&self) -> Value {
        self.issuer.jwks()
    }
}

fn foreign_user(found: TokenUser) -> User {
    let TokenUser { name, uid, groups, extra, .. } = found;
    let mut user = User { name, uid, groups, extra };
    user.join(AUTHENTICATED);
    user
}

/// Programs that know only names and passwords, as those of OpenWhisk and of registries do, have a token for a password. The
/// name says nothing of who it is.
fn token_of_basic(text: &str) -> Option<String> {
    let text = String::from_utf8(STANDARD.decode(text).ok()?).ok()?;
    text.split_once(':').map(|(_, token)| token.to_owned()).filter(|token| !token.is_empty())
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
    now: Timestamp,
) -> Result<(), String> {
    let namespace = verified.namespace.as_str();
    let mut bound = vec![("serviceaccounts", namespace, &verified.service_account)];
    if let Some(pod) = &verified.pod {
        bound.push(("pods", namespace, pod));
    } else if let Some(node) = &verified.node {
        bound.push(("nodes", "", node));
    }
    for (plural, namespace, reference) in bound {
        let found = existing(registry, plural, namespace, reference).await?;
        check_alive(&found, plural, verified.legacy, now)?;
    }
    let Some(secret) = &verified.secret else { return Ok(()) };
    let secret = existing(registry, "secrets", namespace, secret).await?;
    check_alive(&secret, "secrets", verified.legacy, now)?;
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

/// Refuses what is being deleted. A pod may use its token while it ends: its deletion is dated to when it must have
/// ended. A token from a Secret has no such time, nor need of one: it dies at once. Both as upstream's.
fn check_alive(object: &Value, plural: &str, legacy: bool, now: Timestamp) -> Result<(), String> {
    let Some(deleted) = object["metadata"]["deletionTimestamp"].as_str() else { return Ok(()) };
    let until = deleted.parse::<Timestamp>().ok().and_then(|at| at.checked_add(LEEWAY).ok());
    match until {
        Some(until) if !legacy && until >= now => Ok(()),
        _ => Err(format!("{plural} \"{}\" has been deleted", object.name())),
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tokens_of_what_is_being_deleted_die_a_minute_after_its_end() {
        let check = |deleted: Option<&str>, legacy: bool, alive: bool| {
            let mut object = json!({"metadata": {"name": "p"}});
            if let Some(deleted) = deleted {
                object["metadata"]["deletionTimestamp"] = deleted.into();
            }
            let now = "2026-01-01T00:10:00Z".parse().unwrap();
            assert_eq!(check_alive(&object, "pods", legacy, now).is_ok(), alive, "{deleted:?} {legacy}");
        };
        check(None, false, true);
        check(None, true, true);
        check(Some("2026-01-01T00:10:30Z"), false, true);
        check(Some("2026-01-01T00:09:00Z"), false, true);
        check(Some("2026-01-01T00:08:59Z"), false, false);
        check(Some("2026-01-01T00:10:30Z"), true, false);
        check(Some("nonsense"), false, false);
    }
}
