//! The HTTP of one forward: who comes in, and what of a request reaches the pod.
//!
//! A link that works once becomes a cookie of this forward's own host, which the pod never sees. Requests without it are
//! refused, so neither pages of elsewhere nor neighbours on this machine reach the pod; nor do names of elsewhere that resolve
//! to this machine. Answers are passed on as they are: they are pages of the pod, of an origin and a host that nobody shares.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN,
    REFERRER_POLICY, SET_COOKIE, UPGRADE,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::upstream::Target;
use crate::cookie;
use crate::session::{Secret, Sessions};

/// Links lead here, with a code behind it.
pub const OPEN: &str = "/.minik8s-forward/";
/// The host is the forward's own, so the name need not be.
const COOKIE: &str = "minik8s-forward";

type Body = BoxBody<Bytes, hyper::Error>;

pub struct Gate {
    client: kube::Client,
    target: Target,
    address: SocketAddr,
    sessions: Arc<Sessions<()>>,
    /// WebSockets and the like: they end with the forward.
    upgraded: parking_lot::Mutex<JoinSet<()>>,
}

impl Gate {
    pub fn new(
        client: kube::Client,
        target: Target,
        address: SocketAddr,
        sessions: Arc<Sessions<()>>,
    ) -> Self {
        Gate { client, target, address, sessions, upgraded: Default::default() }
    }

    /// Until it is dropped, and with it all of its connections.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(connection(self.clone(), stream));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection was not accepted");
                        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    /// `None`: it may go on to the pod.
    fn turned_away(&self, method: &Method, path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let own = self.address.to_string();
        if text(HOST) != Some(own.as_str()) {
            return Some(page(StatusCode::MISDIRECTED_REQUEST, "This forward has another address."));
        }
        if let Some(code) = path.strip_prefix(OPEN) {
            return Some(self.enter(method, code));
        }
        let is_own = !headers.contains_key(ORIGIN)
            || text(ORIGIN).and_then(|origin| origin.strip_prefix("http://")) == Some(own.as_str());
        let session = cookie::find(headers, COOKIE).map(Secret::from);
        let known = session.and_then(|session| self.sessions.find(&session, Instant::now())).is_some();
        let refused = "Open this from the dashboard: the link that it gives works once.";
        (!known || !is_own).then(|| page(StatusCode::UNAUTHORIZED, refused))
    }

    /// The page goes on by itself: a redirect would still be the other page's doing, and come without the cookie.
    fn enter(&self, method: &Method, code: &str) -> Response<Body> {
        let session = match *method {
            Method::GET => self.sessions.redeem(&code.into(), Instant::now()),
            _ => None,
        };
        let Some(session) = session else {
            return page(StatusCode::UNAUTHORIZED, "This link was used, or is older than a minute.");
        };
        let mut response = page(StatusCode::OK, "<meta http-equiv=\"refresh\" content=\"0;url=/\">");
        let set = format!("{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict", session.as_str());
        if let Ok(set) = HeaderValue::from_str(&set) {
            response.headers_mut().insert(SET_COOKIE, set);
        }
        response
    }

    async fn pass_on(
        &self,
        pod: &Mutex<Option<SendRequest<Incoming>>>,
        mut request: Request<Incoming>,
    ) -> Response<Body> {
        cookie::remove(request.headers_mut(), COOKIE);
        let ours = request.headers().contains_key(UPGRADE).then(|| hyper::upgrade::on(&mut request));
        let mut held = pod.lock().await;
        let known = held.take();
        let mut sender = match self.ready(known).await {
            Ok(sender) => sender,
            Err(problem) => return page(StatusCode::BAD_GATEWAY, &escaped(&problem)),
        };
        let mut response = match sender.send_request(request).await {
            Ok(response) => response,
            Err(error) => {
                let problem = format!("The pod does not answer on port {}: {error}", self.target.port);
                return page(StatusCode::BAD_GATEWAY, &escaped(&problem));
            }
        };
        *held = Some(sender);
        *response.version_mut() = http::Version::HTTP_11;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS
            && let Some(ours) = ours
        {
            let theirs = hyper::upgrade::on(&mut response);
            let mut upgraded = self.upgraded.lock();
            while upgraded.try_join_next().is_some() {}
            upgraded.spawn(async move {
                let (Ok(ours), Ok(theirs)) = tokio::join!(ours, theirs) else { return };
                let _ =
                    tokio::io::copy_bidirectional(&mut TokioIo::new(ours), &mut TokioIo::new(theirs)).await;
            });
        }
        response.map(BodyExt::boxed)
    }

