//! `minik8s dashboard`: the page and the API on a port of this machine, with a kubeconfig's credentials.
//!
//! No secret of the cluster reaches the browser, there is no certificate to warn of, and any cluster will do. Others on
//! this machine can reach the port too: a session is needed for everything but the page's files, and it begins with the
//! one-time link that only the user's terminal shows. Never listens on anything but 127.0.0.1.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName,
    HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    SET_COOKIE, UPGRADE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use tokio::net::{TcpListener, TcpStream};

use crate::forward::{Forwards, Wanted};
use crate::session::{Secret, Sessions};
use crate::{PATH, assets, cookie, same_origin};

/// Where codes are exchanged for sessions.
const SESSION: &str = "/ui/session";
/// Where web interfaces of pods are asked for.
const FORWARDS: &str = "/ui/forwards";
/// A code, or a pod and its port, and the JSON around it.
const LONGEST_CODE: usize = 1024;
/// What API servers take.
const LONGEST_BODY: usize = 3 << 20;

/// What of a request reaches the cluster: what it asks for, and nothing about the browser.
const FORWARDED: &[HeaderName] = &[
    ACCEPT,
    ACCEPT_ENCODING,
    CONTENT_TYPE,
    CONNECTION,
    UPGRADE,
    SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION,
];

pub type StartError = std::io::Error;

/// A listening dashboard.
pub struct Proxy {
    client: kube::Client,
    sessions: Sessions<()>,
    forwards: Forwards,
    listener: TcpListener,
    address: SocketAddr,
}

