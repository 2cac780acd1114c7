//! Values whose key comes from a key management service (KMS v2): the service seals one seed, and every value has a key of
//! its own that is derived of it, as upstream's since 1.29. Values of the older way, one key for many values, are read.
//!
//! The service is asked when this starts, when its key changes, and for seeds that are not known yet. While it is away,
//! known values can be read; nothing is written once its last good word is too old, since its key may be gone by then.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use prost::Message;
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};
use sha2::{Digest, Sha256};

use crate::cipher::{Cipher, random};
use crate::kms::{Encrypted, Plugin};

/// How often the service is asked how it is.
const POLL: Duration = Duration::from_secs(60);
/// And how often while it does not answer.
const POLL_AGAIN: Duration = Duration::from_secs(10);
/// So long a good word counts.
const FRESH: Duration = Duration::from_secs(180);
const SEED: usize = 32;
/// In front of every value: what its own key is derived of.
const INFO: usize = 32;
/// Seeds that are remembered. There is one for each start of a server and each key.
const MAX_KNOWN: usize = 1000;

const SOURCE_KEY: i32 = 0;
const SOURCE_SEED: i32 = 1;

/// What is stored behind the prefix.
#[derive(Clone, PartialEq, Message)]
struct EncryptedObject {
    #[prost(bytes = "vec", tag = "1")]
    encrypted_data: Vec<u8>,
    #[prost(string, tag = "2")]
    key_id: String,
    #[prost(bytes = "vec", tag = "3")]
    encrypted_dek_source: Vec<u8>,
    #[prost(btree_map = "string, bytes", tag = "4")]
    annotations: BTreeMap<String, Vec<u8>>,
    #[prost(int32, tag = "5")]
    encrypted_dek_source_type: i32,
}

pub struct Envelope {
    plugin: Plugin,
    current: RwLock<Current>,
    /// By the digest of what they are sealed in.
    known: Mutex<HashMap<[u8; 32], Secret>>,
}

struct Current {
    seed: Secret,
    sealed: Encrypted,
    checked: Instant,
}

type Secret = Arc<[u8]>;

impl Envelope {
    /// Makes a seed, which the service must seal.
    pub async fn open_for(name: &str, socket: &Path, timeout: Duration) -> Result<Arc<Envelope>, String> {
        let plugin = Plugin::new(name, socket, timeout);
        let key_id = plugin.status().await?;
        let current = RwLock::new(new_seed(&plugin, &key_id).await?);
        let envelope = Arc::new(Envelope { plugin, current, known: Mutex::default() });
        tokio::spawn(poll(Arc::downgrade(&envelope)));
        Ok(envelope)
    }

    pub async fn seal(&self, place: &[u8], value: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        if self.current.read().checked.elapsed() > FRESH {
            self.check().await?;
        }
        let (seed, sealed) = {
            let current = self.current.read();
            (current.seed.clone(), current.sealed.clone())
        };
        let no_random = |_| "the machine gives no random bytes".to_owned();
        let info = random::<INFO>().map_err(no_random)?;
        let mut data = info.to_vec();
        derived(&seed, &info)?.seal(place, value, &mut data).map_err(no_random)?;
        let object = EncryptedObject {
            encrypted_data: data,
            key_id: sealed.key_id,
            encrypted_dek_source: sealed.ciphertext,
            annotations: sealed.annotations,
            encrypted_dek_source_type: SOURCE_SEED,
        };
        object.encode(out).map_err(|error| error.to_string())
    }

    pub async fn open(&self, place: &[u8], sealed: &[u8]) -> Result<Vec<u8>, String> {
        let object = EncryptedObject::decode(sealed).map_err(|_| damaged())?;
        let secret = self.secret(&object).await?;
        let data = object.encrypted_data.as_slice();
        let opened = match object.encrypted_dek_source_type {
            SOURCE_SEED => {
                let (info, text) = data.split_at_checked(INFO).ok_or_else(damaged)?;
                derived(&secret, info)?.open(place, text)
            }
            SOURCE_KEY => Cipher::aes_gcm(&secret).ok_or_else(damaged)?.open(place, data),
            other => return Err(format!("its key is of a kind ({other}) that this version does not know")),
        };
        opened.map_err(|_| damaged())
    }

    /// Whether a value is sealed by the service's newest key, in the newest way.
    pub fn is_current(&self, sealed: &[u8]) -> bool {
        let Ok(object) = EncryptedObject::decode(sealed) else { return false };
        object.encrypted_dek_source_type == SOURCE_SEED && object.key_id == self.current.read().sealed.key_id
    }

    async fn secret(&self, object: &EncryptedObject) -> Result<Secret, String> {
        {
            let current = self.current.read();
            if current.sealed.ciphertext == object.encrypted_dek_source
                && current.sealed.key_id == object.key_id
            {
                return Ok(current.seed.clone());
            }
        }
        let digest = Sha256::new().chain_update(&object.encrypted_dek_source).chain_update(&object.key_id);
        let digest: [u8; 32] = digest.finalize().into();
        if let Some(known) = self.known.lock().get(&digest) {
            return Ok(known.clone());
        }
        let sealed = Encrypted {
            ciphertext: object.encrypted_dek_source.clone(),
            key_id: object.key_id.clone(),
            annotations: object.annotations.clone(),
        };
        let secret: Secret = self.plugin.decrypt(sealed).await?.into();
        let mut known = self.known.lock();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(digest, secret.clone());
        Ok(secret)
    }

    /// Asks the service how it is, and for a new seed if its key is another one now.
    async fn check(&self) -> Result<(), String> {
        let key_id = self.plugin.status().await?;
        if self.current.read().sealed.key_id == key_id {
            self.current.write().checked = Instant::now();
            return Ok(());
        }
        let new = new_seed(&self.plugin, &key_id).await?;
        tracing::info!(
            kms = self.plugin.name(),
            key = new.sealed.key_id,
            "the key management service has a new key"
        );
        *self.current.write() = new;
        Ok(())
    }
}

async fn poll(envelope: Weak<Envelope>) {
    let mut pause = POLL;
    loop {
        tokio::time::sleep(pause).await;
        let Some(envelope) = envelope.upgrade() else { return };
        pause = match envelope.check().await {
            Ok(()) => POLL,
            Err(error) => {
                tracing::warn!(
                    kms = envelope.plugin.name(),
                    error,
                    "the key management service does not answer"
                );
                POLL_AGAIN
            }
        };
    }
}

async fn new_seed(plugin: &Plugin, key_id: &str) -> Result<Current, String> {
    let seed = random::<SEED>().map_err(|_| "the machine gives no random bytes".to_owned())?;
    let sealed = plugin.encrypt(&seed).await?;
    if sealed.key_id != key_id {
        return Err(format!("its status names the key {key_id:?}, but it encrypts by {:?}", sealed.key_id));
    }
    Ok(Current { seed: Arc::from(seed), sealed, checked: Instant::now() })
}

/// The key of one value.
fn derived(seed: &[u8], info: &[u8]) -> Result<Cipher, String> {
    if seed.len() != SEED {
        return Err(damaged());
    }
    let mut key = [0; 32];
    let prk = Prk::new_less_safe(HKDF_SHA256, seed);
    prk.expand(&[info], Length32).and_then(|okm| okm.fill(&mut key)).map_err(|_| damaged())?;
    Cipher::aes_gcm(&key).ok_or_else(damaged)
}

struct Length32;

impl KeyType for Length32 {
    fn len(&self) -> usize {
        32
    }
}

fn damaged() -> String {
    "its key is not that one, or it was damaged or moved".to_owned()
}
