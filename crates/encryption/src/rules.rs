//! The configuration at work: for each key of the store who writes its value and who can read it.

use std::sync::Arc;

use bytes::Bytes;
use minik8s_store::{Error, Result};

use crate::PREFIX;
use crate::configuration::{self, ConfigurationError, Entry, ProviderSpec};
use crate::envelope::Envelope;
use crate::provider::Provider;
use crate::resources::{Pattern, Place};

pub struct Rules(Vec<Rule>);

struct Rule {
    patterns: Vec<Pattern>,
    /// The first one writes.
    providers: Vec<Provider>,
}

impl Rules {
    /// Of the text of an EncryptionConfiguration. Key management services must answer.
    pub async fn of(text: &str) -> Result<Rules, ConfigurationError> {
        let mut rules = Vec::new();
        for Entry { patterns, providers } in configuration::parse(text)? {
            let mut made = Vec::new();
            for spec in providers {
                made.push(provider(spec).await?);
            }
            rules.push(Rule { patterns, providers: made });
        }
        Ok(Rules(rules))
    }

    fn find(&self, key: &str) -> Option<&Rule> {
        let place = Place::of(key)?;
        self.0.iter().find(|rule| rule.patterns.iter().any(|pattern| pattern.matches(&place)))
    }

    pub(crate) async fn seal(&self, key: &str, value: &Bytes) -> Result<Bytes> {
        let Some(writer) = self.find(key).and_then(|rule| rule.providers.first()) else {
            return Ok(value.clone());
        };
        let told = |why| Error::Encryption(format!("{key} cannot be encrypted, and was not written: {why}"));
        writer.seal(key, value).await.map_err(told)
    }

    pub(crate) async fn open(&self, key: &str, value: &Bytes) -> Result<Bytes> {
        if !self.needs_opening(key, value) {
            return Ok(value.clone());
        }
        let mut why = None;
        for provider in self.find(key).map(|rule| rule.providers.as_slice()).unwrap_or_default() {
            match provider.open(key, value).await {
                None => {}
                Some(Ok(opened)) => return Ok(opened),
                Some(Err(error)) => why = Some(error),
            }
        }
        Err(Error::Encryption(unreadable(key, value, why)))
    }

    /// Whether a value is other than it lies there.
    pub(crate) fn needs_opening(&self, key: &str, value: &[u8]) -> bool {
        let plain_is_read = || {
            let rule = self.find(key);
            rule.is_none_or(|rule| rule.providers.iter().any(Provider::is_identity))
        };
        value.starts_with(PREFIX) || !plain_is_read()
    }

    /// Whether the value would lie there in another form if it were written now.
    pub(crate) fn is_stale(&self, key: &str, value: &[u8]) -> bool {
        let writer = self.find(key).and_then(|rule| rule.providers.first());
        !writer.unwrap_or(&Provider::Identity).wrote(value)
    }
}

async fn provider(spec: ProviderSpec) -> Result<Provider, ConfigurationError> {
    Ok(match spec {
        ProviderSpec::Identity => Provider::Identity,
        ProviderSpec::Local { kind, name, cipher } => Provider::local(kind, &name, cipher),
        ProviderSpec::Kms { name, socket, timeout } => {
            let envelope = Envelope::open_for(&name, &socket, timeout).await;
            let envelope: Arc<Envelope> =
                envelope.map_err(|why| ConfigurationError::Kms { name: name.clone(), why })?;
            Provider::kms(&name, envelope)
        }
    })
}

/// What to do about a value that nobody could open.
fn unreadable(key: &str, value: &[u8], why: Option<String>) -> String {
    let Some((kind, name)) = writer_of(value) else {
        return format!(
            "{key} is not encrypted, and no provider of its resource may read it so: add `identity: {{}}` as the last \
             one until every object has been written again"
        );
    };
    match why {
        Some(why) => format!("{key} was encrypted by {kind} {name:?} and cannot be decrypted: {why}"),
        None => format!(
            "{key} was encrypted by {kind} {name:?}, which the encryption configuration does not have for it: put it \
             back as a further provider, behind the first"
        ),
    }
}

/// By the words in front of an encrypted value.
pub(crate) fn writer_of(value: &[u8]) -> Option<(&str, &str)> {
    let mut words = value.strip_prefix(PREFIX)?.splitn(4, |byte| *byte == b':');
    let mut word = || words.next().and_then(|word| std::str::from_utf8(word).ok()).unwrap_or("?");
    let (kind, _version, name) = (word(), word(), word());
    Some((kind, name))
}