impl Proxy {
    /// Port 0 is any that is free.
    pub async fn listen(client: kube::Client, port: u16) -> Result<Proxy, StartError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let forwards = Forwards::new(client.clone());
        Ok(Proxy { client, sessions: Sessions::default(), forwards, listener, address })
    }

    /// A link that logs in, once and within a minute.
    pub fn link(&self) -> Option<String> {
        let code = self.sessions.code((), Instant::now())?;
        Some(format!("http://{}{PATH}#code={}", self.address, code.as_str()))
    }

    /// Serves for ever.
    pub async fn serve(self: Arc<Self>) {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    tokio::spawn(connection(self.clone(), stream));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        // A name of elsewhere that resolves to this machine is a page of elsewhere that wants to look like ours.
        if !self.is_own_host(request.headers()) {
            return refusal(StatusCode::MISDIRECTED_REQUEST, "this dashboard has another address");
        }
        if path == SESSION {
            return self.session(request).await;
        }
        if path == FORWARDS {
            return self.forwards(request).await;
        }
        if path.starts_with(PATH) && matches!(method, Method::GET | Method::HEAD) {
            return assets::answer(&path, request.headers()).map(Body::from);
        }
        if path == "/" {
            let mut response = refusal(StatusCode::SEE_OTHER, "");
            response.headers_mut().insert(http::header::LOCATION, HeaderValue::from_static(PATH));
            return response;
        }
        if !self.is_let_in(&request) {
            return refusal(StatusCode::UNAUTHORIZED, "log in with a link of `minik8s dashboard`");
        }
        self.forward(request).await.unwrap_or_else(|error| {
            refusal(StatusCode::BAD_GATEWAY, &format!("the cluster does not answer: {error}"))
        })
    }

    /// Our own page asks, and it has a session.
    fn is_let_in(&self, request: &Request<Incoming>) -> bool {
        let (method, path) = (request.method(), request.uri().path());
        self.cookie(request.headers()).is_some()
            && same_origin::is_own(method, path, request.headers(), "http")
    }

    /// GET lists forwards to pods, POST gives a link to a new or an open one, DELETE `?id=` closes one.
    async fn forwards(&self, request: Request<Incoming>) -> Response<Body> {
        if !self.is_let_in(&request) {
            return refusal(StatusCode::UNAUTHORIZED, "log in with a link of `minik8s dashboard`");
        }
        match *request.method() {
            Method::GET => success(&self.forwards.list()),
            Method::POST => {
                let body = Limited::new(request.into_body(), LONGEST_CODE).collect().await;
                let body = body.map(|body| body.to_bytes()).unwrap_or_default();
                let Ok(wanted) = serde_json::from_slice::<Wanted>(&body) else {
                    return refusal(StatusCode::BAD_REQUEST, "name a pod, its namespace and a port of it");
                };
                match self.forwards.open(wanted).await {
                    Ok(opened) => success(&opened),
                    Err((status, problem)) => refusal(status, &problem),
                }
            }
            Method::DELETE => {
                let id = request.uri().query().and_then(|query| query.strip_prefix("id="));
                match id.is_some_and(|id| self.forwards.close(&id.replace("%3A", ":"))) {
                    true => refusal(StatusCode::OK, ""),
                    false => refusal(StatusCode::NOT_FOUND, "this forward has ended"),
                }
            }
            _ => refusal(StatusCode::METHOD_NOT_ALLOWED, "GET, POST or DELETE"),
        }
    }

    /// POST exchanges a code, DELETE logs out.
    async fn session(&self, request: Request<Incoming>) -> Response<Body> {
        if !same_origin::is_own(request.method(), SESSION, request.headers(), "http") {
            return refusal(StatusCode::FORBIDDEN, "sessions begin on the dashboard's own page");
        }
        match *request.method() {
            Method::POST => {
                let body = Limited::new(request.into_body(), LONGEST_CODE).collect().await;
                let body = body.map(|body| body.to_bytes()).unwrap_or_default();
                let code = serde_json::from_slice::<Exchange>(&body)
                    .map(|exchange| exchange.code)
                    .unwrap_or_default();
                match self.sessions.redeem(&code.as_str().into(), Instant::now()) {
                    Some(session) => self.with_cookie(session.as_str(), "Max-Age=43200"),
                    None => {
                        refusal(StatusCode::UNAUTHORIZED, "this link was used, or is older than a minute")
                    }
                }
            }
            Method::DELETE => {
                if let Some(session) = self.cookie(request.headers()) {
                    self.sessions.end(&session);
                    self.forwards.close_all();
                }
                self.with_cookie("", "Max-Age=0")
            }
            _ => refusal(StatusCode::METHOD_NOT_ALLOWED, "POST or DELETE"),
        }
    }

    fn with_cookie(&self, value: &str, age: &str) -> Response<Body> {
        let mut response = refusal(StatusCode::OK, "");
        let cookie = format!("{}={value}; Path=/; HttpOnly; SameSite=Strict; {age}", self.cookie_name());
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        response
    }

    /// Cookies do not know ports: two dashboards of one machine must not share a name.
    fn cookie_name(&self) -> String {
        format!("minik8s-{}", self.address.port())
    }

    /// The session of a request, if it is alive.
    fn cookie(&self, headers: &HeaderMap) -> Option<Secret> {
        let secret = Secret::from(cookie::find(headers, &self.cookie_name())?);
        self.sessions.find(&secret, Instant::now()).map(|()| secret)
    }

    fn is_own_host(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let port = self.address.port();
        host == format!("127.0.0.1:{port}") || host == format!("localhost:{port}")
    }

    async fn forward(&self, mut request: Request<Incoming>) -> Result<Response<Body>, kube::Error> {
        let wants_upgrade = request.headers().contains_key(UPGRADE);
        let ours = wants_upgrade.then(|| hyper::upgrade::on(&mut request));
        let (parts, body) = request.into_parts();
        let uri = parts.uri.path_and_query().map_or("/", |uri| uri.as_str());
        let body = match Limited::new(body, LONGEST_BODY).collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => {
                return Ok(refusal(StatusCode::PAYLOAD_TOO_LARGE, "an object has three megabytes at most"));
            }
        };
        let mut outgoing = Request::new(Body::from(body));
        *outgoing.method_mut() = parts.method;
        *outgoing.uri_mut() = uri.parse().unwrap_or_default();
        for name in FORWARDED {
            if let Some(value) = parts.headers.get(name) {
                outgoing.headers_mut().insert(name, value.clone());
            }
        }
        if !wants_upgrade {
            outgoing.headers_mut().remove(CONNECTION);
        }
        let mut response = self.client.send(outgoing).await?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS
            && let Some(ours) = ours
        {
            let theirs = hyper::upgrade::on(&mut response);
            tokio::spawn(async move {
                let (Ok(ours), Ok(theirs)) = tokio::join!(ours, theirs) else { return };
                let _ =
                    tokio::io::copy_bidirectional(&mut TokioIo::new(ours), &mut TokioIo::new(theirs)).await;
            });
            return Ok(switched(&response));
        }
        let (mut parts, body) = response.into_parts();
        parts.version = http::Version::HTTP_11;
        for name in [CONNECTION, HeaderName::from_static("transfer-encoding"), SET_COOKIE] {
            parts.headers.remove(name);
        }
        // Whatever comes back is data: it is never shown as a page of ours.
        parts
            .headers
            .insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
        parts.headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        Ok(Response::from_parts(parts, body))
    }
}

#[derive(Default, serde::Deserialize)]
struct Exchange {
    code: String,
}

async fn connection(proxy: Arc<Proxy>, stream: TcpStream) {
    let service = service_fn(|request| {
        let proxy = proxy.clone();
        async move { Ok::<_, Infallible>(proxy.answer(request).await) }
    });
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades().await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection of the dashboard ended");
    }
}

/// The answer that turns the connection into a WebSocket.
fn switched(theirs: &Response<Body>) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    for name in [CONNECTION, UPGRADE, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL] {
        if let Some(value) = theirs.headers().get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

fn success(answer: &serde_json::Value) -> Response<Body> {
    let mut response = refusal(StatusCode::OK, "");
    *response.body_mut() = Body::from(answer.to_string().into_bytes());
    response
}

/// A Status, as the API's clients expect.
fn refusal(code: StatusCode, message: &str) -> Response<Body> {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "code": code.as_u16(), "message": message,
        "status": if code.is_success() { "Success" } else { "Failure" },
    });
    let mut response = Response::new(Body::from(status.to_string().into_bytes()));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
