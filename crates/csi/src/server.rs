//! Serves a driver on a socket: our own, and those that tests are made of.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixListener;

use crate::Code;
use crate::client::{framed, unframed};

/// Answers calls by their method.
pub trait Answers: Send + Sync + 'static {
    fn answer(&self, method: &str, message: Bytes) -> Result<Vec<u8>, (Code, String)>;
}

/// Takes the socket's place and answers for ever.
pub async fn serve(socket: &Path, answers: Arc<dyn Answers>) -> io::Result<()> {
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let answers = answers.clone();
        let service = service_fn(move |request| {
            let answers = answers.clone();
            async move { Ok::<_, Infallible>(answer(answers, request).await) }
        });
        tokio::spawn(async move {
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            drop(builder.serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

async fn answer(
    answers: Arc<dyn Answers>,
    request: Request<Incoming>,
) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let message = match request.into_body().collect().await {
        Ok(body) => unframed(body.to_bytes()).map_err(|why| (Code::INTERNAL, why.to_owned())),
        Err(error) => Err((Code::INTERNAL, error.to_string())),
    };
    let answered = match message {
        Ok(message) => tokio::task::spawn_blocking(move || answers.answer(&method, message))
            .await
            .unwrap_or_else(|panic| Err((Code::INTERNAL, panic.to_string()))),
        Err(error) => Err(error),
    };
    let (body, code, words) = match answered {
        Ok(message) => (framed(&message), Code::OK, String::new()),
        Err((code, words)) => (Bytes::new(), code, words),
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(code.0));
    if let Ok(words) = HeaderValue::try_from(words.replace('%', "%25").replace('\n', " ")) {
        trailers.insert("grpc-message", words);
    }
    let body = Full::new(body).with_trailers(std::future::ready(Some(Ok(trailers))));
    let mut response = Response::new(body.boxed_unsync());
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}
