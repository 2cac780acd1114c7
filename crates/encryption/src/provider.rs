//! Who seals and opens the values of a resource: nobody, one key, or a key management service.

use std::sync::Arc;

use bytes::Bytes;

use crate::PREFIX;
use crate::cipher::Cipher;
use crate::envelope::Envelope;

pub enum Provider {
    Identity,
    Local { prefix: String, cipher: Cipher },
    Kms { prefix: String, envelope: Arc<Envelope> },
}

impl Provider {
    pub fn local(kind: &str, name: &str, cipher: Cipher) -> Provider {
        Provider::Local { prefix: format!("k8s:enc:{kind}:v1:{name}:"), cipher }
    }

    pub fn kms(name: &str, envelope: Arc<Envelope>) -> Provider {
        Provider::Kms { prefix: format!("k8s:enc:kms:v2:{name}:"), envelope }
    }

    pub fn is_identity(&self) -> bool {
        matches!(self, Provider::Identity)
    }

    /// The value as this provider would have it lie at `key`; else why not.
    pub async fn seal(&self, key: &str, value: &Bytes) -> Result<Bytes, String> {
        match self {
            Provider::Identity => Ok(value.clone()),
            Provider::Local { prefix, cipher } => {
                let mut out = Vec::with_capacity(prefix.len() + value.len() + 64);
                out.extend_from_slice(prefix.as_bytes());
                let sealed = cipher.seal(key.as_bytes(), value, &mut out);
                sealed.map_err(|_| "the machine gives no random bytes".to_owned())?;
                Ok(out.into())
            }
            Provider::Kms { prefix, envelope } => {
                let mut out = prefix.as_bytes().to_vec();
                envelope.seal(key.as_bytes(), value, &mut out).await?;
                Ok(out.into())
            }
        }
    }

    /// None if another one wrote it.
    pub async fn open(&self, key: &str, value: &Bytes) -> Option<Result<Bytes, String>> {
        match self {
            Provider::Identity => (!value.starts_with(PREFIX)).then(|| Ok(value.clone())),
            Provider::Local { prefix, cipher } => {
                let sealed = value.strip_prefix(prefix.as_bytes())?;
                let opened = cipher.open(key.as_bytes(), sealed).map(Bytes::from);
                Some(opened.map_err(|_| "its key is not that one, or it was damaged or moved".to_owned()))
            }
            Provider::Kms { prefix, envelope } => {
                let sealed = value.strip_prefix(prefix.as_bytes())?;
                Some(envelope.open(key.as_bytes(), sealed).await.map(Bytes::from))
            }
        }
    }

    /// Whether it would write that value in just this way.
    pub fn wrote(&self, value: &[u8]) -> bool {
        match self {
            Provider::Identity => !value.starts_with(PREFIX),
            Provider::Local { prefix, .. } => value.starts_with(prefix.as_bytes()),
            Provider::Kms { prefix, envelope } => {
                value.strip_prefix(prefix.as_bytes()).is_some_and(|sealed| envelope.is_current(sealed))
            }
        }
    }
}
