//! Calls of a key management service's plugin over its socket: version 2 of upstream's protocol, with the bounds that it
//! sets to what a plugin may answer.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use minik8s_meta::error_chain;
use prost::Message;
use tokio::net::UnixStream;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::cipher::random;

const MAX_KEY_ID: usize = 1 << 10;
const MAX_CIPHERTEXT: usize = 1 << 10;
const MAX_ANNOTATIONS: usize = 32 << 10;

/// What a plugin made of a secret, and needs to get it back.
#[derive(Debug, Clone, Default)]
pub struct Encrypted {
    pub ciphertext: Vec<u8>,
    pub key_id: String,
    pub annotations: BTreeMap<String, Vec<u8>>,
}

pub struct Plugin {
    name: String,
    channel: Channel,
    timeout: Duration,
}

impl Plugin {
    /// Opens no connection yet; the first call does, and the first one after the plugin's restart.
    pub fn new(name: &str, socket: &Path, timeout: Duration) -> Plugin {
        let socket = socket.to_owned();
        // The address is never used; the connector below is.
        let endpoint = Endpoint::from_static("http://kms").connect_timeout(timeout);
        let channel = endpoint.connect_with_connector_lazy(tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        }));
        Plugin { name: name.to_owned(), channel, timeout }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key that it encrypts by, if it is well.
    pub async fn status(&self) -> Result<String, String> {
        let answer: StatusResponse = self.call("Status", StatusRequest {}).await?;
        if answer.version != "v2" && answer.version != "v2beta1" {
            return Err(format!("Status: the plugin speaks version {:?}, \"v2\" is needed", answer.version));
        }
        if answer.healthz != "ok" {
            return Err(format!("Status: the plugin is not well: {}", answer.healthz));
        }
        check_key_id("Status", &answer.key_id)?;
        Ok(answer.key_id)
    }

    pub async fn encrypt(&self, secret: &[u8]) -> Result<Encrypted, String> {
        let request = EncryptRequest { plaintext: secret.to_vec(), uid: uid() };
        let answer: EncryptResponse = self.call("Encrypt", request).await?;
        check_key_id("Encrypt", &answer.key_id)?;
        if answer.ciphertext.is_empty() || answer.ciphertext.len() > MAX_CIPHERTEXT {
            return Err(format!("Encrypt: the plugin answered {} bytes", answer.ciphertext.len()));
        }
        if answer.ciphertext == secret {
            return Err("Encrypt: the plugin answered what it was to encrypt".to_owned());
        }
        let size: usize = answer.annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
        if size > MAX_ANNOTATIONS {
            return Err(format!("Encrypt: the plugin answered annotations of {size} bytes"));
        }
        let EncryptResponse { ciphertext, key_id, annotations } = answer;
        Ok(Encrypted { ciphertext, key_id, annotations })
    }

    pub async fn decrypt(&self, sealed: Encrypted) -> Result<Vec<u8>, String> {
        let Encrypted { ciphertext, key_id, annotations } = sealed;
        let request = DecryptRequest { ciphertext, uid: uid(), key_id, annotations };
        let answer: DecryptResponse = self.call("Decrypt", request).await?;
        Ok(answer.plaintext)
    }

    async fn call<Q, A>(&self, method: &str, message: Q) -> Result<A, String>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let path = PathAndQuery::try_from(format!("/v2.KeyManagementService/{method}"));
        let path = path.map_err(|error| error.to_string())?;
        let mut grpc = Grpc::new(self.channel.clone());
        let call = async {
            grpc.ready().await.map_err(|error| error_chain(&error))?;
            let codec: ProstCodec<Q, A> = ProstCodec::default();
            grpc.unary(Request::new(message), path, codec).await.map_err(|status| error_chain(&status))
        };
        match tokio::time::timeout(self.timeout, call).await {
            Ok(answer) => answer.map(|answer| answer.into_inner()).map_err(|why| format!("{method}: {why}")),
            Err(_) => Err(format!("{method}: no answer within {:?}", self.timeout)),
        }
    }
}

fn check_key_id(method: &str, id: &str) -> Result<(), String> {
    if id.is_empty() || id.len() > MAX_KEY_ID {
        return Err(format!("{method}: the plugin's key has a name of {} bytes", id.len()));
    }
    Ok(())
}

/// So that a plugin's log and ours can be put side by side.
fn uid() -> String {
    let bytes = random::<16>().unwrap_or_default();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Clone, PartialEq, Message)]
struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
struct StatusResponse {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(string, tag = "2")]
    healthz: String,
    #[prost(string, tag = "3")]
    key_id: String,
}

#[derive(Clone, PartialEq, Message)]
struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
    #[prost(string, tag = "2")]
    uid: String,
}

#[derive(Clone, PartialEq, Message)]
struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    annotations: BTreeMap<String, Vec<u8>>,
}
