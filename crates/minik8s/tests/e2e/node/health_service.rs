//! A gRPC server that answers only what probes ask: whether a service is well.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};

const SERVING: u8 = 1;
const NOT_SERVING: u8 = 2;

/// The service `well` is well from the beginning, `late` when the switch is on, any other never.
pub struct HealthService {
    pub port: u16,
    pub late: Arc<AtomicBool>,
}

impl HealthService {
    pub async fn start() -> HealthService {
        let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
        let (port, late) = (listener.local_addr().unwrap().port(), Arc::new(AtomicBool::new(false)));
        let switch = late.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let switch = switch.clone();
                let answer = service_fn(move |request| check(request, switch.load(Ordering::Relaxed)));
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                tokio::spawn(server.serve_connection(TokioIo::new(stream), answer));
            }
        });
        HealthService { port, late }
    }
}

async fn check(
    request: Request<Incoming>,
    late_is_well: bool,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>>, Infallible> {
    let path = request.uri().path().to_owned();
    let asked = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let service = String::from_utf8_lossy(asked.get(7..).unwrap_or_default()).into_owned();
    let state = match service.as_str() {
        "well" => SERVING,
        "late" if late_is_well => SERVING,
        _ => NOT_SERVING,
    };
    let known = path == "/grpc.health.v1.Health/Check";
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(if known { "0" } else { "12" }));
    let message = if known { Bytes::from(vec![0, 0, 0, 0, 2, 8, state]) } else { Bytes::new() };
    let body = Full::new(message).with_trailers(async move { Some(Ok(trailers)) });
    Ok(Response::builder().header("content-type", "application/grpc").body(body).unwrap())
}
