//! An OpenID Connect provider of the tests' own, on loopback: it serves what it is told to, and counts who asks.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub struct Provider {
    pub url: String,
    pub authority: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Status, `Location`, body by path; a function of the request's body for those that have one.
    pages: HashMap<String, (u16, String, String)>,
    asked: HashMap<String, usize>,
    bodies: Vec<Value>,
}

pub struct SigningKey {
    pub id: String,
    pair: EcdsaKeyPair,
}

impl SigningKey {
    pub fn new(id: &str) -> SigningKey {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap();
        SigningKey { id: id.to_owned(), pair }
    }

    pub fn jwk(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let part = |range: std::ops::Range<usize>| URL_SAFE_NO_PAD.encode(&point[range]);
        json!({"kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig", "x": part(1..33), "y": part(33..65)})
    }

    pub fn sign(&self, claims: &Value) -> String {
        self.sign_as(&json!({"alg": "ES256", "kid": self.id}), claims)
    }

    pub fn sign_as(&self, header: &Value, claims: &Value) -> String {
        let part = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

impl Provider {
    /// With a discovery document and these keys.
    pub async fn start(keys: &[&SigningKey]) -> Provider {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config =
            config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), state.clone()));
        let provider = Provider { url, authority: made.cert.pem(), state };
        let discovery = json!({"issuer": provider.url, "jwks_uri": format!("{}/keys", provider.url)});
        provider.page("/.well-known/openid-configuration", &discovery.to_string());
        provider.keys(keys);
        provider
    }

    pub fn keys(&self, keys: &[&SigningKey]) {
        let keys: Vec<Value> = keys.iter().map(|key| key.jwk()).collect();
        self.page("/keys", &json!({"keys": keys}).to_string());
    }

    pub fn page(&self, path: &str, body: &str) {
        self.answer(path, 200, "", body);
    }

    pub fn answer(&self, path: &str, status: u16, location: &str, body: &str) {
        let page = (status, location.to_owned(), body.to_owned());
        self.state.lock().pages.insert(path.to_owned(), page);
    }

    pub fn asked(&self, path: &str) -> usize {
        self.state.lock().asked.get(path).copied().unwrap_or_default()
    }

    /// What was posted.
    pub fn bodies(&self) -> Vec<Value> {
        self.state.lock().bodies.clone()
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, state: Arc<Mutex<State>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, state) = (tls.clone(), state.clone());
        tokio::spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let service = service_fn(move |request| answer(request, state.clone()));
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<Mutex<State>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut state = state.lock();
    *state.asked.entry(path.clone()).or_default() += 1;
    if let Ok(body) = serde_json::from_slice(&body) {
        state.bodies.push(body);
    }
    let (status, location, body) =
        state.pages.get(&path).cloned().unwrap_or((404, String::new(), String::new()));
    let response = Response::builder().status(status).header("location", location);
    Ok(response.body(Full::new(body.into())).unwrap())
}
