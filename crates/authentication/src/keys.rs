//! The keys of one issuer, as last fetched. A token with a key that is not among them makes them be fetched again, but not
//! more often than every few seconds: whoever invents keys makes nobody ask an issuer for each. Keys that an issuer has
//! taken back are forgotten within the hour.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use serde::Deserialize;
use tokio::sync::Mutex;

use crate::configuration::{IssuerSettings, check_url};
use crate::https::Client;
use crate::jwk::{self, Key};

/// Between two questions of one issuer.
const PAUSE: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(10);
/// So long keys count without being asked for.
const FRESH: Duration = Duration::from_secs(3600);
const LARGEST: usize = 1 << 20;

pub struct Keys {
    issuer: String,
    discovery: String,
    client: Result<Client, String>,
    known: RwLock<Option<Known>>,
    /// When the issuer was last asked, and what went wrong.
    asked: Mutex<Option<(Instant, Result<(), String>)>>,
}

#[derive(Clone)]
struct Known {
    keys: Arc<Vec<Key>>,
    since: Instant,
}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

impl Keys {
    pub fn of(settings: &IssuerSettings) -> Keys {
        Keys {
            issuer: settings.url.clone(),
            discovery: settings.discovery.clone(),
            client: Client::new(&settings.authority, None, TIMEOUT, LARGEST),
            known: RwLock::new(None),
            asked: Mutex::new(None),
        }
    }

    /// Those that are known, and whether they are old.
    pub fn known(&self) -> Option<(Arc<Vec<Key>>, bool)> {
        let known = self.known.read().clone()?;
        Some((known.keys, known.since.elapsed() > FRESH))
    }

    /// Asks the issuer, unless somebody just did; then it is what they found.
    pub async fn refresh(&self) -> Result<Arc<Vec<Key>>, String> {
        let mut asked = self.asked.lock().await;
        let last = asked.as_ref().filter(|(when, _)| when.elapsed() < PAUSE);
        let outcome = match last {
            Some((_, outcome)) => outcome.clone(),
            None => {
                let outcome = self.fetch().await;
                *asked = Some((Instant::now(), outcome.clone()));
                outcome
            }
        };
        match (outcome, self.known()) {
            (Ok(()), Some((keys, _))) => Ok(keys),
            (Err(why), _) => Err(format!("the keys of {} are not known: {why}", self.issuer)),
            (Ok(()), None) => Err(format!("the keys of {} are not known", self.issuer)),
        }
    }

    async fn fetch(&self) -> Result<(), String> {
        let client = self.client.as_ref().map_err(Clone::clone)?;
        let document = client.get(&self.discovery).await?;
        let document: Discovery = serde_json::from_slice(&document)
            .map_err(|error| format!("{}: it is no discovery document: {error}", self.discovery))?;
        if document.issuer != self.issuer {
            return Err(format!(
                "{}: it is about the issuer {:?}, and {:?} was configured",
                self.discovery, document.issuer, self.issuer
            ));
        }
        check_url("jwks_uri", document.jwks_uri.split('?').next().unwrap_or_default())
            .map_err(|error| format!("{}: {error}", self.discovery))?;
        let set = client.get(&document.jwks_uri).await?;
        let keys = jwk::parse(&set).map_err(|why| format!("{}: {why}", document.jwks_uri))?;
        if keys.is_empty() {
            return Err(format!("{}: it has no key that could be used", document.jwks_uri));
        }
        *self.known.write() = Some(Known { keys: Arc::new(keys), since: Instant::now() });
        Ok(())
    }
}
