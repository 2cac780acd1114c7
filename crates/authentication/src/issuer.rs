//! The issuers that are trusted, and tokens of theirs.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use minik8s_api::{TokenAuthenticator, TokenUser};
use parking_lot::RwLock;

use crate::configuration::{AuthenticationSettings, IssuerSettings};
use crate::jwk::Key;
use crate::jwt::{Algorithm, Jwt};
use crate::keys::Keys;

/// All of them. They can be exchanged while the server runs.
pub struct Issuers(RwLock<Arc<Vec<Issuer>>>);

struct Issuer {
    settings: IssuerSettings,
    keys: Arc<Keys>,
}

impl Issuers {
    pub fn new(settings: AuthenticationSettings) -> Arc<Issuers> {
        Arc::new(Issuers(RwLock::new(Arc::new(issuers(settings)))))
    }

    /// From now on these count, and no others.
    pub fn set(&self, settings: AuthenticationSettings) {
        *self.0.write() = Arc::new(issuers(settings));
    }

    /// Fetches the keys of all issuers, so that what stands in the way is told before the first user comes.
    pub async fn warm_up(&self) {
        let issuers = self.0.read().clone();
        for issuer in &*issuers {
            if let Err(why) = issuer.keys.refresh().await {
                tracing::warn!(why, "tokens of an issuer cannot be checked yet");
            }
        }
    }
}

fn issuers(settings: AuthenticationSettings) -> Vec<Issuer> {
    let issuers = settings.issuers.into_iter();
    issuers.map(|settings| Issuer { keys: Arc::new(Keys::of(&settings)), settings }).collect()
}

#[async_trait]
impl TokenAuthenticator for Issuers {
    async fn authenticate(&self, token: &str, _: &[String]) -> Option<Result<TokenUser, String>> {
        let jwt = Jwt::parse(token)?;
        let issuers = self.0.read().clone();
        // By comparison, so that the keys of one issuer never count for another.
        let issuer = issuers.iter().find(|issuer| issuer.settings.url == jwt.issuer())?;
        let user = issuer.user(&jwt).await;
        Some(user.map_err(|why| format!("a token of {}: {why}", issuer.settings.url)))
    }
}

impl Issuer {
    async fn user(&self, jwt: &Jwt<'_>) -> Result<TokenUser, String> {
        let algorithm = jwt.algorithm(&self.settings.algorithms)?;
        self.check_signature(jwt, algorithm).await?;
        let claims = jwt.claims(&self.settings.audiences, Timestamp::now().as_second())?;
        self.settings.mapping.user(claims)
    }

    async fn check_signature(&self, jwt: &Jwt<'_>, algorithm: Algorithm) -> Result<(), String> {
        let known = self.keys.known();
        if let Some((keys, is_old)) = &known {
            if *is_old {
                let keys = self.keys.clone();
                tokio::spawn(async move {
                    if let Err(why) = keys.refresh().await {
                        tracing::warn!(why, "the keys of an issuer are old");
                    }
                });
            }
            if is_signed(keys, jwt, algorithm) {
                return Ok(());
            }
            // A key that is known has not signed it: there is nothing to ask for.
            if jwt.key_id.is_some() && keys.iter().any(|key| key.is_meant(jwt)) {
                return Err("its signature is wrong".to_owned());
            }
        }
        let keys = self.keys.refresh().await?;
        match is_signed(&keys, jwt, algorithm) {
            true => Ok(()),
            false => Err("no key of its issuer has signed it".to_owned()),
        }
    }
}

fn is_signed(keys: &[Key], jwt: &Jwt<'_>, algorithm: Algorithm) -> bool {
    keys.iter().any(|key| key.is_meant(jwt) && key.signed(jwt, algorithm))
}
