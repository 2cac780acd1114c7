//! An https server that answers every request alike and notes what it was asked.

use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub struct Server {
    pub url: String,
    /// Its certificate, in PEM.
    pub authority: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// None: it never answers.
    answer: Option<(u16, String)>,
    asked: Vec<(String, Value)>,
}

impl Server {
    pub async fn start() -> Server {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config =
            config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let state: Arc<Mutex<State>> = Arc::default();
        tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), state.clone()));
        Server { url, authority: made.cert.pem(), state }
    }

    pub fn answers(&self, status: u16, body: Value) {
        self.state.lock().unwrap().answer = Some((status, body.to_string()));
    }

    pub fn hangs(&self) {
        self.state.lock().unwrap().answer = None;
    }

    /// The credentials and the body of each request.
    pub fn asked(&self) -> Vec<(String, Value)> {
        self.state.lock().unwrap().asked.clone()
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, state: Arc<Mutex<State>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, state) = (tls.clone(), state.clone());
        tokio::spawn(async move {
            let Ok(mut stream) = tls.accept(stream).await else { return };
            let Some(asked) = read(&mut stream).await else { return };
            let answer = {
                let mut state = state.lock().unwrap();
                state.asked.push(asked);
                state.answer.clone()
            };
            match answer {
                Some((status, body)) => {
                    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len());
                    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
                    let _ = stream.shutdown().await;
                }
                None => std::future::pending().await,
            }
        });
    }
}

/// The header `authorization` and the body.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<(String, Value)> {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let header = |name: &str| {
                let lines = head.lines().filter_map(|line| line.split_once(": "));
                lines
                    .filter(|(known, _)| known.eq_ignore_ascii_case(name))
                    .map(|(_, value)| value.to_owned())
                    .next()
            };
            if body.len() >= header("content-length")?.parse().ok()? {
                return Some((header("authorization").unwrap_or_default(), serde_json::from_str(body).ok()?));
            }
        }
        match stream.read(&mut buffer).await {
            Ok(read) if read > 0 => all.extend_from_slice(&buffer[..read]),
            _ => return None,
        }
    }
}