    /// The connection that there is, as long as the pod keeps it.
    async fn ready(&self, known: Option<SendRequest<Incoming>>) -> Result<SendRequest<Incoming>, String> {
        if let Some(mut known) = known
            && known.ready().await.is_ok()
        {
            return Ok(known);
        }
        self.dial().await
    }

    async fn dial(&self) -> Result<SendRequest<Incoming>, String> {
        let stream = self.target.connect(&self.client).await.map_err(|(_, problem)| problem)?;
        let made = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = made.map_err(|error| error.to_string())?;
        tokio::spawn(connection.with_upgrades());
        Ok(sender)
    }
}

async fn connection(gate: Arc<Gate>, stream: TcpStream) {
    // A browser's connection has one to the pod, as if there were nothing in between.
    let pod = Arc::new(Mutex::new(None));
    let service = service_fn(|request: Request<Incoming>| {
        let (gate, pod) = (gate.clone(), pod.clone());
        async move {
            let refused = gate.turned_away(request.method(), request.uri().path(), request.headers());
            Ok::<_, Infallible>(match refused {
                Some(refused) => refused,
                None => gate.pass_on(&pod, request).await,
            })
        }
    });
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades().await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection of a forward ended");
    }
}

fn page(status: StatusCode, body: &str) -> Response<Body> {
    let body = Full::new(Bytes::from(format!("<!doctype html><meta charset=\"utf-8\">{body}\n")));
    let mut response = Response::new(body.map_err(|never| match never {}).boxed());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'"));
    response
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let target = Target::new("shop".to_owned(), "web".to_owned(), 80).unwrap();
        let address = "127.7.8.9:4711".parse().unwrap();
        Gate::new(kube::Client::try_from(config).unwrap(), target, address, Arc::default())
    }

    fn headers(given: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (name.parse::<http::HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
        };
        given.iter().map(pair).collect()
    }

    #[tokio::test]
    async fn pod_is_reached_with_a_link_of_the_dashboard_only() {
        let gate = gate();
        let status = |path: &str, given: &[(&str, &str)]| {
            gate.turned_away(&Method::GET, path, &headers(given)).map(|answer| answer.status().as_u16())
        };
        let host = ("host", "127.7.8.9:4711");
        assert_eq!(status("/", &[]), Some(421));
        assert_eq!(status("/", &[("host", "evil.example:4711")]), Some(421));
        assert_eq!(status("/", &[host]), Some(401));
        assert_eq!(status("/.minik8s-forward/guess", &[host]), Some(401));
        let code = gate.sessions.code((), Instant::now()).unwrap();
        let path = format!("{OPEN}{}", code.as_str());
        assert_eq!(status(&path, &[("host", "evil.example")]), Some(421), "and the code is still good");
        assert!(gate.turned_away(&Method::POST, &path, &headers(&[host])).is_some());
        let opened = gate.turned_away(&Method::GET, &path, &headers(&[host])).unwrap();
        assert_eq!(opened.status(), 200);
        let set = opened.headers()[SET_COOKIE].to_str().unwrap();
        assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
        assert_eq!(status(&path, &[host]), Some(401), "a link works once");
        let own = ("cookie", set.split(';').next().unwrap());
        assert_eq!(status("/a", &[host, own]), None);
        assert_eq!(status("/a", &[host, own, ("origin", "http://127.7.8.9:4711")]), None);
        for origin in ["http://evil.example", "http://127.0.0.1:8001", "null", "https://127.7.8.9:4711"] {
            assert_eq!(status("/a", &[host, own, ("origin", origin)]), Some(401), "{origin}");
        }
        assert_eq!(status("/a", &[own, ("host", "localhost:4711")]), Some(421));
        assert_eq!(status("/a", &[host, ("cookie", "minik8s-forward=guess")]), Some(401));
    }

    #[test]
    fn what_others_say_is_text() {
        assert_eq!(escaped("<b>&"), "&lt;b>&amp;");
    }
}
