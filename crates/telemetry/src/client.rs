//! HTTP to one collector. Its connection is kept for the next batch.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use minik8s_meta::error_chain;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::Endpoint;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Of what a collector answers.
const MOST_ANSWER: usize = 64 << 10;
/// Of that, what is told.
const MOST_TOLD: usize = 300;

pub struct Client {
    endpoint: Endpoint,
    kept: Option<SendRequest<Full<Bytes>>>,
}

/// Why a batch was not taken.
#[derive(Debug)]
pub enum Failure {
    /// To send it again would change nothing.
    Rejected(String),
    /// It may be taken later.
    Away(String),
}

impl Client {
    pub fn new(endpoint: Endpoint) -> Self {
        Client { endpoint, kept: None }
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub async fn post(&mut self, body: Bytes) -> Result<(), Failure> {
        let answered = tokio::time::timeout(TIMEOUT, self.exchange(body)).await;
        let (status, text) = match answered {
            Ok(Ok(answered)) => answered,
            Ok(Err(error)) => return Err(Failure::Away(error)),
            Err(_) => return Err(Failure::Away("no answer in time".to_owned())),
        };
        if status.is_success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&text);
        let said =
            format!("it answers {status}: {}", text.trim().chars().take(MOST_TOLD).collect::<String>());
        let is_away = status.is_server_error()
            || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
        Err(if is_away { Failure::Away(said) } else { Failure::Rejected(said) })
    }

    async fn exchange(&mut self, body: Bytes) -> Result<(StatusCode, Bytes), String> {
        // Dropped where anything goes wrong: the next batch gets a new connection.
        let kept = match self.kept.take() {
            Some(mut kept) => kept.ready().await.is_ok().then_some(kept),
            None => None,
        };
        let mut sender = match kept {
            Some(kept) => kept,
            None => self.connect().await?,
        };
        let mut request = Request::post(&self.endpoint.path)
            .header(HOST, self.endpoint.authority())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| error_chain(&error))?;
        for (name, value) in &self.endpoint.headers {
            request.headers_mut().append(name, value.clone());
        }
        let response = sender.send_request(request).await.map_err(|error| error_chain(&error))?;
        let status = response.status();
        let answer = Limited::new(response.into_body(), MOST_ANSWER).collect().await;
        let answer = answer.map_err(|error| error_chain(&*error))?.to_bytes();
        self.kept = Some(sender);
        Ok((status, answer))
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let Endpoint { host, port, tls, .. } = &self.endpoint;
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(|error| error_chain(&error))?;
        match tls {
            None => begin(stream).await,
            Some(config) => {
                let name = ServerName::try_from(host.clone()).map_err(|error| error_chain(&error))?;
                let connector = TlsConnector::from(config.clone());
                begin(connector.connect(name, stream).await.map_err(|error| error_chain(&error))?).await
            }
        }
    }
}

async fn begin<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error_chain(&error))?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to a collector ended");
        }
    });
    Ok(sender)
}
