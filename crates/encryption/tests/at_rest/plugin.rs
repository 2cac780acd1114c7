//! A key management service of the tests' own: it "encrypts" by a key that can be exchanged, and can be told to be ill.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::net::UnixListener;
use tokio::task::AbortHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, prost::Message)]
pub struct Empty {}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Told {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(string, tag = "2")]
    healthz: String,
    #[prost(string, tag = "3")]
    key_id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Encrypt {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
    #[prost(string, tag = "2")]
    uid: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Encrypted {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Decrypt {
    #[prost(bytes = "vec", tag = "1")]
    ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    uid: String,
    #[prost(string, tag = "3")]
    key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Decrypted {
    #[prost(bytes = "vec", tag = "1")]
    plaintext: Vec<u8>,
}

#[derive(Clone)]
pub struct Plugin(Arc<Mutex<State>>);

pub struct State {
    pub key: String,
    pub healthz: String,
    pub decryptions: usize,
    /// What it gave out for which secret.
    sealed: HashMap<Vec<u8>, (String, Vec<u8>)>,
}

impl Plugin {
    pub fn new(key: &str) -> Plugin {
        let (key, healthz) = (key.to_owned(), "ok".to_owned());
        Plugin(Arc::new(Mutex::new(State { key, healthz, decryptions: 0, sealed: HashMap::new() })))
    }

    pub fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.0.lock()
    }

    pub fn serve(&self, socket: &Path) -> AbortHandle {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).unwrap();
        let server = tonic::transport::Server::builder().add_service(self.clone());
        tokio::spawn(async move {
            server.serve_with_incoming(UnixListenerStream::new(listener)).await.unwrap();
        })
        .abort_handle()
    }

    fn encrypt(&self, asked: Encrypt) -> Encrypted {
        let mut state = self.0.lock();
        let ciphertext = format!("sealed {} of {}", state.sealed.len(), state.key).into_bytes();
        let key_id = state.key.clone();
        state.sealed.insert(ciphertext.clone(), (key_id.clone(), asked.plaintext));
        let annotations = BTreeMap::from([("version.example.com".to_owned(), b"7".to_vec())]);
        Encrypted { ciphertext, key_id, annotations }
    }

    fn decrypt(&self, asked: Decrypt) -> Result<Decrypted, Status> {
        let mut state = self.0.lock();
        state.decryptions += 1;
        if asked.annotations.get("version.example.com").map(Vec::as_slice) != Some(b"7") {
            return Err(Status::invalid_argument("the annotation is gone"));
        }
        match state.sealed.get(&asked.ciphertext) {
            Some((key, plaintext)) if *key == asked.key_id => Ok(Decrypted { plaintext: plaintext.clone() }),
            _ => Err(Status::not_found("no such key")),
        }
    }
}

impl NamedService for Plugin {
    const NAME: &'static str = "v2.KeyManagementService";
}

impl tower::Service<http::Request<Body>> for Plugin {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let plugin = self.clone();
        Box::pin(async move {
            Ok(match request.uri().path() {
                "/v2.KeyManagementService/Status" => {
                    answer(request, move |_: Empty| {
                        let state = plugin.0.lock();
                        let (healthz, key_id) = (state.healthz.clone(), state.key.clone());
                        Ok(Told { version: "v2".to_owned(), healthz, key_id })
                    })
                    .await
                }
                "/v2.KeyManagementService/Encrypt" => {
                    answer(request, move |asked: Encrypt| Ok(plugin.encrypt(asked))).await
                }
                "/v2.KeyManagementService/Decrypt" => {
                    answer(request, move |asked: Decrypt| plugin.decrypt(asked)).await
                }
                _ => Status::unimplemented("there is no such call").into_http(),
            })
        })
    }
}

async fn answer<Q, A>(
    request: http::Request<Body>,
    work: impl Fn(Q) -> Result<A, Status> + Send + 'static,
) -> http::Response<Body>
where
    Q: prost::Message + Default + 'static,
    A: prost::Message + 'static,
{
    let codec: ProstCodec<A, Q> = ProstCodec::default();
    let service = tower::service_fn(move |request: Request<Q>| {
        std::future::ready(work(request.into_inner()).map(Response::new))
    });
    Grpc::new(codec).unary(service, request).await
}
