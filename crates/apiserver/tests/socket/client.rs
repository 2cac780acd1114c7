//! HTTP/2 over the port: many requests on one connection.

use std::convert::Infallible;

use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;

use crate::port::{Port, TOKEN};

type Body = BoxBody<Bytes, Infallible>;

pub struct Client {
    sender: SendRequest<Body>,
}

impl Client {
    pub async fn connect(port: &Port) -> Client {
        Client::over(port.tls().await).await
    }

    pub async fn over(stream: TlsStream<TcpStream>) -> Client {
        let stream = TokioIo::new(stream);
        let (sender, connection) = handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        Client { sender }
    }

    pub async fn send(&mut self, method: &str, path: &str, body: &str) -> Response<Incoming> {
        self.send_as(TOKEN, method, path, body).await
    }

    pub async fn send_as(&mut self, token: &str, method: &str, path: &str, body: &str) -> Response<Incoming> {
        self.sender.ready().await.unwrap();
        let body = Full::new(Bytes::from(body.to_owned())).boxed();
        self.sender.send_request(request_as(token, method, path).body(body).unwrap()).await.unwrap()
    }

    /// Begins a request whose body comes later.
    pub async fn begin(
        &mut self,
        request: http::request::Builder,
        body: Body,
    ) -> JoinHandle<hyper::Result<Response<Incoming>>> {
        self.sender.ready().await.unwrap();
        tokio::spawn(self.sender.send_request(request.body(body).unwrap()))
    }
}

pub fn request(method: &str, path: &str) -> http::request::Builder {
    request_as(TOKEN, method, path)
}

pub fn request_as(token: &str, method: &str, path: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(format!("https://localhost{path}"))
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
}

/// A body that ends when the sender is dropped.
pub fn channel() -> (mpsc::Sender<Bytes>, Body) {
    let (sender, receiver) = mpsc::channel::<Bytes>(1);
    let frames = tokio_stream::wrappers::ReceiverStream::new(receiver);
    (sender, BodyExt::boxed(StreamBody::new(frames.map(|bytes| Ok(Frame::data(bytes))))))
}
